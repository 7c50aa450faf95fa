/* manual.c — see manual.h. */
#include "cli/manual.h"

#include <ctype.h>
#include <stdio.h>

/* Text as roff takes it: hyphens of options, backslashes, and dots where a line begins. */
static void text(const char *s) {
    for (int begin = 1; *s; begin = *s++ == '\n') {
        if (begin && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
        if (*s == '\\' || *s == '-') putchar('\\');
        if (*s == '\n' && s[1] == '\n') fputs("\n.PP", stdout), s++;
        if (*s == '\\')
            putchar('e');
        else
            putchar(*s);
    }
}

static void option(const char *name, const char *arg, const char *help) {
    printf(".TP\n.B \\-\\-");
    text(name);
    printf(" \\fI");
    text(arg);
    printf("\\fR\n");
    text(help);
    printf("\n");
}

static void command(const struct command *c) {
    printf(".SS heed %s\n.B heed %s\n", c->name, c->name);
    text(command_usage(c));
    printf("\n.PP\n%c", toupper((unsigned char)c->summary[0]));
    text(c->summary + 1);
    printf(".\n");
    if (c->about) {
        printf(".PP\n");
        text(c->about);
        printf("\n");
    }
    for (const struct option_group *g = c->groups; g && g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            struct option_words w;
            if (!o->help || o->kind == OPTION_WORDS) continue;
            options_words(&w, c, o);
            option(w.name, w.arg, w.help);
        }
    for (int i = 0; c->sub && c->sub[i]; i++) command(c->sub[i]);
}

static const char description[] =
    "heed trains models that translate, and runs them: the Transformer of \"Attention Is All You "
    "Need\", from raw parallel text to a directory with everything a translator needs.\n\n"
    "An option is given as --name VALUE or --name=VALUE; a value that is the name of an "
    "option needs the latter. One whose value ends in dots takes all "
    "words up to the next option; in a command that also takes plain arguments, it takes one word "
    "and may be repeated. Everything after -- is an argument, and - is standard input. The value "
    "in parentheses is the default.";

static const struct {
    const char *what, *command;
} examples[] = {
    {"Learn a vocabulary and train a model on two parallel files:",
     "heed train --src train.en --tgt train.de --valid-src valid.en --valid-tgt valid.de --out "
     "run"},
    {"Average its last five checkpoints, and translate:",
     "heed average --last 5 --out model run\nheed translate --model model news.en >news.de"},
    {"Translate with an installed model, chosen by its languages:",
     "heed models\nheed translate --from en --to de news.en >news.de"},
    {"How good is it?", "heed translate --model model test.en | heed eval --ref test.de"},
    {"A quarter of the size, mapped into memory:", "heed quantize --model model --out model-int8"},
};

static const struct {
    const char *name, *help;
} files[] =
    {
        {"DIR/config.json", "what the model is, and the options it was trained with"},
        {"DIR/model.safetensors", "its weights"},
        {"PREFIX/share/heed/models", "the installed models, a directory each"},
        {"DIR/tokenizer.model", "its vocabulary, a SentencePiece model"},
        {"RUN/ckpt-NNNNNNNN", "checkpoints of a training run; each is a model directory"},
        {"RUN/log.jsonl", "what a run measured, a JSON object per line"},
        {"RUN/cache", "tokenised text; if removed, it is made again"},
        {"FILE.part", "what translate --output FILE had finished when it was interrupted"},
},
  environment[] = {
      {"HEED_MODELS", "folders in which models are looked for by name, separated by colons, before "
                      "./models and those installed"},
      {"HEED_ISA", "instruction set of the cpu device where --isa is not given"},
      {"HEED_PLUGIN_PATH",
       "where to look for plug-ins (libheed-cuda.so ...) that are not beside the program"},
      {"HEED_CUDA_TF32", "1: compute in TF32 where f32 is asked for: faster but less exact"},
      {"HEED_CUDA_SYNC", "1: wait for the GPU after every op, to find out which one fails"},
      {"CUDA_VISIBLE_DEVICES", "the GPUs that cuda and cuda:N refer to, as in every CUDA program"},
      {"TMPDIR", "where bench data keeps its temporary files; /tmp if not set"},
};

void manual_print(const struct command *const *commands) {
    printf(".TH HEED 1 \"\" \"heed %s\"\n.SH NAME\nheed \\- train and run Transformer models\n"
           ".SH SYNOPSIS\n.B heed\n.I command\n[options]\n.SH DESCRIPTION\n",
           HEED_VERSION);
    text(description);
    printf("\n.SH COMMANDS\n");
    for (int i = 0; commands[i]; i++) command(commands[i]);
    printf(".SH EXAMPLES\n");
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        text(examples[i].what);
        printf("\n.PP\n.nf\n.RS\n");
        text(examples[i].command);
        printf("\n.RE\n.fi\n.PP\n");
    }
    printf(".SH FILES\n");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        printf(".TP\n.I %s\n", files[i].name);
        text(files[i].help);
        printf("\n");
    }
    printf(".SH ENVIRONMENT\n");
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        printf(".TP\n.B %s\n", environment[i].name);
        text(environment[i].help);
        printf("\n");
    }
    printf(".SH EXIT STATUS\n.TP\n.B 0\nsuccess\n.TP\n.B 1\nfailure: a file is missing or damaged, "
           "a device fails, memory runs out\n.TP\n.B 2\nwrong usage: what the options, the "
           "environment or a \\-\\-config file ask for is not possible\n"
           ".PP\nA command stopped by SIGINT or SIGTERM dies of that signal.\n");
}

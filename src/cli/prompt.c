/* prompt.c — see prompt.h. */
#include "cli/prompt.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/similar.h"
#include "cli/cli.h"
#include "cli/models.h"
#include "cli/prompt_input.h"
#include "cli/prompt_show.h"
#include "cli/signals.h"
#include "model/card.h"
#include "model/modeldir.h"

struct prompt {
    const struct prompt_options *o;
    struct translator_options options; /* as commands have changed them */
    int beam, align;                   /* what they said: 0 and -1 are nothing yet */
    struct prompt_input *input;
    struct screen screen;
    struct engine *engine;
    struct translator *translator;
    char *dir;             /* of the model, where there is one */
    char *before;          /* of the model that :swap left; NULL: none yet */
    char *last;            /* the line that commands are about; NULL: none yet */
    struct feed_line line; /* of it */
    int shown;             /* alternatives of it, at the last command */
    double seconds;        /* of the last translation */
    int done;
};

/* ---- models ---------------------------------------------------------------------------------- */

static const char *name_of(const char *dir) {
    const char *slash = strrchr(dir, '/');
    return slash && slash[1] ? slash + 1 : dir;
}

/* Opens a model in the place of the one that is open, if that succeeds. dir NULL: what the options
 * name; not p->dir. */
static int open_model(struct prompt *p, const char *dir, struct err *err) {
    struct engine_options from = p->o->from;
    struct engine *engine;
    if (dir) from.dir = &dir, from.n = 1;
    int rc = engine_open(&engine, &from, err);
    if (rc) return rc;
    struct translator *translator = translator_new(engine);
    struct translator_options options;
    rc = p->o->options(&options, engine, err);
    if (p->beam) options.search.beam = p->beam;
    if (p->align >= 0) options.alignment = (enum alignment)p->align;
    if (options.alignment) options.alignment = ALIGNMENT_WORDS; /* that is what is shown */
    if (!rc) rc = translator_set(translator, &options, err);
    if (rc) {
        translator_free(translator);
        engine_close(engine);
        return rc;
    }
    translator_free(p->translator);
    engine_close(p->engine);
    p->engine = engine;
    p->translator = translator;
    p->options = options;
    xfree(p->dir);
    p->dir = xstrdup(from.dir[0]);
    for (size_t n = strlen(p->dir); n > 1 && p->dir[n - 1] == '/';) p->dir[--n] = 0;
    return 0;
}

/* DIR/de-en beside DIR/en-de; NULL where names are not of that form or there is no such model. */
static char *beside(const char *dir) {
    const char *name = name_of(dir), *dash = strchr(name, '-');
    if (!dash || dash == name || !dash[1] || strchr(dash + 1, '-')) return NULL;
    char *path = xmalloc(strlen(dir) + 1);
    sprintf(path, "%.*s%s-%.*s", (int)(name - dir), dir, dash + 1, (int)(dash - name), name);
    if (dir_exists(path)) return path;
    xfree(path);
    return NULL;
}

/* The model for the other direction: the one that was left, the one beside this, or else any that
 * is installed and says so. xfree(*dir). */
static int opposite(char **dir, const struct prompt *p, struct err *err) {
    struct card card = {0};
    struct option_list list = {0};
    *dir = NULL;
    if (p->engine->n > 1)
        return cli_usage(err, ":swap: several models translate together; none is their opposite");
    if (p->before && dir_exists(p->before)) return *dir = xstrdup(p->before), 0;
    if ((*dir = beside(p->dir))) return 0;
    card_from_json(&card, frozen_notes(p->engine->ensemble->model[0])->card, "", NULL);
    if (!card.source || !card.target)
        return cli_usage(err,
                         ":swap: %.100s does not say its languages, and there is no model beside "
                         "it for the other direction",
                         p->dir);
    int rc = models_choose(&list, card.target, card.source, 1, err);
    if (!rc) *dir = (char *)list.item[0]; /* made for this list */
    xfree(list.item);
    return rc;
}

/* ---- translating ----------------------------------------------------------------------------- */

/* The last line once more, with these options. */
static int translate(struct prompt *p, const struct translator_options *options,
                     struct translation *t, struct err *err) {
    static const struct translator_poll poll = {signals_poll, NULL};
    struct translator_input in = {.text = p->last,
                                  .size = p->line.size,
                                  .key = p->line.total,
                                  .name = p->line.name,
                                  .number = p->line.number};
    double begin = clock_seconds();
    int rc = translator_set(p->translator, options, err);
    if (!rc) rc = translator_run(p->translator, &in, 1, t, &poll, err);
    p->seconds = clock_seconds() - begin;
    return rc;
}

static void show_time(struct prompt *p, const struct translation *t) {
    char parts[48] = "";
    if (p->o->quiet) return;
    if (t->n_part > 1) snprintf(parts, sizeof parts, ", in %d parts", t->n_part);
    screen_aside(&p->screen, "%.*f ms%s%s%s", p->seconds < 0.00995 ? 1 : 0, 1e3 * p->seconds, parts,
                 t->notes & TRANSLATION_CUT ? ", cut off by a length limit" : "",
                 (t->notes & TRANSLATION_REPLACED) || (p->line.flags & LINE_REPLACED)
                     ? ", with U+FFFD for what was not UTF-8"
                     : "");
}

static int show_translation(struct prompt *p, struct err *err) {
    struct translation t;
    int rc = translate(p, &p->options, &t, err);
    if (rc) return rc;
    screen_text(&p->screen, t.best[0].text, t.best[0].size);
    if (p->options.alignment) screen_alignment(&p->screen, &t);
    show_time(p, &t);
    return 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int help(struct prompt *p, const char *arg, struct err *err);

static int need_line(const struct prompt *p, const char *command, struct err *err) {
    return p->last ? 0
                   : cli_usage(err, "%s: nothing was translated yet; type a line first", command);
}

/* A number that could be a beam. */
static int read_beam(int *n, const char *command, const char *text, struct err *err) {
    struct search_options o = search_defaults();
    struct err why;
    if (option_set(option_find(search_rows, "beam", 4), &o, text, &why) ||
        options_check(search_rows, &o, &why))
        return cli_usage(err, "%s: %s", command, why.msg);
    *n = o.beam;
    return 0;
}

/* A beam finds at most as many as it is wide. */
static int show_alternatives(struct prompt *p, int n, struct err *err) {
    struct translator_options o = p->options;
    struct translation t;
    int rc = need_line(p, ":alternatives", err);
    o.search.n_best = n;
    if (n > o.search.beam) o.search.beam = n;
    if (!rc) rc = translate(p, &o, &t, err);
    if (rc) return rc;
    p->shown = n;
    screen_alternatives(&p->screen, &t);
    show_time(p, &t);
    return 0;
}

static int alternatives(struct prompt *p, const char *arg, struct err *err) {
    int n = 5, rc = *arg ? read_beam(&n, ":alternatives", arg, err) : 0;
    return rc ? rc : show_alternatives(p, n, err);
}

static int more(struct prompt *p, const char *arg, struct err *err) {
    (void)arg;
    return show_alternatives(p, p->shown ? min_int(2 * p->shown, SEARCH_MAX_BEAM) : 5, err);
}

static int align(struct prompt *p, const char *arg, struct err *err) {
    struct translator_options o = p->options;
    struct translation t;
    int on = strcmp(arg, "on") == 0;
    if (*arg && !on && strcmp(arg, "off") != 0)
        return cli_usage(err, ":align: '%.60s' is neither on nor off", arg);
    if (*arg) p->options.alignment = p->align = on ? ALIGNMENT_WORDS : ALIGNMENT_NONE;
    if (*arg) return screen_aside(&p->screen, on ? "with every line" : "when asked for"), 0;
    int rc = need_line(p, ":align", err);
    o.alignment = ALIGNMENT_WORDS;
    if (!rc) rc = translate(p, &o, &t, err);
    if (!rc) screen_alignment(&p->screen, &t);
    return rc;
}

static int swap(struct prompt *p, const char *arg, struct err *err) {
    (void)arg;
    char *dir, *left = xstrdup(p->dir);
    int rc = opposite(&dir, p, err);
    if (!rc) rc = open_model(p, dir, err);
    xfree(dir);
    xfree(rc ? left : p->before);
    if (!rc) p->before = left;
    if (!rc) screen_aside(&p->screen, "now with %s", name_of(p->dir));
    return rc;
}

static int beam(struct prompt *p, const char *arg, struct err *err) {
    int n = p->options.search.beam, rc = *arg ? read_beam(&n, ":beam", arg, err) : 0;
    if (rc) return rc;
    if (*arg) p->options.search.beam = p->beam = n;
    outlet_printf(&p->screen.out, "the beam is %d\n", n);
    return 0;
}

static int quit(struct prompt *p, const char *arg, struct err *err) {
    (void)arg, (void)err;
    p->done = 1;
    return 0;
}

static const struct verb {
    const char *name, *arg, *help;
    int (*run)(struct prompt *p, const char *arg, struct err *err);
} verbs[] = {
    {"alternatives", "[N]", "the N best translations of the last line, with their scores",
     alternatives},
    {"more", "", "twice as many of them", more},
    {"align", "[on|off]", "the words that each word came from; on: with every line", align},
    {"swap", "", "translate the other way: en-de becomes de-en", swap},
    {"beam", "[N]", "search with N hypotheses", beam},
    {"help", "", "this list", help},
    {"quit", "", "the end, as Ctrl-D", quit},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static int help(struct prompt *p, const char *arg, struct err *err) {
    (void)arg, (void)err;
    for (int i = 0; i < VERBS; i++) {
        int pad = 16 - (int)(strlen(verbs[i].name) + strlen(verbs[i].arg));
        outlet_printf(&p->screen.out, "  :%s %s%*s%s\n", verbs[i].name, verbs[i].arg, pad, "",
                      verbs[i].help);
    }
    outlet_printf(&p->screen.out, "  ::TEXT%*stranslates :TEXT\n", 12, "");
    return 0;
}

/* ":beam 8"; a beginning of a word is enough, where several have it for the first of them. */
static int command(struct prompt *p, const char *text, struct err *err) {
    const char *word = text + 1, *arg = word + strcspn(word, " ");
    size_t n = (size_t)(arg - word);
    struct similar similar = {.word = word, .length = n};
    arg += strspn(arg, " ");
    for (int i = 0; i < VERBS; i++) {
        const struct verb *verb = &verbs[i];
        similar_try(&similar, verb->name);
        if (strncmp(verb->name, word, n) != 0) continue;
        if (*arg && !*verb->arg)
            return cli_usage(err, ":%s takes no value, but there is '%.60s'", verb->name, arg);
        return verb->run(p, arg, err);
    }
    return cli_usage(err, "there is no command :%.*s%s%s%s; :help lists them, ::%.*s translates it",
                     (int)min_size(n, 40), word, similar.best ? " (did you mean :" : "",
                     similar.best ? similar.best : "", similar.best ? "?)" : "",
                     (int)min_size(n, 40), word);
}

/* ---- the conversation ------------------------------------------------------------------------ */

static int answer(struct prompt *p, const struct feed_line *line, struct err *err) {
    size_t size = line->size;
    while (size && isspace((unsigned char)line->text[size - 1])) size--;
    if (size > FEED_MAX_LINE)
        return err_set(err, HEED_ELIMIT, "the line is longer than %s bytes",
                       num_grouped((char[28]){0}, FEED_MAX_LINE));
    if (size == 0) return 0;
    prompt_input_remember(p->input, line->text, size);
    char *text = xmalloc(size + 1);
    memcpy(text, line->text, size);
    text[size] = 0;
    if (text[0] == ':' && isalpha((unsigned char)text[1])) {
        int rc = command(p, text, err);
        xfree(text);
        return rc;
    }
    if (text[0] == ':' && text[1] == ':') memmove(text, text + 1, size--);
    xfree(p->last);
    p->last = text;
    p->line = *line;
    p->line.size = size;
    p->shown = 0;
    return show_translation(p, err);
}

/* Is the conversation to go on after an error? Who types gets another chance. */
static int recovered(struct prompt *p, int rc, const struct err *err) {
    if (!prompt_input_typed(p->input)) return 0;
    if (rc == HEED_ECANCELLED && signals_caught != SIGINT) return 0;
    if (rc == HEED_ECANCELLED) {
        signals_answered();
        prompt_input_drop(p->input);
    } else {
        fprintf(stderr, "%s\n", err->msg);
    }
    return 1;
}

/* A line and its answer: 1, 0 at the end, negative on error. */
static int turn(struct prompt *p, struct err *err) {
    const struct screen *s = &p->screen;
    const char *mark = *s->bold ? "\1" : "";
    struct feed_line line;
    char show[96];
    snprintf(show, sizeof show, "%s%s%s%.40s>%s%s%s ", mark, s->bold, mark, name_of(p->dir), mark,
             s->plain, mark);
    int n = prompt_input_next(p->input, show, &line, err);
    if (n == HEED_ECANCELLED && recovered(p, n, err)) return 1;
    if (n < 0) return n;
    if (n == 0 && s->terminal && prompt_input_typed(p->input)) screen_text(&p->screen, "", 0);
    int rc = n ? answer(p, &line, err) : 0;
    if (rc && !recovered(p, rc, err)) return rc;
    rc = screen_flush(&p->screen, err);
    if (rc && !(rc == HEED_ECANCELLED && recovered(p, rc, err))) return rc;
    return n > 0 && !p->done;
}

static int converse(struct prompt *p, struct err *err) {
    if (prompt_input_typed(p->input) && !p->o->quiet)
        screen_aside(&p->screen, "heed %s, model %s: :help lists the commands, Ctrl-D ends",
                     HEED_VERSION, name_of(p->dir));
    int rc = screen_flush(&p->screen, err);
    if (rc) return rc;
    do rc = turn(p, err);
    while (rc > 0);
    return rc;
}

int prompt_run(const struct prompt_options *options, struct err *err) {
    struct prompt p = {.o = options, .align = -1};
    int rc = screen_open(&p.screen, err);
    if (!rc) rc = prompt_input_open(&p.input, err);
    if (!rc) rc = open_model(&p, NULL, err);
    if (!rc && prompt_input_typed(p.input)) signals_watch_every();
    if (!rc) rc = converse(&p, err);
    if (p.screen.out.closed) signals_caught = SIGPIPE;
    prompt_input_close(p.input);
    screen_close(&p.screen);
    translator_free(p.translator);
    engine_close(p.engine);
    xfree(p.dir);
    xfree(p.before);
    xfree(p.last);
    return rc;
}

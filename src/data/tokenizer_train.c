/* tokenizer_train.c — learning a tokenizer from text files.
 *
 * The files are streamed into an even sample of bounded size, SentencePiece learns from the sample,
 * and the model is written only when it is complete and opens. SentencePiece's messages are put in
 * terms of the caller's options.
 *
 * SentencePiece ends the process when it learns unigrams from sentences that are all blank once
 * they are normalised, and when a word has more than 65,535 characters. So blank samples are
 * detected first (has_text), and lines are limited to TOKENIZER_MAX_LINE bytes, of which
 * normalisation cannot make that many characters (at worst 18 from 3 bytes). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/options.h"
#include "base/utf8.h"
#include "data/sample.h"
#include "data/sentencepiece.h"
#include "data/text.h"
#include "data/tokenizer.h"

enum { N_CODE = 0x110000, PROGRESS_LINES = 4096, N_SPECIAL = 3, N_BYTE_PIECE = 256 };
static const char reserved[] = "\xE2\x96\x85"; /* U+2585 */
static const char space_piece[] = "\xE2\x96\x81";

const char *const tokenizer_type_names[] = {[TOKENIZER_UNIGRAM] = "unigram",
                                            [TOKENIZER_BPE] = "bpe",
                                            [TOKENIZER_WORD] = "word",
                                            [TOKENIZER_CHAR] = "char",
                                            NULL};
const char *const tokenizer_normalizations[] = {"nmt_nfkc", "nfkc",     "nmt_nfkc_cf",
                                                "nfkc_cf",  "identity", NULL};

/* Unigram learning takes about thirty bytes of memory per byte of text. BPE is learnt by one
 * thread, and what more lines tell it hardly changes the pieces (docs/data.md). */
uint64_t tokenizer_sample_lines(enum tokenizer_type type) {
    return type == TOKENIZER_UNIGRAM ? 500000 : type == TOKENIZER_BPE ? 400000 : 2000000;
}

static uint64_t sample_lines(const struct tokenizer_train_options *o) {
    return o->sample ? o->sample : tokenizer_sample_lines(o->type);
}

struct training {
    const struct tokenizer_train_options *o;
    struct tokenizer_report *report;
    struct sample sample;
    uint64_t *count; /* [N_CODE] how often each character was read */
    uint64_t at;     /* of the sample, what SentencePiece reads next */
    char size[16], coverage[32], threads[16];
};

/* ---- options --------------------------------------------------------------------------------- */

static const char *normalization_of(const struct tokenizer_train_options *o) {
    return o->normalization ? o->normalization : tokenizer_normalizations[0];
}

/* Learning may take long: find out first whether the result can be put where it should go. */
static int check_out(const char *out, struct err *err) {
    if (!out || !*out) return err_set(err, HEED_EINVAL, "out: no file to write to was given");
    if (dir_exists(out)) return err_set(err, HEED_EIO, "%s: is a directory", out);
    char *parent = path_parent(out);
    int rc = access(parent, W_OK) ? err_set(err, HEED_EIO, "%s: %s", parent, strerror(errno)) : 0;
    xfree(parent);
    return rc;
}

/* Why this cannot be a symbol, or NULL. */
static const char *wrong_symbol(const char *symbol, size_t size, int byte_fallback) {
    static const char *const taken[] = {"<unk>", "<s>", "</s>"};
    if (size == 0) return "is empty";
    if (size > TOKENIZER_MAX_SYMBOL) return "is too long";
    if (utf8_clean_prefix(symbol, size) < size) return "is not UTF-8";
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)symbol[i] <= ' ' || symbol[i] == '"')
            return "contains a space or a quotation mark";
    size_t space = sizeof space_piece - 1, first = size > space ? space : 0;
    if (memcmp(symbol, space_piece, first) != 0) first = 0; /* it may begin with a space */
    if (memmem(symbol + first, size - first, space_piece, space) ||
        memmem(symbol, size, reserved, sizeof reserved - 1))
        return "contains a character that SentencePiece keeps for itself";
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (size == strlen(taken[i]) && memcmp(symbol, taken[i], size) == 0)
            return "is a special piece";
    if (byte_fallback && size == 6 && memcmp(symbol, "<0x", 3) == 0) return "is a byte";
    return NULL;
}

/* The symbol at *at, which moves to the next one, or is NULL then. A backslash before a comma makes
 * that a part of it. What is too long is cut to one byte too many. */
struct symbol {
    char text[TOKENIZER_MAX_SYMBOL + 2];
    size_t size;
};
static struct symbol next_symbol(const char **at) {
    struct symbol s = {.size = 0};
    const char *p = *at;
    for (; *p && *p != ','; p++) {
        if (p[0] == '\\' && p[1] == ',') p++;
        if (s.size <= TOKENIZER_MAX_SYMBOL) s.text[s.size++] = *p;
    }
    *at = *p ? p + 1 : NULL;
    return s;
}

static int same_symbol(const struct symbol *a, const struct symbol *b) {
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* How many symbols there are, or an error. */
static int check_symbols(const struct tokenizer_train_options *o, struct err *err) {
    int n = 0;
    for (const char *at = o->symbols; at;) {
        const char *here = at, *before = o->symbols;
        struct symbol symbol = next_symbol(&at);
        const char *why = wrong_symbol(symbol.text, symbol.size, o->byte_fallback);
        while (before != here && !why) {
            struct symbol other = next_symbol(&before);
            if (same_symbol(&symbol, &other)) why = "is there twice";
        }
        if (!why && ++n > TOKENIZER_MAX_SYMBOLS) why = "is one too many";
        if (why) return err_set(err, HEED_EINVAL, "symbols: '%s' %s", symbol.text, why);
    }
    return n;
}

/* As SentencePiece reads them: in quotation marks where there is a comma. */
static char *list_symbols(const char *symbols) {
    struct buffer out = {0};
    for (const char *at = symbols; at;) {
        struct symbol symbol = next_symbol(&at);
        const char *quote = memchr(symbol.text, ',', symbol.size) ? "\"" : "";
        if (out.size) buffer_puts(&out, ",");
        buffer_puts(&out, quote);
        buffer_put(&out, symbol.text, symbol.size);
        buffer_puts(&out, quote);
    }
    if (out.text) buffer_put(&out, "", 1);
    return out.text;
}

static int check_options(const struct tokenizer_train_options *o, struct err *err) {
    struct err why;
    int least = TOKENIZER_MIN_SIZE + (o->byte_fallback ? N_BYTE_PIECE : 0), chosen;
    int n_symbol = check_symbols(o, err);
    if (n_symbol < 0) return n_symbol;
    least += n_symbol;
    if (o->n_input < 1) return err_set(err, HEED_EINVAL, "input: no text file was given");
    if (o->size < least || o->size > TOKENIZER_MAX_SIZE)
        return err_set(err, HEED_ECONFIG, "size: %d is not between %d and %s%s", o->size, least,
                       num_grouped((char[28]){0}, TOKENIZER_MAX_SIZE),
                       o->byte_fallback ? " (256 of them are bytes)" : "");
    if (o->coverage && !(o->coverage >= 0.98 && o->coverage <= 1))
        return err_set(err, HEED_ECONFIG, "coverage: %g is not between 0.98 and 1", o->coverage);
    if (o->threads < 0 || o->threads > TOKENIZER_MAX_THREADS)
        return err_set(err, HEED_ECONFIG, "threads: %d is not between 0 and %d", o->threads,
                       TOKENIZER_MAX_THREADS);
    if (choice_parse(&chosen, tokenizer_normalizations, normalization_of(o), &why))
        return err_set(err, HEED_EINVAL, "normalization: %s", why.msg);
    int rc = check_out(o->out, err);
    for (int i = 0; i < o->n_input && !rc; i++)
        if (file_same(strcmp(o->input[i], "-") == 0 ? "/dev/stdin" : o->input[i], o->out))
            rc = err_set(err, HEED_EINVAL, "out: %s is an input, which would be replaced", o->out);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void count_characters(uint64_t *count, const char *text, size_t size) {
    for (size_t i = 0; i < size;) {
        uint32_t code = 0;
        i += (size_t)utf8_decode(&code, text + i, size - i); /* lines are well-formed */
        count[code]++;
    }
}

static void take_line(struct training *t, const struct line *line) {
    struct tokenizer_report *r = t->report;
    if (line->flags & LINE_TOO_LONG || line->size > TOKENIZER_MAX_LINE)
        r->too_long++;
    else if (strspn(line->text, " \t\r\v\f") == line->size)
        r->empty++;
    else if (memmem(line->text, line->size, reserved, sizeof reserved - 1))
        r->reserved++;
    else {
        count_characters(t->count, line->text, line->size);
        sample_add(&t->sample, line->text, line->size);
    }
}

static int report_progress(struct training *t, const char *file) {
    return t->o->progress ? t->o->progress(t->o->progress_ctx, t->report, file) : 0;
}

static int read_file(struct training *t, const char *path, struct err *err) {
    struct text *text;
    struct line line;
    struct tokenizer_report before = *t->report;
    int rc = text_open(&text, path, err), more = 1;
    while (!rc && more > 0) {
        more = text_next(text, &line, err);
        if (more < 0) rc = more;
        if (more > 0) take_line(t, &line);
        struct text_counts c = text_counts(text);
        if (rc || (more > 0 && c.lines % PROGRESS_LINES)) continue;
        t->report->lines = before.lines + c.lines;
        t->report->bytes = before.bytes + c.bytes;
        t->report->replaced = before.replaced + c.replaced;
        t->report->file_at = c.file_at;
        t->report->file_end = c.file_end;
        rc = report_progress(t, path);
        if (rc) err_set(err, rc, "%s: reading was stopped", path);
    }
    text_close(text);
    return rc;
}

static int read_all(struct training *t, struct err *err) {
    int rc = 0;
    for (int i = 0; !rc && i < t->o->n_input; i++) rc = read_file(t, t->o->input[i], err);
    t->report->sampled = t->sample.n;
    t->report->sampled_bytes = t->sample.bytes;
    return rc;
}

/* ---- blankness ------------------------------------------------------------------------------- */

struct codes {
    const unsigned char *seen; /* [N_CODE] */
    uint32_t at;
    char text[4];
};

static const char *next_code(void *ctx, size_t *size) {
    struct codes *c = ctx;
    while (c->at < N_CODE && !c->seen[c->at]) c->at++;
    if (c->at == N_CODE) return NULL;
    *size = (size_t)utf8_encode(c->text, c->at++);
    return c->text;
}

/* Whether normalisation leaves any of these characters: the character model that is learnt from
 * them says so, since the library offers no way to normalise alone. */
static int any_survives(const unsigned char *seen, const char *normalization) {
    struct codes codes = {.seen = seen};
    struct sp_setting settings[] = {{"model_type", "char"},
                                    {"vocab_size", "1200000"},
                                    {"character_coverage", "1"},
                                    {"normalization_rule_name", normalization}};
    void *model;
    size_t size;
    struct tokenizer *made;
    struct sp_training training = {settings, 4, next_code, &codes};
    if (sp_train(&model, &size, &training, NULL)) return 0;
    int rc = tokenizer_open_memory(&made, model, size, NULL), any = 0;
    xfree(model);
    if (rc) return 0;
    for (int id = N_SPECIAL; id < tokenizer_size(made); id++)
        any |= strcmp(tokenizer_piece(made, id), space_piece) != 0;
    tokenizer_free(made);
    return any;
}

/* Whether the sample has anything to learn from. Any letter or digit of ASCII will do; only a
 * sample without one is looked at closely. */
static int has_text(const struct sample *sample, const char *normalization) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char *seen = xcalloc(N_CODE, 1);
    int found = 0;
    for (uint64_t i = 0; i < sample->n && !found; i++) {
        const struct sample_line *line = sample->line[i];
        for (size_t k = 0; k < line->size;) {
            uint32_t code = 0;
            k += (size_t)utf8_decode(&code, line->text + k, line->size - k);
            seen[code] = 1;
            if (code && code < 0x80 && strchr(plain, (int)code)) found = 1;
        }
    }
    if (!found && sample->n) found = any_survives(seen, normalization);
    xfree(seen);
    return found;
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Sentences are freed as SentencePiece takes its copy. */
static const char *next_sentence(void *ctx, size_t *size) {
    struct training *t = ctx;
    struct sample *s = &t->sample;
    if (t->at > 0) {
        xfree(s->line[t->at - 1]);
        s->line[t->at - 1] = NULL;
    }
    if (t->at == s->n) return NULL;
    *size = s->line[t->at]->size;
    return s->line[t->at++]->text;
}

/* SentencePiece's message in terms of the options. */
static int explain(const struct training *t, const struct err *why, struct err *err) {
    int given, limit;
    if (sscanf(why->msg, "Vocabulary size too high (%d). Please set it to a value <= %d", &given,
               &limit) == 2)
        return err_set(err, HEED_ECONFIG,
                       "size: %d is more than this corpus allows (%d); "
                       "choose a smaller size or add text",
                       given, limit);
    if (sscanf(why->msg, "Vocabulary size is smaller than required_chars. %d vs %d", &given,
               &limit) == 2)
        return err_set(err, HEED_ECONFIG,
                       "size: %d is too small, the characters of this corpus alone need %d; "
                       "choose a larger size%s",
                       given, limit, t->o->byte_fallback ? "" : " or a lower coverage");
    if (strstr(why->msg, "(vocab_size) >= (0)"))
        return err_set(err, HEED_ECONFIG, "size: %d is too small for this corpus", t->o->size);
    return err_set(err, why->code, "learning the tokenizer: %s", why->msg);
}

static int learn(struct training *t, void **model, size_t *size, struct err *err) {
    const struct tokenizer_train_options *o = t->o;
    const char *normalization = normalization_of(o);
    int exact = strcmp(normalization, "identity") == 0; /* then spaces are text like any other */
    if (!has_text(&t->sample, normalization))
        return err_set(err, HEED_EFORMAT, "there is no text to learn from in %s%s", o->input[0],
                       o->n_input > 1 ? " and the other files" : "");
    snprintf(t->size, sizeof t->size, "%d", o->size);
    snprintf(t->coverage, sizeof t->coverage, "%.9g", o->coverage ? o->coverage : 1.0);
    snprintf(t->threads, sizeof t->threads, "%d", o->threads ? o->threads : 16);
    char line[16], *symbols = list_symbols(o->symbols);
    snprintf(line, sizeof line, "%d", TOKENIZER_MAX_LINE);
    const struct sp_setting settings[] = {
        {"model_type", tokenizer_type_names[o->type]},
        {"vocab_size", t->size},
        {"character_coverage", t->coverage},
        {"byte_fallback", o->byte_fallback ? "true" : "false"},
        {"split_digits", o->split_digits ? "true" : NULL},
        {"user_defined_symbols", symbols},
        {"normalization_rule_name", normalization},
        {"remove_extra_whitespaces", exact ? "false" : "true"},
        {"num_threads", t->threads},
        {"max_sentence_length", line},
        {"train_extremely_large_corpus", t->sample.bytes >> 30 ? "true" : "false"}};
    struct err why = {0};
    struct sp_training training = {settings, sizeof settings / sizeof *settings, next_sentence, t};
    int rc = sp_train(model, size, &training, &why) ? explain(t, &why, err) : 0;
    xfree(symbols);
    return rc;
}

/* Which of the characters that were read the tokenizer does not know. Words are not made of
 * characters. */
static void count_unknown(struct training *t, const struct tokenizer *made) {
    struct tokenizer_report *r = t->report;
    for (uint32_t code = 1; code < N_CODE; code++) {
        if (!t->count[code]) continue;
        r->chars++;
        if (t->o->type == TOKENIZER_WORD) continue;
        char text[4];
        int32_t ids[32];
        int cap = (int)(sizeof ids / sizeof *ids), unknown = 0;
        int n = tokenizer_encode(made, text, (size_t)utf8_encode(text, code), ids, cap);
        for (int i = 0; i < n && i < cap; i++) unknown |= ids[i] == tokenizer_unk(made);
        r->chars_unknown += unknown;
        if (unknown) r->unknown += t->count[code];
    }
}

static int learn_and_write(struct training *t, struct err *err) {
    void *model = NULL;
    size_t size = 0;
    struct tokenizer *made = NULL;
    int rc = read_all(t, err);
    if (!rc && (rc = report_progress(t, NULL))) err_set(err, rc, "learning was stopped");
    if (!rc) rc = learn(t, &model, &size, err);
    if (!rc) rc = tokenizer_open_memory(&made, model, size, err);
    if (!rc) {
        t->report->pieces = tokenizer_size(made);
        count_unknown(t, made);
        rc = file_write_all(t->o->out, model, size, err);
    }
    tokenizer_free(made);
    xfree(model);
    return rc;
}

int tokenizer_train(const struct tokenizer_train_options *o, struct tokenizer_report *report,
                    struct err *err) {
    struct tokenizer_report own = {0};
    struct training t = {.o = o, .report = report ? report : &own};
    *t.report = (struct tokenizer_report){0};
    int rc = check_options(o, err);
    if (rc) return rc;
    uint64_t lines = sample_lines(o);
    uint64_t bytes = size_mul(lines, TOKENIZER_SAMPLE_LINE);
    sample_init(&t.sample, lines, bytes < 1 << 20 ? 1 << 20 : bytes, o->seed);
    t.count = xcalloc(N_CODE, sizeof *t.count);
    rc = learn_and_write(&t, err);
    sample_release(&t.sample);
    xfree(t.count);
    return rc;
}

/* ---- cache ----------------------------------------------------------------------------------- */

int tokenizer_cached(char **path, int *reused, const struct tokenizer_train_options *o,
                     const char *cache_dir, struct err *err) {
    struct tokenizer_train_options options = *o;
    struct tokenizer *found = NULL;
    XXH3_state_t *state = XXH3_createState();
    char text[128];
    int rc = 0;
    BUG_ON(!state);
    XXH3_128bits_reset(state);
    for (int i = 0; i < o->n_input && !rc; i++) {
        uint64_t hash[2] = {0};
        rc = text_hash(hash, o->input[i], NULL, NULL, err);
        XXH3_128bits_update(state, hash, sizeof hash);
    }
    int n = snprintf(text, sizeof text, "%d %d %d %d %.9g %s %llu %llu %d", (int)o->type, o->size,
                     o->byte_fallback, o->split_digits, o->coverage, normalization_of(o),
                     (unsigned long long)sample_lines(o), (unsigned long long)o->seed, o->threads);
    XXH3_128bits_update(state, text, (size_t)n);
    if (o->symbols) XXH3_128bits_update(state, o->symbols, strlen(o->symbols));
    XXH128_hash_t key = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(text, sizeof text, "tokenizer-%016llx%016llx.model", (unsigned long long)key.high64,
             (unsigned long long)key.low64);
    options.out = *path = path_join(cache_dir, text);
    *reused = !rc && tokenizer_open(&found, *path, NULL) == 0; /* a damaged one is learnt anew */
    tokenizer_free(found);
    if (!rc && !*reused) rc = dir_make(cache_dir, err);
    return rc || *reused ? rc : tokenizer_train(&options, NULL, err);
}

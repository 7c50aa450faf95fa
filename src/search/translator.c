/* translator.c — see translator.h.
 *
 * One run: `prepare` makes parts (sentences with tokens) out of texts; `search_all` sorts them by
 * length, searches batch by batch and keeps what comes out of each; `read_off` turns that into
 * text; `assemble` joins the parts of each text. Everything a run leaves behind lies in `keep`,
 * which the next run empties.
 *
 * Tokenising and reading off go over all threads, in tasks of TASK texts or parts: a GPU translates
 * faster than one thread tokenises. Each thread has a `keep` of its own for what it makes. */
#define _GNU_SOURCE /* qsort_r */
#include "search/translator.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/keep.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "data/passages.h"
#include "data/tree.h"
#include "data/words.h"
#include "search/brackets.h"
#include "search/defaults.h"
#include "search/split.h"

enum {
    ROOM_FIRST =
        64, /* tokens of a sentence in the first class; the next ones have four times as many */
    ROOM_GROWTH = 4,
    MAX_ROOMS = 16,
    MAX_WIDTHS = 4, /* powers of two from TERMS_BEAM to SEARCH_MAX_BEAM */
    ALIGN_SEQ = 32,
    ALIGN_TOKENS = 16384,
    TASK = 64
};

/* Batches as suit a kind of device, and the most hypotheses in one search: wide beams get fewer
 * sentences. A CPU gains nothing beyond; a GPU gains up to thousands of rows (docs/notes/gpu.md),
 * as far as its memory goes: one of MEMORY_SHARES parts of what is left may hold one searcher's
 * cache. Searchers for no more than FEW sentences do not take it. */
struct suit {
    int sentences, tokens, hypotheses;
};
static const struct suit suits_host = {32, 2048, 512}, suits_device = {2048, 65536, 8192};
enum { MEMORY_SHARES = 8, FEW = 64 };

/* ---- the translator -------------------------------------------------------------------------- */

/* The tokens of a text, if it has been tokenised already: NULL where not. */
struct coded {
    int32_t *ids; /* [n], or the first max_tok of them */
    int n;
};

/* A sentence to search. */
struct part {
    int text;           /* it belongs to */
    const char *before; /* [n_before] of the text, kept; NULL: a space parts it from the last */
    size_t n_before;
    const char *after; /* [n_after] likewise, of the last part */
    size_t n_after;
    const int32_t *src; /* [n_src] with its end mark, if any; the tag, if any, is before it */
    int n_src;
    const int32_t *said; /* [n_said] what is searched: src and its tag, or with terms in it */
    int n_said;
    const int *word; /* [pieces] that each token belongs to, if wanted, or -1 */
    int word_at;     /* counted from this one of the text */
    const int32_t *prefix;
    int n_prefix;
    uint64_t key;
    const char *line;          /* [n_line] its text, of a tree */
    size_t n_line;             /* and */
    int n_word;                /* the words of it, divided at spaces */
    const struct terms *terms; /* that it must contain, or NULL */
    int width;                 /* hypotheses that these take; 0: as many as the others */
    int missed;                /* terms that it lacks */
    struct candidate *best;    /* [n] what the search found */
    int n;
};

struct room {
    struct searcher *searcher;
    struct search_caps caps;
    int full; /* as large as it will get */
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what belongs together stays so */
struct translator {
    const struct engine *engine;
    const struct tokenizer *source, *target;
    int ended; /* 1 if sources have an end mark, which nearly all have */
    struct translator_options options;
    int limit; /* tokens of a part, end mark and tag included */
    const struct sentence_rules *rules;
    struct engine_tags tags; /* that every part, and its translation, begins with; -1: none */
    int tagged, leads;       /* 1 if there is one before the part, before its translation */
    int max_tok;             /* tokens of a part's text */
    int ready;               /* options are set */
    struct suit suit;
    struct pool *pool; /* or NULL */
    int n_thread;
    struct keep *of_thread; /* [n_thread] */
    struct coded *coded;    /* [cap_coded] by text */
    int cap_coded;
    /* by length, and by how wide the search is: as the options say, or as terms want it */
    struct room room[1 + MAX_WIDTHS][MAX_ROOMS];
    struct speller *speller;   /* made when there is a glossary */
    struct brackets *brackets; /* made when trees are wanted */
    struct words terms_words;  /* scratch */
    struct aligner *aligner;
    float threshold; /* of its links */
    struct keep keep;
    struct part *part;
    int n_part, cap_part;
    int *order; /* [n_part] */
    int cap_order;
    int32_t *ids;            /* [limit] scratch */
    struct span *span;       /* [limit] the bytes of each, if wanted */
    struct words words;      /* scratch */
    struct align_pair *pair; /* what the aligner is asked, and its answers */
    int cap_pair;
    float *matrix;
    size_t cap_matrix;
    float *of_words; /* the same of a candidate's words */
    size_t cap_of_words;
    struct search_input *input;
    struct search_result *result;
    int cap_batch;
    struct translator_stats stats;
};

/* One call of translator_run. */
struct job {
    const struct translator_poll *poll;
    int done, total;
};

enum { MANY = INT_MAX };
static const char *const long_names[] = {"split", "refuse", NULL};
static const char *const format_names[] = {"lines", "text", "html", NULL};
static const char *const alignment_names[] = {"none", "pieces", "words", NULL};

#define OPTIONS_OF translator_options
#define API(FIELD) API_FIELD(heed_translate_options, FIELD)
const struct option translator_rows[] = {
    ROW(CHOICE, "format", format, "lines",
        "lines: translate each as a whole; text: as people write it, sentence by sentence, keeping "
        "all white space, blank lines and marks of lists; html: each FILE is a document, whose "
        "tags are kept and follow their words",
        API(format), .choices = format_names),
    ROW(STRING, "language", language, NULL,
        "language of the text, such as de, whose abbreviations --format text and html know; if not "
        "given, the model's",
        API(language), .arg = "LANGUAGE"),
    ROW(CHOICE, "alignment", alignment, "none",
        "add ||| I-J ...: source word I for target word J, or pieces; if neither is named, words",
        API(alignment), .choices = alignment_names, .alone = "words"),
    ROW(INT, "alignment_layer", align.layer, "0",
        "decoder layer to align by, counted from 1; 0: the model's choice, or the usual one",
        API(alignment_layer), .of_model = 1, .max = 1000),
    ROW(INT, "alignment_head", align.head, "0",
        "head to align by, counted from 1; 0: the mean of all, or the model's choice",
        API(alignment_head), .of_model = 1, .max = 1024),
    ROW(CHOICE, "alignment_row", align.row, "auto",
        "align by the decoder's row that has a piece as input, or by that which writes it; auto: "
        "the model's choice, or the usual one",
        .of_model = 1, .choices = align_row_names),
    ROW(F32, "alignment_threshold", align.threshold, "0",
        "give no link to a word if none gets this share of its attention; 0: the model's choice, "
        "or none",
        .of_model = 1, .max = 1),
    SOURCE_LANG_ROW(source_lang, API(source_lang), .of_model = 1),
    TARGET_LANG_ROW(target_lang, API(target_lang), .of_model = 1),
    PREFIX_TOKEN_ROW(prefix_token, API(prefix_token), .of_model = 1),
    ROW(INT, "max_source", max_source, "0",
        "most tokens translated at a time, end mark included; 0: the model's positions",
        API(max_source), .max = MANY),
    ROW(CHOICE, "long", refuse_long, "split", "split longer lines at sentence ends, or refuse them",
        API(refuse_long), .choices = long_names),
    ROW(INT, "batch_sentences", batch_sentences, "0",
        "sentences searched together; 0: as suits the device", API(batch_sentences), .max = MANY),
    ROW(INT, "batch_tokens", batch_tokens, "0",
        "source tokens searched together; 0: as suits the device", API(batch_tokens), .max = MANY),
    {.name = NULL},
};

struct translator_options translator_defaults(void) {
    struct translator_options o = {.search = search_defaults()};
    options_default(translator_rows, &o);
    return o;
}

struct translator *translator_new(const struct engine *engine) {
    struct translator *t = xcalloc(1, sizeof *t);
    t->engine = engine;
    t->source = engine->source;
    t->target = engine->target;
    t->ended = tokenizer_eos(t->source) >= 0;
    translator_share(t, NULL);
    return t;
}

static void drop_threads(struct translator *t) {
    for (int i = 0; i < t->n_thread; i++) keep_release(&t->of_thread[i]);
    xfree(t->of_thread);
}

void translator_share(struct translator *t, struct pool *pool) {
    drop_threads(t);
    t->pool = pool;
    t->n_thread = pool ? pool_size(pool) : 1;
    t->of_thread = xcalloc((size_t)t->n_thread, sizeof *t->of_thread);
}

const struct sentence_rules *translator_rules(const struct translator *t) { return t->rules; }

int translator_batch(const struct translator *t) { return t->suit.sentences; }

/* What depends on the options. */
static void unset(struct translator *t) {
    for (int i = 0; i < (1 + MAX_WIDTHS) * MAX_ROOMS; i++)
        searcher_free(t->room[i / MAX_ROOMS][i % MAX_ROOMS].searcher);
    memset(t->room, 0, sizeof t->room);
    aligner_free(t->aligner);
    t->aligner = NULL;
    t->ready = 0;
}

void translator_free(struct translator *t) {
    if (!t) return;
    unset(t);
    drop_threads(t);
    xfree(t->coded);
    keep_release(&t->keep);
    words_release(&t->words);
    words_release(&t->terms_words);
    speller_free(t->speller);
    brackets_free(t->brackets);
    xfree(t->span);
    xfree(t->part);
    xfree(t->order);
    xfree(t->ids);
    xfree(t->pair);
    xfree(t->matrix);
    xfree(t->of_words);
    xfree(t->input);
    xfree(t->result);
    xfree(t);
}

const struct translator_stats *translator_stats(const struct translator *t) { return &t->stats; }

/* ---- options --------------------------------------------------------------------------------- */

static int longest_target(const struct translator *t, int n_src) {
    return search_longest(&t->options.search, t->engine->max_len, n_src);
}

static int limit_of(const struct translator *t, const struct translator_options *o) {
    return o->max_source ? o->max_source : t->engine->max_len;
}

static int check_options(const struct translator *t, const struct translator_options *o, int tagged,
                         struct err *err) {
    int rc = search_check(&o->search, err);
    if (!rc) rc = options_check(translator_rows, o, err);
    if (rc) return rc;
    if (o->search.force_len > t->engine->max_len)
        return err_set(err, HEED_EINVAL,
                       "force_length: %d is more than the %d tokens the model has positions for",
                       o->search.force_len, t->engine->max_len);
    if (o->search.min_len > t->engine->max_len)
        return err_set(err, HEED_EINVAL,
                       "min_length: %d is more than the %d tokens the model has positions for",
                       o->search.min_len, t->engine->max_len);
    if (o->search.trees && (o->format || o->alignment || o->glossary))
        return err_set(err, HEED_EINVAL,
                       "trees: lines become trees one by one; not together with format, alignment "
                       "or a glossary");
    int least = 1 + t->ended + tagged, limit = limit_of(t, o);
    if (limit < least || limit > t->engine->max_len)
        return err_set(
            err, HEED_EINVAL,
            "max_source: %d is not between %d and the %d tokens the model has positions for", limit,
            least, t->engine->max_len);
    return 0;
}

static int make_aligner(struct translator *t, struct err *err) {
    const struct translator_options *o = &t->options;
    struct align_options align = defaults_align(t->engine, o->align);
    t->threshold = align.threshold;
    /* one more for the row that reads the last token of what a limit cut */
    int longest = longest_target(t, t->limit) + 1, tokens = min_int(t->suit.tokens, ALIGN_TOKENS);
    struct aligner_setup setup = {
        .bos = tokenizer_bos(t->target),
        .choice = &align,
        .n_choice = 1,
        .caps = {max_int(t->limit, tokens), max_int(longest, tokens), ALIGN_SEQ}};
    return aligner_new(&t->aligner, t->engine->model[0], &setup, err);
}

int translator_set(struct translator *t, const struct translator_options *given, struct err *err) {
    struct translator_options options = *given;
    struct engine_said said = {given->prefix_token, given->source_lang, given->target_lang};
    struct engine_tags tags;
    int rc = engine_tags(t->engine, &said, &tags, err);
    if (rc) return rc;
    const char *language = options.language ? options.language : options.source_lang;
    const struct sentence_rules *rules =
        sentence_rules(language ? language : defaults_of(t->engine).language);
    /* the caller's; what stays are ids and rules */
    options.prefix_token = options.language = options.source_lang = options.target_lang = NULL;
    if (options.glossary && options.search.sample)
        return err_set(err, HEED_EINVAL, "glossary: terms can be searched for, not sampled");
    if (options.glossary && !t->speller) t->speller = speller_new(t->target);
    if (t->ready) t->options.glossary = options.glossary; /* changes nothing else */
    if (t->ready && options_equal(search_rows, &t->options.search, &options.search) &&
        options_equal(translator_rows, &t->options, &options) && tags.source == t->tags.source &&
        tags.target == t->tags.target && rules == t->rules)
        return 0;
    if ((rc = check_options(t, given, tags.source >= 0, err))) return rc;
    if (options.search.trees && !t->brackets) rc = brackets_new(&t->brackets, t->target, err);
    if (rc) return rc;
    unset(t);
    t->options = options;
    t->suit = backend_device_memory(t->engine->be) ? suits_device : suits_host;
    if (options.batch_sentences) t->suit.sentences = options.batch_sentences;
    if (options.batch_tokens) t->suit.tokens = options.batch_tokens;
    t->rules = rules;
    t->tags = tags;
    t->tagged = tags.source >= 0;
    t->leads = tags.target >= 0;
    t->limit = limit_of(t, &options);
    t->max_tok = t->limit - t->ended - t->tagged;
    xfree(t->ids);
    t->ids = xcalloc((size_t)t->engine->max_len, sizeof *t->ids);
    xfree(t->span);
    t->span = xcalloc((size_t)t->engine->max_len, sizeof *t->span);
    if (options.alignment) rc = make_aligner(t, err);
    t->ready = !rc;
    return rc;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* A message about one text: what follows is `why`. */
static int fail(const struct translator_input *in, int code, const char *why, struct err *err) {
    return err_set(err, code, "%.80s %llu: %.150s", in->name, (unsigned long long)in->number, why);
}

static struct part *add_part(struct translator *t) {
    if (t->n_part == t->cap_part) {
        t->cap_part = t->cap_part ? 2 * t->cap_part : 64;
        t->part = xrealloc(t->part, (size_t)t->cap_part * sizeof *t->part);
    }
    t->part[t->n_part] = (struct part){0};
    return &t->part[t->n_part++];
}

/* Copies the n ids of a sentence from the scratch, between its tag and an end mark, if any. */
static const int32_t *keep_ids(struct translator *t, int n) {
    int32_t *ids = keep_take(&t->keep, ((size_t)n + 2) * sizeof *ids);
    if (t->tagged) *ids++ = t->tags.source;
    if (n > 0) memcpy(ids, t->ids, (size_t)n * sizeof *ids);
    ids[n] = tokenizer_eos(t->source); /* -1: none, and not looked at */
    return ids;
}

/* What the model reads of a part: its tokens behind the tag, if there is one. */
static const int32_t *read_ids(const struct translator *t, const struct part *p) {
    return p->src - t->tagged;
}
static int read_length(const struct translator *t, const struct part *p) {
    return p->n_src + t->tagged;
}

static int wants_words(const struct translator *t) {
    return t->options.alignment == ALIGNMENT_WORDS;
}

/* Tokens of text[at..at + size), with their bytes if words are wanted. */
static int encode(struct translator *t, const char *text, size_t at, size_t size) {
    if (!wants_words(t)) return tokenizer_encode(t->source, text + at, size, t->ids, t->max_tok);
    int n = tokenizer_encode_spans(t->source, text + at, size, t->ids, t->span, t->max_tok);
    for (int i = 0; i < min_int(n, t->max_tok); i++) {
        t->span[i].begin += (int)at;
        t->span[i].end += (int)at;
    }
    return n;
}

/* A text on its way into parts. */
struct source {
    const struct translator_input *in;
    struct translation *out;
    int text;  /* its number */
    int first; /* part of it */
};

/* The first word of the text that ends behind `at`. */
static int word_at(const struct translation *out, int at) {
    int low = 0, high = out->n_word;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (out->word[mid].end > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static void find_terms(struct translator *t, struct part *p, const char *text, size_t size) {
    if (!t->options.glossary) return;
    struct glossary_search how = {.glossary = t->options.glossary,
                                  .speller = t->speller,
                                  .words = &t->terms_words,
                                  .keep = &t->keep};
    p->terms = glossary_find(&how, text, size);
    p->missed = how.missed;
    if (!p->terms) return;
    p->width = search_terms_beam(&t->options.search, p->terms);
    if (!engine_shares_words(t->engine)) return;
    int n = tokenizer_encode(t->source, how.said, how.n_said, t->ids, t->max_tok);
    if (n < 1 || n > t->max_tok) return;
    p->said = keep_ids(t, n) - t->tagged;
    p->n_said = n + t->ended + t->tagged;
}

/* The n tokens that encode left of a stretch of the text, as a part. */
static void keep_part(struct translator *t, const struct source *of, const struct passage *at,
                      int n) {
    uint64_t number = (uint64_t)(t->n_part - of->first);
    struct part *p = add_part(t);
    p->text = of->text;
    p->n_src = n + t->ended;
    p->src = keep_ids(t, n);
    p->key = of->in->key ^ number << 40;
    p->prefix = &t->tags.target;
    p->n_prefix = t->leads;
    p->said = read_ids(t, p);
    p->n_said = read_length(t, p);
    p->line = of->in->text + at->at;
    p->n_line = at->size;
    if (t->options.search.trees) p->n_word = tree_words_in(p->line, p->n_line);
    find_terms(t, p, of->in->text + at->at, at->size);
    if (!wants_words(t)) return;
    int *word = keep_take(&t->keep, (size_t)n * sizeof *word),
        skip = word_at(of->out, t->span[0].begin);
    words_map(word, t->span, n, of->out->word + skip, of->out->n_word - skip);
    int least = max_int(word[0], 0);
    p->word = word;
    p->word_at = skip + least;
    for (int i = 0; i < n; i++) word[i] = max_int(word[i] - least, -1);
}

static const struct span *keep_words(struct translator *t) {
    size_t size = (size_t)t->words.n * sizeof *t->words.word;
    struct span *word = keep_take(&t->keep, size + 1);
    if (size) memcpy(word, t->words.word, size);
    return word;
}

/* ---- all threads ----------------------------------------------------------------------------- */

/* Runs task 0 .. n - 1, each TASK texts or parts. */
static void share(struct translator *t, pool_fn *fn, void *ctx, int n) {
    if (t->pool && n > 1) {
        pool_run(t->pool, fn, ctx, n);
        return;
    }
    for (int task = 0; task < n; task++) fn(ctx, task, 0);
}

struct coding {
    struct translator *t;
    const struct translator_input *in;
    int n;
};

/* Tokenises TASK texts, as `encode` would. Bad UTF-8, failures and texts with spans are left to
 * it. */
static void code_texts(void *ctx, int task, int thread) {
    const struct coding *c = ctx;
    const struct translator *t = c->t;
    struct keep *keep = &t->of_thread[thread];
    int last = min_int(c->n - task * TASK, TASK) + task * TASK;
    for (int i = task * TASK; i < last; i++) {
        const struct translator_input *in = &c->in[i];
        struct coded *to = &t->coded[i];
        *to = (struct coded){0};
        if (utf8_clean_prefix(in->text, in->size) < in->size) continue;
        /* most texts have fewer pieces than bytes */
        int room = (int)min_i64((int64_t)in->size + 1, t->max_tok);
        int32_t *ids = keep_take(keep, (size_t)room * sizeof *ids);
        int n = tokenizer_encode(t->source, in->text, in->size, ids, room);
        if (n >= 0 && (n <= room || room == t->max_tok)) *to = (struct coded){ids, n};
    }
}

static void code_all(struct translator *t, const struct translator_input *in, int n) {
    struct coding coding = {t, in, n};
    for (int i = 0; i < t->n_thread; i++) keep_clear(&t->of_thread[i]);
    if (n > t->cap_coded) {
        t->cap_coded = n;
        t->coded = xrealloc(t->coded, (size_t)n * sizeof *t->coded);
    }
    if (!t->pool || n <= TASK || wants_words(t) || t->options.format == FORMAT_TEXT)
        memset(t->coded, 0, (size_t)n * sizeof *t->coded);
    else
        share(t, code_texts, &coding, (n + TASK - 1) / TASK);
}

/* The tokens of a whole text, at least the first max_tok of them, in t->ids. */
static int recall(struct translator *t, int text, const struct translator_input *in) {
    const struct coded *c = &t->coded[text];
    if (!c->ids) return encode(t, in->text, 0, in->size);
    memcpy(t->ids, c->ids, (size_t)min_int(c->n, t->max_tok) * sizeof *t->ids);
    return c->n;
}

static int decode(const struct translator *t, struct keep *keep, struct candidate *c) {
    char some[1024];
    int size = tokenizer_decode(t->target, c->ids, c->n_tok, some, sizeof some);
    if (size < 0) return size;
    char *text = keep_take(keep, (size_t)size + 1);
    if ((size_t)size < sizeof some)
        memcpy(text, some, (size_t)size + 1);
    else
        tokenizer_decode(t->target, c->ids, c->n_tok, text, (size_t)size + 1);
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\r') *p = ' ';
    c->text = text;
    c->size = strlen(text);
    return 0;
}

/* Puts the words of its line into a candidate's tree. */
static int fill_tree(const struct part *p, struct tree *tree, struct keep *keep,
                     struct candidate *c) {
    struct buffer out = {0};
    int rc = tree_read_row(tree, c->text, c->size, NULL);
    if (!rc) rc = tree_fill(tree, p->line, p->n_line, NULL, NULL);
    if (rc) return rc;
    tree_put(&out, tree);
    char *text = keep_take(keep, out.size + 1);
    memcpy(text, out.text, out.size);
    text[out.size] = 0;
    c->text = text;
    c->size = out.size;
    xfree(out.text);
    return 0;
}

struct reading {
    struct translator *t;
    int *rc; /* [tasks] */
};

static void read_parts(void *ctx, int task, int thread) {
    const struct reading *r = ctx;
    const struct translator *t = r->t;
    int last = min_int(t->n_part - task * TASK, TASK) + task * TASK;
    struct keep *keep = &t->of_thread[thread];
    struct tree tree = {0};
    for (int i = task * TASK; i < last; i++)
        for (int k = 0; k < t->part[i].n && t->part[i].best[k].ids && !r->rc[task]; k++) {
            struct candidate *c = &t->part[i].best[k];
            r->rc[task] = decode(t, keep, c);
            if (t->options.search.trees == TREES_WORDS && !r->rc[task])
                r->rc[task] = fill_tree(&t->part[i], &tree, keep, c);
        }
    tree_release(&tree);
}

/* The texts of all candidates. */
static int read_off(struct translator *t, struct err *err) {
    int n_task = (t->n_part + TASK - 1) / TASK, rc = 0;
    struct reading reading = {t, keep_take(&t->keep, ((size_t)n_task + 1) * sizeof(int))};
    memset(reading.rc, 0, (size_t)n_task * sizeof(int));
    share(t, read_parts, &reading, n_task);
    for (int i = 0; i < n_task && !rc; i++) rc = reading.rc[i];
    return rc ? err_set(err, rc, "a translation cannot be turned into text") : 0;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int count_tokens(void *ctx, const char *text, size_t size) {
    return tokenizer_encode(ctx, text, size, NULL, 0);
}

/* A sentence at text[at..at + size) of n tokens, which is too many. */
static int split(struct translator *t, const struct source *of, const struct passage *sentence,
                 int n, struct err *err) {
    const struct translator_input *in = of->in;
    char why[160];
    struct err inner = {0};
    struct split_part *piece;
    int rc = 0;
    if (t->options.refuse_long || t->options.search.trees) {
        snprintf(why, sizeof why, "%d tokens, and %d at most are translated at a time", n,
                 t->max_tok);
        return fail(in, HEED_ELIMIT, why, err);
    }
    struct split_rule rule = {min_int(t->max_tok, SPLIT_LONGEST), count_tokens,
                              (void *)(uintptr_t)t->source, t->rules};
    int n_piece = split_text(&piece, in->text + sentence->at, sentence->size, &rule, &inner);
    if (n_piece < 0) return fail(in, n_piece, inner.msg, err);
    if (n_piece > 1) of->out->notes |= TRANSLATION_SPLIT;
    for (int i = 0; i < n_piece && !rc; i++) {
        struct passage at = {sentence->at + piece[i].at, piece[i].size};
        int m = encode(t, in->text, at.at, at.size);
        if (m < 0) rc = fail(in, m, "it cannot be tokenised", err);
        if (!rc && m > 0) keep_part(t, of, &at, min_int(m, t->max_tok));
    }
    xfree(piece);
    return rc;
}

/* Can the tree of the last part be written? */
static int check_tree(struct translator *t, const struct source *of, struct err *err) {
    const struct part *p = &t->part[t->n_part - 1];
    int most = longest_target(t, p->n_said) - t->leads, least = brackets_least(p->n_word);
    char why[160];
    if (most >= least) return 0;
    snprintf(why, sizeof why,
             "a tree of its %d words has at least %d tokens, but %d at most are written; raise "
             "max_extra or max_length",
             p->n_word, least, most);
    return fail(of->in, HEED_ELIMIT, why, err);
}

/* The parts of a sentence: one, unless it is too long. */
static int add_sentence(struct translator *t, const struct source *of,
                        const struct passage *sentence, struct err *err) {
    int n = t->options.format == FORMAT_TEXT ? encode(t, of->in->text, sentence->at, sentence->size)
                                             : recall(t, of->text, of->in);
    if (n < 0)
        return fail(of->in, n,
                    n == HEED_ELIMIT ? "it is too long to tokenise" : "it cannot be tokenised",
                    err);
    if (n > t->max_tok) return split(t, of, sentence, n, err);
    /* words that the tokenizer does not see have their place in a tree all the same */
    int tree = t->options.search.trees && tree_words_in(of->in->text, of->in->size) > 0;
    if (n > 0 || (tree && t->ended)) keep_part(t, of, sentence, n);
    return tree ? check_tree(t, of, err) : 0;
}

/* FORMAT_TEXT: what is between sentences goes to the part behind it. */
static int add_passages(struct translator *t, const struct source *of, struct err *err) {
    const struct translator_input *in = of->in;
    struct passages all = passages_of(t->rules, in->text, in->size);
    size_t kept = 0;
    if (in->size > TOKENIZER_MAX_TEXT)
        return fail(in, HEED_ELIMIT, "it is too long to tokenise", err);
    for (struct passage one; passages_next(&all, &one);) {
        int part = t->n_part, rc = add_sentence(t, of, &one, err);
        if (rc) return rc;
        if (t->n_part == part) continue; /* nothing to read in it: kept as well */
        t->part[part].before = in->text + kept;
        t->part[part].n_before = one.at - kept;
        kept = one.at + one.size;
    }
    if (t->n_part == of->first) return 0;
    t->part[t->n_part - 1].after = in->text + kept;
    t->part[t->n_part - 1].n_after = in->size - kept;
    return 0;
}

static int add_prefix(struct translator *t, struct part *p, const struct translator_input *in,
                      struct err *err) {
    char why[160];
    int most = longest_target(t, read_length(t, p)) - 1 - t->leads, room = t->engine->max_len;
    if (!in->prefix || !in->prefix_size) return 0;
    int n = tokenizer_encode(t->target, in->prefix, in->prefix_size, t->ids, room);
    if (n < 0) return fail(in, n, "its prefix cannot be tokenised", err);
    if (n > most) {
        snprintf(why, sizeof why,
                 "its prefix has %d tokens, but its translation may have at most %d", n, most);
        return fail(in, HEED_ELIMIT, why, err);
    }
    int32_t *prefix = keep_take(&t->keep, ((size_t)n + 1) * sizeof *prefix);
    prefix[0] = t->tags.target;
    memcpy(prefix + t->leads, t->ids, (size_t)n * sizeof *prefix);
    p->prefix = prefix;
    p->n_prefix = n + t->leads;
    return 0;
}

/* The parts of one text. */
static int prepare(struct translator *t, int text, const struct translator_input *given,
                   struct translation *out, struct err *err) {
    struct translator_input cleaned = *given, *in = &cleaned;
    int first = t->n_part;
    if (utf8_clean_prefix(in->text, in->size) < in->size) {
        uint64_t n = 0;
        char *clean = keep_take(&t->keep, 3 * in->size + 1);
        in->size = utf8_clean(clean, in->text, in->size, &n);
        in->text = clean;
        out->notes |= TRANSLATION_REPLACED;
    }
    if (in->prefix && utf8_clean_prefix(in->prefix, in->prefix_size) < in->prefix_size)
        out->notes |= TRANSLATION_REPLACED; /* the tokenizer reads it the way it reads the text */
    out->text = in->text;
    out->size = in->size;
    if (wants_words(t) && in->size <= TOKENIZER_MAX_TEXT) {
        words_of_text(&t->words, WORDS_WORDS, in->text, in->size);
        out->word = keep_words(t);
        out->n_word = t->words.n;
    }
    struct source of = {in, out, text, first};
    int rc = t->options.format == FORMAT_TEXT
                 ? add_passages(t, &of, err)
                 : add_sentence(t, &of, &(struct passage){0, in->size}, err);
    out->n_part = t->n_part - first;
    if (!rc && out->n_part > 0) rc = add_prefix(t, &t->part[first], in, err);
    return rc;
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Bytes of a hypothesis of up to `len` tokens: keys and values or states, and a row of logits. */
static size_t hypothesis_bytes(const struct translator *t, int len) {
    size_t sum = 1; /* to divide by */
    for (int m = 0; m < t->engine->n; m++) {
        const struct config *c = &t->engine->model[m]->config;
        enum dtype type = t->engine->model[m]->type;
        size_t row = c->decoder == DECODER_SSRU
                         ? (size_t)c->d_model * dtype_size(dtype_wide(type))
                         : (size_t)c->n_head * (size_t)(c->d_k + c->d_v) * dtype_size(type);
        sum +=
            (size_t)c->n_layer_dec * row * (size_t)len + (size_t)c->n_vocab_tgt * dtype_size(type);
    }
    return sum;
}

/* The most hypotheses of up to `len` tokens in one search. */
static int most_hypotheses(const struct translator *t, int len) {
    if (!backend_device_memory(t->engine->be)) return t->suit.hypotheses;
    size_t fit = backend_available(t->engine->be) / MEMORY_SHARES / hypothesis_bytes(t, len);
    return fit < (size_t)t->suit.hypotheses ? max_int((int)fit, 1) : t->suit.hypotheses;
}

static struct search_caps cut_caps(struct search_caps c, int n_seq) {
    c.n_seq = min_int(c.n_seq, n_seq);
    c.n_tok = min_int(c.n_tok, min_int(c.n_seq, INT32_MAX / c.max_src) * c.max_src);
    return c;
}

/* What a searcher of `width` hypotheses for sentences of least .. max_src tokens has room for. */
static struct search_caps caps_of(const struct translator *t, int width, int least, int max_src) {
    int tokens = t->suit.tokens;
    max_src = min_int(max_src, t->limit);
    struct search_caps c = {max_int(tokens / least, 1), max_int(tokens, max_src), max_src};
    int most = max_int(most_hypotheses(t, longest_target(t, max_src)) / width, 1);
    return cut_caps(c, min_int(t->suit.sentences, most));
}

/* Rooms of the same kind as the part's, by length. */
static struct room *rooms_of(struct translator *t, const struct part *p) {
    int k = 0;
    if (p->width)
        for (k = 1; TERMS_BEAM << (k - 1) < p->width;) k++;
    BUG_ON(k > MAX_WIDTHS);
    return t->room[k];
}

static struct search_marks marks_of(const struct translator *t) {
    struct search_marks marks = engine_marks(t->engine);
    marks.brackets = t->brackets;
    return marks;
}

/* The searcher for the first of the n sentences in `order`, which is the longest of its kind: made
 * when first needed, and, on a device, made larger when more than a few of its length come. */
static int find_room(struct translator *t, const int *order, int n, struct room **found,
                     struct err *err) {
    const struct part *first = &t->part[order[0]];
    struct search_options options = t->options.search;
    if (first->width) options.beam = first->width;
    int longest = first->n_said, wanted = 1;
    int max_src = ROOM_FIRST, least = 1, k = 0;
    for (; max_src < longest; k++) {
        least = max_src + 1; /* the shortest that does not fit in the class below */
        max_src = max_src > INT32_MAX / ROOM_GROWTH ? longest : max_src * ROOM_GROWTH;
    }
    BUG_ON(k >= MAX_ROOMS);
    struct room *room = *found = &rooms_of(t, first)[k];
    if (room->searcher && room->full) return 0;
    while (wanted < n && wanted <= FEW && t->part[order[wanted]].width == first->width &&
           t->part[order[wanted]].n_said >= least)
        wanted++;
    int few = backend_device_memory(t->engine->be) && wanted <= FEW;
    if (room->searcher && few) return 0;
    searcher_free(room->searcher); /* first: both may not fit */
    int width = max_int(options.sample ? options.n_best : options.beam, 1);
    *room = (struct room){.caps = caps_of(t, width, least, max_src), .full = !few};
    if (few) room->caps = cut_caps(room->caps, FEW);
    struct search_setup setup = {.model = t->engine->model,
                                 .n_model = t->engine->n,
                                 .marks = marks_of(t),
                                 .caps = room->caps};
    int rc = searcher_new(&room->searcher, &setup, &options, err);
    if (rc) room->searcher = NULL;
    return rc;
}

/* How many of its terms the best candidate lacks. */
static int count_missed(const struct part *p) {
    struct terms_read read = {0};
    if (!p->terms) return 0;
    struct terms_view v = terms_view(p->terms, &read, p->best[0].ids, p->best[0].n_tok);
    return p->terms->n - v.n_met;
}

/* The searcher's memory is used again by the next batch: what is worth keeping is copied. */
static void keep_result(struct translator *t, struct part *p, const struct search_result *r) {
    p->n = max_int(r->n, 1);
    p->best = keep_take(&t->keep, (size_t)p->n * sizeof *p->best);
    p->best[0] =
        (struct candidate){.text = "", .cut = 1, .score = -INFINITY, .log_prob = -INFINITY};
    for (int k = 0; k < r->n; k++) {
        const struct hypothesis *h = &r->best[k];
        int32_t *ids = keep_take(&t->keep, ((size_t)h->n + 2) * sizeof *ids);
        *ids = t->tags.target; /* for the aligner, as the end mark */
        ids += t->leads;
        if (h->n > 0) memcpy(ids, h->ids, (size_t)h->n * sizeof *ids);
        ids[h->n] = tokenizer_eos(t->target);
        p->best[k] = (struct candidate){
            .ids = ids, .n_tok = h->n, .score = h->score, .log_prob = h->log_prob, .cut = h->cut};
    }
    if (r->n > 0) t->stats.tgt_tokens += (uint64_t)r->best[0].n;
    p->missed += count_missed(p);
}

/* What of a candidate is aligned: its tag, its tokens, and the end mark, which one cut at the
 * model's last position has no place for. */
static int aligned_rows(const struct translator *t, const struct candidate *c) {
    return min_int(t->leads + c->n_tok + 1, t->engine->model[0]->config.max_len);
}

/* One pair per candidate of the batch; their matrices lie one after another in t->matrix. */
static int collect_pairs(struct translator *t, const int *order, int n) {
    size_t need = 0, at = 0;
    int n_pair = 0;
    for (int i = 0; i < n; i++) {
        const struct part *p = &t->part[order[i]];
        n_pair += p->n;
        for (int k = 0; k < p->n; k++)
            need += (size_t)aligned_rows(t, &p->best[k]) * (size_t)read_length(t, p);
    }
    if (n_pair > t->cap_pair) {
        t->cap_pair = n_pair;
        t->pair = xrealloc(t->pair, (size_t)n_pair * sizeof *t->pair);
    }
    if (need > t->cap_matrix) {
        xfree(t->matrix);
        t->matrix = xmalloc(need * sizeof *t->matrix);
        t->cap_matrix = need;
    }
    n_pair = 0;
    for (int i = 0; i < n; i++) {
        const struct part *p = &t->part[order[i]];
        for (int k = 0; k < p->n && p->best[k].ids; k++) {
            t->pair[n_pair++] = (struct align_pair){.src = read_ids(t, p),
                                                    .tgt = p->best[k].ids - t->leads,
                                                    .n_src = read_length(t, p),
                                                    .n_tgt = aligned_rows(t, &p->best[k]),
                                                    .out = t->matrix + at};
            at += (size_t)aligned_rows(t, &p->best[k]) * (size_t)read_length(t, p);
        }
    }
    return n_pair;
}

static void keep_links(struct translator *t, struct candidate *c, const struct align_matrix *m,
                       int src_at) {
    struct align_link *link = keep_take(&t->keep, ((size_t)m->n_row + 1) * sizeof *link);
    c->n_link = align_links(link, m, t->threshold);
    c->link = link;
    for (int i = 0; i < c->n_link; i++) link[i].src += src_at;
}

/* The links of a candidate out of the matrix of its tokens, end marks and tags left out. */
static int link_candidate(struct translator *t, const struct part *p, struct candidate *c,
                          const float *matrix, struct err *err) {
    int length = read_length(t, p);
    struct align_matrix m = {matrix + t->leads * length + t->tagged, c->n_tok, p->n_src - t->ended,
                             length};
    if (!wants_words(t)) {
        keep_links(t, c, &m, 0);
        return 0;
    }
    int n = words_of_ids(&t->words, WORDS_WORDS, t->target, c->ids, c->n_tok), n_src = 0;
    if (n < 0) return err_set(err, n, "a translation cannot be turned into words");
    for (int i = 0; i < m.n_col; i++) n_src = max_int(n_src, p->word[i] + 1);
    c->word = keep_words(t);
    c->n_word = n;
    size_t cells = (size_t)n * (size_t)n_src;
    if (cells > t->cap_of_words) {
        xfree(t->of_words);
        t->cap_of_words = cells;
        t->of_words = xmalloc(cells * sizeof *t->of_words);
    }
    align_to_words(t->of_words, &m, &(struct align_words){p->word, t->words.of, n_src, n});
    keep_links(t, c, &(struct align_matrix){t->of_words, n, n_src, n_src}, p->word_at);
    return 0;
}

static int align_batch(struct translator *t, const int *order, int n, struct err *err) {
    int rc = aligner_run(t->aligner, t->pair, collect_pairs(t, order, n), err);
    const struct align_pair *pair = t->pair;
    for (int i = 0; i < n && !rc; i++) {
        const struct part *p = &t->part[order[i]];
        for (int k = 0; k < p->n && p->best[k].ids && !rc; k++, pair++)
            rc = link_candidate(t, p, &p->best[k], pair->out, err);
    }
    return rc;
}

static int bucket_of(double seconds) {
    double k = log(seconds / 1e-6) / log(1.02); /* from a microsecond to ten minutes */
    return k < 0 ? 0 : k >= LATENCY_BUCKETS ? LATENCY_BUCKETS - 1 : (int)k;
}

double translator_latency(const struct translator_stats *stats, double share) {
    uint64_t sum = 0;
    int k = 0;
    if (!stats->batches) return 0;
    for (; k < LATENCY_BUCKETS - 1; k++) {
        sum += stats->latency[k];
        if ((double)sum >= share * (double)stats->batches && sum > 0) break;
    }
    return 1e-6 * pow(1.02, k + 0.5);
}

static int poll_job(void *ctx) {
    const struct job *job = ctx;
    return job->poll ? job->poll->call(job->poll->ctx, job->done, job->total) : 0;
}

/* Searches the n parts that order[0..n) names. */
static int search_batch(struct translator *t, struct searcher *searcher, const int *order, int n,
                        struct job *job, struct err *err) {
    if (n > t->cap_batch) {
        t->cap_batch = n;
        t->input = xrealloc(t->input, (size_t)n * sizeof *t->input);
        t->result = xrealloc(t->result, (size_t)n * sizeof *t->result);
    }
    for (int i = 0; i < n; i++) {
        const struct part *p = &t->part[order[i]];
        t->input[i] = (struct search_input){.src = p->said,
                                            .n_src = p->n_said,
                                            .prefix = p->prefix,
                                            .n_prefix = p->n_prefix,
                                            .n_lead = t->leads,
                                            .key = p->key,
                                            .terms = p->terms,
                                            .n_word = p->n_word};
        t->stats.src_tokens += (uint64_t)p->n_said;
    }
    double begin = clock_seconds();
    struct search_poll poll = {poll_job, job};
    int rc = searcher_run(searcher, t->input, n, t->result, &poll, err);
    double seconds = clock_seconds() - begin;
    if (rc) return rc;
    t->stats.seconds += seconds;
    search_stats_add(&t->stats.search, searcher_stats(searcher));
    t->stats.batches++;
    t->stats.sentences += (uint64_t)n;
    t->stats.latency[bucket_of(seconds)]++;
    for (int i = 0; i < n; i++) keep_result(t, &t->part[order[i]], &t->result[i]);
    if (t->aligner) rc = align_batch(t, order, n, err);
    job->done += n;
    return rc;
}

/* Those without terms first; longest first, and in the order of the texts where they are equally
 * long. */
static int by_length(const void *a, const void *b, void *ctx) {
    const struct part *part = ctx;
    int i = *(const int *)a, k = *(const int *)b;
    if (part[i].width != part[k].width) return part[i].width < part[k].width ? -1 : 1;
    if (part[i].n_said != part[k].n_said) return part[i].n_said > part[k].n_said ? -1 : 1;
    return i < k ? -1 : i > k;
}

static int search_all(struct translator *t, struct job *job, struct err *err) {
    if (t->n_part > t->cap_order) {
        t->cap_order = t->cap_part;
        t->order = xrealloc(t->order, (size_t)t->cap_order * sizeof *t->order);
    }
    for (int i = 0; i < t->n_part; i++) t->order[i] = i;
    if (t->n_part > 1) qsort_r(t->order, (size_t)t->n_part, sizeof *t->order, by_length, t->part);
    job->total = t->n_part;
    for (int i = 0, n; i < t->n_part; i += n) {
        struct room *room;
        int tokens = 0;
        int rc = find_room(t, t->order + i, t->n_part - i, &room, err);
        if (rc) return rc;
        for (n = 0; i + n < t->n_part && n < room->caps.n_seq; n++) {
            if (t->part[t->order[i + n]].width != t->part[t->order[i]].width) break;
            tokens += t->part[t->order[i + n]].n_said;
            if (tokens > room->caps.n_tok) break;
        }
        rc = search_batch(t, room->searcher, t->order + i, n, job, err);
        if (rc) return rc;
    }
    return 0;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Appends the links and words of a part's candidate: its tokens, words and bytes come behind those
 * that *c has. Links between words count the source's through the whole text already. */
static void join_links(struct candidate *c, struct align_link *link, struct span *word,
                       const struct candidate *p, int src_at) {
    int tgt_at = word ? c->n_word : c->n_tok;
    for (int j = 0; j < p->n_link; j++)
        link[c->n_link++] =
            (struct align_link){p->link[j].src + (word ? 0 : src_at), p->link[j].tgt + tgt_at};
    for (int j = 0; word && j < p->n_word; j++)
        word[c->n_word++] =
            (struct span){p->word[j].begin + (int)c->size, p->word[j].end + (int)c->size};
}

/* Candidate k of a text of several parts. */
static void join(struct translator *t, struct candidate *c, const struct part *part, int n, int k) {
    size_t size = 0, n_tok = 0, n_link = 0, n_word = 0;
    int src_at = 0;
    for (int i = 0; i < n; i++) {
        const struct candidate *p = &part[i].best[min_int(k, part[i].n - 1)];
        size += p->size + part[i].n_before + part[i].n_after + 1;
        n_tok += (size_t)p->n_tok;
        n_link += (size_t)p->n_link;
        n_word += (size_t)p->n_word;
    }
    char *text = keep_take(&t->keep, size + 1);
    int32_t *ids = keep_take(&t->keep, (n_tok + 1) * sizeof *ids);
    struct align_link *link = keep_take(&t->keep, (n_link + 1) * sizeof *link);
    struct span *word = wants_words(t) ? keep_take(&t->keep, (n_word + 1) * sizeof *word) : NULL;
    *c = (struct candidate){
        .text = text, .ids = ids, .link = t->aligner ? link : NULL, .word = word};
    for (int i = 0; i < n; i++) {
        const struct candidate *p = &part[i].best[min_int(k, part[i].n - 1)];
        if (part[i].before)
            c->size +=
                passages_gap(text + c->size, part[i].before, part[i].n_before, text, c->size);
        else if (c->size > 0 && p->size > 0)
            text[c->size++] = ' ';
        join_links(c, link, word, p, src_at);
        if (p->size > 0) memcpy(text + c->size, p->text, p->size);
        c->size += p->size;
        if (p->n_tok > 0) memcpy(ids + c->n_tok, p->ids, (size_t)p->n_tok * sizeof *ids);
        c->n_tok += p->n_tok;
        c->score += p->score;
        c->log_prob += p->log_prob;
        c->cut |= p->cut;
        src_at += part[i].n_src - t->ended;
    }
    if (part[n - 1].n_after) memcpy(text + c->size, part[n - 1].after, part[n - 1].n_after);
    c->size += part[n - 1].n_after;
    text[c->size] = 0;
}

static void join_sources(struct translator *t, struct translation *out, const struct part *part) {
    int32_t *src;
    for (int i = 0; i < out->n_part; i++) out->n_src += part[i].n_src - t->ended;
    out->src = src = keep_take(&t->keep, ((size_t)out->n_src + 1) * sizeof *src);
    for (int i = 0; i < out->n_part; i++) {
        memcpy(src, part[i].src, (size_t)(part[i].n_src - t->ended) * sizeof *src);
        src += part[i].n_src - t->ended;
    }
}

static void assemble(struct translator *t, struct translation *out, const struct part *part) {
    int whole = t->options.format != FORMAT_TEXT; /* nothing is kept around parts */
    if (out->n_part == 0) {
        struct candidate *best = keep_take(&t->keep, sizeof *best);
        size_t size = whole ? 0 : out->size;
        char *text = keep_take(&t->keep, size + 1);
        if (size) memcpy(text, out->text, size);
        text[size] = 0;
        *best = (struct candidate){.text = text, .size = size};
        out->best = best;
        out->n = 1;
        return;
    }
    if (out->n_part == 1 && whole) {
        out->best = part->best;
        out->n = part->n;
        out->src = part->src;
        out->n_src = part->n_src - t->ended;
    } else {
        for (int i = 0; i < out->n_part; i++) out->n = max_int(out->n, part[i].n);
        struct candidate *best = keep_take(&t->keep, (size_t)out->n * sizeof *best);
        for (int k = 0; k < out->n; k++) join(t, &best[k], part, out->n_part, k);
        out->best = best;
        join_sources(t, out, part);
    }
    if (out->best[0].cut) out->notes |= TRANSLATION_CUT;
    for (int i = 0; i < out->n_part; i++)
        if (part[i].missed) out->notes |= TRANSLATION_MISSED;
}

int translator_run(struct translator *t, const struct translator_input *in, int n,
                   struct translation *out, const struct translator_poll *poll, struct err *err) {
    BUG_ON(!t->ready);
    struct job job = {.poll = poll};
    int rc = 0, good = 0;
    double begin = clock_seconds();
    keep_clear(&t->keep);
    code_all(t, in, n);
    t->n_part = 0;
    for (int i = 0; i < n; i++) out[i] = (struct translation){0};
    for (; good < n && !rc; good += !rc) rc = prepare(t, good, &in[good], &out[good], err);
    if (rc) { /* what comes before the bad one is still translated */
        t->n_part -= out[good].n_part;
        out[good] = (struct translation){0};
    }
    t->stats.preparing += clock_seconds() - begin;
    int search_rc = search_all(t, &job, err);
    begin = clock_seconds();
    if (!search_rc) search_rc = read_off(t, err);
    if (search_rc) return search_rc;
    const struct part *part = t->part;
    for (int i = 0; i < good; i++) {
        assemble(t, &out[i], part);
        part += out[i].n_part;
    }
    t->stats.reading += clock_seconds() - begin;
    t->stats.texts += (uint64_t)good;
    return rc;
}

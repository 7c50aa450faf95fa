/* translator_parts.c — texts become parts: cleaned, divided into sentences where they are to be,
 * tokenised, with their terms and prefixes; split where they are too long (split.h). */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "data/passages.h"
#include "data/tree.h"
#include "search/split.h"
#include "search/translator_inside.h"

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
    p->said = part_ids(t, p);
    p->n_said = part_length(t, p);
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

const struct span *translator_keep_words(struct translator *t) {
    size_t size = (size_t)t->words.n * sizeof *t->words.word;
    struct span *word = keep_take(&t->keep, size + 1);
    if (size) memcpy(word, t->words.word, size);
    return word;
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

void translator_code(struct translator *t, const struct translator_input *in, int n) {
    struct coding coding = {t, in, n};
    for (int i = 0; i < t->n_thread; i++) keep_clear(&t->of_thread[i]);
    if (n > t->cap_coded) {
        t->cap_coded = n;
        t->coded = xrealloc(t->coded, (size_t)n * sizeof *t->coded);
    }
    if (!t->pool || n <= TASK || wants_words(t) || t->options.format == FORMAT_TEXT)
        memset(t->coded, 0, (size_t)n * sizeof *t->coded);
    else
        translator_tasks(t, code_texts, &coding, (n + TASK - 1) / TASK);
}

/* The tokens of a whole text, at least the first max_tok of them, in t->ids. */
static int recall(struct translator *t, int text, const struct translator_input *in) {
    const struct coded *c = &t->coded[text];
    if (!c->ids) return encode(t, in->text, 0, in->size);
    memcpy(t->ids, c->ids, (size_t)min_int(c->n, t->max_tok) * sizeof *t->ids);
    return c->n;
}

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
    int most = translator_longest(t, p->n_said) - t->leads, least = brackets_least(p->n_word);
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
    int most = translator_longest(t, part_length(t, p)) - 1 - t->leads, room = t->engine->max_len;
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

int translator_prepare(struct translator *t, int text, const struct translator_input *given,
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
        out->word = translator_keep_words(t);
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

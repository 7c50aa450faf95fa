/* task.c — see task.h. */
#include "serve/task.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "data/passages.h"
#include "data/words.h"
#include "search/split.h"
#include "text/markup.h"

struct document {
    char *text; /* clean */
    size_t size;
    char *given; /* DESK_SCORE */
    size_t given_size;
    struct markup *markup; /* or NULL: a text that has nothing in it that must be kept */
    int first, n_unit;
    int replaced;
    /* what the first parts say, for those who watch: text of n_told parts, from its first on */
    char *told;
    size_t told_size, told_room;
    int n_told;
};

struct unit {
    int document;
    const char *text;
    size_t size, after; /* from there on nothing is translated */
    int first, n_part;
    struct span *word; /* [n_word] if wanted */
    int n_word;
};

/* Where task_next stands: in a unit, in a sentence of it, in a piece of that. */
struct cursor {
    int unit, in_unit;
    struct passages passages;
    struct passage sentence;
    int in_sentence, first_part; /* of the sentence */
    size_t kept;                 /* the unit's text before is spoken for */
    size_t at;                   /* of the sentence: what is before is in pieces */
    struct split_part *piece;    /* or NULL */
    int n_piece, i_piece;
    size_t piece_at; /* of the unit, that pieces count from */
};

struct task {
    struct keep keep;
    enum desk_format format;
    int n_best;
    unsigned extras;
    const struct sentence_rules *rules;
    const struct glossary *glossary;
    struct document *document;
    int n_document;
    struct engine_tags tags;
    struct unit *unit;
    int n_unit;
    struct part **part;
    int n_part, cap_part, n_found;
    struct cursor cursor;
    struct words words; /* scratch, as the next */
    struct words term_words;
    int32_t *ids;
    struct span *span;
    int room;
    float *of_words;
    size_t cap_of_words;
    const struct desk_attention *attention;
    struct desk_answer *answer;
};

unsigned task_extras(const struct task *t) { return t->extras; }
int task_n_best(const struct task *t) { return t->n_best; }
void task_tell(struct task *t, const struct engine_tags *tags) { t->tags = *tags; }
const struct engine_tags *task_told(const struct task *t) { return &t->tags; }
int task_leads(const struct task *t) { return t->tags.target >= 0; }
static int is_tagged(const struct task *t) { return t->tags.source >= 0; }

/* Tokens of a part's text, tag and end mark not counted. */
static int max_tok(const struct task *t, const struct task_facts *f) {
    return f->limit - max_int(f->ended + is_tagged(t), 1 + task_leads(t));
}
int task_documents(const struct task *t) { return t->n_document; }
const struct part *task_first(const struct task *t) { return t->n_part ? t->part[0] : NULL; }
struct keep *task_keep(struct task *t) {
    return &t->keep;
}

static const struct document *document_of(const struct task *t, const struct unit *u) {
    return &t->document[u->document];
}

static int wants_links(const struct task *t, const struct unit *u) {
    return t->extras & DESK_WORDS || document_of(t, u)->markup;
}

int task_wants_links(const struct task *t, const struct part *p) {
    return wants_links(t, &t->unit[p->unit]);
}

/* Is the unit a text, with passages, and not one sentence? */
static int is_text(const struct task *t, const struct unit *u) {
    return t->format == DESK_TEXT && !document_of(t, u)->markup;
}

/* ---- new ------------------------------------------------------------------------------------- */

static char *copy_clean(struct task *t, const char *text, size_t *size, int *replaced) {
    uint64_t n = 0;
    if (!text) *size = 0;
    if (!text || utf8_clean_prefix(text, *size) == *size) return keep_text(&t->keep, text, *size);
    char *clean = xmalloc(3 * *size + 1);
    *size = utf8_clean(clean, text, *size, &n);
    char *copy = keep_text(&t->keep, clean, *size);
    xfree(clean);
    *replaced = 1;
    return copy;
}

/* A text without anything that must be kept needs no markup, which costs links. */
static struct markup *read_markup(const struct task_order *order, const struct document *d) {
    if (order->format == DESK_HTML) return markup_read(d->text, d->size, order->rules);
    if (order->format != DESK_TEXT || order->extras & (DESK_SCORE | DESK_ATTENTION) ||
        !markup_in_text(d->text, d->size))
        return NULL;
    return markup_read_text(d->text, d->size, order->rules);
}

static void add_units(struct task *t, int i) {
    const struct document *d = &t->document[i];
    for (int k = 0; k < d->n_unit; k++) {
        struct unit *u = &t->unit[d->first + k];
        *u = (struct unit){.document = i, .text = d->text, .size = d->size};
        if (d->markup) u->text = markup_text(d->markup, k, &u->size);
        u->after = u->size;
    }
}

struct task *task_new(const struct task_order *order) {
    struct task *t = xcalloc(1, sizeof *t);
    size_t bytes = 0;
    for (int i = 0; i < order->n; i++) bytes += order->text[i].size;
    *t = (struct task){.format = order->format,
                       .n_best = order->n_best,
                       .extras = order->extras,
                       .rules = order->rules,
                       .glossary = order->glossary,
                       .n_document = order->n};
    t->keep.block = bytes < 4096 ? 8192 : 65536;
    t->document = keep_take(&t->keep, (size_t)order->n * sizeof *t->document);
    for (int i = 0; i < order->n; i++) {
        struct document *d = &t->document[i];
        *d = (struct document){.size = order->text[i].size, .first = t->n_unit, .n_unit = 1};
        d->text = copy_clean(t, order->text[i].text, &d->size, &d->replaced);
        d->given_size = order->text[i].given_size;
        if (order->extras & DESK_SCORE)
            d->given = copy_clean(t, order->text[i].given, &d->given_size, &d->replaced);
        d->markup = read_markup(order, d);
        if (d->markup) d->n_unit = markup_count(d->markup);
        t->n_unit += d->n_unit;
    }
    t->unit = keep_take(&t->keep, (size_t)t->n_unit * sizeof *t->unit);
    for (int i = 0; i < order->n; i++) add_units(t, i);
    return t;
}

void task_free(struct task *t) {
    if (!t) return;
    for (int i = 0; i < t->n_document; i++) {
        markup_free(t->document[i].markup);
        xfree(t->document[i].told);
    }
    xfree(t->cursor.piece);
    xfree(t->part);
    words_release(&t->words);
    words_release(&t->term_words);
    xfree(t->ids);
    xfree(t->span);
    xfree(t->of_words);
    keep_release(&t->keep);
    xfree(t);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void make_room(struct task *t, int n) {
    if (n <= t->room) return;
    t->room = n;
    t->ids = xrealloc(t->ids, (size_t)n * sizeof *t->ids);
    t->span = xrealloc(t->span, (size_t)n * sizeof *t->span);
}

/* Tokens of the unit's text[at..at + size) into the scratch, with their bytes if words are
 * wanted. */
static int encode(struct task *t, const struct task_facts *f, const struct unit *u, size_t at,
                  size_t size) {
    int most = max_tok(t, f);
    make_room(t, most);
    if (!wants_links(t, u)) return tokenizer_encode(f->source, u->text + at, size, t->ids, most);
    int n = tokenizer_encode_spans(f->source, u->text + at, size, t->ids, t->span, most);
    for (int i = 0; i < min_int(n, most); i++) {
        t->span[i].begin += (int)at;
        t->span[i].end += (int)at;
    }
    return n;
}

/* The first word of the unit that ends behind `at`. */
static int word_at(const struct unit *u, int at) {
    int low = 0, high = u->n_word;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (u->word[mid].end > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static void map_words(struct task *t, struct part *p, const struct unit *u, int n) {
    int skip = word_at(u, t->span[0].begin);
    p->word = keep_take(&t->keep, (size_t)n * sizeof *p->word);
    words_map(p->word, t->span, n, u->word + skip, u->n_word - skip);
    int least = max_int(p->word[0], 0);
    p->word_at = skip + least;
    for (int i = 0; i < n; i++) p->word[i] = max_int(p->word[i] - least, -1);
}

static void find_terms(struct task *t, const struct task_facts *f, struct part *p, const char *text,
                       size_t size) {
    int tagged = is_tagged(t), most = max_tok(t, f);
    struct glossary_search how = {
        .glossary = t->glossary, .speller = f->speller, .words = &t->term_words, .keep = &t->keep};
    p->terms = glossary_find(&how, text, size);
    if (!p->terms || !f->shares_words) return;
    int32_t *said = keep_take(&t->keep, ((size_t)most + 2) * sizeof *said);
    int n = tokenizer_encode(f->source, how.said, how.n_said, said + tagged, most);
    if (n < 1 || n > most) return;
    said[0] = tagged ? t->tags.source : said[0];
    said[n + tagged] = tokenizer_eos(f->source); /* -1: none, and not looked at */
    p->said = said;
    p->n_said = n + tagged + f->ended;
}

/* The n tokens that encode left of [at, at + size) of the unit, as a part. */
static struct part *add_part(struct task *t, const struct task_facts *f, size_t at, size_t size,
                             int n) {
    struct cursor *c = &t->cursor;
    struct unit *u = &t->unit[c->unit];
    struct part *p = keep_take(&t->keep, sizeof *p);
    int tagged = is_tagged(t);
    if (t->n_part == t->cap_part) {
        t->cap_part = max_int(2 * t->cap_part, 4);
        t->part = xrealloc(t->part, (size_t)t->cap_part * sizeof(struct part *));
    }
    *p = (struct part){.unit = c->unit, .n_src = n + f->ended + tagged, .seat = -1};
    p->key = (uint64_t)u->document ^ (uint64_t)u->n_part << 40;
    p->src = keep_take(&t->keep, ((size_t)n + 2) * sizeof *p->src);
    p->src[0] = t->tags.source;
    memcpy(p->src + tagged, t->ids, (size_t)n * sizeof *p->src);
    p->src[n + tagged] = tokenizer_eos(f->source);
    if (is_text(t, u) && t->n_part == c->first_part) {
        p->before = u->text + c->kept;
        p->n_before = c->sentence.at - c->kept;
        c->kept = c->sentence.at + c->sentence.size;
    }
    p->said = p->src;
    p->n_said = p->n_src;
    if (t->glossary) find_terms(t, f, p, u->text + at, size);
    if (wants_links(t, u)) map_words(t, p, u, n);
    u->n_part++;
    t->part[t->n_part++] = p;
    return p;
}

static int count_tokens(void *ctx, const char *text, size_t size) {
    return tokenizer_encode(ctx, text, size, NULL, 0);
}

/* What of the sentence is tokenised next: all that is left, or of something very long what ends
 * with a word within TASK_PIECE bytes, or in between where no word ends. */
static size_t next_portion(const char *text, size_t size) {
    size_t end = TASK_PIECE;
    if (size <= TASK_PIECE) return size;
    while (end > TASK_PIECE / 2 && text[end - 1] != ' ' && text[end - 1] != '\t') end--;
    if (end > TASK_PIECE / 2) return end;
    for (end = TASK_PIECE; (text[end] & 0xC0) == 0x80; end--) continue;
    return end;
}

static int refuse(const struct task *t, int code, const char *why, struct err *err) {
    int number = t->unit[t->cursor.unit].document;
    if (t->n_document == 1) return err_set(err, code, "the text %s", why);
    return err_set(err, code, "text %d %s", number + 1, why);
}

/* The next portion of the sentence: a part, or pieces that will be. 1: a part; 0: look again. */
static int read_portion(struct task *t, const struct task_facts *f, struct part **part,
                        size_t *work, struct err *err) {
    struct cursor *c = &t->cursor;
    const struct unit *u = &t->unit[c->unit];
    size_t at = c->sentence.at + c->at;
    size_t size = next_portion(u->text + at, c->sentence.size - c->at);
    int n = encode(t, f, u, at, size);
    *work += size;
    c->at += size;
    c->in_sentence = c->at < c->sentence.size;
    if (n < 0) return refuse(t, n, "cannot be tokenised", err);
    if (n > max_tok(t, f)) {
        struct split_rule rule = {min_int(max_tok(t, f), SPLIT_LONGEST), count_tokens,
                                  (void *)(uintptr_t)f->source, t->rules};
        c->n_piece = split_text(&c->piece, u->text + at, size, &rule, err);
        c->i_piece = 0;
        c->piece_at = at;
        *work += 4 * size; /* it counts again and again */
        return c->n_piece < 0 ? c->n_piece : 0;
    }
    if (n == 0) return 0;
    *part = add_part(t, f, at, size, n);
    return 1;
}

static int read_piece(struct task *t, const struct task_facts *f, struct part **part, size_t *work,
                      struct err *err) {
    struct cursor *c = &t->cursor;
    const struct split_part *piece = &c->piece[c->i_piece++];
    size_t at = c->piece_at + piece->at, size = piece->size;
    int n = encode(t, f, &t->unit[c->unit], at, size);
    *work += size;
    if (c->i_piece == c->n_piece) {
        xfree(c->piece);
        c->piece = NULL;
    }
    if (n < 0) return refuse(t, n, "cannot be tokenised", err);
    if (n == 0) return 0;
    *part = add_part(t, f, at, size, min_int(n, max_tok(t, f)));
    return 1;
}

static void begin_unit(struct task *t, size_t *work) {
    struct cursor *c = &t->cursor;
    struct unit *u = &t->unit[c->unit];
    u->first = t->n_part;
    c->in_unit = 1;
    c->kept = 0;
    c->passages = passages_of(t->rules, u->text, u->size);
    if (!wants_links(t, u)) return;
    words_of_text(&t->words, WORDS_WORDS, u->text, u->size);
    *work += u->size / 4;
    u->n_word = t->words.n;
    u->word = keep_take(&t->keep, (size_t)u->n_word * sizeof *u->word);
    if (u->n_word) memcpy(u->word, t->words.word, (size_t)u->n_word * sizeof *u->word);
}

/* Goes to the next sentence of the unit; 0 if there is none. */
static int begin_sentence(struct task *t) {
    struct cursor *c = &t->cursor;
    const struct unit *u = &t->unit[c->unit];
    if (is_text(t, u)) {
        if (!passages_next(&c->passages, &c->sentence)) return 0;
    } else {
        if (c->kept || !u->size) return 0; /* one sentence: all of it */
        c->sentence = (struct passage){0, u->size};
        c->kept = u->size;
    }
    c->in_sentence = 1;
    c->at = 0;
    c->first_part = t->n_part;
    return 1;
}

int task_read(const struct task *t) { return t->cursor.unit == t->n_unit; }
int task_idle(const struct task *t) { return t->n_found == t->n_part; }
int task_done(const struct task *t) { return task_read(t) && task_idle(t); }

int task_next(struct task *t, const struct task_facts *f, struct part **part, size_t *work,
              struct err *err) {
    struct cursor *c = &t->cursor;
    size_t least = *work;
    while (c->unit < t->n_unit && *work - least < TASK_PIECE) {
        int rc = 0;
        if (!c->in_unit) begin_unit(t, work);
        if (c->piece)
            rc = read_piece(t, f, part, work, err);
        else if (c->in_sentence || begin_sentence(t))
            rc = read_portion(t, f, part, work, err);
        else {
            if (is_text(t, &t->unit[c->unit])) t->unit[c->unit].after = c->kept;
            c->in_unit = 0;
            c->unit++;
        }
        *work += 8;
        if (rc) return rc;
    }
    return 0;
}

/* ---- what was found -------------------------------------------------------------------------- */

static int decode(struct task *t, const struct task_facts *f, struct part_candidate *c) {
    char some[1024];
    int size = tokenizer_decode(f->target, c->ids, c->n, some, sizeof some);
    if (size < 0) return size;
    c->text = keep_take(&t->keep, (size_t)size + 1);
    if ((size_t)size < sizeof some)
        memcpy(c->text, some, (size_t)size + 1);
    else
        tokenizer_decode(f->target, c->ids, c->n, c->text, (size_t)size + 1);
    for (char *p = c->text; *p; p++)
        if (*p == '\n' || *p == '\r') *p = ' ';
    c->size = strlen(c->text);
    return 0;
}

int task_found(struct task *t, const struct task_facts *f, struct part *p,
               const struct search_result *r, struct err *err) {
    int rc = 0;
    p->n = max_int(r->n, 1);
    p->best = keep_take(&t->keep, (size_t)p->n * sizeof *p->best);
    p->best[0] = (struct part_candidate){.cut = 1, .score = -INFINITY, .log_prob = -INFINITY};
    p->best[0].text = keep_text(&t->keep, "", 0);
    for (int k = 0; k < r->n && !rc; k++) {
        const struct hypothesis *h = &r->best[k];
        struct part_candidate *c = &p->best[k];
        *c = (struct part_candidate){
            .n = h->n, .score = h->score, .log_prob = h->log_prob, .cut = h->cut};
        c->ids = keep_take(&t->keep, ((size_t)h->n + 2) * sizeof *c->ids);
        *c->ids = t->tags.target; /* for the aligner, as the end mark */
        c->ids += task_leads(t);
        if (h->n) memcpy(c->ids, h->ids, (size_t)h->n * sizeof *c->ids);
        c->ids[h->n] = tokenizer_eos(f->target);
        if (task_wants_links(t, p) && h->n) {
            c->token_log_prob = keep_take(&t->keep, (size_t)h->n * sizeof *c->token_log_prob);
            memcpy(c->token_log_prob, h->token_log_prob, (size_t)h->n * sizeof *c->token_log_prob);
        }
        rc = decode(t, f, c);
    }
    t->n_found++;
    return rc ? err_set(err, rc, "a translation cannot be turned into text") : 0;
}

/* The words of tokens whose log-probabilities are known; t->words knows which word each is of. */
static struct desk_word *sure_words(struct task *t, const float *log_prob) {
    int n = t->words.n;
    struct desk_word *word = keep_take(&t->keep, ((size_t)n + 1) * sizeof *word);
    int *pieces = xcalloc((size_t)n + 1, sizeof *pieces);
    for (int i = 0; i < n; i++) word[i] = (struct desk_word){t->words.word[i], 0};
    for (int i = 0; i < t->words.n_piece; i++) {
        int at = t->words.of[i];
        if (at < 0) continue;
        word[at].confidence += log_prob[i];
        pieces[at]++;
    }
    for (int i = 0; i < n; i++)
        word[i].confidence = pieces[i] ? expf(word[i].confidence / (float)pieces[i]) : 1;
    xfree(pieces);
    return word;
}

int task_link(struct task *t, const struct task_facts *f, struct part *p, int k,
              const float *matrix, struct err *err) {
    struct part_candidate *c = &p->best[k];
    int tagged = is_tagged(t), n_src = 0;
    struct align_matrix m = {matrix + task_leads(t) * p->n_src + tagged, c->n,
                             p->n_src - f->ended - tagged, p->n_src};
    int n = words_of_ids(&t->words, WORDS_WORDS, f->target, c->ids, c->n);
    if (n < 0) return err_set(err, n, "a translation cannot be turned into words");
    for (int i = 0; i < m.n_col; i++) n_src = max_int(n_src, p->word[i] + 1);
    c->word = sure_words(t, c->token_log_prob);
    c->n_word = n;
    size_t cells = (size_t)n * (size_t)n_src;
    if (cells > t->cap_of_words) {
        t->cap_of_words = cells;
        t->of_words = xrealloc(t->of_words, cells * sizeof *t->of_words);
    }
    c->link = keep_take(&t->keep, ((size_t)n + 1) * sizeof *c->link);
    if (!cells) return 0;
    align_to_words(t->of_words, &m, &(struct align_words){p->word, t->words.of, n_src, n});
    c->n_link =
        align_links(c->link, &(struct align_matrix){t->of_words, n, n_src, n_src}, f->threshold);
    for (int i = 0; i < c->n_link; i++) c->link[i].src += p->word_at;
    return 0;
}

/* ---- partial --------------------------------------------------------------------------------- */

static const struct part_candidate *candidate_of(const struct part *p, int k) {
    return &p->best[min_int(k, p->n - 1)];
}

static void tell(struct document *d, const char *text, size_t size) {
    if (d->told_size + size + 1 > d->told_room) {
        d->told_room = 2 * (d->told_size + size + 64);
        d->told = xrealloc(d->told, d->told_room);
    }
    if (size) memcpy(d->told + d->told_size, text, size);
    d->told_size += size;
    d->told[d->told_size] = 0;
}

/* What parts part i of all from what is told before it. */
static void tell_gap(struct task *t, struct document *d, int i, int has_text) {
    const struct part *p = t->part[i];
    const char *before = p->before;
    size_t size = p->n_before;
    if (d->markup && i == t->unit[p->unit].first)
        before = markup_before(d->markup, p->unit - d->first, &size);
    if (before) {
        char *gap = xmalloc(size + 1);
        tell(d, gap, passages_gap(gap, before, size, d->told, d->told_size));
        xfree(gap);
    } else if (d->told_size && has_text) {
        tell(d, " ", 1);
    }
}

int task_partial(struct task *t, const struct task_facts *f, const struct part *p,
                 const struct carousel_view *view, struct desk_partial *out) {
    struct document *d = &t->document[t->unit[p->unit].document];
    int first = t->unit[d->first].first;
    struct part_candidate now = {.ids = (int32_t *)(uintptr_t)view->ids, .n = view->n};
    char some[2048], settled[2048];
    tell(d, "", 0);
    for (const struct part *q; (q = t->part[first + d->n_told]) != p; d->n_told++) {
        if (!q->n) return 0;
        tell_gap(t, d, first + d->n_told, q->best[0].size > 0);
        tell(d, q->best[0].text, q->best[0].size);
    }
    int n = tokenizer_decode(f->target, now.ids, now.n, some, sizeof some);
    int m = tokenizer_decode(f->target, now.ids, view->n_settled, settled, sizeof settled);
    if (n < 0 || m < 0 || (size_t)n >= sizeof some || (size_t)m >= sizeof settled) return 0;
    size_t before = d->told_size, same = 0;
    tell_gap(t, d, first + d->n_told, n > 0);
    while (same < (size_t)min_int(n, m) && some[same] == settled[same]) same++;
    while (same && same < (size_t)n && (some[same] & 0xC0) == 0x80) same--;
    out->text = (int)(d - t->document);
    out->settled = d->markup ? 0 : d->told_size + same; /* what is kept comes at the end */
    tell(d, some, (size_t)n);
    out->out = d->told;
    out->size = d->told_size;
    d->told_size = before; /* the part itself is not done yet */
    return 1;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A candidate of a unit, as its parts make it. */
struct joined {
    char *text;
    size_t size;
    float score, log_prob;
    int cut;
    struct desk_word *word;
    int n_word;
    struct align_link *link;
    int n_link;
    struct span *source; /* [n_source] the words of the document */
    int n_source;
};

/* Words and links of a part's candidate behind those that *c has; its text begins at c->size. */
static void join_words(struct joined *c, const struct part_candidate *p) {
    for (int i = 0; i < p->n_link; i++)
        c->link[c->n_link++] = (struct align_link){p->link[i].src, p->link[i].tgt + c->n_word};
    for (int i = 0; i < p->n_word; i++) {
        struct desk_word *w = &c->word[c->n_word++];
        *w = p->word[i];
        w->at.begin += (int)c->size;
        w->at.end += (int)c->size;
    }
}

static void join(struct task *t, const struct unit *u, int k, struct joined *c) {
    size_t size = u->size - u->after, n_word = 0, n_link = 0;
    *c = (struct joined){.source = u->word, .n_source = u->n_word};
    if (!u->n_part) {
        c->size = is_text(t, u) ? u->size : 0;
        c->text = keep_text(&t->keep, u->text, c->size);
        return;
    }
    for (int i = 0; i < u->n_part; i++) {
        const struct part *part = t->part[u->first + i];
        const struct part_candidate *p = candidate_of(part, k);
        size += p->size + part->n_before + 1;
        n_word += (size_t)p->n_word;
        n_link += (size_t)p->n_link;
    }
    c->text = keep_take(&t->keep, size + 1);
    c->word = keep_take(&t->keep, (n_word + 1) * sizeof *c->word);
    c->link = keep_take(&t->keep, (n_link + 1) * sizeof *c->link);
    for (int i = 0; i < u->n_part; i++) {
        const struct part *part = t->part[u->first + i];
        const struct part_candidate *p = candidate_of(part, k);
        if (part->before)
            c->size +=
                passages_gap(c->text + c->size, part->before, part->n_before, c->text, c->size);
        else if (c->size > 0 && p->size > 0)
            c->text[c->size++] = ' ';
        join_words(c, p);
        if (p->size) memcpy(c->text + c->size, p->text, p->size);
        c->size += p->size;
        c->score += p->score;
        c->log_prob += p->log_prob;
        c->cut |= p->cut;
    }
    if (u->after < u->size) memcpy(c->text + c->size, u->text + u->after, u->size - u->after);
    c->size += u->size - u->after;
    c->text[c->size] = 0;
}

/* The words of a text that has been written, as they are in it; `of` has those of its units. */
static void take_words(struct task *t, const struct markup_words *w, const struct joined *of,
                       struct joined *out) {
    out->n_source = w->n_source;
    out->source = keep_take(&t->keep, ((size_t)w->n_source + 1) * sizeof *out->source);
    if (w->n_source) memcpy(out->source, w->source, (size_t)w->n_source * sizeof *out->source);
    out->n_link = w->n_link;
    out->link = keep_take(&t->keep, ((size_t)w->n_link + 1) * sizeof *out->link);
    if (w->n_link) memcpy(out->link, w->link, (size_t)w->n_link * sizeof *out->link);
    out->n_word = w->n_target;
    out->word = keep_take(&t->keep, ((size_t)w->n_target + 1) * sizeof *out->word);
    for (int i = 0; i < w->n_target; i++) {
        const struct markup_word *word = &w->target[i];
        float sure = word->word < 0 ? 1 : of[word->answer].word[word->word].confidence;
        out->word[i] = (struct desk_word){word->at, sure};
    }
}

static void write_page(struct task *t, const struct document *d, int k, struct joined *out) {
    struct markup_answer *answer = xcalloc((size_t)d->n_unit + 1, sizeof *answer);
    struct joined *of = xcalloc((size_t)d->n_unit + 1, sizeof *of);
    struct markup_words words = {0};
    *out = (struct joined){0};
    for (int i = 0; i < d->n_unit; i++) {
        const struct unit *u = &t->unit[d->first + i];
        struct joined c;
        join(t, u, k, &c);
        of[i] = c;
        struct span *target = keep_take(&t->keep, ((size_t)c.n_word + 1) * sizeof *target);
        for (int j = 0; j < c.n_word; j++) target[j] = c.word[j].at;
        answer[i] = (struct markup_answer){.text = c.text,
                                           .size = c.size,
                                           .source = u->word,
                                           .n_source = u->n_word,
                                           .target = target,
                                           .n_target = c.n_word,
                                           .link = c.link,
                                           .n_link = c.n_link};
        out->score += c.score;
        out->log_prob += c.log_prob;
        out->cut |= c.cut;
    }
    int worded = t->extras & DESK_WORDS;
    char *page = markup_write_words(d->markup, answer, &out->size, worded ? &words : NULL);
    out->text = keep_text(&t->keep, page, out->size);
    if (worded) take_words(t, &words, of, out);
    markup_words_release(&words);
    xfree(page);
    xfree(of);
    xfree(answer);
}

static int says_new(const struct desk_candidate *best, int n, const struct joined *c) {
    for (int i = 0; i < n; i++)
        if (best[i].size == c->size && memcmp(best[i].text, c->text, c->size) == 0) return 0;
    return 1;
}

static void answer_document(struct task *t, const struct document *d, struct desk_answer *a) {
    int most = 1;
    a->replaced = d->replaced;
    for (int i = d->first; i < d->first + d->n_unit; i++) {
        a->n_sentence += t->unit[i].n_part;
        for (int p = 0; p < t->unit[i].n_part; p++)
            most = max_int(most, t->part[t->unit[i].first + p]->n);
    }
    struct desk_candidate *best = keep_take(&t->keep, (size_t)most * sizeof *best);
    for (int k = 0; k < most; k++) {
        struct joined c;
        if (d->markup)
            write_page(t, d, k, &c);
        else
            join(t, &t->unit[d->first], k, &c);
        if (says_new(best, a->n, &c))
            best[a->n++] = (struct desk_candidate){c.text, c.size, c.score, c.log_prob, c.cut};
        if (k || !(t->extras & DESK_WORDS)) continue;
        a->source = d->text;
        a->source_size = d->size;
        a->word = c.source;
        a->n_word = c.n_source;
        a->translated = c.word;
        a->n_translated = c.n_word;
        a->link = c.link;
        a->n_link = c.n_link;
    }
    a->best = best;
}

static struct desk_answer *answers(struct task *t) {
    if (t->answer) return t->answer;
    size_t size = (size_t)t->n_document * sizeof *t->answer;
    t->answer = keep_take(&t->keep, size);
    memset(t->answer, 0, size);
    return t->answer;
}

const struct desk_answer *task_finish(struct task *t, int *n) {
    struct desk_answer *a = answers(t);
    for (int i = 0; i < t->n_document && !(t->extras & DESK_SCORE); i++)
        answer_document(t, &t->document[i], &a[i]);
    a[0].attention = t->attention;
    *n = t->n_document;
    return a;
}

void task_attention(struct task *t, const struct desk_attention *attention) {
    t->attention = attention;
}

/* ---- given translations ---------------------------------------------------------------------- */

/* A text with room for a tag before it. */
static int encode_whole(struct task *t, const struct task_facts *f, int source,
                        const struct document *d, int32_t **ids) {
    const struct tokenizer *side = source ? f->source : f->target;
    int most = max_tok(t, f);
    make_room(t, most);
    int n = tokenizer_encode(side, source ? d->text : d->given, source ? d->size : d->given_size,
                             t->ids, most);
    if (n < 0 || n > most) return n < 0 ? n : HEED_ELIMIT;
    *ids = keep_take(&t->keep, ((size_t)n + 2) * sizeof **ids);
    memcpy(*ids + 1, t->ids, (size_t)n * sizeof **ids);
    (*ids)++[0] = source ? t->tags.source : t->tags.target;
    (*ids)[n] = tokenizer_eos(side);
    return n + (tokenizer_eos(side) >= 0);
}

int task_pair(struct task *t, const struct task_facts *f, int i, struct task_pair *pair,
              struct err *err) {
    const struct document *d = &t->document[i];
    int tagged = is_tagged(t);
    if (d->size > TASK_PIECE || d->given_size > TASK_PIECE)
        return err_set(err, HEED_ELIMIT,
                       "text %d or its translation has more than the %d bytes that can be scored",
                       i + 1, TASK_PIECE);
    pair->n_src = encode_whole(t, f, 1, d, &pair->src);
    pair->n_tgt = encode_whole(t, f, 0, d, &pair->tgt);
    int bad = min_int(pair->n_src, pair->n_tgt);
    if (bad < 0)
        return err_set(err, bad,
                       "text %d or its translation has more than the %d tokens that the model "
                       "takes, or cannot be tokenised",
                       i + 1, max_tok(t, f));
    pair->src -= tagged;
    pair->n_src += tagged;
    return 0;
}

void task_scored(struct task *t, const struct task_facts *f, int i, const struct task_pair *pair,
                 const float *log_prob) {
    const struct document *d = &t->document[i];
    struct desk_answer *a = &answers(t)[i];
    struct desk_candidate *best = keep_take(&t->keep, sizeof *best);
    *best = (struct desk_candidate){.text = d->given, .size = d->given_size};
    for (int k = 0; k < pair->n_tgt; k++) best->log_prob += log_prob[k];
    best->score = best->log_prob;
    *a = (struct desk_answer){.best = best,
                              .n = 1,
                              .n_sentence = 1,
                              .replaced = d->replaced,
                              .source = d->text,
                              .source_size = d->size,
                              .n_piece = pair->n_tgt};
    if (words_encode(&t->words, WORDS_WORDS, f->target, d->given, d->given_size) != pair->n_tgt - 1)
        return;
    a->n_translated = t->words.n;
    a->translated = sure_words(t, log_prob);
}

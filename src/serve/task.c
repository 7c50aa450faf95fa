/* task.c — texts into parts, and what was found: see task_inside.h. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "serve/task_inside.h"

unsigned task_extras(const struct task *t) { return t->extras; }
int task_n_best(const struct task *t) { return t->n_best; }
void task_tell(struct task *t, const struct engine_tags *tags) { t->tags = *tags; }
const struct engine_tags *task_told(const struct task *t) { return &t->tags; }
int task_leads(const struct task *t) { return t->tags.target >= 0; }
int task_documents(const struct task *t) { return t->n_document; }
const struct part *task_first(const struct task *t) { return t->n_part ? t->part[0] : NULL; }
struct keep *task_keep(struct task *t) {
    return &t->keep;
}

static int wants_links(const struct task *t, const struct unit *u) {
    return t->extras & DESK_WORDS || task_document_of(t, u)->markup;
}

int task_wants_links(const struct task *t, const struct part *p) {
    return wants_links(t, &t->unit[p->unit]);
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

void task_make_room(struct task *t, int n) {
    if (n <= t->room) return;
    t->room = n;
    t->ids = xrealloc(t->ids, (size_t)n * sizeof *t->ids);
    t->span = xrealloc(t->span, (size_t)n * sizeof *t->span);
}

/* Tokens of the unit's text[at..at + size) into the scratch, with their bytes if words are
 * wanted. */
static int encode(struct task *t, const struct task_facts *f, const struct unit *u, size_t at,
                  size_t size) {
    int most = task_max_tok(t, f);
    task_make_room(t, most);
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
    int tagged = task_is_tagged(t), most = task_max_tok(t, f);
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
    int tagged = task_is_tagged(t);
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
    if (task_is_text(t, u) && t->n_part == c->first_part) {
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
    if (n > task_max_tok(t, f)) {
        struct split_rule rule = {min_int(task_max_tok(t, f), SPLIT_LONGEST), count_tokens,
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
    *part = add_part(t, f, at, size, min_int(n, task_max_tok(t, f)));
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
    if (task_is_text(t, u)) {
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
            if (task_is_text(t, &t->unit[c->unit])) t->unit[c->unit].after = c->kept;
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

struct desk_word *task_sure_words(struct task *t, const float *log_prob) {
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
    int tagged = task_is_tagged(t), n_src = 0;
    struct align_matrix m = {matrix + task_leads(t) * p->n_src + tagged, c->n,
                             p->n_src - f->ended - tagged, p->n_src};
    int n = words_of_ids(&t->words, WORDS_WORDS, f->target, c->ids, c->n);
    if (n < 0) return err_set(err, n, "a translation cannot be turned into words");
    for (int i = 0; i < m.n_col; i++) n_src = max_int(n_src, p->word[i] + 1);
    c->word = task_sure_words(t, c->token_log_prob);
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

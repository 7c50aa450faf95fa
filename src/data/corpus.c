/* corpus.c — opens and reads the cache files of corpus.h; corpus_build.c writes them.
 *
 * corpus_open believes nothing: checksums find damage, and since a checksum can be forged, every number is
 * also checked for what reading relies on (entries lie inside the ids, in order and without gaps; ids are
 * below n_vocab). After that, corpus_pair needs no checks. */
#include "data/corpus.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "data/corpus_file.h"

/* Bytes looked at before their pages are given back; a multiple of the page size and of every widtt. */
enum { WINDOW = 4 << 20 };

/* ---------------------------------------------------------------------------------- checking ----- */

static int bad(const char *path, const char *what, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%s: not a usable corpus cache: %s", path, what);
}

/* What the trailer alone must satisfy, and that the file has exactly the size it implies. */
static const char *check_trailer(const struct corpus_trailer *t, size_t size) {
    if (memcmp(t->magic, CORPUS_MAGIC, sizeof t->magic) != 0) return "it begins with other bytes";
    if (t->version != CORPUS_VERSION) return "another version of the format";
    if (XXH3_64bits(t, offsetof(struct corpus_trailer, trailer_hash)) != t->trailer_hash)
        return "its trailer is damaged";
    if (t->n_vocab < 1 || t->n_vocab > INT32_MAX || t->eos >= t->n_vocab) return "bad vocabulary";
    if (t->width != (uint32_t)corpus_width((int32_t)t->n_vocab)) return "bad width of ids";
    if (t->max_src < 1 || t->max_src > CORPUS_MAX_LEN || t->max_tgt < 1 ||
        t->max_tgt > CORPUS_MAX_LEN)
        return "bad sentence lengths";
    const uint64_t limit = UINT64_C(1) << 56;
    if (t->n_pair < 1 || t->n_pair > limit || t->n_src_tok > limit || t->n_tgt_tok > limit)
        return "bad counts";
    uint64_t ids = (t->n_src_tok + t->n_tgt_tok) * t->width;
    uint64_t want = sizeof *t + (ids + 7) / 8 * 8 + t->n_pair * sizeof(struct corpus_entry);
    if (size != want) return "its size does not fit its trailer: truncated?";
    return NULL;
}

static struct corpus_entry entry_at(const struct corpus *c, int64_t i) {
    struct corpus_entry entry;
    memcpy(&entry, c->index + (size_t)i * sizeof entry, sizeof entry);
    return entry;
}

static void forget_range(const struct corpus *c, size_t from, size_t to) {
    if (c->map.data) madvise((void *)(c->map.data + from), to - from, MADV_DONTNEED);
}

static const char *check_index(const struct corpus *c) {
    uint64_t at = 0, n_src = 0;
    for (int64_t i = 0; i < c->n_pair; i++) {
        struct corpus_entry e = entry_at(c, i);
        if (e.start != at || e.n_src < 1 || e.n_src > (uint32_t)c->max_src || e.n_tgt < 1 ||
            e.n_tgt > (uint32_t)c->max_tgt)
            return "a bad entry in its index";
        at += (uint64_t)e.n_src + e.n_tgt;
        n_src += e.n_src;
        if ((i + 1) % (WINDOW / (int)sizeof e) == 0) corpus_forget(c);
    }
    corpus_forget(c);
    bool sums = n_src == c->report.n_src_tok && at - n_src == c->report.n_tgt_tok;
    return sums ? NULL : "its index does not cover its ids";
}

static uint32_t id_at(const unsigned char *ids, size_t i, int width) {
    uint16_t narrow;
    uint32_t wide;
    if (width == 2) return memcpy(&narrow, ids + 2 * i, sizeof narrow), narrow;
    return memcpy(&wide, ids + 4 * i, sizeof wide), wide;
}

/* The checksum of everything before the trailer, and ids within the vocabulary. */
static const char *check_body(const struct corpus *c, uint64_t want) {
    const size_t n_id = (size_t)(c->report.n_src_tok + c->report.n_tgt_tok);
    const size_t ids_end = n_id * (size_t)c->width;
    const size_t end = c->size - sizeof(struct corpus_trailer);
    uint32_t largest = 0;
    XXH3_state_t *hash = XXH3_createState();
    BUG_ON(!hash);
    XXH3_64bits_reset(hash);
    for (size_t from = 0; from < end; from += WINDOW) {
        size_t to = end - from < WINDOW ? end : from + WINDOW;
        size_t n_here =
            from < ids_end ? ((to < ids_end ? to : ids_end) - from) / (size_t)c->width : 0;
        XXH3_64bits_update(hash, c->data + from, to - from);
        for (size_t i = 0; i < n_here; i++) {
            uint32_t id = id_at(c->data + from, i, c->width);
            largest = id > largest ? id : largest;
        }
        forget_range(c, from, to);
    }
    uint64_t got = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    if (got != want) return "its data is damaged";
    return largest < (uint32_t)c->n_vocab ? NULL : "an id outside the vocabulary";
}

/* ---------------------------------------------------------------------------------- opening ------ */

static struct corpus_report report_of(const struct corpus_trailer *t) {
    struct corpus_report r = {.n_read = t->n_read,
                              .n_kept = t->n_pair,
                              .n_src_tok = t->n_src_tok,
                              .n_tgt_tok = t->n_tgt_tok,
                              .n_replaced = t->n_replaced,
                              .first_replaced = t->first_replaced,
                              .reused = 1};
    memcpy(r.n_dropped, t->n_dropped, sizeof r.n_dropped);
    memcpy(r.first_dropped, t->first_dropped, sizeof r.first_dropped);
    return r;
}

static int open_bytes(struct corpus *c, const char *path, struct err *err) {
    struct corpus_trailer t;
    if (c->size < sizeof t) return bad(path, "too short", err);
    memcpy(&t, c->data + c->size - sizeof t, sizeof t);
    const char *wrong = check_trailer(&t, c->size);
    if (wrong) return bad(path, wrong, err);
    memcpy(c->key, t.key, sizeof c->key);
    c->n_pair = (int64_t)t.n_pair;
    c->n_vocab = (int32_t)t.n_vocab;
    c->eos = (int32_t)t.eos;
    c->max_src = (int)t.max_src;
    c->max_tgt = (int)t.max_tgt;
    c->width = (int)t.width;
    c->report = report_of(&t);
    c->ids = c->data;
    c->index = c->data + c->size - sizeof t - t.n_pair * sizeof(struct corpus_entry);
    wrong = check_body(c, t.body_hash);
    if (!wrong) wrong = check_index(c);
    return wrong ? bad(path, wrong, err) : 0;
}

int corpus_open_memory(struct corpus *corpus, const void *data, size_t size, struct err *err) {
    *corpus = (struct corpus){.data = data, .size = size};
    int rc = open_bytes(corpus, "memory", err);
    if (rc) corpus_close(corpus);
    return rc;
}

int corpus_open(struct corpus *corpus, const char *path, struct err *err) {
    *corpus = (struct corpus){0};
    int rc = file_map_open(&corpus->map, path, err);
    if (rc) return rc;
    corpus->data = corpus->map.data;
    corpus->size = corpus->map.size;
    rc = open_bytes(corpus, path, err);
    if (rc) return corpus_close(corpus), rc;
    /* Pairs are read all over the file: reading ahead would only fill memory with neighbours. */
    madvise((void *)corpus->map.data, corpus->map.size, MADV_RANDOM);
    return 0;
}

void corpus_close(struct corpus *corpus) {
    file_map_close(&corpus->map);
    *corpus = (struct corpus){0};
}

/* ---------------------------------------------------------------------------------- reading ------ */

void corpus_lengths(const struct corpus *c, int64_t i, int *n_src, int *n_tgt) {
    BUG_ON(i < 0 || i >= c->n_pair);
    struct corpus_entry e = entry_at(c, i);
    *n_src = (int)e.n_src;
    *n_tgt = (int)e.n_tgt;
}

static void widen(int32_t *to, const unsigned char *ids, uint64_t start, uint32_t n, int width) {
    ids += start * (uint64_t)width;
    if (width == 4) {
        memcpy(to, ids, n * sizeof *to);
        return;
    }
    for (uint32_t i = 0; i < n; i++) to[i] = (int32_t)id_at(ids, i, 2);
}

void corpus_pair(const struct corpus *c, int64_t i, int32_t *src, int *n_src, int32_t *tgt,
                 int *n_tgt) {
    BUG_ON(i < 0 || i >= c->n_pair);
    struct corpus_entry e = entry_at(c, i);
    widen(src, c->ids, e.start, e.n_src, c->width);
    widen(tgt, c->ids, e.start + e.n_src, e.n_tgt, c->width);
    *n_src = (int)e.n_src;
    *n_tgt = (int)e.n_tgt;
}

void corpus_forget(const struct corpus *c) { forget_range(c, 0, c->size); }

/* ---------------------------------------------------------------------------------- report ------- */

const char *corpus_drop_text(enum corpus_drop why) {
    static const char *const text[] = {
#define CORPUS_DROP_STRING(name, string) string,
        CORPUS_DROP_MAP(CORPUS_DROP_STRING)
#undef CORPUS_DROP_STRING
    };
    BUG_ON((unsigned)why >= CORPUS_N_DROP);
    return text[why];
}

/* Appends to text[size] at *at; what does not fit is cut. */
static void append(char *text, size_t size, size_t *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void append(char *text, size_t size, size_t *at, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text + *at, size - *at, fmt, args);
    va_end(args);
    if (n > 0) *at += (size_t)n < size - *at ? (size_t)n : size - *at - 1;
}

void corpus_report_text(const struct corpus_report *r, char *text, size_t size) {
    if (size == 0) return;
    size_t at = 0;
    append(text, size, &at, "%" PRIu64 " pairs read, %" PRIu64 " kept", r->n_read, r->n_kept);
    const char *between = "; dropped: ";
    for (int why = 0; why < CORPUS_N_DROP; why++) {
        if (!r->n_dropped[why]) continue;
        append(text, size, &at, "%s%" PRIu64 " %s (first: line %" PRIu64 ")", between,
               r->n_dropped[why], corpus_drop_text((enum corpus_drop)why), r->first_dropped[why]);
        between = ", ";
    }
    if (r->n_replaced)
        append(text, size, &at,
               "; %" PRIu64 " bad UTF-8 sequences replaced (first: line %" PRIu64 ")",
               r->n_replaced, r->first_replaced);
}

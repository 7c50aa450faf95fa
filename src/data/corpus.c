/* corpus.c — opens and reads the cache files of corpus.h; corpus_build.c writes them.
 *
 * corpus_open trusts nothing: checksums find damage, and since a checksum can be forged, every
 * number is also checked for what reading relies on (places lie inside the ids, in order and
 * without gaps; ids are below n_vocab). Places and ids are checked once more when they are read,
 * which costs nothing beside the reading: another program may have written into the file since. */
#include "data/corpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/num.h"
#include "data/corpus_file.h"
#include "data/piecelinks.h"

/* Bytes checked at a time; a multiple of the size of every id and place. */
enum { WINDOW = 3 << 17 };

/* ---- access ---------------------------------------------------------------------------------- */

/* Reads n parts that lie one after another in the file, all of them or fails. */
static int read_at(const struct corpus *c, struct iovec *part, int n, uint64_t at,
                   struct err *err) {
    size_t want = 0;
    for (int i = 0; i < n; i++) want += part[i].iov_len;
    BUG_ON(at > c->size || want > c->size - at);
    if (!c->is_file) {
        for (int i = 0; i < n; i++) {
            memcpy(part[i].iov_base, c->data + at, part[i].iov_len);
            at += part[i].iov_len;
        }
        return 0;
    }
    ssize_t got;
    do got = preadv(c->fd, part, n, (off_t)at);
    while (got < 0 && errno == EINTR);
    if (got >= 0 && (size_t)got == want) return 0;
    /* Regular files give all there is at once: less means that the file has become shorter. */
    return err_set(err, HEED_EIO, "corpus cache: %s",
                   got < 0 ? strerror(errno) : "the file was cut short while in use");
}

static int changed(struct err *err) {
    return err_set(err, HEED_EIO, "corpus cache: the file was changed while in use");
}

static uint64_t count_ids(const struct corpus *c) {
    return c->report.n_src_tok + c->report.n_tgt_tok + c->n_link_id;
}

static uint64_t index_end(const struct corpus *c) {
    return c->size - sizeof(struct corpus_trailer) - corpus_links_size(c->has_links);
}

static uint64_t index_at(const struct corpus *c) {
    return index_end(c) - (uint64_t)c->n_pair * corpus_place_size(c->has_links);
}

static uint64_t place_end(const struct corpus_place *p) {
    return (uint64_t)p->n_src + (uint64_t)p->n_tgt + (uint64_t)p->n_link_id;
}

static bool place_is_good(const struct corpus *c, const struct corpus_place *p) {
    return p->n_src >= 1 && p->n_src <= c->max_src && p->n_tgt >= 1 && p->n_tgt <= c->max_tgt &&
           p->n_link >= 0 && p->n_link <= LINKS_PER_TOKEN * (p->n_src + p->n_tgt) &&
           p->n_link_id >= 0 && p->n_link_id <= p->n_link * LINK_BYTES / c->width + 1 &&
           p->start <= count_ids(c) && place_end(p) <= count_ids(c) - p->start;
}

int corpus_find(const struct corpus *c, int64_t i, struct corpus_place *place, struct err *err) {
    BUG_ON(i < 0 || i >= c->n_pair);
    size_t size = corpus_place_size(c->has_links);
    struct iovec part = {place, size};
    *place = (struct corpus_place){0};
    int rc = read_at(c, &part, 1, index_at(c) + (uint64_t)i * size, err);
    if (rc) return rc;
    return place_is_good(c, place) ? 0 : changed(err);
}

/* Ids of two bytes at the end of the buffer become ids of four that fill it; true if all are below
 * n_vocab. The writing never overtakes the reading. */
static bool unpack(int32_t *ids, int n, int width, int32_t n_vocab) {
    const unsigned char *from = (unsigned char *)(ids + n) - 2 * n;
    bool good = true;
    for (int i = 0; i < n; i++) {
        if (width == 2) {
            uint16_t id;
            memcpy(&id, from + 2 * i, sizeof id);
            ids[i] = id;
        }
        good &= (uint32_t)ids[i] < (uint32_t)n_vocab;
    }
    return good;
}

int corpus_read(const struct corpus *c, const struct corpus_place *place, int32_t *src,
                int32_t *tgt, struct err *err) {
    BUG_ON(!place_is_good(c, place));
    size_t n_src = (size_t)place->n_src * (size_t)c->width;
    size_t n_tgt = (size_t)place->n_tgt * (size_t)c->width;
    struct iovec part[2] = {{(unsigned char *)(src + place->n_src) - n_src, n_src},
                            {(unsigned char *)(tgt + place->n_tgt) - n_tgt, n_tgt}};
    int rc = read_at(c, part, 2, place->start * (uint64_t)c->width, err);
    if (rc) return rc;
    bool good_src = unpack(src, place->n_src, c->width, c->n_vocab);
    bool good_tgt = unpack(tgt, place->n_tgt, c->width, c->n_vocab);
    return good_src && good_tgt ? 0 : changed(err);
}

int corpus_read_links(const struct corpus *c, const struct corpus_place *place,
                      struct piece_link *link, int32_t *scratch, struct err *err) {
    BUG_ON(!place_is_good(c, place));
    size_t size = (size_t)place->n_link_id * (size_t)c->width;
    uint64_t at = place->start + (uint64_t)place->n_src + (uint64_t)place->n_tgt;
    struct iovec part = {scratch, size};
    int rc = place->n_link ? read_at(c, &part, 1, at * (uint64_t)c->width, err) : 0;
    if (rc) return rc;
    /* No link reaches the end marks. */
    return piecelinks_unpack(link, place->n_link, (const unsigned char *)scratch, size,
                             place->n_src - 1, place->n_tgt - 1)
               ? changed(err)
               : 0;
}

/* ---- checking -------------------------------------------------------------------------------- */

static int bad(const char *path, const char *what, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%.150s: not a usable corpus cache: %s", path, what);
}

/* What the trailer alone must satisfy. */
static const char *check_trailer(const struct corpus_trailer *t) {
    if (memcmp(t->magic, CORPUS_MAGIC, sizeof t->magic) != 0) return "it begins with other bytes";
    if (t->version != CORPUS_VERSION && t->version != CORPUS_LINKED)
        return "another version of the format";
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
    return NULL;
}

/* Does the file have exactly the size that trailer and links imply? */
static bool size_fits(const struct corpus *c) {
    if (c->n_link_id > UINT64_C(1) << 56) return false;
    uint64_t ids = count_ids(c) * (uint64_t)c->width;
    uint64_t index = (uint64_t)c->n_pair * corpus_place_size(c->has_links);
    return c->size == (ids + 7) / 8 * 8 + index + corpus_links_size(c->has_links) +
                          sizeof(struct corpus_trailer);
}

/* What one pass over the file looks at. */
struct scan {
    XXH3_state_t *hash;
    unsigned char *window;
    uint64_t next, n_src, n_link_id; /* ids, source ids and links' before the next place */
    uint32_t largest;                /* id */
    bool index_bad;
};

static void scan_ids(struct scan *scan, const unsigned char *data, size_t n, int width) {
    uint32_t largest = scan->largest;
    for (size_t i = 0; i < n; i++) {
        uint16_t narrow;
        uint32_t id;
        if (width == 2)
            memcpy(&narrow, data + 2 * i, sizeof narrow), id = narrow;
        else
            memcpy(&id, data + 4 * i, sizeof id);
        largest = id > largest ? id : largest;
    }
    scan->largest = largest;
}

static void scan_places(struct scan *scan, const struct corpus *c, const unsigned char *data,
                        size_t n) {
    size_t size = corpus_place_size(c->has_links);
    for (size_t i = 0; i < n && !scan->index_bad; i++) {
        struct corpus_place place = {0};
        memcpy(&place, data + i * size, size);
        scan->index_bad = place.start != scan->next || !place_is_good(c, &place);
        scan->next += place_end(&place);
        scan->n_src += (uint64_t)place.n_src;
        scan->n_link_id += (uint64_t)place.n_link_id;
    }
}

/* Reads [from, to) in windows, adds it to the checksum and hands it on. */
static int scan_part(struct scan *scan, const struct corpus *c, uint64_t from, uint64_t to,
                     struct err *err) {
    bool is_index = from == index_at(c), is_rest = from == index_end(c);
    for (; from < to; from += WINDOW) {
        size_t n = to - from < WINDOW ? (size_t)(to - from) : WINDOW;
        int rc = read_at(c, &(struct iovec){scan->window, n}, 1, from, err);
        if (rc) return rc;
        XXH3_64bits_update(scan->hash, scan->window, n);
        if (is_rest) continue;
        if (is_index)
            scan_places(scan, c, scan->window, n / corpus_place_size(c->has_links));
        else
            scan_ids(scan, scan->window, n / (size_t)c->width, c->width);
    }
    return 0;
}

/* The checksum of everything before the trailer, ids within the vocabulary, an index that covers
 * them. */
static int check_body(const struct corpus *c, const char *path, uint64_t want, struct err *err) {
    struct scan scan = {.hash = XXH3_createState(), .window = xmalloc(WINDOW)};
    BUG_ON(!scan.hash);
    XXH3_64bits_reset(scan.hash);
    /* The zeros between ids and index pass as ids. */
    int rc = scan_part(&scan, c, 0, index_at(c), err);
    if (!rc) rc = scan_part(&scan, c, index_at(c), index_end(c), err);
    if (!rc) rc = scan_part(&scan, c, index_end(c), c->size - sizeof(struct corpus_trailer), err);
    uint64_t got = XXH3_64bits_digest(scan.hash);
    XXH3_freeState(scan.hash);
    xfree(scan.window);
    if (rc) return rc;
    if (got != want) return bad(path, "its data is damaged", err);
    /* Links lie among the ids and may be anything; there, ids are checked when they are read. */
    if (scan.largest >= (uint32_t)c->n_vocab && !c->has_links)
        return bad(path, "an id is too large", err);
    if (scan.index_bad || scan.next != count_ids(c) || scan.n_src != c->report.n_src_tok ||
        scan.n_link_id != c->n_link_id)
        return bad(path, "its index does not fit its ids", err);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

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

/* What a corpus with links says about them. */
static int read_links_header(struct corpus *c, struct err *err) {
    struct corpus_links l;
    if (c->size < sizeof l + sizeof(struct corpus_trailer)) return 0; /* which does not fit */
    int rc = read_at(c, &(struct iovec){&l, sizeof l}, 1, index_end(c), err);
    if (rc) return rc;
    c->n_link_id = l.n_id;
    c->report.n_linked = l.n_linked;
    c->report.n_unlinked = l.n_unlinked;
    c->report.first_unlinked = l.first_unlinked;
    return 0;
}

static int open_checked(struct corpus *c, const char *path, struct err *err) {
    struct corpus_trailer t;
    if (c->size < sizeof t) return bad(path, "too short", err);
    int rc = read_at(c, &(struct iovec){&t, sizeof t}, 1, c->size - sizeof t, err);
    if (rc) return rc;
    const char *wrong = check_trailer(&t);
    if (wrong) return bad(path, wrong, err);
    memcpy(c->key, t.key, sizeof c->key);
    c->n_pair = (int64_t)t.n_pair;
    c->n_vocab = (int32_t)t.n_vocab;
    c->eos = (int32_t)t.eos;
    c->max_src = (int)t.max_src;
    c->max_tgt = (int)t.max_tgt;
    c->width = (int)t.width;
    c->report = report_of(&t);
    c->has_links = t.version == CORPUS_LINKED;
    if (c->has_links && (rc = read_links_header(c, err))) return rc;
    if (!size_fits(c)) return bad(path, "its size does not fit its trailer: truncated?", err);
    return check_body(c, path, t.body_hash, err);
}

int corpus_open_memory(struct corpus *corpus, const void *data, size_t size, struct err *err) {
    *corpus = (struct corpus){.data = data, .size = size};
    int rc = open_checked(corpus, "memory", err);
    if (rc) corpus_close(corpus);
    return rc;
}

int corpus_open(struct corpus *corpus, const char *path, struct err *err) {
    struct stat st;
    *corpus = (struct corpus){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    corpus->is_file = corpus->fd >= 0;
    if (!corpus->is_file || fstat(corpus->fd, &st)) {
        int rc = err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
        corpus_close(corpus);
        return rc;
    }
    corpus->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    int rc = open_checked(corpus, path, err);
    if (rc) return corpus_close(corpus), rc;
    /* Pairs are read all over the file: reading ahead would only fetch neighbours nobody asked
     * for. */
    posix_fadvise(corpus->fd, 0, 0, POSIX_FADV_RANDOM);
    return 0;
}

void corpus_close(struct corpus *corpus) {
    if (corpus->is_file) close(corpus->fd);
    *corpus = (struct corpus){0};
}

/* ---- report ---------------------------------------------------------------------------------- */

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
    char a[28], b[28];
    append(text, size, &at, "%s pair%s read, %s kept", num_grouped(a, r->n_read), PLURAL(r->n_read),
           num_grouped(b, r->n_kept));
    const char *between = "; dropped: ";
    for (int why = 0; why < CORPUS_N_DROP; why++) {
        if (!r->n_dropped[why]) continue;
        append(text, size, &at, "%s%s %s (first: line %s)", between,
               num_grouped(a, r->n_dropped[why]), corpus_drop_text((enum corpus_drop)why),
               num_grouped(b, r->first_dropped[why]));
        between = ", ";
    }
    if (r->n_replaced)
        append(text, size, &at, "; %s bad UTF-8 sequence%s replaced (first: line %s)",
               num_grouped(a, r->n_replaced), PLURAL(r->n_replaced),
               num_grouped(b, r->first_replaced));
    if (r->n_linked || r->n_unlinked)
        append(text, size, &at, "; %s aligned", num_grouped(a, r->n_linked));
    if (r->n_unlinked)
        append(text, size, &at, ", %s alignment%s ignored that do%s not fit (first: line %s)",
               num_grouped(a, r->n_unlinked), PLURAL(r->n_unlinked), r->n_unlinked == 1 ? "es" : "",
               num_grouped(b, r->first_unlinked));
}

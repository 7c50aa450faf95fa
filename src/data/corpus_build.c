/* corpus_build.c — from two text files, and perhaps one of links, to the cache file of corpus.h.
 *
 * Lines are read in chunks of bounded size; the pool tokenises a chunk in tasks of consecutive
 * pairs; the results are written in order. Ids go straight to the file, index entries to a nameless
 * side file that is copied behind the ids at the end, so that memory holds one chunk whatever the
 * corpus.
 *
 * One build at a time works in a cache directory, under its lock; a second process waits and then
 * finds the cache made. The lock dies with its holder, and the next one removes what a killed build
 * left. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/pool.h"
#include "data/corpus.h"
#include "data/corpus_file.h"
#include "data/piecelinks.h"
#include "data/text.h"
#include "data/words.h"

enum { CHUNK_PAIRS = 4096, CHUNK_TEXT = 1 << 20, TASK_PAIRS = 64 };
enum { N_TASK = CHUNK_PAIRS / TASK_PAIRS, KEPT = -1 };
enum { SRC, TGT, LINKS, N_SIDE };

struct side {
    const char *path;
    struct stat before; /* when the build began */
    struct text *text;
    char *chunk; /* lines of the chunk, one after another */
    size_t used;
};

/* One pair of the chunk: its text, then what became of it. */
struct pair {
    size_t at[N_SIDE], size[N_SIDE];
    unsigned flags[N_SIDE];
    int n[2], drop;        /* tokens; enum corpus_drop or KEPT */
    int n_link, n_link_id; /* as in struct corpus_place */
    bool unlinked;         /* its links do not fit */
};

/* What a thread works with. */
struct bench {
    int32_t *ids[2];     /* [max_len] */
    struct words *words; /* [2] with links, as the following */
    struct links links;
    struct piece_link *link; /* [cap_link] */
    unsigned char *packed;   /* [cap_link * LINK_BYTES + 4] */
};

/* The ids of a task's kept pairs in the file's width, one after another. */
struct task {
    unsigned char *ids;
    size_t used, cap;
    int rc;
    struct err err;
};

struct builder {
    struct corpus_options o; /* with defaults filled in */
    struct side side[N_SIDE];
    int n_side; /* 2, or 3 with links */
    struct pool *pool;
    struct bench *bench; /* [threads] */
    int cap_link;        /* most that a pair may have */
    struct pair *pair;
    int n_pair; /* in the chunk */
    struct task *task;
    struct file_writer out;
    bool out_open;
    FILE *index;
    XXH3_state_t *hash;
    uint64_t n_id; /* written, links included */
    uint64_t n_link_id;
    struct corpus_trailer trailer;
    struct corpus_report report;
};

static int progress(const struct corpus_options *o, const struct corpus_progress *p,
                    struct err *err) {
    int rc = o->progress ? o->progress(o->progress_ctx, p) : 0;
    return rc < 0 ? err_set(err, (enum heed_status)rc, "reading the corpus was stopped") : 0;
}

/* ---- options --------------------------------------------------------------------------------- */

static const struct corpus_encoder *encoder_of(const struct corpus_options *o, int which) {
    return which == TGT && o->target.encode ? &o->target : &o->encoder;
}

static int fill_in(struct corpus_options *o, struct err *err) {
    if (!o->src || !o->tgt || !o->cache_dir || !o->encoder.encode)
        return err_set(err, HEED_EINVAL, "corpus: texts, cache directory or tokenizer not given");
    if (!o->max_len) o->max_len = 256;
    if (!o->min_len) o->min_len = 2;
    if (o->ratio == 0) o->ratio = 9;
    if (!o->ratio_above) o->ratio_above = 10;
    if (o->max_len < 2 || o->max_len > CORPUS_MAX_LEN)
        return err_set(err, HEED_EINVAL, "longest sentence: %d is not between 2 and %d tokens",
                       o->max_len, CORPUS_MAX_LEN);
    if (o->min_len < 1 || o->min_len > o->max_len)
        return err_set(err, HEED_EINVAL, "shortest sentence: %d is not between 1 and %d tokens",
                       o->min_len, o->max_len);
    if (!(o->ratio >= 1) || o->ratio_above < 0)
        return err_set(err, HEED_EINVAL, "length ratio: %g is less than 1", o->ratio);
    for (int which = SRC; which <= TGT; which++) {
        const struct corpus_encoder *e = encoder_of(o, which);
        int least = which == SRC && o->target.encode ? -1 : 0;
        if (e->n_vocab < 1 || e->eos < least || e->eos >= e->n_vocab)
            return err_set(err, HEED_EINVAL, "tokenizer: end mark %d in a vocabulary of %d", e->eos,
                           e->n_vocab);
        if (e->has_first && (e->first < 0 || e->first >= e->n_vocab))
            return err_set(err, HEED_EINVAL, "tokenizer: first token %d in a vocabulary of %d",
                           e->first, e->n_vocab);
        if (o->links && !e->words)
            return err_set(err, HEED_EINVAL, "corpus: links, but a tokenizer that knows no words");
        if (o->links && (e->has_first || e->eos < 0))
            return err_set(err, HEED_EINVAL,
                           "corpus: links need sentences that begin with their first word and have "
                           "an end mark");
    }
    return 0;
}

/* ---- key ------------------------------------------------------------------------------------- */

static int look_at(struct stat *st, const char *path, struct err *err) {
    if (stat(path, st)) return err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
    if (!S_ISREG(st->st_mode))
        return err_set(err, HEED_EINVAL, "%.180s: not a regular file; a corpus is read twice",
                       path);
    return 0;
}

int corpus_check_text(const char *path, struct err *err) {
    struct stat st;
    struct text *text = NULL;
    int rc = look_at(&st, path, err);
    if (!rc) rc = text_open(&text, path, err);
    text_close(text);
    return rc;
}

struct hashing {
    const struct corpus_options *o;
    struct corpus_progress p;
};

static int show_hashing(void *ctx, uint64_t bytes, struct err *err) {
    struct hashing *h = ctx;
    h->p.bytes_done += bytes;
    return progress(h->o, &h->p, err);
}

/* Everything the ids depend on. Hashed as bytes, so it has no padding. */
struct identity {
    uint64_t text[2][2];
    unsigned char encoder[CORPUS_KEY_SIZE];
    double ratio;
    int32_t version, n_vocab, eos, max_len, min_len, ratio_above;
    uint64_t links[2], link_unit; /* without links, neither is hashed */
};

/* What encodes: a tokenizer, or all there is to say about two. */
static void hash_encoders(unsigned char hash[CORPUS_KEY_SIZE], const struct corpus_options *o) {
    struct {
        unsigned char hash[CORPUS_KEY_SIZE];
        int32_t n_vocab, eos, has_first, first;
    } all[2];
    XXH128_canonical_t key;
    memcpy(hash, o->encoder.hash, CORPUS_KEY_SIZE);
    if (!o->target.encode && !o->encoder.has_first) return;
    for (int i = SRC; i <= TGT; i++) {
        const struct corpus_encoder *e = encoder_of(o, i);
        memcpy(all[i].hash, e->hash, sizeof all[i].hash);
        all[i].n_vocab = e->n_vocab;
        all[i].eos = e->eos;
        all[i].has_first = !!e->has_first;
        all[i].first = e->has_first ? e->first : 0;
    }
    _Static_assert(sizeof all == 2 * (CORPUS_KEY_SIZE + 16), "no padding is hashed");
    XXH128_canonicalFromHash(&key, XXH3_128bits(all, sizeof all));
    memcpy(hash, &key, sizeof key);
}

static int find_key(struct builder *b, struct err *err) {
    const struct corpus_options *o = &b->o;
    struct identity id = {.ratio = o->ratio,
                          .version = o->links ? CORPUS_LINKED : CORPUS_VERSION,
                          .n_vocab = o->encoder.n_vocab,
                          .eos = o->encoder.eos,
                          .max_len = o->max_len,
                          .min_len = o->min_len,
                          .ratio_above = o->ratio_above,
                          .link_unit = (uint64_t)o->link_unit};
    hash_encoders(id.encoder, o);
    struct hashing h = {.o = o, .p = {.phase = CORPUS_HASHING}};
    for (int i = 0; i < b->n_side; i++) h.p.bytes_total += (uint64_t)b->side[i].before.st_size;
    for (int i = 0; i < b->n_side; i++) {
        uint64_t *to = i == LINKS ? id.links : id.text[i];
        int rc = text_hash(to, b->side[i].path, show_hashing, &h, err);
        if (rc) return rc;
    }
    XXH128_canonical_t key;
    size_t size = o->links ? sizeof id : offsetof(struct identity, links);
    XXH128_canonicalFromHash(&key, XXH3_128bits(&id, size));
    _Static_assert(sizeof key == CORPUS_KEY_SIZE, "a 128-bit key");
    _Static_assert(sizeof id == 32 + CORPUS_KEY_SIZE + 8 + 24 + 24, "no padding is hashed");
    memcpy(b->trailer.key, &key, sizeof key);
    return 0;
}

static int check_unchanged(const struct side *side, struct err *err) {
    struct stat now;
    int rc = look_at(&now, side->path, err);
    if (rc) return rc;
    const struct stat *was = &side->before;
    if (now.st_size != was->st_size || now.st_ino != was->st_ino || now.st_dev != was->st_dev ||
        now.st_mtim.tv_sec != was->st_mtim.tv_sec || now.st_mtim.tv_nsec != was->st_mtim.tv_nsec)
        return err_set(err, HEED_EIO, "%.180s: changed while it was being read", side->path);
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Appends a line to the side's part of the chunk. 1: done; 0: the text has ended. */
static int read_line(struct side *side, struct pair *pair, int which, struct err *err) {
    struct line line;
    int rc = text_next(side->text, &line, err);
    if (rc <= 0) return rc;
    pair->at[which] = side->used;
    pair->size[which] = line.size;
    pair->flags[which] = line.flags;
    memcpy(side->chunk + side->used, line.text, line.size);
    side->used += line.size;
    return 1;
}

/* Counts what is left of two texts, of which one is longer, and says how many lines each has. */
static int unequal(const struct side *a, const struct side *b, const char *rule, struct err *err) {
    const struct side *side[2] = {a, b};
    unsigned long long n[2];
    for (int i = 0; i < 2; i++) {
        struct line line;
        int rc;
        while ((rc = text_next(side[i]->text, &line, err)) > 0) continue;
        if (rc < 0) return rc;
        n[i] = text_counts(side[i]->text).lines;
    }
    return err_set(err, HEED_EFORMAT, "%.70s has %llu lines and %.70s has %llu: %s", a->path, n[0],
                   b->path, n[1], rule);
}

/* The next line of every text. 1: done; 0: all have ended. */
static int read_pair(struct builder *b, struct pair *pair, struct err *err) {
    int got[N_SIDE] = {0};
    for (int i = 0; i < b->n_side; i++)
        if ((got[i] = read_line(&b->side[i], pair, i, err)) < 0) return got[i];
    if (got[SRC] != got[TGT])
        return unequal(&b->side[SRC], &b->side[TGT], "line i must translate line i", err);
    if (b->o.links && got[SRC] != got[LINKS])
        return unequal(&b->side[SRC], &b->side[LINKS], "line i must align pair i", err);
    return got[SRC];
}

/* The next chunk of pairs; none when both texts have ended. */
static int read_chunk(struct builder *b, struct err *err) {
    b->n_pair = 0;
    for (int i = 0; i < b->n_side; i++) b->side[i].used = 0;
    while (b->n_pair < CHUNK_PAIRS && b->side[SRC].used < CHUNK_TEXT &&
           b->side[TGT].used < CHUNK_TEXT && b->side[LINKS].used < CHUNK_TEXT) {
        int rc = read_pair(b, &b->pair[b->n_pair], err);
        if (rc <= 0) return rc;
        b->n_pair++;
    }
    return 0;
}

/* ---- tokenising ------------------------------------------------------------------------------ */

/* Ids that a line may have besides those of the marks around it. */
static int room_of(const struct builder *b, const struct corpus_encoder *e) {
    return b->o.max_len - (e->eos >= 0) - (e->has_first != 0);
}

/* The ids of a line, at most room_of of them, behind the first; with links, also its words. */
static int encode(const struct builder *b, const struct pair *pair, int which, struct bench *bench,
                  struct err *err) {
    const struct corpus_encoder *e = encoder_of(&b->o, which);
    const char *text = b->side[which].chunk + pair->at[which];
    int32_t *ids = bench->ids[which] + (e->has_first != 0);
    int most = room_of(b, e);
    if (!b->o.links) return e->encode(e->ctx, ids, most, text, pair->size[which], err);
    struct words *words = &bench->words[which];
    int n = e->words(e->ctx, words, b->o.link_unit, text, pair->size[which], err);
    if (n > 0 && n <= most) memcpy(ids, words->ids, (size_t)n * sizeof *ids);
    return n;
}

/* One side of a pair: n[which] tokens with what is put around them at ids. Returns the reason to
 * drop it, KEPT if there is none, or a status below KEPT. */
static int encode_side(const struct builder *b, struct pair *pair, int which, struct bench *bench,
                       struct err *err) {
    const struct corpus_encoder *e = encoder_of(&b->o, which);
    int32_t *ids = bench->ids[which];
    int first = e->has_first != 0;
    pair->n[which] = 0;
    if (pair->flags[which] & LINE_TOO_LONG) return CORPUS_TOO_LONG;
    if (pair->size[which] == 0) return CORPUS_EMPTY;
    int n = encode(b, pair, which, bench, err);
    if (n < 0) return n - 1;
    if (n == 0) return CORPUS_EMPTY;
    if (n > room_of(b, e)) return CORPUS_TOO_LONG;
    for (int i = first; i < first + n; i++) BUG_ON(ids[i] < 0 || ids[i] >= e->n_vocab);
    if (first) ids[0] = e->first;
    if (e->eos >= 0) ids[first + n] = e->eos;
    pair->n[which] = first + n + (e->eos >= 0);
    return n + 1 < b->o.min_len ? CORPUS_TOO_SHORT : KEPT;
}

static int judge(const struct builder *b, const struct pair *pair, const int drop[2]) {
    if (drop[0] != KEPT || drop[1] != KEPT) {
        if (drop[0] == KEPT || drop[1] == KEPT) return drop[0] == KEPT ? drop[1] : drop[0];
        return drop[0] < drop[1] ? drop[0] : drop[1]; /* reasons are in order of precedence */
    }
    int longer = pair->n[0] > pair->n[1] ? pair->n[0] : pair->n[1];
    int shorter = pair->n[0] + pair->n[1] - longer;
    return longer > b->o.ratio_above && longer > b->o.ratio * shorter ? CORPUS_RATIO : KEPT;
}

static unsigned char *extend(struct task *task, size_t size) {
    if (size > task->cap - task->used) {
        task->cap = 2 * (task->used + size);
        task->ids = xrealloc(task->ids, task->cap);
    }
    task->used += size;
    return task->ids + task->used - size;
}

static void append_ids(struct task *task, const int32_t *ids, int n, int width) {
    size_t size = (size_t)n * (size_t)width;
    unsigned char *to = extend(task, size);
    if (width == 4) {
        memcpy(to, ids, size);
        return;
    }
    for (int i = 0; i < n; i++) {
        uint16_t id = (uint16_t)ids[i];
        memcpy(to + 2 * i, &id, sizeof id);
    }
}

/* The links of a line of the chunk, exchanged, to bench->links. */
static int parse_links(const struct builder *b, const struct pair *pair, struct bench *bench,
                       struct err *err) {
    const struct side *side = &b->side[LINKS];
    struct err why;
    int rc =
        links_parse(&bench->links, NULL, side->chunk + pair->at[LINKS], pair->size[LINKS], &why);
    if (rc)
        return err_set(err, (enum heed_status)rc, "%.150s, line %llu: %s", side->path,
                       (unsigned long long)b->report.n_read + (unsigned long long)(pair - b->pair) +
                           1,
                       why.msg);
    links_turn(&bench->links);
    return 0;
}

/* Behind the ids of a kept pair its links, packed. */
static void append_links(struct builder *b, struct pair *pair, struct bench *bench,
                         struct task *task) {
    struct link_side side[2];
    int n = -1;
    for (int i = 0; i < 2; i++)
        side[i] = (struct link_side){bench->words[i].of, pair->n[i] - 1, bench->words[i].n};
    if (bench->links.n <= b->cap_link)
        n = piecelinks_of_words(bench->link, &bench->links, &side[SRC], &side[TGT]);
    pair->unlinked = pair->flags[LINKS] & LINE_TOO_LONG || n < 0 ||
                     n > LINKS_PER_TOKEN * (pair->n[SRC] + pair->n[TGT]);
    if (pair->unlinked || n == 0) return;
    size_t width = b->trailer.width, size = piecelinks_pack(bench->packed, bench->link, n);
    pair->n_link = n;
    pair->n_link_id = (int)((size + width - 1) / width);
    memset(bench->packed + size, 0, width);
    size = (size_t)pair->n_link_id * width;
    memcpy(extend(task, size), bench->packed, size);
}

static int run_pair(struct builder *b, struct pair *pair, struct bench *bench, struct task *task) {
    int drop[2], rc;
    pair->n_link = pair->n_link_id = pair->unlinked = 0;
    for (int k = 0; k < 2; k++) {
        drop[k] = encode_side(b, pair, k, bench, &task->err);
        if (drop[k] < KEPT) return drop[k] + 1;
    }
    pair->drop = judge(b, pair, drop);
    if (b->o.links && (rc = parse_links(b, pair, bench, &task->err))) return rc;
    if (pair->drop != KEPT) return 0;
    for (int k = 0; k < 2; k++) append_ids(task, bench->ids[k], pair->n[k], (int)b->trailer.width);
    if (b->o.links) append_links(b, pair, bench, task);
    return 0;
}

static void run_task(void *ctx, int index, int thread) {
    struct builder *b = ctx;
    struct task *task = &b->task[index];
    task->used = 0;
    task->rc = 0;
    int end = (index + 1) * TASK_PAIRS < b->n_pair ? (index + 1) * TASK_PAIRS : b->n_pair;
    for (int i = index * TASK_PAIRS; i < end && !task->rc; i++)
        task->rc = run_pair(b, &b->pair[i], &b->bench[thread], task);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put(struct builder *b, const void *data, size_t size) {
    file_writer_write(&b->out, data, size);
    XXH3_64bits_update(b->hash, data, size);
}

/* Counts a pair and, if it is kept, adds its entry to the index. */
static int record(struct builder *b, const struct pair *pair, struct err *err) {
    struct corpus_report *r = &b->report;
    struct corpus_trailer *t = &b->trailer;
    r->n_read++;
    if (((pair->flags[0] | pair->flags[1]) & LINE_REPLACED) && !r->first_replaced)
        r->first_replaced = r->n_read;
    if (pair->drop != KEPT) {
        if (r->n_dropped[pair->drop]++ == 0) r->first_dropped[pair->drop] = r->n_read;
        return 0;
    }
    struct corpus_place entry = {b->n_id, pair->n[0], pair->n[1], pair->n_link, pair->n_link_id};
    b->n_id += (uint64_t)(entry.n_src + entry.n_tgt) + (uint64_t)entry.n_link_id;
    b->n_link_id += (uint64_t)entry.n_link_id;
    r->n_linked += entry.n_link > 0;
    if (pair->unlinked && r->n_unlinked++ == 0) r->first_unlinked = r->n_read;
    if ((uint32_t)entry.n_src > t->max_src) t->max_src = (uint32_t)entry.n_src;
    if ((uint32_t)entry.n_tgt > t->max_tgt) t->max_tgt = (uint32_t)entry.n_tgt;
    r->n_kept++;
    r->n_src_tok += (uint64_t)entry.n_src;
    r->n_tgt_tok += (uint64_t)entry.n_tgt;
    if (fwrite(&entry, corpus_place_size(b->n_side > LINKS), 1, b->index) == 1) return 0;
    return err_set(err, HEED_EIO, "%.180s: cannot write the index: %s", b->o.cache_dir,
                   strerror(errno));
}

static int write_chunk(struct builder *b, struct err *err) {
    int n_task = (b->n_pair + TASK_PAIRS - 1) / TASK_PAIRS;
    for (int i = 0; i < n_task; i++) {
        struct task *task = &b->task[i];
        if (task->rc) {
            if (err) *err = task->err;
            return task->rc;
        }
        put(b, task->ids, task->used);
    }
    int rc = 0;
    for (int i = 0; i < b->n_pair && !rc; i++) rc = record(b, &b->pair[i], err);
    if (!rc && b->out.err.code) rc = err_set(err, b->out.err.code, "%s", b->out.err.msg);
    struct corpus_progress p = {
        .phase = CORPUS_TOKENISING, .n_pair = b->report.n_read, .n_tok = b->n_id - b->n_link_id};
    b->report.n_replaced = 0;
    for (int i = 0; i < b->n_side; i++) {
        struct text_counts at = text_counts(b->side[i].text);
        p.bytes_done += at.file_at;
        p.bytes_total += at.file_end;
        if (i != LINKS) b->report.n_replaced += at.replaced;
    }
    return rc ? rc : progress(&b->o, &p, err);
}

/* Index and trailer behind the ids, and the file gets its name. */
static int finish(struct builder *b, struct err *err) {
    enum { SIZE = 1 << 16 };
    static const unsigned char zeros[8];
    put(b, zeros, (size_t)(-(b->n_id * b->trailer.width) & 7));
    if (fflush(b->index) || fseek(b->index, 0, SEEK_SET))
        return err_set(err, HEED_EIO, "%.180s: cannot write the index: %s", b->o.cache_dir,
                       strerror(errno));
    unsigned char *buffer = xmalloc(SIZE);
    size_t n, n_all = 0;
    while ((n = fread(buffer, 1, SIZE, b->index)) > 0) {
        put(b, buffer, n);
        n_all += n;
    }
    xfree(buffer);
    bool linked = b->n_side > LINKS;
    if (ferror(b->index) || n_all != b->report.n_kept * corpus_place_size(linked))
        return err_set(err, HEED_EIO, "%.180s: cannot read back the index", b->o.cache_dir);
    struct corpus_trailer *t = &b->trailer;
    const struct corpus_report *r = &b->report;
    struct corpus_links links = {b->n_link_id, r->n_linked, r->n_unlinked, r->first_unlinked};
    put(b, &links, corpus_links_size(linked));
    t->n_pair = r->n_kept;
    t->n_src_tok = r->n_src_tok;
    t->n_tgt_tok = r->n_tgt_tok;
    t->n_read = r->n_read;
    t->n_replaced = r->n_replaced;
    t->first_replaced = r->first_replaced;
    memcpy(t->n_dropped, r->n_dropped, sizeof t->n_dropped);
    memcpy(t->first_dropped, r->first_dropped, sizeof t->first_dropped);
    t->body_hash = XXH3_64bits_digest(b->hash);
    t->trailer_hash = XXH3_64bits(t, offsetof(struct corpus_trailer, trailer_hash));
    file_writer_write(&b->out, t, sizeof *t);
    b->out_open = false;
    return file_writer_commit(&b->out, err);
}

/* ---- building -------------------------------------------------------------------------------- */

static int nothing_kept(const struct builder *b, struct err *err) {
    char text[200];
    corpus_report_text(&b->report, text, sizeof text);
    if (b->report.n_read == 0)
        return err_set(err, HEED_EFORMAT, "%.100s and %.100s are empty", b->o.src, b->o.tgt);
    return err_set(err, HEED_EFORMAT, "%.60s: no usable pair: %s", b->o.src, text);
}

/* A file without a name: gone when closed, however the process ends. */
static int open_index(struct builder *b, struct err *err) {
    char *path = path_join(b->o.cache_dir, "heed-index.tmp"); /* ours alone, under the lock */
    b->index = fopen(path, "w+be");
    int rc = b->index ? 0 : err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
    unlink(path);
    xfree(path);
    return rc;
}

static void bench_init(struct bench *bench, const struct builder *b) {
    size_t cap = (size_t)b->cap_link;
    for (int i = 0; i < 2; i++)
        bench->ids[i] = xcalloc((size_t)b->o.max_len, sizeof *bench->ids[i]);
    if (!b->o.links) return;
    bench->words = xcalloc(2, sizeof *bench->words);
    bench->link = xcalloc(cap, sizeof *bench->link);
    bench->packed = xcalloc(cap * LINK_BYTES + sizeof(int32_t), 1);
}

static void bench_release(struct bench *bench) {
    for (int i = 0; i < 2; i++) {
        xfree(bench->ids[i]);
        if (bench->words) words_release(&bench->words[i]);
    }
    xfree(bench->words);
    links_release(&bench->links);
    xfree(bench->link);
    xfree(bench->packed);
}

static int prepare(struct builder *b, const char *path, struct err *err) {
    int rc = pool_new(&b->pool, b->o.threads, err);
    for (int i = 0; i < b->n_side && !rc; i++)
        rc = text_open(&b->side[i].text, b->side[i].path, err);
    if (!rc) rc = open_index(b, err);
    if (!rc) rc = file_writer_open(&b->out, path, err);
    if (rc) return rc;
    b->out_open = true;
    for (int i = 0; i < b->n_side; i++) b->side[i].chunk = xmalloc(CHUNK_TEXT + 3 * TEXT_MAX_LINE);
    b->cap_link = LINKS_PER_TOKEN * 2 * b->o.max_len;
    b->bench = xcalloc((size_t)pool_size(b->pool), sizeof *b->bench);
    for (int i = 0; i < pool_size(b->pool); i++) bench_init(&b->bench[i], b);
    b->pair = xcalloc(CHUNK_PAIRS, sizeof *b->pair);
    b->task = xcalloc(N_TASK, sizeof *b->task);
    b->hash = XXH3_createState();
    BUG_ON(!b->hash);
    XXH3_64bits_reset(b->hash);
    memcpy(b->trailer.magic, CORPUS_MAGIC, sizeof b->trailer.magic);
    b->trailer.version = b->o.links ? CORPUS_LINKED : CORPUS_VERSION;
    const struct corpus_encoder *src = encoder_of(&b->o, SRC), *tgt = encoder_of(&b->o, TGT);
    int32_t n_vocab = src->n_vocab > tgt->n_vocab ? src->n_vocab : tgt->n_vocab;
    b->trailer.n_vocab = (uint32_t)n_vocab;
    b->trailer.eos = (uint32_t)tgt->eos;
    b->trailer.width = (uint32_t)corpus_width(n_vocab);
    return 0;
}

static int build(struct builder *b, const char *path, struct err *err) {
    int rc = prepare(b, path, err);
    while (!rc && !(rc = read_chunk(b, err)) && b->n_pair) {
        pool_run(b->pool, run_task, b, (b->n_pair + TASK_PAIRS - 1) / TASK_PAIRS);
        rc = write_chunk(b, err);
    }
    for (int i = 0; i < b->n_side && !rc; i++) rc = check_unchanged(&b->side[i], err);
    if (!rc && b->report.n_kept == 0) rc = nothing_kept(b, err);
    if (!rc) rc = finish(b, err);
    return rc;
}

static void builder_release(struct builder *b) {
    if (b->out_open) file_writer_abort(&b->out);
    if (b->index) fclose(b->index);
    for (int i = 0; i < N_SIDE; i++) {
        if (b->side[i].text) text_close(b->side[i].text);
        xfree(b->side[i].chunk);
    }
    for (int i = 0; i < N_TASK && b->task; i++) xfree(b->task[i].ids);
    xfree(b->task);
    xfree(b->pair);
    for (int i = 0; b->bench && i < pool_size(b->pool); i++) bench_release(&b->bench[i]);
    xfree(b->bench);
    if (b->hash) XXH3_freeState(b->hash);
    pool_free(b->pool);
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* 1: the cache is there and good, and now open; 0: it has to be built. */
static int reuse(struct corpus *corpus, const struct builder *b, const char *path) {
    if (corpus_open(corpus, path, NULL)) return 0;
    if (memcmp(corpus->key, b->trailer.key, CORPUS_KEY_SIZE) == 0) return 1;
    corpus_close(corpus);
    return 0;
}

/* The directory's lock, waited for. */
static int lock_cache(int *lock, const struct builder *b, struct err *err) {
    char *path = path_join(b->o.cache_dir, "heed-corpus.lock");
    int rc = 0;
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*lock < 0) rc = err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
    while (!rc && flock(*lock, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            rc = err_set(err, HEED_EIO, "%.180s: cannot lock: %s", path, strerror(errno));
        else
            rc = progress(&b->o, &(struct corpus_progress){.phase = CORPUS_WAITING}, err);
        if (!rc) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    xfree(path);
    return rc;
}

/* Removes what killed builds left: the lock says that nobody is building now. */
static void sweep_out(const char *dir) {
    struct dir_names names;
    if (dir_read(&names, dir, NULL)) return;
    for (int i = 0; i < names.n; i++) {
        const char *name = names.name[i];
        size_t n = strlen(name);
        if (strncmp(name, "heed-", 5) != 0 || n < 4 || strcmp(name + n - 4, ".tmp") != 0) continue;
        char *path = path_join(dir, name);
        unlink(path);
        xfree(path);
    }
    dir_names_release(&names);
}

static int build_under_lock(struct corpus *corpus, struct builder *b, const char *path,
                            struct err *err) {
    int lock, rc = lock_cache(&lock, b, err);
    if (!rc && !b->o.rebuild && reuse(corpus, b, path)) {
        b->report = corpus->report; /* another process built it while we waited */
        file_unlock(lock);
        return 0;
    }
    if (!rc) sweep_out(b->o.cache_dir);
    if (!rc) rc = build(b, path, err);
    file_unlock(lock);
    if (!rc) rc = corpus_open(corpus, path, err);
    if (!rc) corpus->report = b->report;
    return rc;
}

static char *cache_path(const struct builder *b) {
    char hex[2 * CORPUS_KEY_SIZE + 1], name[sizeof hex + 16];
    for (int i = 0; i < CORPUS_KEY_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned)b->trailer.key[i]);
    snprintf(name, sizeof name, "heed-%s.corpus", hex);
    return path_join(b->o.cache_dir, name);
}

int corpus_build(struct corpus *corpus, const struct corpus_options *options,
                 struct corpus_report *report, struct err *err) {
    *corpus = (struct corpus){0};
    struct builder b = {
        .o = *options,
        .side = {{.path = options->src}, {.path = options->tgt}, {.path = options->links}},
        .n_side = options->links ? N_SIDE : LINKS};
    int rc = fill_in(&b.o, err);
    for (int i = 0; i < b.n_side && !rc; i++) rc = look_at(&b.side[i].before, b.side[i].path, err);
    if (!rc) rc = find_key(&b, err);
    if (!rc) rc = dir_make(b.o.cache_dir, err);
    if (!rc) {
        char *path = cache_path(&b);
        if (!b.o.rebuild && reuse(corpus, &b, path))
            b.report = corpus->report;
        else
            rc = build_under_lock(corpus, &b, path, err);
        xfree(path);
    }
    builder_release(&b);
    if (report) *report = b.report;
    return rc;
}

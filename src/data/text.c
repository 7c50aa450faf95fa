/* text.c — see text.h.
 *
 * Three layers. The file is read into `raw`. A decoder (plain, gzip, xz) turns raw bytes into
 * `chunk`. Lines are cut out of chunk: one that lies in it whole is delivered in place, one that
 * crosses its end is gathered in `gather`, which is as large as the longest line we accept and
 * never grows. A line that does not fit is delivered as too long at once, before its end is read:
 * it may have none. What is left of it is dropped by the next call. Only lines that need repair are
 * copied again, into `clean`. */
#include "data/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lzma.h>
#include <xxhash.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

enum {
    RAW_SIZE = 64 << 10,
    CHUNK_SIZE = 256 << 10,
    MARK_SIZE = 3,         /* a byte-order mark */
    XZ_MEMORY = 256 << 20, /* xz -9 needs 65 MiB */
    GATHER_MORE = 2        /* beyond the longest line: a CR, and the final NUL */
};

#define XZ_SIGNATURE "\xFD\x37zXZ" /* and a NUL, which need not be seen */

struct text {
    int fd, owned, raw_end;
    char *name;
    enum { PLAIN, GZIP, XZ } kind;
    union {
        z_stream gzip;
        lzma_stream xz;
    } z;
    int z_live, gzip_inside; /* within a gzip member, which must end before the file does */
    int chunk_last;          /* nothing follows the chunk */
    size_t raw_at, raw_size, chunk_at, chunk_size;
    size_t max_line, gathered; /* gathered: bytes of a line whose end has not been read yet */
    int gathered_lf;           /* an LF ended what was gathered last */
    int gathering, waits; /* waits: not a plain file: reading may block until somebody writes */
    int skipping;         /* the line is too long: its remaining bytes are dropped as they come */
    uint64_t skip_from;   /* counts.bytes when that began */
    char *raw, *chunk, *gather, *clean; /* clean is made when first needed */
    struct text_counts counts;
    struct err err; /* the first error */
};

/* ---- the file -------------------------------------------------------------------------------- */

static int fail(struct text *t, enum heed_status code, const char *what) {
    return err_set(&t->err, code, "%s: %s", t->name, what);
}

/* Reads until `raw` holds at least `want` bytes or the file ends. */
static int fill_raw(struct text *t, size_t want) {
    if (t->raw_at > 0) memmove(t->raw, t->raw + t->raw_at, t->raw_size);
    t->raw_at = 0;
    while (t->raw_size < want && !t->raw_end) {
        ssize_t n = read(t->fd, t->raw + t->raw_size, RAW_SIZE - t->raw_size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(t, HEED_EIO, strerror(errno));
        if (n == 0) t->raw_end = 1;
        t->raw_size += (size_t)n;
        t->counts.file_at += (uint64_t)n;
    }
    return 0;
}

static void skip_raw(struct text *t, size_t n) {
    t->raw_at += n;
    t->raw_size -= n;
}

/* ---- decoders -------------------------------------------------------------------------------- */

/* Each fills chunk[0..chunk_size) with at least MARK_SIZE bytes, or sets chunk_last when no more
 * follow. */

static int read_plain(struct text *t) {
    if (t->raw_size == 0) {
        int rc = fill_raw(t, 1);
        if (rc) return rc;
    }
    memcpy(t->chunk, t->raw + t->raw_at, t->raw_size);
    t->chunk_size = t->raw_size;
    skip_raw(t, t->raw_size);
    t->chunk_last = t->chunk_size == 0;
    return 0;
}

/* Between members: another one may follow, and so may zero bytes that fill up a block. */
static int next_member(struct text *t) {
    int rc;
    do {
        while (t->raw_size > 0 && t->raw[t->raw_at] == 0) skip_raw(t, 1);
        if (t->raw_size < 2 && (rc = fill_raw(t, 2))) return rc;
    } while (t->raw_size > 0 && t->raw[t->raw_at] == 0);
    if (t->raw_size == 0) return t->chunk_last = 1, 0;
    if (t->raw_size < 2 || memcmp(t->raw + t->raw_at, "\x1F\x8B", 2) != 0)
        return fail(t, HEED_EFORMAT, "gzip: something else follows the compressed data");
    if (inflateReset(&t->z.gzip) != Z_OK) return fail(t, HEED_EFORMAT, "gzip: cannot be reset");
    t->gzip_inside = 1;
    return 0;
}

static int read_gzip(struct text *t) {
    z_stream *z = &t->z.gzip;
    while (t->chunk_size < MARK_SIZE && !t->chunk_last) {
        int rc;
        if (!t->gzip_inside && ((rc = next_member(t)) || t->chunk_last)) return rc;
        if (t->raw_size == 0 && (rc = fill_raw(t, 1))) return rc;
        if (t->raw_size == 0) return fail(t, HEED_EFORMAT, "gzip: the file is truncated");
        z->next_in = (Bytef *)(t->raw + t->raw_at);
        z->avail_in = (uInt)t->raw_size;
        z->next_out = (Bytef *)t->chunk + t->chunk_size;
        z->avail_out = (uInt)(CHUNK_SIZE - t->chunk_size);
        int status = inflate(z, Z_NO_FLUSH);
        skip_raw(t, t->raw_size - z->avail_in);
        t->chunk_size = CHUNK_SIZE - z->avail_out;
        if (status == Z_STREAM_END) t->gzip_inside = 0;
        if (status == Z_MEM_ERROR) return fail(t, HEED_ENOMEM, "gzip: out of memory");
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
            return fail(t, HEED_EFORMAT, "gzip: the compressed data is damaged");
    }
    return 0;
}

static int xz_error(struct text *t, lzma_ret status) {
    switch (status) {
    case LZMA_MEM_ERROR:
        return fail(t, HEED_ENOMEM, "xz: out of memory");
    case LZMA_MEMLIMIT_ERROR:
        return fail(t, HEED_ELIMIT, "xz: needs more than 256 MiB to decompress");
    case LZMA_BUF_ERROR:
        return fail(t, HEED_EFORMAT, "xz: the file is truncated");
    default: /* the library does not tell the two apart */
        return fail(t, HEED_EFORMAT, "xz: the data is damaged, or something else follows it");
    }
}

static int read_xz(struct text *t) {
    lzma_stream *z = &t->z.xz;
    while (t->chunk_size < MARK_SIZE && !t->chunk_last) {
        int rc;
        if (t->raw_size == 0 && (rc = fill_raw(t, 1))) return rc;
        z->next_in = (const uint8_t *)t->raw + t->raw_at;
        z->avail_in = t->raw_size;
        z->next_out = (uint8_t *)t->chunk + t->chunk_size;
        z->avail_out = CHUNK_SIZE - t->chunk_size;
        lzma_ret status = lzma_code(z, t->raw_size == 0 ? LZMA_FINISH : LZMA_RUN);
        skip_raw(t, t->raw_size - z->avail_in);
        t->chunk_size = CHUNK_SIZE - z->avail_out;
        if (status == LZMA_STREAM_END)
            t->chunk_last = 1;
        else if (status != LZMA_OK)
            return xz_error(t, status);
    }
    return 0;
}

static int next_chunk(struct text *t) {
    static int (*const readers[])(struct text *) = {read_plain, read_gzip, read_xz};
    if (t->skipping && t->waits && t->counts.bytes - t->skip_from > TEXT_ENDLESS)
        return err_set(&t->err, HEED_ELIMIT, "%s: line %llu is longer than %s bytes", t->name,
                       (unsigned long long)t->counts.lines,
                       num_grouped((char[28]){0}, TEXT_ENDLESS));
    t->chunk_at = t->chunk_size = 0;
    return t->chunk_last ? 0 : readers[t->kind](t);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int starts_with(const struct text *t, const char *bytes, size_t n) {
    return t->raw_size >= n && memcmp(t->raw, bytes, n) == 0;
}

/* Could these first bytes become one of the signatures looked for below? '?' is any digit. */
static int may_be_signature(const struct text *t) {
    static const char *const known[] = {"\x1F\x8B",   XZ_SIGNATURE,   "\x28\xB5\x2F\xFD",
                                        "BZh?1AY&SY", "\xEF\xBB\xBF", "\xFF\xFE",
                                        "\xFE\xFF"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        size_t i = 0;
        for (; i < t->raw_size && known[k][i]; i++)
            if (known[k][i] != t->raw[i] &&
                !(known[k][i] == '?' && t->raw[i] >= '0' && t->raw[i] <= '9'))
                break;
        if (i == t->raw_size && known[k][i]) return 1;
    }
    return 0;
}

/* Recognises the kind of file by its first bytes, and waits for no more of them than it takes: a
 * short line typed at a terminal is all there is for now. */
static int recognise(struct text *t) {
    int rc = fill_raw(t, 1);
    while (!rc && !t->raw_end && may_be_signature(t)) rc = fill_raw(t, t->raw_size + 1);
    if (rc) return rc;
    if (starts_with(t, "\x1F\x8B", 2)) {
        t->kind = GZIP;
        t->z_live = inflateInit2(&t->z.gzip, 15 + 16) == Z_OK; /* gzip headers only */
        t->gzip_inside = 1;
        return t->z_live ? 0 : fail(t, HEED_ENOMEM, "gzip: out of memory");
    }
    if (starts_with(t, XZ_SIGNATURE, sizeof XZ_SIGNATURE - 1)) {
        t->kind = XZ;
        t->z_live = lzma_stream_decoder(&t->z.xz, XZ_MEMORY, LZMA_CONCATENATED) == LZMA_OK;
        return t->z_live ? 0 : fail(t, HEED_ENOMEM, "xz: out of memory");
    }
    if (starts_with(t, "\x28\xB5\x2F\xFD", 4))
        return fail(t, HEED_EFORMAT, "this is zstd; only plain, gzip and xz files are read");
    if (starts_with(t, "BZh", 3) && t->raw_size >= 10 && !memcmp(t->raw + 4, "1AY&SY", 6))
        return fail(t, HEED_EFORMAT, "this is bzip2; only plain, gzip and xz files are read");
    return 0;
}

/* The byte-order mark of the text itself, which may be inside the compression. */
static int skip_mark(struct text *t) {
    int rc = next_chunk(t);
    if (rc) return rc;
    if (t->chunk_size >= 3 && memcmp(t->chunk, "\xEF\xBB\xBF", 3) == 0) {
        t->chunk_at = 3;
        t->counts.bytes = 3;
    }
    if (t->chunk_size >= 2 &&
        (memcmp(t->chunk, "\xFF\xFE", 2) == 0 || memcmp(t->chunk, "\xFE\xFF", 2) == 0))
        return fail(t, HEED_EFORMAT, "this is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8");
    return 0;
}

static int begin(struct text *t) {
    struct stat st;
    if (fstat(t->fd, &st)) return fail(t, HEED_EIO, strerror(errno));
    if (S_ISDIR(st.st_mode)) return fail(t, HEED_EIO, "is a directory");
    t->waits = !S_ISREG(st.st_mode);
    if (!t->waits) t->counts.file_end = (uint64_t)st.st_size;
    int rc = recognise(t);
    return rc ? rc : skip_mark(t);
}

int text_open_fd(struct text **text, int fd, int owned, const char *name, struct err *err) {
    struct text *t = xcalloc(1, sizeof *t);
    t->fd = fd;
    t->owned = owned;
    t->name = xstrdup(name);
    t->raw = xmalloc(RAW_SIZE);
    t->chunk = xmalloc(CHUNK_SIZE + 1);
    t->max_line = TEXT_MAX_LINE;
    t->gather = xmalloc(t->max_line + GATHER_MORE);
    *text = t;
    int rc = begin(t);
    if (!rc) return 0;
    err_set(err, rc, "%s", t->err.msg);
    text_close(t);
    *text = NULL;
    return rc;
}

int text_open(struct text **text, const char *path, struct err *err) {
    *text = NULL;
    if (strcmp(path, "-") == 0) return text_open_fd(text, 0, 0, "standard input", err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(err, HEED_EIO, "%s: %s", path, strerror(errno));
    return text_open_fd(text, fd, 1, path, err);
}

void text_close(struct text *t) {
    if (!t) return;
    if (t->z_live && t->kind == GZIP) inflateEnd(&t->z.gzip);
    if (t->z_live && t->kind == XZ) lzma_end(&t->z.xz);
    if (t->owned) close(t->fd);
    xfree(t->name);
    xfree(t->raw);
    xfree(t->chunk);
    xfree(t->gather);
    xfree(t->clean);
    xfree(t);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* bytes[0..size) is a whole line without its LF, with room for a NUL behind it. */
static int deliver(struct text *t, struct line *line, char *bytes, size_t size, int lf) {
    int cr = size > 0 && bytes[size - 1] == '\r';
    size -= (size_t)cr;
    *line = (struct line){.text = bytes, .size = size, .end = &"\r\n"[!cr]};
    if (!lf) line->end = cr ? "\r" : "";
    t->counts.lines++;
    if (size > t->max_line) {
        line->size = 0;
        line->flags = LINE_TOO_LONG;
        t->counts.too_long++;
    } else if (utf8_clean_prefix(bytes, size) < size) {
        if (!t->clean) t->clean = xmalloc(3 * t->max_line + 1);
        line->size = utf8_clean(t->clean, bytes, size, &t->counts.replaced);
        line->text = bytes = t->clean;
        line->flags = LINE_REPLACED;
    }
    bytes[line->size] = 0;
    return 1;
}

/* Moves the chunk's bytes up to a line end into `gather`; 1 when the line is ready to be delivered:
 * complete, or longer than we accept. */
static int gather_chunk(struct text *t) {
    size_t left = t->chunk_size - t->chunk_at;
    if (left == 0) return 0;
    char *from = t->chunk + t->chunk_at, *lf = memchr(from, '\n', left);
    size_t n = lf ? (size_t)(lf - from) : left, used = n + (lf != NULL);
    int ready = lf != NULL;
    if (t->skipping) {
        t->skipping = !lf;
        ready = 0;
    } else {
        size_t room = t->max_line + GATHER_MORE - 1 - t->gathered;
        if (n > room) {
            used = n = room;
            t->skipping = ready = 1;
            t->skip_from = t->counts.bytes - t->gathered;
        }
        memcpy(t->gather + t->gathered, from, n);
        t->gathered += n;
        t->gathering = 1;
        if (t->skipping) t->gather[t->gathered - 1] = 'x'; /* a CR here does not end the line */
    }
    t->gathered_lf = lf != NULL;
    t->chunk_at += used;
    t->counts.bytes += used;
    return ready;
}

/* A line that does not lie in one chunk. */
static int gather_line(struct text *t, struct line *line) {
    for (int ready = t->gathering && t->skipping; !ready;) {
        int rc = t->chunk_at == t->chunk_size ? next_chunk(t) : 0;
        if (rc) return rc;
        if (t->chunk_at == t->chunk_size) break;
        ready = gather_chunk(t);
    }
    if (!t->gathering) return 0;
    size_t size = t->gathered;
    t->gathered = 0;
    t->gathering = 0;
    return deliver(t, line, t->gather, size, t->gathered_lf);
}

int text_next(struct text *t, struct line *line, struct err *err) {
    *line = (struct line){.text = ""};
    if (t->err.code) return err_set(err, t->err.code, "%s", t->err.msg);
    char *from = t->chunk + t->chunk_at, *lf = memchr(from, '\n', t->chunk_size - t->chunk_at);
    if (lf && !t->gathering && !t->skipping) {
        size_t n = (size_t)(lf - from);
        t->chunk_at += n + 1;
        t->counts.bytes += n + 1;
        return deliver(t, line, from, n, 1);
    }
    int rc = gather_line(t, line);
    return rc < 0 ? err_set(err, rc, "%s", t->err.msg) : rc;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0; /* also when it failed or hung up: reading will tell */
}

int text_ready(struct text *t) {
    for (;;) {
        if (t->err.code || t->chunk_last || !t->waits || (t->gathering && t->skipping)) return 1;
        size_t left = t->chunk_size - t->chunk_at;
        if (!t->skipping && memchr(t->chunk + t->chunk_at, '\n', left)) return 1;
        if (gather_chunk(t)) return 1;
        if (t->chunk_at < t->chunk_size) continue; /* the end of a line that was too long */
        if (t->raw_size == 0 && !t->raw_end && !readable(t->fd)) return 0;
        if (next_chunk(t)) return 1;
    }
}

int text_fd(const struct text *t) { return t->fd; }

void text_max_line(struct text *t, size_t bytes) {
    BUG_ON(t->counts.lines > 0 || t->gathering || bytes < TEXT_MAX_LINE);
    t->max_line = bytes;
    t->gather = xrealloc(t->gather, bytes + GATHER_MORE);
}

struct text_counts text_counts(const struct text *t) {
    return t->counts;
}

/* ---- hashing --------------------------------------------------------------------------------- */

int text_hash(uint64_t hash[2], const char *path,
              int (*progress)(void *ctx, uint64_t bytes, struct err *err), void *ctx,
              struct err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    if (fd < 0) return err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
    char *buffer = xmalloc(CHUNK_SIZE);
    XXH3_state_t *state = XXH3_createState();
    BUG_ON(!state);
    XXH3_128bits_reset(state);
    for (ssize_t n = 1; n && !rc;) {
        n = read(fd, buffer, CHUNK_SIZE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
        if (n > 0) XXH3_128bits_update(state, buffer, (size_t)n);
        if (n > 0 && progress) rc = progress(ctx, (uint64_t)n, err);
    }
    XXH128_hash_t digest = XXH3_128bits_digest(state);
    hash[0] = digest.low64;
    hash[1] = digest.high64;
    XXH3_freeState(state);
    xfree(buffer);
    close(fd);
    return rc;
}

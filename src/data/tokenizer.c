/* tokenizer.c — see tokenizer.h. */
#include "data/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/aside.h"
#include "base/file.h"
#include "base/mem.h"
#include "data/spm.h"
#include "data/vocabulary.h"

/* What a token is that is no piece of the file; and how many ids need no allocation. */
enum { MARK = -1, SPELLED = -2, SOME = 256 };

struct tokenizer {
    struct spm *spm;
    const char *bytes; /* the file */
    size_t n_byte;
    char *own; /* where they are, if they are the tokenizer's */
    unsigned char hash[TOKENIZER_HASH_SIZE];
    int size, unk, bos, eos;
    struct tokenizer_marks given;
    struct vocabulary *vocabulary; /* NULL: ids are the file's, as are the next two */
    int32_t *id_of;                /* [pieces of the file] in the vocabulary; or unk */
    int32_t *piece_of;             /* [size] of the file; MARK: no text, SPELLED: its own */
};

/* ---- opening --------------------------------------------------------------------------------- */

static int check_size(const char *name, size_t size, struct err *err) {
    if (size <= TOKENIZER_MAX_FILE) return 0;
    return err_set(err, HEED_ELIMIT, "%s: the file has %zu bytes; at most %d are allowed", name,
                   size, TOKENIZER_MAX_FILE);
}

static int open_bytes(struct tokenizer **tokenizer, const char *name, const void *bytes,
                      size_t size, struct err *err) {
    struct tokenizer *t = xcalloc(1, sizeof *t);
    struct err why = {0};
    *tokenizer = NULL;
    t->bytes = bytes;
    t->n_byte = size;
    t->given = (struct tokenizer_marks)TOKENIZER_FILE_MARKS;
    int rc = spm_open(&t->spm, bytes, size, &why);
    if (rc) {
        tokenizer_free(t);
        return err_set(err, rc, "%s: %s", name, why.msg);
    }
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(bytes, size));
    memcpy(t->hash, hash.digest, sizeof t->hash);
    t->size = spm_pieces(t->spm)->n;
    t->unk = spm_unk(t->spm);
    t->bos = spm_bos(t->spm);
    t->eos = spm_eos(t->spm);
    *tokenizer = t;
    return 0;
}

/* Takes ownership of the bytes, also when it fails. */
static int open_own(struct tokenizer **tokenizer, const char *name, char *bytes, size_t size,
                    struct err *err) {
    int rc = open_bytes(tokenizer, name, bytes, size, err);
    if (rc)
        xfree(bytes);
    else
        (*tokenizer)->own = bytes;
    return rc;
}

int tokenizer_open(struct tokenizer **tokenizer, const char *path, struct err *err) {
    char *bytes;
    size_t size;
    *tokenizer = NULL;
    int rc = file_read_all(&bytes, &size, path, TOKENIZER_MAX_FILE, err);
    return rc ? rc : open_own(tokenizer, path, bytes, size, err);
}

int tokenizer_open_memory(struct tokenizer **tokenizer, const void *data, size_t size,
                          struct err *err) {
    int rc = check_size("tokenizer", size, err);
    *tokenizer = NULL;
    if (rc) return rc;
    char *copy = xmalloc(size + 1);
    if (size) memcpy(copy, data, size);
    return open_own(tokenizer, "tokenizer", copy, size, err);
}

static const struct piece *piece_at(const struct tokenizer *t, int piece) {
    return &spm_pieces(t->spm)->piece[piece];
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

/* The token spelled like a piece of the file, or -1. */
static int token_of(const struct tokenizer *t, int piece) {
    if (piece < 0) return -1;
    if (!t->vocabulary) return piece;
    const struct piece *p = piece_at(t, piece);
    return vocabulary_find(t->vocabulary, p->text, p->size);
}

static int is_mark(const char *token) {
    if (token[0] != '<' && token[0] != '>') return 0;
    size_t n = strlen(token);
    return n > 2 && ((token[0] == '<' && token[n - 1] == '>') ||
                     (n > 4 && !memcmp(token, ">>", 2) && !memcmp(token + n - 2, "<<", 2)));
}

static void map_ids(struct tokenizer *t, const struct tokenizer_parts *parts) {
    int n_piece = spm_pieces(t->spm)->n, unknown = spm_unk(t->spm);
    t->id_of = xmalloc((size_t)n_piece * sizeof *t->id_of);
    t->piece_of = xmalloc((size_t)t->size * sizeof *t->piece_of);
    for (int i = 0; i < t->size; i++) t->piece_of[i] = SPELLED;
    for (int i = 0; i < n_piece; i++) {
        int id = i == unknown ? t->unk : token_of(t, i);
        t->id_of[i] = id < 0 ? t->unk : id;
        if (id >= 0) t->piece_of[id] = i;
    }
    t->piece_of[t->unk] = unknown;
    for (int i = 0; i < t->size; i++)
        if (t->piece_of[i] == SPELLED && is_mark(vocabulary_token(t->vocabulary, i)))
            t->piece_of[i] = MARK;
    for (int i = 0; i < parts->n_hidden; i++) {
        int id = tokenizer_find(t, parts->hidden[i]);
        if (id >= 0 && id != t->unk) t->piece_of[id] = MARK;
    }
    if (t->bos >= 0 && t->bos != t->unk) t->piece_of[t->bos] = MARK;
    if (t->eos >= 0 && t->eos != t->unk) t->piece_of[t->eos] = MARK;
}

static int set_mark(int *mark, const struct tokenizer *t, int given, const char *what,
                    struct err *err) {
    if (given == TOKENIZER_OF_FILE) return 0;
    if (given < -1 || given >= t->size)
        return err_set(err, HEED_EFORMAT, "the %s token is %d, but there are %d tokens", what,
                       given, t->size);
    *mark = given;
    return 0;
}

static int set_marks(struct tokenizer *t, const struct tokenizer_marks *given, struct err *err) {
    t->bos = token_of(t, spm_bos(t->spm));
    t->eos = token_of(t, spm_eos(t->spm));
    t->unk = token_of(t, spm_unk(t->spm));
    int rc = set_mark(&t->bos, t, given->start, "start", err);
    if (!rc) rc = set_mark(&t->eos, t, given->end, "end", err);
    if (!rc) rc = set_mark(&t->unk, t, given->unknown, "unknown", err);
    if (!rc && t->unk < 0)
        rc = err_set(err, HEED_EFORMAT, "no token '%.60s', and no other is said to be unknown",
                     piece_at(t, spm_unk(t->spm))->text);
    t->given = *given;
    return rc;
}

/* The marks that were given decide what sentences look like, so they count. */
static void hash_all(struct tokenizer *t, const struct tokenizer_parts *parts) {
    const struct tokenizer_marks *m = &parts->marks;
    if (!parts->vocabulary && m->start == TOKENIZER_OF_FILE && m->end == TOKENIZER_OF_FILE &&
        m->unknown == TOKENIZER_OF_FILE)
        return;
    int32_t marks[3] = {t->bos, t->eos, t->unk};
    unsigned char all[2 * TOKENIZER_HASH_SIZE + 4 * 3] = {0}, *at = all + 2 * TOKENIZER_HASH_SIZE;
    XXH128_canonical_t hash;
    memcpy(all, t->hash, TOKENIZER_HASH_SIZE);
    if (parts->vocabulary) {
        XXH128_canonicalFromHash(&hash, XXH3_128bits(parts->vocabulary, parts->n_vocabulary));
        memcpy(all + TOKENIZER_HASH_SIZE, hash.digest, TOKENIZER_HASH_SIZE);
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) *at++ = (unsigned char)((uint32_t)marks[i] >> 8 * k);
    XXH128_canonicalFromHash(&hash, XXH3_128bits(all, sizeof all));
    memcpy(t->hash, hash.digest, sizeof t->hash);
}

/* The vocabulary, which takes about as long to read as the pieces. */
struct reading {
    const struct tokenizer_parts *parts;
    struct vocabulary *vocabulary;
    struct err err;
    int rc;
};

static void read_vocabulary(void *ctx) {
    struct reading *r = ctx;
    const struct tokenizer_parts *p = r->parts;
    r->rc = vocabulary_read(&r->vocabulary, p->vocabulary_name, p->vocabulary, p->n_vocabulary,
                            &r->err);
}

/* The pieces' errors come first. */
static int open_both(struct tokenizer **t, const struct tokenizer_parts *parts, struct err *err) {
    struct reading r = {.parts = parts};
    struct aside aside = {0};
    int rc = check_size(parts->name, parts->n_model, err);
    if (rc) return rc;
    if (parts->vocabulary) aside_begin(&aside, read_vocabulary, &r);
    rc = open_bytes(t, parts->name, parts->model, parts->n_model, err);
    aside_end(&aside);
    if (!rc && r.rc) {
        if (err) *err = r.err;
        rc = r.rc;
        tokenizer_free(*t);
    }
    if (rc) {
        vocabulary_free(r.vocabulary);
        return rc;
    }
    (*t)->vocabulary = r.vocabulary;
    if (r.vocabulary) (*t)->size = vocabulary_size(r.vocabulary);
    return 0;
}

int tokenizer_open_parts(struct tokenizer **tokenizer, const struct tokenizer_parts *parts,
                         struct err *err) {
    struct tokenizer *t;
    struct err why = {0};
    *tokenizer = NULL;
    int rc = open_both(&t, parts, err);
    if (rc) return rc;
    if ((rc = set_marks(t, &parts->marks, &why))) {
        tokenizer_free(t);
        return err_set(err, rc, "%.120s: %.120s",
                       parts->vocabulary ? parts->vocabulary_name : parts->name, why.msg);
    }
    if (t->vocabulary) map_ids(t, parts);
    hash_all(t, parts);
    *tokenizer = t;
    return 0;
}

void tokenizer_free(struct tokenizer *t) {
    if (!t) return;
    vocabulary_free(t->vocabulary);
    xfree(t->id_of);
    xfree(t->piece_of);
    spm_free(t->spm);
    xfree(t->own);
    xfree(t);
}

/* ---- asking ---------------------------------------------------------------------------------- */

int tokenizer_size(const struct tokenizer *t) { return t->size; }
int tokenizer_unk(const struct tokenizer *t) { return t->unk; }
int tokenizer_bos(const struct tokenizer *t) { return t->bos; }
int tokenizer_eos(const struct tokenizer *t) { return t->eos; }

int tokenizer_check_ends(const struct tokenizer *t, struct err *err) {
    int end = t->eos >= 0 || t->given.end == -1;
    if (end && (t->bos >= 0 || t->given.start == -1)) return 0;
    return err_set(err, HEED_EFORMAT, "tokenizer: it has no %s piece (%s), which translation needs",
                   end ? "beginning" : "end", end ? "<s>" : "</s>");
}

const struct pieces *tokenizer_pieces(const struct tokenizer *t) { return spm_pieces(t->spm); }

int tokenizer_has_vocabulary(const struct tokenizer *t) { return t->vocabulary != NULL; }

const void *tokenizer_bytes(const struct tokenizer *t, size_t *size) {
    *size = t->n_byte;
    return t->bytes;
}

void tokenizer_hash(const struct tokenizer *t, unsigned char hash[TOKENIZER_HASH_SIZE]) {
    memcpy(hash, t->hash, TOKENIZER_HASH_SIZE);
}

void tokenizer_hash_text(const struct tokenizer *t, char text[TOKENIZER_HASH_TEXT]) {
    for (int i = 0; i < TOKENIZER_HASH_SIZE; i++) snprintf(text + 2 * i, 3, "%02x", t->hash[i]);
}

int tokenizer_equal(const struct tokenizer *a, const struct tokenizer *b) {
    return memcmp(a->hash, b->hash, TOKENIZER_HASH_SIZE) == 0;
}

int tokenizer_is_control(const struct tokenizer *t, int id) {
    if (id < 0 || id >= t->size) return 0;
    if (t->piece_of) id = t->piece_of[id];
    return id >= 0 ? piece_at(t, id)->kind == PIECE_CONTROL : id == MARK;
}

int tokenizer_find(const struct tokenizer *t, const char *piece) {
    return t->vocabulary ? vocabulary_find(t->vocabulary, piece, strlen(piece))
                         : spm_find(t->spm, piece, strlen(piece));
}

const char *tokenizer_piece(const struct tokenizer *t, int id) {
    if (id < 0 || id >= t->size) return NULL;
    return t->vocabulary ? vocabulary_token(t->vocabulary, id) : piece_at(t, id)->text;
}

/* ---- using ----------------------------------------------------------------------------------- */

static int find_token(const void *ctx, const char *piece, size_t size) {
    return vocabulary_find(ctx, piece, size);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, int32_t *ids,
                     int cap) {
    return tokenizer_encode_spans(t, text, size, ids, NULL, cap);
}

int tokenizer_encode_spans(const struct tokenizer *t, const char *text, size_t size, int32_t *ids,
                           struct span *span, int cap) {
    struct spm_finder finder = {find_token, t->vocabulary};
    if (size > TOKENIZER_MAX_TEXT) return HEED_ELIMIT;
    struct spm_out out = {ids, span, cap, t->vocabulary ? &finder : NULL};
    int n = spm_encode(t->spm, text, size, &out);
    if (!t->vocabulary) return n;
    for (int i = 0; i < n && i < cap; i++) ids[i] = ids[i] < -1 ? -2 - ids[i] : t->id_of[ids[i]];
    return n;
}

int tokenizer_encode_end(const struct tokenizer *t, const char *text, size_t size, int32_t *ids,
                         int cap) {
    int n = tokenizer_encode(t, text, size, ids, cap);
    if (n < 0 || t->eos < 0) return n;
    if (n < cap) ids[n] = t->eos;
    return n + 1;
}

static int check_ids(const struct tokenizer *t, const int32_t *ids, int n) {
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->size) return HEED_EINVAL;
    return 0;
}

/* Where some tokens are no pieces of the file: by their spelling. */
static int decode_spelled(const struct tokenizer *t, const int32_t *ids, int n, char *out,
                          size_t cap, struct span *span) {
    const char **text = xmalloc(((size_t)n + 1) * sizeof *text);
    int m = 0;
    for (int i = 0; i < n; i++) {
        int piece = t->piece_of[ids[i]];
        if (piece != MARK)
            text[m++] = piece == SPELLED ? tokenizer_piece(t, ids[i]) : piece_at(t, piece)->text;
    }
    int size = spm_decode_pieces(t->spm, text, m, out, cap, span);
    xfree(text);
    return size;
}

/* Tokens of the vocabulary: marks are left out, and get empty spans afterwards. span may be
 * NULL. */
static int decode_tokens(const struct tokenizer *t, const int32_t *ids, int n, char *out,
                         size_t cap, struct span *span) {
    int32_t some[SOME], *piece = n > SOME ? xmalloc((size_t)n * sizeof *piece) : some;
    int m = 0, spelled = 0, size;
    for (int i = 0; i < n; i++) {
        piece[m] = t->piece_of[ids[i]];
        spelled |= piece[m] == SPELLED;
        m += piece[m] != MARK;
    }
    if (spelled)
        size = decode_spelled(t, ids, n, out, cap, span);
    else
        size = spm_decode(t->spm, piece, m, out, cap, span);
    if (piece != some) xfree(piece);
    for (int i = n, at = size; i-- > 0 && span && size >= 0; at = span[i].begin)
        span[i] = t->piece_of[ids[i]] == MARK ? (struct span){at, at} : span[--m];
    return size;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, int n, char *out, size_t cap) {
    return tokenizer_decode_spans(t, ids, n, out, cap, NULL);
}

int tokenizer_decode_spans(const struct tokenizer *t, const int32_t *ids, int n, char *out,
                           size_t cap, struct span *span) {
    int rc = check_ids(t, ids, n);
    if (rc) return rc;
    return t->vocabulary ? decode_tokens(t, ids, n, out, cap, span)
                         : spm_decode(t->spm, ids, n, out, cap, span);
}

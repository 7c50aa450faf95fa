/* tokenizer.c — see tokenizer.h. */
#include "data/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/sentencepiece.h"
#include "data/tokenizer_check.h"

struct tokenizer {
    struct sp *sp;
    char *bytes; /* the file */
    size_t n_byte;
    unsigned char hash[TOKENIZER_HASH_SIZE];
    int size, unk, bos, eos;
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Takes ownership of `bytes`, also when it fails. */
static int open_bytes(struct tokenizer **tokenizer, const char *name, char *bytes, size_t size,
                      struct err *err) {
    struct tokenizer *t = xcalloc(1, sizeof *t);
    struct err why = {0};
    *tokenizer = NULL;
    t->bytes = bytes;
    t->n_byte = size;
    int rc = tokenizer_check((const unsigned char *)bytes, size, &why);
    if (!rc) rc = sp_open(&t->sp, bytes, size, &why);
    if (rc) {
        tokenizer_free(t);
        return err_set(err, rc, "%s: %s", name, why.msg);
    }
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(bytes, size));
    memcpy(t->hash, hash.digest, sizeof t->hash);
    t->size = sp_size(t->sp);
    t->unk = sp_unk(t->sp);
    t->bos = sp_bos(t->sp);
    t->eos = sp_eos(t->sp);
    *tokenizer = t;
    return 0;
}

int tokenizer_open(struct tokenizer **tokenizer, const char *path, struct err *err) {
    char *bytes;
    size_t size;
    *tokenizer = NULL;
    int rc = file_read_all(&bytes, &size, path, TOKENIZER_MAX_FILE, err);
    return rc ? rc : open_bytes(tokenizer, path, bytes, size, err);
}

int tokenizer_open_memory(struct tokenizer **tokenizer, const void *data, size_t size,
                          struct err *err) {
    *tokenizer = NULL;
    if (size > TOKENIZER_MAX_FILE)
        return err_set(err, HEED_ELIMIT,
                       "tokenizer: the file has %zu bytes; at most %d are allowed", size,
                       TOKENIZER_MAX_FILE);
    char *copy = xmalloc(size + 1);
    if (size) memcpy(copy, data, size);
    return open_bytes(tokenizer, "tokenizer", copy, size, err);
}

void tokenizer_free(struct tokenizer *t) {
    if (!t) return;
    if (t->sp) sp_free(t->sp);
    xfree(t->bytes);
    xfree(t);
}

/* ---- asking ---------------------------------------------------------------------------------- */

int tokenizer_size(const struct tokenizer *t) { return t->size; }
int tokenizer_unk(const struct tokenizer *t) { return t->unk; }
int tokenizer_bos(const struct tokenizer *t) { return t->bos; }
int tokenizer_eos(const struct tokenizer *t) { return t->eos; }

int tokenizer_check_ends(const struct tokenizer *t, struct err *err) {
    if (t->bos >= 0 && t->eos >= 0) return 0;
    return err_set(err, HEED_EFORMAT, "tokenizer: it has no %s piece (%s), which translation needs",
                   t->eos < 0 ? "end" : "beginning", t->eos < 0 ? "</s>" : "<s>");
}

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

int tokenizer_is_control(const struct tokenizer *t, int id) {
    return id >= 0 && id < t->size && sp_is_control(t->sp, id);
}

int tokenizer_find(const struct tokenizer *t, const char *piece) { return sp_find(t->sp, piece); }

const char *tokenizer_piece(const struct tokenizer *t, int id) {
    return id >= 0 && id < t->size ? sp_piece(t->sp, id) : NULL;
}

/* ---- using ----------------------------------------------------------------------------------- */

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, int32_t *ids,
                     int cap) {
    if (size > TOKENIZER_MAX_TEXT) return HEED_ELIMIT;
    return sp_encode(t->sp, text, size, ids, cap);
}

int tokenizer_encode_spans(const struct tokenizer *t, const char *text, size_t size, int32_t *ids,
                           struct span *span, int cap) {
    if (size > TOKENIZER_MAX_TEXT) return HEED_ELIMIT;
    return sp_encode_spans(t->sp, text, size, ids, span, cap);
}

int tokenizer_encode_end(const struct tokenizer *t, const char *text, size_t size, int32_t *ids,
                         int cap) {
    int n = tokenizer_encode(t, text, size, ids, cap);
    if (n >= 0 && n < cap) ids[n] = t->eos;
    return n < 0 ? n : n + 1;
}

static int check_ids(const struct tokenizer *t, const int32_t *ids, int n) {
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->size) return HEED_EINVAL;
    return 0;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, int n, char *out, size_t cap) {
    int rc = check_ids(t, ids, n);
    return rc ? rc : sp_decode(t->sp, ids, n, out, cap);
}

int tokenizer_decode_spans(const struct tokenizer *t, const int32_t *ids, int n, char *out,
                           size_t cap, struct span *span) {
    int rc = check_ids(t, ids, n);
    return rc ? rc : sp_decode_spans(t->sp, ids, n, out, cap, span);
}

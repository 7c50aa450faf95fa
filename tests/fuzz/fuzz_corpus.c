/* fuzz_corpus.c — corpus caches are files, and files lie: whatever corpus_open accepts can be read.
 *
 * Every input is tried as it is and with its checksums made right, since no mutation would get past
 * them. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "data/corpus.h"
#include "data/corpus_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sign(unsigned char *data, size_t size) {
    struct corpus_trailer t;
    if (size < sizeof t) return;
    memcpy(&t, data + size - sizeof t, sizeof t);
    memcpy(t.magic, CORPUS_MAGIC, sizeof t.magic);
    t.version = CORPUS_VERSION;
    t.body_hash = XXH3_64bits(data, size - sizeof t);
    t.trailer_hash = XXH3_64bits(&t, offsetof(struct corpus_trailer, trailer_hash));
    memcpy(data + size - sizeof t, &t, sizeof t);
}

static void check(int good) {
    if (!good) abort();
}

/* Reads every pair into buffers of exactly its size. */
static void read_all(const struct corpus *c) {
    char text[64];
    struct err err;
    corpus_report_text(&c->report, text, sizeof text);
    for (int64_t i = 0; i < c->n_pair; i++) {
        struct corpus_place place;
        check(corpus_find(c, i, &place, &err) == 0);
        check(place.n_src <= c->max_src && place.n_tgt <= c->max_tgt);
        int32_t *src = calloc((size_t)place.n_src, sizeof *src);
        int32_t *tgt = calloc((size_t)place.n_tgt, sizeof *tgt);
        check(src && tgt && corpus_read(c, &place, src, tgt, &err) == 0);
        for (int k = 0; k < place.n_src; k++) check(src[k] >= 0 && src[k] < c->n_vocab);
        for (int k = 0; k < place.n_tgt; k++) check(tgt[k] >= 0 && tgt[k] < c->n_vocab);
        free(src);
        free(tgt);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char *copy = malloc(size ? size : 1);
    check(copy != NULL);
    memcpy(copy, data, size);
    for (int round = 0; round < 2; round++) {
        struct corpus c;
        struct err err;
        if (corpus_open_memory(&c, copy, size, &err) == 0) read_all(&c);
        corpus_close(&c);
        sign(copy, size);
    }
    free(copy);
    return 0;
}

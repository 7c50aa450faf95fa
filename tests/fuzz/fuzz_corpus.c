/* fuzz_corpus.c — corpus caches are files, and files lie: whatever corpus_open accepts can be read;
 * where there are links among the ids, reading may also find something wrong.
 *
 * Every input is tried as it is and with its checksums made right, since no mutation would get past
 * them, as a corpus with links and as one without. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "data/corpus.h"
#include "data/corpus_file.h"
#include "data/piecelinks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sign(unsigned char *data, size_t size, uint32_t version) {
    struct corpus_trailer t;
    if (size < sizeof t) return;
    memcpy(&t, data + size - sizeof t, sizeof t);
    memcpy(t.magic, CORPUS_MAGIC, sizeof t.magic);
    t.version = version;
    t.body_hash = XXH3_64bits(data, size - sizeof t);
    t.trailer_hash = XXH3_64bits(&t, offsetof(struct corpus_trailer, trailer_hash));
    memcpy(data + size - sizeof t, &t, sizeof t);
}

static void check(int good) {
    if (!good) abort();
}

/* Links that are read lie within their sentences. */
static void read_links(const struct corpus *c, const struct corpus_place *place) {
    struct piece_link *link = calloc((size_t)place->n_link + 1, sizeof *link);
    int32_t *scratch = calloc((size_t)place->n_link_id + 1, sizeof *scratch);
    struct err err;
    check(link && scratch);
    if (corpus_read_links(c, place, link, scratch, &err) == 0)
        for (int i = 0; i < place->n_link; i++)
            check(link[i].src >= 0 && link[i].src < link[i].src_end && link[i].tgt >= 0 &&
                  link[i].tgt < link[i].tgt_end && link[i].src_end < place->n_src &&
                  link[i].tgt_end < place->n_tgt);
    free(link);
    free(scratch);
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
        int rc = src && tgt ? corpus_read(c, &place, src, tgt, &err) : -1;
        check(rc == 0 || c->has_links);
        for (int k = 0; k < place.n_src && !rc; k++) check(src[k] >= 0 && src[k] < c->n_vocab);
        for (int k = 0; k < place.n_tgt && !rc; k++) check(tgt[k] >= 0 && tgt[k] < c->n_vocab);
        read_links(c, &place);
        free(src);
        free(tgt);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char *copy = malloc(size ? size : 1);
    check(copy != NULL);
    memcpy(copy, data, size);
    for (uint32_t round = 0; round < 3; round++) {
        struct corpus c;
        struct err err;
        if (corpus_open_memory(&c, copy, size, &err) == 0) read_all(&c);
        corpus_close(&c);
        sign(copy, size, round ? CORPUS_LINKED : CORPUS_VERSION);
    }
    free(copy);
    return 0;
}

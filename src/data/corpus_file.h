/* corpus_file.h — the bytes of a corpus cache; shared by what writes them (corpus_build.c) and what
 * reads them (corpus.c), of no interest to anyone else.
 *
 *     ids      u16 or u32, pair after pair: source ids, target ids, end marks included
 *     zeros    up to a multiple of 8
 *     index    struct corpus_place per pair
 *     struct corpus_trailer
 *
 * The description of the file is at its end, since it is known only when all else is written.
 * Numbers are in the machine's byte order: a cache is local, and one from a machine of the other
 * order fails the version check and is built again. */
#ifndef DATA_CORPUS_FILE_H
#define DATA_CORPUS_FILE_H

#include "data/corpus.h"

#define CORPUS_MAGIC "heedcorp"
enum { CORPUS_VERSION = 1 };

struct corpus_trailer {
    char magic[8];
    uint32_t version, width;
    unsigned char key[CORPUS_KEY_SIZE];
    uint32_t n_vocab, eos, max_src, max_tgt;
    uint64_t n_pair, n_src_tok, n_tgt_tok;
    uint64_t n_read, n_replaced, first_replaced;
    uint64_t n_dropped[CORPUS_N_DROP], first_dropped[CORPUS_N_DROP];
    uint64_t body_hash;    /* XXH3-64 of everything before the trailer */
    uint64_t trailer_hash; /* XXH3-64 of the trailer up to here */
};

static inline int corpus_width(int32_t n_vocab) { return n_vocab <= UINT16_MAX + 1 ? 2 : 4; }

#endif

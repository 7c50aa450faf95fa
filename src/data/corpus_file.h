/* corpus_file.h — the bytes of a corpus cache; shared by what writes them (corpus_build.c) and what
 * reads them (corpus.c), of no interest to anyone else.
 *
 *     ids      u16 or u32, pair after pair: source ids, target ids, end marks included
 *     zeros    up to a multiple of 8
 *     index    struct corpus_place per pair, up to n_tgt
 *     struct corpus_trailer
 *
 * A corpus with links (version CORPUS_LINKED) has the links of a pair, packed (links.c) and filled
 * up with zeros to whole ids, behind its target ids; whole places in the index; and a struct
 * corpus_links before the trailer.
 *
 * The description of the file is at its end, since it is known only when all else is written.
 * Numbers are in the machine's byte order: a cache is local, and one from a machine of the other
 * order fails the version check and is built again. */
#ifndef DATA_CORPUS_FILE_H
#define DATA_CORPUS_FILE_H

#include "data/corpus.h"

#define CORPUS_MAGIC "heedcorp"
enum { CORPUS_VERSION = 1, CORPUS_LINKED = 2 };

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

struct corpus_links {
    uint64_t n_id; /* that links take */
    uint64_t n_linked, n_unlinked, first_unlinked;
};

/* Bytes of a place in the index, and of what lies between the index and the trailer. */
static inline size_t corpus_place_size(int has_links) {
    return has_links ? sizeof(struct corpus_place) : offsetof(struct corpus_place, n_link);
}
static inline size_t corpus_links_size(int has_links) {
    return has_links ? sizeof(struct corpus_links) : 0;
}

static inline int corpus_width(int32_t n_vocab) { return n_vocab <= UINT16_MAX + 1 ? 2 : 4; }

#endif

/* corpus.h — a parallel corpus, tokenised once into a compact file from which pairs are read one by
 * one.
 *
 * corpus_build turns two text files, line i of one the translation of line i of the other, into a
 * cache file: token ids, end mark included, and where each pair is. Its name contains a key, a hash
 * of both texts as stored, the tokenizer, the filters and the format; asking again with the same
 * content gives the same file without tokenising. Text is
 * streamed and memory does not grow with the corpus, neither while building nor while reading: a
 * pair is fetched from the system's file cache by its position. (A mapping would count as this
 * process's memory; giving its pages back again and again costs ten times as much as reading, and a
 * file cut short under a mapping kills the process.)
 *
 * The file appears under its name only when it is whole and on disk, so a kill at any time leaves
 * either no cache or a good one. A file that is truncated, damaged or foreign is detected by its
 * checksums and sizes when opened, and is built again, never trusted.
 *
 * The result does not depend on the number of threads. A corpus is read-only and may be read by
 * several threads at once. */
#ifndef DATA_CORPUS_H
#define DATA_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"

struct piece_link;
struct tokenizer;
struct words;

enum { CORPUS_KEY_SIZE = 16, CORPUS_MAX_LEN = 1 << 16 };

/* Makes ids of a line. encode writes at most cap ids and returns how many the line has, which may
 * be more than cap (the line is too long then), or a negative status; it is called by several
 * threads at once. */
struct corpus_encoder {
    int (*encode)(const void *ctx, int32_t *ids, int cap, const char *text, size_t size,
                  struct err *err);
    /* The same with the words of the text (words.h; unit: enum words_unit): ids and the word of
     * each to *words, which the calling thread owns. May be NULL where no links are wanted. */
    int (*words)(const void *ctx, struct words *words, int unit, const char *text, size_t size,
                 struct err *err);
    const void *ctx;
    int32_t n_vocab, eos; /* eos -1: lines get no end mark, of a source only */
    int32_t first;        /* with has_first: an id that is put before those of every line */
    int has_first;
    unsigned char hash[CORPUS_KEY_SIZE]; /* equal for encoders that give equal ids, but for first */
};

/* The encoder of a tokenizer, which must outlive it. */
struct corpus_encoder corpus_encoder_of(const struct tokenizer *tokenizer);

/* How far a build has come. Bytes are those of both files as they are stored. */
enum corpus_phase {
    CORPUS_HASHING,
    CORPUS_WAITING,
    CORPUS_TOKENISING
}; /* waiting: for another build */
struct corpus_progress {
    enum corpus_phase phase;
    uint64_t bytes_done, bytes_total;
    uint64_t n_pair, n_tok; /* pairs read and tokens written so far */
};

/* Lengths are in tokens, end mark included. A NULL or zero field means its default. */
struct corpus_options {
    const char *src, *tgt; /* text files: plain, .gz or .xz; regular files, they are read twice */
    /* NULL, or which words of line i of the one translate which of the other: links.h, in words of
     * link_unit (enum words_unit). An empty line says nothing. */
    const char *links;
    int link_unit;
    const char *cache_dir; /* made if it does not exist */
    struct corpus_encoder encoder;
    struct corpus_encoder target; /* of the target's lines; without encode: the same */
    int max_len;  /* longest sentence on either side: 256; the model's max_len must not be less */
    int min_len;  /* shortest: 2, a token and the end mark */
    double ratio; /* longer side / shorter side at most: 9 */
    int ratio_above; /* ... looked at only when the longer side has more tokens than this: 10 */
    int threads;     /* 0: all CPUs */
    int rebuild;     /* ignore an existing cache */
    /* Called now and then on the caller's thread; a negative result ends the build and is
     * returned. */
    int (*progress)(void *ctx, const struct corpus_progress *progress);
    void *progress_ctx;
};

/* Why a pair was dropped: the first reason in this order that holds. */
#define CORPUS_DROP_MAP(X)                                                                         \
    X(CORPUS_EMPTY, "empty")         /* a side has no text */                                      \
    X(CORPUS_TOO_LONG, "too long")   /* a side has more than max_len tokens */                     \
    X(CORPUS_TOO_SHORT, "too short") /* a side has fewer than min_len tokens */                    \
    X(CORPUS_RATIO, "length ratio")  /* one side is ratio times longer than the other */

enum corpus_drop {
#define CORPUS_DROP_ENUM(name, text) name,
    CORPUS_DROP_MAP(CORPUS_DROP_ENUM)
#undef CORPUS_DROP_ENUM
        CORPUS_N_DROP
};
const char *corpus_drop_text(enum corpus_drop why);

/* What the build found. Kept in the cache file, so a reused cache reports the same; only `reused`
 * differs. */
struct corpus_report {
    uint64_t n_read, n_kept;
    uint64_t n_src_tok, n_tgt_tok; /* of the kept pairs, end marks included */
    uint64_t n_dropped[CORPUS_N_DROP];
    uint64_t first_dropped[CORPUS_N_DROP]; /* line number, from 1; 0: none */
    uint64_t n_replaced;     /* bad UTF-8 sequences and NUL bytes that became U+FFFD */
    uint64_t first_replaced; /* line number of the first, from 1; 0: none */
    uint64_t n_linked;       /* kept pairs with links */
    uint64_t n_unlinked; /* those whose links do not fit their words, or are too many: ignored */
    uint64_t first_unlinked; /* line number of the first, from 1; 0: none */
    int reused;              /* the cache was there: nothing was tokenised */
};

/* Zeroed is closed. */
struct corpus {
    int is_file, fd;           /* the open file, or ... */
    const unsigned char *data; /* ... the memory it was opened from */
    uint64_t size;
    unsigned char key[CORPUS_KEY_SIZE];
    int64_t n_pair;
    int32_t n_vocab, eos; /* of the larger vocabulary, and of the target */
    int max_src, max_tgt; /* longest sentence of each side */
    int width;            /* bytes per id, 2 or 4 */
    int has_links;        /* built with them */
    uint64_t n_link_id;   /* what they take, counted in ids */
    struct corpus_report report;
};

/* The corpus of two text files, from the cache or built into it. Errors: files with different
 * numbers of lines (HEED_EFORMAT, naming both), nothing kept (HEED_EFORMAT, saying why), text that
 * cannot be read or changes meanwhile, a cache directory that cannot be written, a full disk.
 * *report, if not NULL, is always filled. */
int corpus_build(struct corpus *corpus, const struct corpus_options *options,
                 struct corpus_report *report, struct err *err);

/* Finds what is wrong with a text from its beginning: it is missing, unreadable, not a regular
 * file, or of a kind that is not supported. */
int corpus_check_text(const char *path, struct err *err);

/* An existing cache file; HEED_EFORMAT when anything in it is wrong. Reads the file
 * once, to check it, in bounded memory. corpus_open_memory borrows the bytes. */
int corpus_open(struct corpus *corpus, const char *path, struct err *err);
int corpus_open_memory(struct corpus *corpus, const void *data, size_t size, struct err *err);
void corpus_close(struct corpus *corpus);

/* Where a pair lies and how long its sides are, each in [1, max_src] and [1, max_tgt]. */
struct corpus_place {
    uint64_t start; /* of the source ids, counted in ids; the target ids follow */
    int32_t n_src, n_tgt;
    int32_t n_link, n_link_id; /* links of the pair, and what they take, in ids; behind the target
                                  ids. 0 in a corpus without links */
};

/* Finds pair i in [0, n_pair), and reads a pair found: ids, each in [0, n_vocab), to buffers that
 * hold n_src and n_tgt of them. They fail only when the file cannot be read or was changed since it
 * was opened. */
int corpus_find(const struct corpus *corpus, int64_t i, struct corpus_place *place,
                struct err *err);
int corpus_read(const struct corpus *corpus, const struct corpus_place *place, int32_t *src,
                int32_t *tgt, struct err *err);

/* The links of a pair found, to link[place->n_link], which is at most LINKS_PER_TOKEN times its
 * tokens. `scratch` holds place->n_link_id ids. Fails as corpus_read does. */
int corpus_read_links(const struct corpus *corpus, const struct corpus_place *place,
                      struct piece_link *link, int32_t *scratch, struct err *err);

/* One line: "157,739 pairs read, 156,001 kept; dropped: 12 empty (first: line 77), ...". */
void corpus_report_text(const struct corpus_report *report, char *text, size_t size);

#endif

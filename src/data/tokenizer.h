/* tokenizer.h — text to token ids and back: SentencePiece models, learnt or opened.
 *
 * A tokenizer is an ordinary SentencePiece .model file; other tools open ours, we open theirs. It
 * keeps the file's bytes, so that a model directory stores an exact copy and caches can be keyed by
 * its hash. Files are hostile, and checked as they are read. Vocabularies are learnt by the
 * SentencePiece library (sentencepiece.h) and used by our own code (spm.h).
 *
 * The files we learn have unk 0, bos 1, eos 2 and no padding. In other people's files these ids are
 * what the file says, and may be missing (-1): tokenizer_check_ends tells whether translation can
 * work with it.
 *
 * A model that was learnt elsewhere may count its tokens in another way than the file counts
 * pieces: then a vocabulary (vocabulary.h) says which token has which id, and all ids here are the
 * vocabulary's. A piece that it does not have is unknown. Of a token that is no piece of the file,
 * the text is its spelling, or nothing where it is a mark: one of the tokenizer's marks, a hidden
 * token, or spelled <...> or >>...<<. What the file does not know but the vocabulary has as one
 * token is that token, as in the programs these models come from.
 *
 * An open tokenizer never changes and may be used by several threads at once. */
#ifndef DATA_TOKENIZER_H
#define DATA_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ---- using ----------------------------------------------------------------------------------- */

enum {
    TOKENIZER_HASH_SIZE = 16,
    TOKENIZER_HASH_TEXT = 2 * TOKENIZER_HASH_SIZE + 1,
    TOKENIZER_MAX_FILE = 64 << 20, /* bytes; the largest in the wild are near 5 MB */
    TOKENIZER_MAX_TEXT = 1 << 24   /* bytes of one text to encode */
};

struct tokenizer;

/* HEED_EFORMAT for anything that is not a sound model. The memory is copied. */
int tokenizer_open(struct tokenizer **tokenizer, const char *path, struct err *err);
int tokenizer_open_memory(struct tokenizer **tokenizer, const void *data, size_t size,
                          struct err *err);
void tokenizer_free(struct tokenizer *tokenizer);

/* Ids with a meaning, where a model says which they are; TOKENIZER_OF_FILE: the file does, or the
 * tokens of the vocabulary that are spelled as in the file. -1: there is none. */
enum { TOKENIZER_OF_FILE = -2 };
struct tokenizer_marks {
    int start, end, unknown; /* start -1: the zero vector; there is always an unknown */
};
#define TOKENIZER_FILE_MARKS                                                                       \
    { TOKENIZER_OF_FILE, TOKENIZER_OF_FILE, TOKENIZER_OF_FILE }

/* A tokenizer as one side of a model has it. The model's bytes must stay as long as the tokenizer;
 * everything else is copied. Names are for messages. */
struct tokenizer_parts {
    const char *name, *vocabulary_name;
    const void *model, *vocabulary; /* the files' bytes; vocabulary NULL: ids are pieces */
    size_t n_model, n_vocabulary;
    struct tokenizer_marks marks;
    const char *const *hidden; /* [n_hidden] more tokens that stand for no text */
    int n_hidden;
};

/* HEED_EFORMAT also for marks that the vocabulary does not have. */
int tokenizer_open_parts(struct tokenizer **tokenizer, const struct tokenizer_parts *parts,
                         struct err *err);

int tokenizer_size(const struct tokenizer *tokenizer); /* ids are in [0, size) */
int tokenizer_unk(const struct tokenizer *tokenizer);
int tokenizer_bos(const struct tokenizer *tokenizer); /* -1: none */
int tokenizer_eos(const struct tokenizer *tokenizer); /* -1: none */

/* 0 when the tokenizer has the beginning and the end mark that translation models need, or was
 * told to have none. */
int tokenizer_check_ends(const struct tokenizer *tokenizer, struct err *err);

/* The SentencePiece file's bytes, and whether ids are not its own. */
const void *tokenizer_bytes(const struct tokenizer *tokenizer, size_t *size);
int tokenizer_has_vocabulary(const struct tokenizer *tokenizer);

/* Equal for tokenizers that give equal ids: XXH3-128 of the file in its canonical byte order, or of
 * that, the vocabulary and the marks, where there are any; as text it is in hex. */
void tokenizer_hash(const struct tokenizer *tokenizer, unsigned char hash[TOKENIZER_HASH_SIZE]);
void tokenizer_hash_text(const struct tokenizer *tokenizer, char text[TOKENIZER_HASH_TEXT]);
int tokenizer_equal(const struct tokenizer *a, const struct tokenizer *b);

/* Is it a mark that stands for no text: bos, eos, padding, tags? */
int tokenizer_is_control(const struct tokenizer *tokenizer, int id);

/* The id of the piece or token spelled so, or -1. */
int tokenizer_find(const struct tokenizer *tokenizer, const char *piece);

/* The piece as the file spells it (U+2581 for a space), or NULL for an id out of range. */
const char *tokenizer_piece(const struct tokenizer *tokenizer, int id);

/* How many ids the text has, no end mark among them; the first `cap` of them are written. Text may
 * be anything: bytes that are not UTF-8 count as U+FFFD. Negative: HEED_ELIMIT beyond
 * TOKENIZER_MAX_TEXT or where the file's rules make too much of it, HEED_ENOMEM, HEED_EINTERNAL
 * (spm_encode). */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t size, int32_t *ids,
                     int cap);
/* The same, the end mark included, if there is one. */
int tokenizer_encode_end(const struct tokenizer *tokenizer, const char *text, size_t size,
                         int32_t *ids, int cap);

/* Bytes [begin, end) of a text. */
struct span {
    int begin, end;
};

/* The same as tokenizer_encode with the bytes of the text that each piece stands for. Pieces lie
 * side by side, each with the space before it; where normalisation makes several characters of one,
 * all but the last of their pieces may be empty. */
int tokenizer_encode_spans(const struct tokenizer *tokenizer, const char *text, size_t size,
                           int32_t *ids, struct span *span, int cap);

/* The text of n ids: how many bytes it has; it is written, followed by a NUL, if that fits in cap.
 * bos, eos and other control ids give nothing, unk gives " U+2047 ", an id out of range is
 * HEED_EINVAL. Bytes of a byte-fallback tokenizer that are not UTF-8 when put together become
 * U+FFFD. */
int tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, int n, char *out,
                     size_t cap);
/* The same with the bytes of the text that each id made: span[n]. */
int tokenizer_decode_spans(const struct tokenizer *tokenizer, const int32_t *ids, int n, char *out,
                           size_t cap, struct span *span);

/* ---- learning -------------------------------------------------------------------------------- */

enum tokenizer_type { TOKENIZER_UNIGRAM, TOKENIZER_BPE, TOKENIZER_WORD, TOKENIZER_CHAR };

enum {
    TOKENIZER_MIN_SIZE = 4,       /* unk, bos, eos and a piece */
    TOKENIZER_MAX_SIZE = 1 << 20, /* pieces */
    TOKENIZER_MAX_LINE = 8192,   /* bytes: longer lines are not sentences and are not learnt from */
    TOKENIZER_SAMPLE_LINE = 128, /* bytes kept per line of the sample, on average */
    TOKENIZER_MAX_SYMBOLS = 1000,
    TOKENIZER_MAX_SYMBOL = 64,  /* bytes */
    TOKENIZER_MAX_THREADS = 128 /* of SentencePiece */
};

/* What learning found. Filled in as it goes, complete at the end. */
struct tokenizer_report {
    uint64_t lines, bytes;      /* read, of all files */
    uint64_t file_at, file_end; /* bytes of the file at hand and its size, 0 if unknown */
    uint64_t empty;             /* lines without text */
    uint64_t too_long;          /* lines over TOKENIZER_MAX_LINE, not learnt from */
    /* lines with U+2585, which SentencePiece keeps for itself; not learnt from */
    uint64_t reserved;
    uint64_t replaced;               /* bad UTF-8 sequences and NUL bytes */
    uint64_t sampled, sampled_bytes; /* learnt from */
    int pieces;
    int chars, chars_unknown; /* different characters read; those that become unk (0 for words) */
    uint64_t unknown;         /* occurrences of the latter */
};

struct tokenizer_train_options {
    const char *const *input; /* text files, see data/text.h */
    int n_input;
    const char *out; /* replaced when all is done */
    int size;        /* pieces, special ones included; TOKENIZER_CHAR may end with fewer */
    enum tokenizer_type type;
    int byte_fallback; /* 256 pieces for bytes: no text is unknown */
    int split_digits;  /* each digit is a piece of its own: numbers are spelt, not memorised */
    /* Pieces of the user's own, "A,B" (a comma in one is "\\,"), or NULL: never part of another
     * piece, never split, whatever the text around them. Text has them where it spells them. One
     * may begin with U+2581, the space before it: text has it at the beginning of words alone. */
    const char *symbols;
    double coverage; /* share of characters that get a piece, 0.98 to 1; 0: 1 */
    /* nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity; NULL: nmt_nfkc */
    const char *normalization;
    uint64_t sample; /* most lines to learn from, drawn evenly; 0: tokenizer_sample_lines */
    uint64_t seed;   /* of the sample */
    int threads;     /* 0: 16 whatever the machine, as they enter the result of unigram */
    /* Called now and then, file being the input at hand or NULL once learning begins; a negative
     * result ends the work and is returned. */
    int (*progress)(void *ctx, const struct tokenizer_report *report, const char *file);
    void *progress_ctx;
};

/* Learns a tokenizer and writes it to out. Memory is bounded by the sample, not by the text.
 * *report may be NULL. */
int tokenizer_train(const struct tokenizer_train_options *options, struct tokenizer_report *report,
                    struct err *err);

/* The same once for the same texts and options: *path is the tokenizer in the cache directory,
 * under a name that is a hash of all that decides it, learnt now unless it is there (*reused). The
 * texts must be regular files, and options->out is not used. xfree(*path). */
int tokenizer_cached(char **path, int *reused, const struct tokenizer_train_options *options,
                     const char *cache_dir, struct err *err);

uint64_t tokenizer_sample_lines(enum tokenizer_type type);

/* Of enum tokenizer_type, and what normalization may be; both NULL-terminated. */
extern const char *const tokenizer_type_names[], *const tokenizer_normalizations[];

#endif

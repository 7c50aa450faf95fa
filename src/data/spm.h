/* spm.h — text to the pieces of a SentencePiece file and back.
 *
 * The same ids, spans and texts as the SentencePiece library's, which is what this is judged by
 * (tests/test_spm.c). The library took most of the time that a model needs until its first
 * translation: docs/data.md has the figures. Learning a vocabulary is the library's
 * (sentencepiece.h).
 *
 * What it refuses beyond what the library does: pieces with NUL bytes, scores that are not numbers,
 * and rules or pieces of the user's own on which the library would leave its memory. A file that
 * brings texts to test it with is opened by the library once, which runs them.
 *
 * An open file never changes and may be used by several threads at once. */
#ifndef DATA_SPM_H
#define DATA_SPM_H

#include "data/pieces.h"

struct spm;

/* Refers to the data, which must stay. */
int spm_open(struct spm **spm, const void *data, size_t size, struct err *err);
void spm_free(struct spm *spm);

const struct pieces *spm_pieces(const struct spm *spm);
int spm_unk(const struct spm *spm);
int spm_bos(const struct spm *spm); /* -1: none */
int spm_eos(const struct spm *spm); /* -1: none */

int spm_find(const struct spm *spm, const char *piece, size_t size); /* -1: there is none */

/* Characters that the model does not have come as one unknown piece; find says what else it is, -1
 * for nothing, and its id is then -2 - find(). */
struct spm_finder {
    int (*find)(const void *ctx, const char *piece, size_t size);
    const void *ctx;
};

/* Where ids, and the bytes of each piece if span is not NULL, go: [cap]. finder may be NULL. */
struct spm_out {
    int32_t *ids;
    struct span *span;
    int cap;
    const struct spm_finder *finder;
};

/* See tokenizer_encode_spans. HEED_EINTERNAL: a control piece is spelled like text, and this text
 * has it. */
int spm_encode(const struct spm *spm, const char *text, size_t size, const struct spm_out *out);

/* See tokenizer_decode_spans; span may be NULL. */
int spm_decode(const struct spm *spm, const int32_t *ids, int n, char *out, size_t cap,
               struct span *span);

/* The same of pieces by their spelling. Those that the model does not have are text. */
int spm_decode_pieces(const struct spm *spm, const char *const *piece, int n, char *out, size_t cap,
                      struct span *span);

#endif

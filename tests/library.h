/* library.h — the SentencePiece library using a file, as C: what data/spm.h and data/subword.h are
 * judged by. No exception leaves it, and nothing is printed. It trusts what it opens: these are to
 * be files that spm_open took. */
#ifndef TESTS_LIBRARY_H
#define TESTS_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#include "data/tokenizer.h"

struct sp;

int sp_open(struct sp **sp, const void *model, size_t size); /* 0 or HEED_EFORMAT */
void sp_free(struct sp *sp);

int sp_size(const struct sp *sp);
int sp_unk(const struct sp *sp);
int sp_bos(const struct sp *sp);
int sp_eos(const struct sp *sp);
const char *sp_piece(const struct sp *sp, int id); /* id in [0, size) */
int sp_is_control(const struct sp *sp, int id);
int sp_find(const struct sp *sp, const char *piece); /* -1: there is none */

/* As tokenizer_encode_spans and tokenizer_decode_spans, with spans in any case. */
int sp_encode(const struct sp *sp, const char *text, size_t size, int32_t *ids, struct span *span,
              int cap);
int sp_decode(const struct sp *sp, const int32_t *ids, int n, char *out, size_t cap,
              struct span *span);
/* The same of pieces by their spelling; U+2581 stays in those that the model does not have. */
int sp_decode_pieces(const struct sp *sp, const char *const *piece, int n, char *out, size_t cap,
                     struct span *span);

/* Draws from a generator of the thread; sp_seed counts for threads that have not drawn yet. */
int sp_sample(const struct sp *sp, const char *text, size_t size, float amount, int32_t *ids,
              int cap);
void sp_seed(unsigned seed);

/* NULL, or in words what spm does otherwise than the library: about the whole file, about a text,
 * there and back, and about ids. */
struct spm;
const char *differ_file(const struct spm *spm, const struct sp *sp);
const char *differ_text(const struct spm *spm, const struct sp *sp, const char *text, size_t size);
const char *differ_ids(const struct spm *spm, const struct sp *sp, const int32_t *ids, int n);

#endif

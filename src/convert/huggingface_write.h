/* huggingface_write.h — a model as a directory that Hugging Face's transformers opens as a MarianMT
 * model.
 *
 *     model.safetensors         its tensors by MarianMTModel's names, F32 or F16
 *     config.json               its shape
 *     generation_config.json    how to search with it
 *     vocab.json                token to id; target_vocab.json where the target has another
 *     source.spm, target.spm    SentencePiece files
 *     tokenizer_config.json     for MarianTokenizer
 *
 * MarianMT is the paper's model with any table of positions, a bias of the output and silu or gelu
 * if wanted. Pre-norm layers, embedding norms, local attention, SSRUs and heads that do not add up
 * to d_model are refused by name. A start from the zero vector becomes a token <pad> whose
 * embedding is zero, as in every OPUS-MT model there. docs/formats.md has the table of names. */
#ifndef CONVERT_HUGGINGFACE_WRITE_H
#define CONVERT_HUGGINGFACE_WRITE_H

#include "model/modeldir.h"
#include "model/tongues.h"

/* Writes DIR from an open model and what it reads and writes; as a whole or not at all. half: all
 * tensors in f16, which a value beyond its range forbids. */
int huggingface_write(const char *dir, const struct modeldir *md, const struct tongues *tongues,
                      int half, struct err *err);

#endif

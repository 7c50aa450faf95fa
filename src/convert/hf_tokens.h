/* hf_tokens.h — vocabularies and languages of Hugging Face models.
 *
 * Marian   vocab.json (and target_vocab.json) over source.spm and target.spm; >>xx<< before the
 *          source names the target language
 * M2M100   vocab.json over sentencepiece.bpe.model, and __xx__ of each language behind it
 * NLLB, mBART-50    sentencepiece.bpe.model alone: <s> <pad> </s> <unk>, its pieces, languages
 *
 * Tokens behind the vocabulary are listed in added_tokens_decoder of tokenizer_config.json, in
 * tokenizer.json or in additional_special_tokens. Ids that the model has and nobody names become
 * <unused-ID>. */
#ifndef CONVERT_HF_TOKENS_H
#define CONVERT_HF_TOKENS_H

#include "convert/foreign.h"

enum hf_tokens { HF_MARIAN, HF_M2M100, HF_FAIRSEQ };

/* Fills in source, target, languages and unknown; config has the sizes. */
int hf_tokens_read(struct foreign *model, struct bundle *bundle, enum hf_tokens kind,
                   struct err *err);

#endif

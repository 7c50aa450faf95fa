/* words.h — a tokenizer for models that come without one: texts whose tokens are separated by
 * spaces.
 *
 * It is an ordinary SentencePiece file of the kind that has one piece per word, made of the
 * model's vocabulary in its order. Whoever has tokenised a text elsewhere can translate it so. */
#ifndef CONVERT_WORDS_H
#define CONVERT_WORDS_H

#include "convert/foreign.h"

/* Gives both sides, whose vocabularies have been read, such tokenizers; tokens become their pieces,
 * with U+2581 before each. Memory is taken from model->keep. */
int words_tokenizers(struct foreign *model, struct err *err);

#endif

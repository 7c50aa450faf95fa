/* ct2_write.h — a model as a directory that CTranslate2 (versions 3 and 4) loads.
 *
 *     model.bin                 every variable by name: shape, type, values; equal ones as aliases
 *     config.json               the special tokens, and whether CTranslate2 adds them
 *     shared_vocabulary.json    the tokens in order; source_ and target_ where each side has others
 *     tokenizer.model           a copy: CTranslate2 wants pieces, this makes them; source.spm and
 *                               target.spm where there are two
 *
 * All of our architecture has an equivalent there, except for local attention (`window`) and heads
 * whose keys and values differ in width; those are refused by name. The result scores as our f32
 * does, up to rounding. docs/formats.md has the table of names. */
#ifndef CONVERT_CT2_WRITE_H
#define CONVERT_CT2_WRITE_H

#include "model/modeldir.h"
#include "model/tongues.h"

/* Writes DIR from an open model and what it reads and writes; int8: matrices quantised by
 * CTranslate2's rule, one scale per row, or as they are. As a whole or not at all. */
int ctranslate2_write(const char *dir, const struct modeldir *md, const struct tongues *tongues,
                      int int8, struct err *err);

#endif

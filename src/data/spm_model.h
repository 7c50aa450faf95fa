/* spm_model.h — what spm.c, spm_encode.c and spm_decode.c share. */
#ifndef DATA_SPM_MODEL_H
#define DATA_SPM_MODEL_H

#include "data/piecemap.h"
#include "data/rules.h"
#include "data/spm.h"

struct spm {
    struct pieces pieces;
    /* by spelling: pieces that text is made of; all others */
    struct piecemap text, reserved;
    struct trie user; /* of the former, those of the user's own */
    bool has_user, has_unused;
    bool joins_words; /* some piece has a space mark behind another character */
    bool ambiguous;   /* some spelling is of two pieces */
    struct rules rules, derules;
    int unk, bos, eos;
    float least, most; /* scores of normal pieces */
    int byte_id[256];
};

static const char spm_space[] = "\xE2\x96\x81"; /* U+2581 */
enum { SPM_SPACE = sizeof spm_space - 1 };

/* Which piece the library takes it for: marks first; the unknown one if there is none. */
int spm_id_of(const struct spm *spm, const char *text, size_t size);

#endif

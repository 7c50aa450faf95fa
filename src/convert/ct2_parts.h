/* ct2_parts.h — what the two files of the reader of CTranslate2's models share. */
#ifndef CONVERT_CT2_PARTS_H
#define CONVERT_CT2_PARTS_H

#include "convert/ct2_file.h"
#include "convert/foreign.h"

/* The reader of a struct foreign. */
struct ct2 {
    struct ct2_file file;
    const char *prefix; /* of the names of files: "model/" or "" */
    struct bundle *bundle;
    const char *where;     /* begins messages */
    json_t *config;        /* config.json, or NULL */
    const char *embedding; /* the encoder's */
};

/* A scalar of a stack; in old models, of both. */
double ct2_setting(const struct ct2 *ct2, int decoder, const char *name, double otherwise);

/* Vocabularies, special tokens, languages, and what the package around the model says. */
int ct2_tokens_read(struct foreign *model, struct err *err);

#endif

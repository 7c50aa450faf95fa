/* import.h — opens a model of any format that there is a reader for, found by looking. */
#ifndef CONVERT_IMPORT_H
#define CONVERT_IMPORT_H

#include "base/file.h"
#include "convert/foreign.h"

/* IMPORT_AUTO, or a format's place in the list of readers plus 1. */
enum { IMPORT_AUTO };
extern const char *const import_format_names[]; /* "auto" and the readers', NULL-terminated */

struct import_options {
    const char *path;
    int format;
    /* SentencePiece files in place of the model's own, or IMPORT_WORDS; NULL: its own. */
    const char *tokenizer, *target_tokenizer;
};

/* In place of a file: tokens are separated by spaces, and there are no others than the
 * vocabulary's. */
#define IMPORT_WORDS "words"

struct import {
    struct bundle *bundle;
    struct foreign model;
    struct file_map tokenizer[2];
};

/* HEED_EFORMAT for what is none of the formats. To be closed, after an error too. */
int import_open(struct import *import, const struct import_options *options, struct err *err);
void import_close(struct import *import);

#endif

/* attend_find.h — `heed attend --find`: all heads of a model measured over many sentences
 * (search/survey.h), as a table or JSON, and the heads that show best what the paper's figures 3 to
 * 5 show, as pictures. */
#ifndef CLI_ATTEND_FIND_H
#define CLI_ATTEND_FIND_H

#include "search/engine.h"

struct find_options {
    const char *src, *tgt; /* sentences and their translations; NULL: none, the model's own */
    const char *links;     /* between words of src */
    const char *trees;     /* more sentences, with their trees */
    const char *out;       /* directory of the pictures; NULL: none */
    int lines;             /* of each file at most; 0: all */
    int json, quiet;
};

int attend_find(struct engine *engine, const struct engine_tags *tags,
                const struct find_options *options, struct err *err);

#endif

/* attend_find.h — `heed attend --find`: what all heads of a model do in many sentences
 * (viz/findings.h), as a table or JSON, and as pictures. */
#ifndef CLI_ATTEND_FIND_H
#define CLI_ATTEND_FIND_H

#include "viz/findings.h"

struct attend_find {
    struct findings_options what;
    int json, quiet;
};

int attend_find(struct engine *engine, const struct engine_tags *tags,
                const struct attend_find *how, struct err *err);

#endif

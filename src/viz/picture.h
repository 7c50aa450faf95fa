/* picture.h — what a model looked at in one sentence and its translation (search/look.h), as a
 * picture in a file (attention.h).
 *
 * Rows of the decoder are named after the token they write, which is the one after their input:
 * that is the question a reader has ("what did it look at when it wrote this?"). */
#ifndef VIZ_PICTURE_H
#define VIZ_PICTURE_H

#include "search/look.h"

enum picture_format { PICTURE_SVG, PICTURE_HTML, PICTURE_JSON };

struct picture {
    enum picture_format format;
    int layer, head; /* only these, counted from 1; 0: all */
};

/* Draws what was kept; an SVG has the last kind of attention that was. *n_head: the heads that were
 * drawn. The look's matrices are used up. */
int picture_write(const char *path, const struct picture *picture, const struct look *look,
                  int *n_head, struct err *err);

#endif

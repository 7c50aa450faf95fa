/* markdown_inline.h — the inside of a paragraph of Markdown. Only markdown.c includes it. */
#ifndef TEXT_MARKDOWN_INLINE_H
#define TEXT_MARKDOWN_INLINE_H

#include "text/flow.h"

/* The lines of a paragraph, without what marks them as such; a line's end may have blanks, which
 * are a hard break if they are two. */
struct markdown_lines {
    struct piece *line; /* [n] */
    int n, room;
    /* Bytes that may still be looked at in search of what closes a bracket: what is nested without
     * end is words. */
    size_t budget;
};

/* Tells the flow what is in them. */
void markdown_inline(struct flow *flow, struct markdown_lines *lines);

#endif

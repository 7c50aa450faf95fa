/* translate_print.h — a translation as lines of text or JSON. docs/translate.md describes the
 * formats. */
#ifndef CLI_TRANSLATE_PRINT_H
#define CLI_TRANSLATE_PRINT_H

#include "cli/outlet.h"
#include "data/feed.h"
#include "search/translator.h"

struct print_options {
    int json, nbest, scores;
    int own_ends;                            /* lines end as those of the text did */
    int alignment;                           /* enum alignment */
    const struct tokenizer *source, *target; /* for the pieces that alignments in JSON refer to */
};

/* One line, or with nbest one per candidate. */
void translate_print(struct outlet *out, const struct print_options *options,
                     const struct feed_line *line, const struct translation *translation);

/* New references: the words of a text, and links as pairs of numbers. */
json_t *print_words(const char *text, const struct span *word, int n);
json_t *print_links(const struct align_link *link, int n);

#endif

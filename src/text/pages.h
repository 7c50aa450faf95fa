/* pages.h — HTML documents through a translator.
 *
 * As translator_run, with documents (markup.h) in place of texts: all sentences of all documents
 * share one window. The translator's options must ask for links between words. Results have texts,
 * scores and notes, but no tokens, words or links; prefixes are not looked at. Candidate k of a
 * document is made of the k-th of every sentence (of its last, where it has fewer).
 *
 * Pages own their results, which are valid until the next run. */
#ifndef TEXT_PAGES_H
#define TEXT_PAGES_H

#include "search/translator.h"

enum { PAGES_MAX = 64 << 20 }; /* bytes of a document */

struct pages;
struct pages *pages_new(struct translator *translator); /* which is borrowed */
void pages_free(struct pages *pages);

int pages_run(struct pages *pages, const struct translator_input *in, int n,
              struct translation *out, const struct translator_poll *poll, struct err *err);

#endif

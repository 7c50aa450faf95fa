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
#include "text/document.h"

enum { PAGES_MAX = DOCUMENT_MAX }; /* bytes of a document */

struct pages;
struct pages *pages_new(struct translator *translator); /* which is borrowed */
void pages_free(struct pages *pages);

int pages_run(struct pages *pages, const struct translator_input *in, int n,
              struct translation *out, const struct translator_poll *poll, struct err *err);

/* A file of any format (document.h), whose document_format the translator's options must have. */
struct pages_file {
    char *bytes; /* xfree it; NULL after an error */
    size_t size;
    unsigned notes; /* enum translation_notes */
};
int pages_document(struct pages *pages, const struct document *document, struct pages_file *out,
                   const struct translator_poll *poll, struct err *err);

#endif

/* pages.h — HTML documents, and texts with placeholders, through a translator.
 *
 * As translator_run, with documents (markup.h) in place of texts where the format is HTML: all
 * sentences of all documents share one window. The translator's options must ask for links between
 * words then. Results have texts, scores and notes, but no tokens, words or links; prefixes are not
 * looked at. Candidate k of a document is made of the k-th of every sentence (of its last, where it
 * has fewer).
 *
 * Where the format is text, those texts that have placeholders or emoji within a sentence go the
 * same way, through a translator of the pages' own, which knows links; unless they have a prefix or
 * links are asked for. Everything else is translator_run.
 *
 * Pages own their results, which are valid until the next run. */
#ifndef TEXT_PAGES_H
#define TEXT_PAGES_H

#include "search/translator.h"
#include "text/document.h"

enum { PAGES_MAX = DOCUMENT_MAX }; /* bytes of a document */

struct pages;
/* The engine is the translator's; both are borrowed. pages_set must follow. */
struct pages *pages_new(const struct engine *engine, struct translator *translator);
void pages_free(struct pages *pages);

/* The options that the translator is set to; what they point to is borrowed until the next set. */
void pages_set(struct pages *pages, const struct translator_options *options);

/* Of the translator that knows links; NULL if there was no need for it. */
const struct translator_stats *pages_stats(const struct pages *pages);

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

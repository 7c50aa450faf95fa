/* speller.h — how a tokenizer writes a term.
 *
 * A term is written as it is given, or with its first letter a capital, or, where that is asked
 * for, all in capitals; each behind a space, and without one, as behind a bracket. So a term has up
 * to TERM_FORMS forms (terms.h), and the search takes the one that suits.
 *
 * A speller borrows its tokenizer and never changes: any number of threads may use it. */
#ifndef SEARCH_SPELLER_H
#define SEARCH_SPELLER_H

#include "base/keep.h"
#include "data/tokenizer.h"
#include "search/terms.h"

struct speller;

struct speller *speller_new(const struct tokenizer *tokenizer);
void speller_free(struct speller *speller);

/* [pieces] what terms_view needs to know of each. */
const uint8_t *speller_edge(const struct speller *speller);

/* The forms of a text of at most SPELLER_MAX bytes, which is UTF-8; they lie in keep. Those that
 * need a piece that the tokenizer does not have are left out; 0 if none is left. */
enum { SPELLER_MAX = 256 };
int speller_term(const struct speller *speller, struct term *term, const char *text, size_t size,
                 int capitals, struct keep *keep);

/* Every letter in capitals, or the first; to out, which has room for twice the size. Returns the
 * new size. */
size_t speller_capitals(char *out, const char *text, size_t size, int only_first);

#endif

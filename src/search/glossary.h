/* glossary.h — terms and their translations, and which of them a sentence has.
 *
 * Finding. A term is found in a text as whole words (data/words.h), the longest first, from left
 * to right; what has been found once is not looked into again. A term in small letters is found
 * however the text writes it; one with a capital only as it is written, or all in capitals:
 * "network" is found in "Network" and "NETWORK", "IT" is not found in "it". Of two lines with the
 * same source term the later counts. Other forms of a word (plural, case) are other terms.
 *
 * The time to find terms is linear in the text, whatever the number of terms: a term has at most
 * GLOSSARY_MAX_WORDS words, and each word of a text begins one walk of at most that length.
 *
 * Writing is the speller's work. What the tokenizer has no pieces for cannot be asked of a model,
 * and is left out.
 *
 * A glossary belongs to whoever made it. Once it is complete it does not change, and any number of
 * threads may use it. The terms found in a sentence lie in the caller's keep.
 *
 * Files are hostile: sizes are checked, and messages name the line. docs/translate.md has the
 * format. */
#ifndef SEARCH_GLOSSARY_H
#define SEARCH_GLOSSARY_H

#include "base/keep.h"
#include "data/words.h"
#include "search/speller.h"

enum {
    GLOSSARY_MAX_TERM = SPELLER_MAX, /* bytes */
    GLOSSARY_MAX_WORDS = 32,         /* of a source term */
    GLOSSARY_MAX_CASES = 8,          /* source terms that differ in nothing but capitals */
    GLOSSARY_MAX_TERMS = 1 << 20
};

struct glossary;

struct glossary *glossary_new(void);
void glossary_free(struct glossary *glossary);

/* Adds a term, or another translation for one that is there, in its place. Text that is not UTF-8
 * is refused. */
int glossary_add(struct glossary *glossary, const char *source, size_t source_size,
                 const char *target, size_t target_size, struct err *err);

/* A file of terms. Where its first line names the languages of its columns, those of the model
 * choose: source, target, or NULL where they are not known. Otherwise the first column is the
 * source, or, in reverse, the second. */
struct glossary_file {
    const char *path;
    const char *source, *target;
    int reverse;
};
int glossary_open(struct glossary **glossary, const struct glossary_file *file, struct err *err);

int glossary_size(const struct glossary *glossary);

/* Who looks for terms, and where: one thread. */
struct glossary_search {
    const struct glossary *glossary;
    const struct speller *speller;
    struct words *words; /* scratch */
    struct keep *keep;   /* where what is found lies */
    int missed;          /* terms that cannot be written, and those beyond TERMS_MAX */
    /* Out: the text with the translations of terms in the places of these; NULL where there is
     * none. A model that knows the words of both languages puts a term where the source has it. */
    const char *said; /* [n_said] */
    size_t n_said;
};

/* The terms of a text, which is UTF-8, or NULL where it has none that can be written; how->missed
 * is raised by those that are left out. */
const struct terms *glossary_find(struct glossary_search *how, const char *text, size_t size);

#endif

/* pairs.h — which pairs of languages a model is served for.
 *
 * Those that are named ("en-de,en-fr"); else the one that its card says (model/card.h); else, of a
 * model that is told its languages (model/tongues.h), each of them into each other. What was named,
 * or is on a card, goes before what a model could do as well; of the latter the first model is
 * taken. A model's own name of a language (eng_Latn) is found by the code that clients use (en).
 *
 * Owns the list and its strings, but for the directories. Files are read, models are not opened. */
#ifndef SERVE_PAIRS_H
#define SERVE_PAIRS_H

#include "base/keep.h"
#include "serve/desk.h"
#include "serve/languages.h"

enum { PAIRS_MAX_LANGUAGES = 256 }; /* of a model whose pairs are not named */

/* A directory, and pairs in named[0..size), or NULL. */
struct pairs_from {
    const char *dir, *named;
    size_t size;
};

struct pairs {
    struct desk_model *model; /* [n]; those of a directory have the same pointer to it */
    int n, cap;
    struct keep keep;
};

/* Begin with {0}; release in any case. HEED_EINVAL where a pair is none, is there twice, or is not
 * one of the model's. */
int pairs_find(struct pairs *pairs, const struct pairs_from *from, int n, struct err *err);
void pairs_release(struct pairs *pairs);

/* "en-de": 0, or -1 if it is no pair of languages. */
int pairs_parse(char code[2][LANGUAGES_CODE], const char *word, size_t size);

/* What is before the '=' of "en-de=PATH", or NULL; *rest: what is behind it, or all. */
const char *pairs_before(const char *word, size_t *size, const char **rest);

/* The model of a pair by its number; -1 if there is none. */
int pairs_model(const struct pairs *pairs, const char *source, const char *target);

#endif

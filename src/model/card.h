/* card.h — what a model is for: the languages it translates between, the terms on which it may be
 * used, a line about it.
 *
 * It is the "card" of config.json. `heed describe` writes it, `heed models` shows it, and whoever
 * looks for a model by language reads it. Nothing that a model computes depends on it, but
 * the source's language decides where the sentences of a text end (data/sentences.h).
 *
 * Its texts come from outside and end up on terminals: they are short and have no control
 * characters. Languages are tags of BCP 47 ("de", "pt-BR", "zh-Hant"), checked for their form. */
#ifndef MODEL_CARD_H
#define MODEL_CARD_H

#include <jansson.h>

#include "base/options.h"

/* NULL where nothing is said. The texts belong to whoever gave them. */
struct card {
    const char *source, *target; /* languages */
    const char *licence;         /* an SPDX identifier, or a short text */
    const char *description;
};

extern const struct option card_rows[]; /* every field */

/* The message begins with the field's name. An empty text is refused, too. */
int card_check(const struct card *card, struct err *err);

/* Texts stay in the object. NULL: an empty card. `where` begins every message. */
int card_from_json(struct card *card, const json_t *object, const char *where, struct err *err);

/* A new reference; NULL where nothing is said. */
json_t *card_to_json(const struct card *card);

/* Does the tag belong to the language? "de" is the language of "de" and of "de-AT"; a model that
 * does not say (tag NULL) is of none. language NULL: any will do. */
int card_speaks(const char *tag, const char *language);

#endif

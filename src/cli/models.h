/* models.h — models by name on the command line: the catalog (model/catalog.h) with the folders of
 * $HEED_MODELS before all others. */
#ifndef CLI_MODELS_H
#define CLI_MODELS_H

#include "base/options.h"
#include "model/catalog.h"

void models_catalog(struct catalog *catalog);

/* The directory of the model that a word names, which may be the word itself; it lasts until the
 * program ends. */
int models_find(const char **dir, const char *word, struct err *err);

/* Adds the model to use to the list, where the user has named none: the default one, or the one
 * that translates between these languages (NULL: any). Unless quiet, it says which on standard
 * error. */
int models_choose(struct option_list *list, const char *from, const char *to, int quiet,
                  struct err *err);

/* Adds all installed models that say their languages, one for each pair of them: where there are
 * several the default one, or the first by name. */
int models_all(struct option_list *list, struct err *err);

#endif

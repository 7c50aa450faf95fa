/* catalog.h — models by name.
 *
 * A model's name is that of its directory. It lies in one of the places, which are searched in this
 * order; a model hides those of the same name in later places:
 *
 *     the folders that the caller names, separated by colons (the value of HEED_MODELS)
 *     models, in the current directory
 *     share/heed/models of the installation that the library or the program belongs to, or else of
 *     the PREFIX that it was built for
 *
 * The model called `default`, usually a link to another one, is what is used where none is named;
 * where there is a single model, that is the default.
 *
 * A directory is taken for a model if it has a config.json; whether it is a sound one is found out
 * by those who open it. Names that cannot be shown as they are (control characters, not UTF-8) and
 * those that begin with a dot are passed over. */
#ifndef MODEL_CATALOG_H
#define MODEL_CATALOG_H

#include "model/card.h"
#include "model/modeldir.h"

struct catalog {
    char **place; /* [n] */
    int n;
};

/* first may be NULL. Looks at the file system, but at no model. */
void catalog_init(struct catalog *catalog, const char *first);
void catalog_release(struct catalog *catalog);

/* The directory `name`, if there is one, or that of the model of that name; xfree(*dir). HEED_EIO
 * says where it was looked for and what is there. */
int catalog_find(char **dir, const struct catalog *catalog, const char *name, struct err *err);

struct catalog_model {
    char *name, *dir;
    int is_default;
};
struct catalog_list {
    struct catalog_model *model; /* [n] sorted by name */
    int n;
};

/* All models; places that cannot be read have none. A `default` that leads to another model of the
 * list is not listed, that one says it. */
void catalog_list(struct catalog_list *list, const struct catalog *catalog);
void catalog_list_release(struct catalog_list *list);

/* ---- by language ----------------------------------------------------------------------------- */

/* What a model says of itself, as long as the notes last; a broken one says nothing. */
struct card catalog_card(const struct catalog_model *model, struct model_notes *notes);

/* Which models of the list translate so; NULL: from, or to, any language. found: [list->n]. */
int catalog_matching(int *found, const struct catalog_list *list, const char *from, const char *to);

/* Does model `at`, whose card this is, come before all others of the list for its languages? en-GB
 * and en-US are one. */
int catalog_comes_first(const struct catalog_list *list, int at, const struct card *card);

#endif

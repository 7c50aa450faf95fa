/* defaults.h — options of the search that a model brings along.
 *
 * A model may be at its best with another beam or length penalty than the paper's, and only it
 * knows which of its layers aligns. The "translate" of its config.json has such options by the
 * names of `heed translate`, {"beam": 6, "alpha": 1}: those whose rows allow it (of_model), which
 * shape a translation; not those about speed, seeds or one call. They hold where the user says
 * nothing. Of an ensemble, the first model's do. */
#ifndef SEARCH_DEFAULTS_H
#define SEARCH_DEFAULTS_H

#include <jansson.h>

#include "model/config.h"
#include "search/translator.h"

/* translator_defaults, and what the object says instead; NULL says nothing. Texts stay in it. An
 * unknown name, a value of another type or out of range, or one that the model does not have (a
 * layer, a head) is HEED_EFORMAT. `where` begins every message. */
int defaults_read(struct translator_options *options, const json_t *translate,
                  const struct config *config, const char *where, struct err *err);

/* Those of the model that an engine has opened. */
struct translator_options defaults_of(const struct engine *engine);

/* Which attention aligns: what was asked for, or else (layer 0) the model's choice. Of the layer
 * that the model chose, its row is read also where only the layer was asked for. */
struct align_options defaults_align(const struct engine *engine, struct align_options wanted);

/* Changes such an object by "NAME=VALUE", or removes NAME by "NAME=". The value is checked by
 * itself (HEED_EINVAL); defaults_read checks the whole. */
int defaults_set(json_t *translate, const char *assignment, struct err *err);

/* The same for which attention aligns; a threshold of 0 leaves that as it is. Makes the object
 * where *translate is NULL. */
int defaults_set_align(json_t **translate, const struct align_options *align, struct err *err);

#endif

/* registry.h — which models serve which pair of languages.
 *
 * A list of models by pair; a pair without one is served by two, source to X and X to target. Of
 * several X that would do, English is taken, else the one whose first model came first. Of several
 * models of one pair the first is taken. Codes are compared without regard to case. A model of many
 * languages is in the list once for each pair, tens of thousands of times, so nothing here looks
 * through the list.
 *
 * Never changes once it is made, and has no threads: whoever shares it counts who holds it. Owns
 * its strings; what serves a pair is the caller's. */
#ifndef SERVE_REGISTRY_H
#define SERVE_REGISTRY_H

#include "serve/desk.h"

struct registry;

/* The n models, and what runs each: server[i]. */
struct registry *registry_new(const struct desk_model *model, void *const *server, int n);
void registry_free(struct registry *registry);

/* What translates from source to target: path[0], then path[1] where it takes two. How many it
 * takes, 0 if there is no way. */
struct registry_step {
    void *server;
    const char *source; /* what it reads */
    struct engine_said said;
    int model; /* its number */
};
int registry_find(const struct registry *registry, const char *source, const char *target,
                  struct registry_step path[2]);

/* Every pair that can be translated, sorted; strings are the registry's. Returns their number;
 * xfree(*pairs). */
int registry_pairs(const struct registry *registry, struct desk_pair **pairs);

#endif

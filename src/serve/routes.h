/* routes.h — the one table of what the server answers. Requests are routed by it, wrong methods
 * refused, OPTIONS answered, and /spec is written from it. */
#ifndef SERVE_ROUTES_H
#define SERVE_ROUTES_H

#include "serve/api.h"

struct route_field {
    const char *name, *type; /* type: string, integer, file, or texts: a string or a list of them */
    int required;
    const char *about, *example;
};

struct route {
    const char *method, *path; /* a path that ends in {name} stands for one more part */
    void (*handle)(struct api *api, struct http_exchange *x);
    const char *tag, *summary, *answer; /* what a 200 has */
    const struct route_field *field;    /* ended by a NULL name */
};

extern const struct route routes[]; /* ended by a NULL method */

/* The description of the table, OpenAPI 3; a new reference. */
json_t *spec_make(void);

#endif

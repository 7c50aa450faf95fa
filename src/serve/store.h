/* store.h — translated files until they are fetched: in memory, for a while, under names that
 * cannot be guessed. The oldest make room. One thread. */
#ifndef SERVE_STORE_H
#define SERVE_STORE_H

#include <stddef.h>

enum { STORE_NAME = 48, STORE_TITLE = 96, STORE_MOST = 128 << 20, STORE_SECONDS = 3600 };

struct stored {
    char name[STORE_NAME];   /* 32 random digits and an extension */
    char title[STORE_TITLE]; /* what a browser may call it: letters, digits, . - _ */
    char *data;
    size_t size;
    double until;
    struct stored *next;
};

struct store {
    struct stored *first; /* the newest */
    size_t size;
};

/* A file to keep. */
struct store_file {
    char *data; /* which the store takes */
    size_t size;
    const char *uploaded; /* [n_uploaded] its name as it came, any bytes */
    size_t n_uploaded;
    const char *language; /* of the translation */
};

/* Its name; NULL: too large. */
const char *store_put(struct store *store, const struct store_file *file, double now);

/* Or NULL. */
const struct stored *store_get(struct store *store, const char *name, double now);

void store_release(struct store *store);

#endif

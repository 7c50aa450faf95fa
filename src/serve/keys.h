/* keys.h — API keys: a file of their SHA-256, never the keys themselves.
 *
 *     # who, and how many requests a minute (nothing: as everybody; 0: no limit)
 *     9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
 *     60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752 600
 *
 * A key is looked for by comparing its digest with all there are, in time that tells nothing about
 * them. Keys are meant to be random: `openssl rand -hex 16`, and its hash by
 * `printf %s KEY | sha256sum`. Immutable once read. */
#ifndef SERVE_KEYS_H
#define SERVE_KEYS_H

#include "serve/tls.h"

struct key {
    unsigned char digest[DIGEST_SIZE];
    int per_minute; /* -1: as everybody */
};

struct keys {
    struct key *key;
    int n;
};

int keys_read(struct keys **keys, const char *path, struct err *err);
void keys_free(struct keys *keys);

/* Or NULL. */
const struct key *keys_find(const struct keys *keys, const char *text, size_t size);

#endif

/* keys.c — see keys.h. */
#include "serve/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { MAX_FILE = 16 << 20, MAX_RATE = 1000 * 1000 * 1000 };

static int hex(char c) {
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* 1: a key, 0: nothing, -1: malformed. */
static int read_line(struct key *key, char *line) {
    line[strcspn(line, "#\r")] = 0;
    line += strspn(line, " \t");
    if (!*line) return 0;
    for (int i = 0; i < DIGEST_SIZE; i++, line += 2) {
        int high = hex(line[0]), low = high < 0 ? -1 : hex(line[1]);
        if (low < 0) return -1;
        key->digest[i] = (unsigned char)(high << 4 | low);
    }
    key->per_minute = -1;
    if (*line && *line != ' ' && *line != '\t') return -1;
    line += strspn(line, " \t-"); /* as sha256sum prints it, with the name "-" */
    if (!*line) return 1;
    char *end;
    long n = strtol(line, &end, 10);
    if (end == line || n < 0 || n > MAX_RATE || end[strspn(end, " \t")]) return -1;
    key->per_minute = (int)n;
    return 1;
}

int keys_read(struct keys **keys, const char *path, struct err *err) {
    char *text;
    size_t size;
    *keys = NULL;
    int rc = file_read_all(&text, &size, path, MAX_FILE, err), number = 1;
    if (rc) return rc;
    struct keys *k = xcalloc(1, sizeof *k);
    for (char *line = text, *next = text; next && !rc; line = next, number++) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        k->key = xrealloc(k->key, (size_t)(k->n + 1) * sizeof *k->key);
        int got = read_line(&k->key[k->n], line);
        if (got < 0)
            rc = err_set(err, HEED_EFORMAT,
                         "%.180s:%d: expected the SHA-256 of a key in 64 hexadecimal digits, and "
                         "perhaps requests per minute",
                         path, number);
        k->n += got > 0;
    }
    xfree(text);
    if (rc)
        keys_free(k);
    else
        *keys = k;
    return rc;
}

void keys_free(struct keys *keys) {
    if (!keys) return;
    xfree(keys->key);
    xfree(keys);
}

const struct key *keys_find(const struct keys *keys, const char *text, size_t size) {
    unsigned char d[DIGEST_SIZE];
    const struct key *found = NULL;
    digest(d, text, size);
    for (int i = 0; i < keys->n; i++) /* all of them, whether found or not */
        if (digest_equal(d, keys->key[i].digest)) found = &keys->key[i];
    return found;
}

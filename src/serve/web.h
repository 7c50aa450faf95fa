/* web.h — the files of the page that `heed serve` shows. They are in the program, packed with gzip
 * when it was built; everything here is constant, and nothing can fail.
 *
 * A server answers GET and HEAD of a path that web_find knows with the file's type and tag, web_csp
 * as Content-Security-Policy, `Cache-Control: no-cache` and `Vary: Accept-Encoding`. */
#ifndef SERVE_WEB_H
#define SERVE_WEB_H

#include <stddef.h>

struct web_bytes {
    const char *at, *end;
};

struct web_file {
    const char *path; /* "/", "/docs", "/app.js", ... */
    const char *type; /* for Content-Type */
    const char *etag; /* weak, with its quotes; another content has another one */
    struct web_bytes plain, packed;
};

/* The file at exactly this path, which has no query; NULL: there is none. */
const struct web_file *web_find(const char *path);

/* All files, counted from 0; NULL after the last. */
const struct web_file *web_at(size_t i);

/* For Content-Security-Policy: the page's own files and nothing else, no markup made of strings. */
extern const char web_csp[];

/* What a browser's headers mean; NULL: it sent none. web_fresh: If-None-Match names this content,
 * so the answer is 304. web_takes_gzip: Accept-Encoding allows gzip. */
int web_fresh(const struct web_file *file, const char *if_none_match);
int web_takes_gzip(const char *accept_encoding);

/* The same as gzip, quickly made; xfree it. NULL where there is no memory for it. */
char *web_gzip(const char *data, size_t size, size_t *packed);

#endif

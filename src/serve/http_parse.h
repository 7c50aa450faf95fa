/* http_parse.h — HTTP/1.1 as bytes: the head of a request, and chunks of a body.
 *
 * Strict, since whatever two programs read differently can be used to smuggle a request past one of
 * them: lines end in CR LF; no folded lines, no blank before a colon, no control characters; one
 * Host; one Content-Length of digits, never together with Transfer-Encoding, which must be
 * `chunked` (RFC 9112). Nothing here allocates, or knows of sockets. */
#ifndef SERVE_HTTP_PARSE_H
#define SERVE_HTTP_PARSE_H

#include <stddef.h>
#include <stdint.h>

enum { HTTP_MAX_HEADERS = 100 };

struct http_header {
    const char *name, *value; /* the name in lower case */
};

/* Views of the text that was parsed. */
struct http_head {
    const char *method;
    const char *path;  /* percent-decoded, begins with '/'; or "*" */
    const char *query; /* behind the '?', as it came; "" where there is none */
    int minor;         /* of HTTP/1.minor: 0 or 1 */
    struct http_header header[HTTP_MAX_HEADERS];
    int n_header;
    uint64_t length; /* of the body, if not chunked */
    int chunked, keep_alive, expects_continue;
};

/* How many bytes of the text are the head, blank line included: 0 where it has not ended yet,
 * SIZE_MAX where it never can (a bare LF, a NUL). *scanned, 0 at first, remembers what was seen. */
size_t http_head_end(const char *text, size_t size, size_t *scanned);

/* Cuts up the head, changing the text. 0, or the status to refuse it with and *why. */
int http_parse_head(struct http_head *head, char *text, size_t size, const char **why);

/* The value of a header, or NULL; of several with the name, the first. */
const char *http_header(const struct http_head *head, const char *name);

/* %41 to A in place, and + to a blank where `plus`. The new length, or -1 where a % is not followed
 * by two digits. */
long http_unescape(char *text, size_t size, int plus);

/* A body in chunks; begins as zeros. */
struct http_chunks {
    int state;
    uint64_t left;     /* of this chunk */
    uint64_t overhead; /* bytes that were not body */
    int digits, line;
};

/* Decodes in[0..n) to out, which has room for n bytes. *used bytes were taken. 0: go on; 1: the
 * body is complete; else the status to refuse it with. */
int http_chunks_take(struct http_chunks *chunks, const char *in, size_t n, size_t *used, char *out,
                     size_t *n_out);

#endif

/* access.h — the log of requests: one JSON object per line.
 *
 * What was asked for is not in it: no query, no texts, no keys, unless texts are wanted. A line is
 * one write, so that several programs may share a file. */
#ifndef SERVE_ACCESS_H
#define SERVE_ACCESS_H

#include "serve/http.h"

struct access;

/* path "-": the descriptor `standard`. */
int access_open(struct access **access, const char *path, int standard, int with_texts,
                struct err *err);
void access_close(struct access *access);

/* From any thread: the file anew, for programs that rename logs. */
int access_reopen(struct access *access, struct err *err);

void access_line(struct access *access, const struct http_exchange *x);

#endif

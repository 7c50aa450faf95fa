/* zipfile.h — zip archives, to be read: libzip with limits.
 *
 * What an archive holds is not trusted: at most ZIPFILE_MEMBERS members, stored or deflated, none
 * of them encrypted or with a name that leads elsewhere (/x, ../x, a backslash, control characters)
 * or that occurs twice. What is unpacked is limited by the caller, and by what deflate can make of
 * the bytes that are there. Nothing is written to disk. Messages begin with the path, if there is
 * one. */
#ifndef IO_ZIPFILE_H
#define IO_ZIPFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ZIPFILE_MEMBERS = 10000 };

struct zipfile;

/* A file, which is mapped; or bytes, which stay the caller's and must live as long. HEED_EFORMAT,
 * HEED_ELIMIT. `where` begins messages, or is NULL. */
int zipfile_open(struct zipfile **zip, const char *path, struct err *err);
int zipfile_open_bytes(struct zipfile **zip, const char *bytes, size_t size, const char *where,
                       struct err *err);
void zipfile_close(struct zipfile *zip); /* NULL is fine */

int zipfile_count(const struct zipfile *zip);
const char *zipfile_name(const struct zipfile *zip, int member);
int zipfile_find(const struct zipfile *zip, const char *name); /* -1: there is none */

/* Unpacks a member, *size bytes of it and a NUL, xfree(*bytes); HEED_ELIMIT if there are more than
 * `most`. */
int zipfile_read(const struct zipfile *zip, int member, size_t most, char **bytes, size_t *size,
                 struct err *err);

/* The bytes of a member without a copy where it is stored, else unpacked once; they live as long as
 * the archive. Checksums are compared in both cases. */
int zipfile_view(struct zipfile *zip, int member, size_t most, const char **bytes, size_t *size,
                 struct err *err);

#endif

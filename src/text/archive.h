/* archive.h — a zip file in memory: members are read, and replaced.
 *
 * What it holds is not trusted: it must obey io/zipfile.h. What is unpacked is limited by the
 * caller. Nothing is written to disk. */
#ifndef TEXT_ARCHIVE_H
#define TEXT_ARCHIVE_H

#include <stddef.h>

#include "base/err.h"

struct archive;

/* The bytes stay the caller's and must live as long as the archive. HEED_EFORMAT, HEED_ELIMIT. */
int archive_open(struct archive **archive, const char *bytes, size_t size, struct err *err);
void archive_free(struct archive *archive);

int archive_count(const struct archive *archive);
const char *archive_name(const struct archive *archive, int member);

/* Unpacks a member, *size bytes of it, xfree(*bytes); HEED_ELIMIT if there are more than `most`. */
int archive_read(const struct archive *archive, int member, size_t most, char **bytes, size_t *size,
                 struct err *err);

struct archive_change {
    int member;
    const char *bytes;
    size_t size;
};

/* The archive with n members replaced; the others are copied as they are packed, and all stay in
 * their order. xfree(*out). */
int archive_write(const struct archive *archive, const struct archive_change *change, int n,
                  char **out, size_t *size, struct err *err);

#endif

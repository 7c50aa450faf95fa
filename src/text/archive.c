/* archive.c — see archive.h. io/zipfile reads, and has loaded libzip, which writes. */
#include "text/archive.h"

#include "base/mem.h"
#include "io/libzip.h"
#include "io/zipfile.h"

struct archive {
    const char *bytes;
    size_t size;
    struct zipfile *zip;
};

int archive_open(struct archive **out, const char *bytes, size_t size, struct err *err) {
    struct zipfile *zip;
    *out = NULL;
    int rc = zipfile_open_bytes(&zip, bytes, size, NULL, err);
    if (rc) return rc;
    *out = xmalloc(sizeof **out);
    **out = (struct archive){.bytes = bytes, .size = size, .zip = zip};
    return 0;
}

void archive_free(struct archive *a) {
    if (!a) return;
    zipfile_close(a->zip);
    xfree(a);
}

int archive_count(const struct archive *a) { return zipfile_count(a->zip); }

const char *archive_name(const struct archive *a, int member) {
    return zipfile_name(a->zip, member);
}

int archive_read(const struct archive *a, int member, size_t most, char **bytes, size_t *size,
                 struct err *err) {
    return zipfile_read(a->zip, member, most, bytes, size, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int fail(struct err *err, zip_error_t *error) {
    return err_set(err, HEED_EFORMAT, "this is not a zip archive, or it is broken: %.100s",
                   libzip.error_strerror(error));
}

static int fail_zip(struct err *err, zip_t *zip) { return fail(err, libzip.get_error(zip)); }

/* Opens the bytes anew, to be changed; *source is what will have them then. */
static zip_t *open_bytes(const char *bytes, size_t size, zip_source_t **source, struct err *err) {
    zip_error_t error;
    libzip.error_init(&error);
    zip_source_t *from = libzip.source_buffer_create(bytes, size, 0, &error);
    zip_t *zip = from ? libzip.open_from_source(from, 0, &error) : NULL;
    if (!zip) {
        fail(err, &error);
        libzip.source_free(from);
    } else {
        libzip.source_keep(from);
        *source = from;
    }
    libzip.error_fini(&error);
    return zip;
}

static int replace(zip_t *zip, const struct archive_change *c, struct err *err) {
    zip_uint64_t i = (zip_uint64_t)c->member;
    zip_stat_t st;
    zip_source_t *source = libzip.source_buffer(zip, c->bytes, c->size, 0);
    if (!source) return fail_zip(err, zip);
    if (libzip.stat_index(zip, i, 0, &st) || libzip.file_replace(zip, i, source, 0)) {
        int rc = fail_zip(err, zip);
        libzip.source_free(source);
        return rc;
    }
    if (st.valid & ZIP_STAT_MTIME) libzip.file_set_mtime(zip, i, st.mtime, 0);
    return 0;
}

/* What zip_close has left in the source. */
static int take_bytes(zip_source_t *source, char **out, size_t *size, struct err *err) {
    zip_stat_t st;
    if (libzip.source_stat(source, &st) || !(st.valid & ZIP_STAT_SIZE) ||
        libzip.source_open(source))
        return fail(err, libzip.source_error(source));
    char *bytes = xmalloc((size_t)st.size + 1);
    zip_int64_t n = libzip.source_read(source, bytes, st.size);
    libzip.source_close(source);
    if (n < 0 || (zip_uint64_t)n != st.size) {
        xfree(bytes);
        return fail(err, libzip.source_error(source));
    }
    bytes[n] = 0;
    *out = bytes;
    *size = (size_t)n;
    return 0;
}

int archive_write(const struct archive *a, const struct archive_change *change, int n, char **out,
                  size_t *size, struct err *err) {
    zip_source_t *source = NULL;
    zip_t *zip = open_bytes(a->bytes, a->size, &source, err);
    int rc = zip ? 0 : HEED_EFORMAT;
    *out = NULL;
    for (int i = 0; i < n && !rc; i++) rc = replace(zip, &change[i], err);
    if (!rc && libzip.close(zip)) rc = fail_zip(err, zip);
    if (rc && zip) libzip.discard(zip);
    if (!rc) rc = take_bytes(source, out, size, err);
    libzip.source_free(source);
    return rc;
}

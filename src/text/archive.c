/* archive.c — see archive.h. libzip does the work. */
#include "text/archive.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/mem.h"
#include "base/num.h"

struct archive {
    const char *bytes;
    size_t size;
    zip_t *zip;
    int n;
};

static int fail(struct err *err, zip_error_t *error) {
    return err_set(err, HEED_EFORMAT, "this is not a zip archive, or it is broken: %.100s",
                   zip_error_strerror(error));
}

static int fail_zip(struct err *err, zip_t *zip) { return fail(err, zip_get_error(zip)); }

/* Opens the bytes anew; *source is kept if it is wanted. */
static zip_t *open_bytes(const char *bytes, size_t size, zip_source_t **source, struct err *err) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *from = zip_source_buffer_create(bytes, size, 0, &error);
    zip_t *zip = from ? zip_open_from_source(from, 0, &error) : NULL;
    if (!zip) {
        fail(err, &error);
        zip_source_free(from);
    } else if (source) {
        zip_source_keep(from);
        *source = from;
    }
    zip_error_fini(&error);
    return zip;
}

/* ---- members --------------------------------------------------------------------------------- */

static int is_harmless(const char *name) {
    if (!*name || *name == '/') return 0;
    for (const char *p = name; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == '\\' || *p == 0x7F) return 0;
        int begins = p == name || p[-1] == '/';
        if (begins && p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2])) return 0;
    }
    return 1;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_members(const struct archive *a, struct err *err) {
    const char **name = xcalloc((size_t)a->n + 1, sizeof *name);
    int rc = 0;
    for (int i = 0; i < a->n && !rc; i++) {
        zip_stat_t st;
        name[i] = zip_get_name(a->zip, (zip_uint64_t)i, 0);
        if (!name[i] || !is_harmless(name[i]))
            rc = err_set(err, HEED_EFORMAT,
                         "member %d of the archive has a name that leads elsewhere", i + 1);
        else if (zip_stat_index(a->zip, (zip_uint64_t)i, 0, &st))
            rc = fail_zip(err, a->zip);
        else if ((st.valid & ZIP_STAT_ENCRYPTION_METHOD) && st.encryption_method)
            rc = err_set(err, HEED_EFORMAT, "the archive is encrypted");
    }
    if (!rc) qsort(name, (size_t)a->n, sizeof *name, by_name);
    for (int i = 1; i < a->n && !rc; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            rc = err_set(err, HEED_EFORMAT, "the archive has two members %.100s", name[i]);
    xfree(name);
    return rc;
}

int archive_open(struct archive **out, const char *bytes, size_t size, struct err *err) {
    struct archive *a = xcalloc(1, sizeof *a);
    int rc = 0;
    *a = (struct archive){.bytes = bytes, .size = size};
    *out = NULL;
    a->zip = open_bytes(bytes, size, NULL, err);
    if (!a->zip) rc = HEED_EFORMAT;
    zip_int64_t n = rc ? 0 : zip_get_num_entries(a->zip, 0);
    if (n > ARCHIVE_MEMBERS)
        rc = err_set(err, HEED_ELIMIT, "an archive of more than %d members", ARCHIVE_MEMBERS);
    a->n = (int)min_size((size_t)n, ARCHIVE_MEMBERS);
    if (!rc) rc = check_members(a, err);
    if (rc)
        archive_free(a);
    else
        *out = a;
    return rc;
}

void archive_free(struct archive *a) {
    if (!a) return;
    if (a->zip) zip_discard(a->zip);
    xfree(a);
}

int archive_count(const struct archive *a) { return a->n; }

const char *archive_name(const struct archive *a, int member) {
    return zip_get_name(a->zip, (zip_uint64_t)member, 0);
}

int archive_read(const struct archive *a, int member, size_t most, char **bytes, size_t *size,
                 struct err *err) {
    const char *name = archive_name(a, member);
    zip_stat_t st;
    *bytes = NULL;
    *size = 0;
    if (zip_stat_index(a->zip, (zip_uint64_t)member, 0, &st) || !(st.valid & ZIP_STAT_SIZE))
        return fail_zip(err, a->zip);
    if (st.size > most)
        return err_set(err, HEED_ELIMIT, "%.100s: unpacked, more than %zu bytes", name, most);
    zip_file_t *file = zip_fopen_index(a->zip, (zip_uint64_t)member, 0);
    if (!file) return fail_zip(err, a->zip);
    char *room = xmalloc((size_t)st.size + 1);
    zip_int64_t n = zip_fread(file, room, st.size + 1); /* one more: the size may be a lie */
    int rc = 0;
    if (n < 0 || (zip_uint64_t)n != st.size || zip_fclose(file))
        rc = err_set(err, HEED_EFORMAT, "%.100s: it cannot be unpacked", name);
    if (rc) {
        if (n < 0 || (zip_uint64_t)n != st.size) zip_fclose(file);
        xfree(room);
        return rc;
    }
    *bytes = room;
    *size = (size_t)n;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int replace(zip_t *zip, const struct archive_change *c, struct err *err) {
    zip_uint64_t i = (zip_uint64_t)c->member;
    zip_stat_t st;
    zip_source_t *source = zip_source_buffer(zip, c->bytes, c->size, 0);
    if (!source) return fail_zip(err, zip);
    if (zip_stat_index(zip, i, 0, &st) || zip_file_replace(zip, i, source, 0)) {
        int rc = fail_zip(err, zip);
        zip_source_free(source);
        return rc;
    }
    if (st.valid & ZIP_STAT_MTIME) zip_file_set_mtime(zip, i, st.mtime, 0);
    return 0;
}

/* What zip_close has left in the source. */
static int take_bytes(zip_source_t *source, char **out, size_t *size, struct err *err) {
    zip_stat_t st;
    if (zip_source_stat(source, &st) || !(st.valid & ZIP_STAT_SIZE) || zip_source_open(source))
        return fail(err, zip_source_error(source));
    char *bytes = xmalloc((size_t)st.size + 1);
    zip_int64_t n = zip_source_read(source, bytes, st.size);
    zip_source_close(source);
    if (n < 0 || (zip_uint64_t)n != st.size) {
        xfree(bytes);
        return fail(err, zip_source_error(source));
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
    if (!rc && zip_close(zip)) rc = fail_zip(err, zip);
    if (rc && zip) zip_discard(zip);
    if (!rc) rc = take_bytes(source, out, size, err);
    zip_source_free(source);
    return rc;
}

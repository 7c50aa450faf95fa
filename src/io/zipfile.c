/* zipfile.c — see zipfile.h. libzip does the work; it does not say where in the file the bytes of a
 * stored member lie, so `locate` reads the directory once more for that. */
#include "io/zipfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "io/libzip.h"

enum { MOST_RATIO = 1040 }; /* deflate makes at most 1032 bytes of one */

struct zipfile {
    const char *bytes;
    size_t size;
    char *where; /* "PATH: " or "" */
    struct file_map map;
    zip_t *zip;
    int n;
    char **unpacked; /* [n] what zipfile_view had to unpack, or NULL */
};

static int fail_with(const struct zipfile *z, zip_error_t *error, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%.120sthis is not a zip archive, or it is broken: %.100s",
                   z->where, libzip.error_strerror(error));
}

static int fail(const struct zipfile *z, struct err *err) {
    return fail_with(z, libzip.get_error(z->zip), err);
}

/* ---- opening --------------------------------------------------------------------------------- */

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

static int check_members(const struct zipfile *z, struct err *err) {
    const char **name = xcalloc((size_t)z->n + 1, sizeof *name);
    int rc = 0;
    for (int i = 0; i < z->n && !rc; i++) {
        zip_stat_t st;
        name[i] = libzip.get_name(z->zip, (zip_uint64_t)i, 0);
        if (!name[i] || !is_harmless(name[i]))
            rc = err_set(err, HEED_EFORMAT,
                         "%.120smember %d of the archive has a name that leads elsewhere", z->where,
                         i + 1);
        else if (libzip.stat_index(z->zip, (zip_uint64_t)i, 0, &st))
            rc = fail(z, err);
        else if ((st.valid & ZIP_STAT_ENCRYPTION_METHOD) && st.encryption_method)
            rc = err_set(err, HEED_EFORMAT, "%.120sthe archive is encrypted", z->where);
    }
    if (!rc) qsort(name, (size_t)z->n, sizeof *name, by_name);
    for (int i = 1; i < z->n && !rc; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            rc = err_set(err, HEED_EFORMAT, "%.120sthe archive has two members %.100s", z->where,
                         name[i]);
    xfree(name);
    return rc;
}

static int open_zip(struct zipfile *z, struct err *err) {
    zip_error_t error;
    int rc = libzip_load(err);
    if (rc) return rc;
    libzip.error_init(&error);
    zip_source_t *from = libzip.source_buffer_create(z->bytes, z->size, 0, &error);
    z->zip = from ? libzip.open_from_source(from, ZIP_RDONLY, &error) : NULL;
    rc = z->zip ? 0 : fail_with(z, &error, err);
    if (rc) libzip.source_free(from);
    libzip.error_fini(&error);
    return rc;
}

int zipfile_open_bytes(struct zipfile **out, const char *bytes, size_t size, const char *where,
                       struct err *err) {
    struct zipfile *z = xcalloc(1, sizeof *z);
    *z = (struct zipfile){.bytes = bytes, .size = size};
    z->where = where ? path_append(where, ": ") : xstrdup("");
    *out = NULL;
    int rc =
        size ? open_zip(z, err) /* to libzip, nothing is an archive of nothing */
             : err_set(err, HEED_EFORMAT, "%.120sthis is not a zip archive: it is empty", z->where);
    zip_int64_t n = rc ? 0 : libzip.get_num_entries(z->zip, 0);
    if (n > ZIPFILE_MEMBERS)
        rc = err_set(err, HEED_ELIMIT, "%.120san archive of more than %d members", z->where,
                     ZIPFILE_MEMBERS);
    z->n = (int)min_i64(n, ZIPFILE_MEMBERS);
    z->unpacked = xcalloc((size_t)z->n + 1, sizeof *z->unpacked);
    if (!rc) rc = check_members(z, err);
    if (rc)
        zipfile_close(z);
    else
        *out = z;
    return rc;
}

int zipfile_open(struct zipfile **out, const char *path, struct err *err) {
    struct file_map map;
    *out = NULL;
    int rc = file_map_open(&map, path, err);
    if (rc) return rc;
    rc = zipfile_open_bytes(out, (const char *)map.data, map.size, path, err);
    if (rc)
        file_map_close(&map);
    else
        (*out)->map = map;
    return rc;
}

void zipfile_close(struct zipfile *z) {
    if (!z) return;
    if (z->zip) libzip.discard(z->zip);
    for (int i = 0; i < z->n; i++) xfree(z->unpacked[i]);
    xfree(z->unpacked);
    xfree(z->where);
    file_map_close(&z->map);
    xfree(z);
}

int zipfile_count(const struct zipfile *z) { return z->n; }

const char *zipfile_name(const struct zipfile *z, int member) {
    return libzip.get_name(z->zip, (zip_uint64_t)member, 0);
}

int zipfile_find(const struct zipfile *z, const char *name) {
    return (int)libzip.name_locate(z->zip, name, 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The member's sizes and method, all of which it has. */
static int look(const struct zipfile *z, int member, size_t most, zip_stat_t *st, struct err *err) {
    const zip_uint64_t all =
        ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_CRC;
    const char *name = zipfile_name(z, member);
    if (libzip.stat_index(z->zip, (zip_uint64_t)member, 0, st) || (st->valid & all) != all)
        return fail(z, err);
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return err_set(err, HEED_EFORMAT, "%.120s%.100s: packed by method %d; only deflate is read",
                       z->where, name, st->comp_method);
    if (st->size > most)
        return err_set(err, HEED_ELIMIT, "%.120s%.100s: unpacked, more than %zu bytes", z->where,
                       name, most);
    if (st->comp_size > z->size || st->size / MOST_RATIO > st->comp_size)
        return err_set(err, HEED_EFORMAT, "%.120s%.100s: %llu bytes cannot be in %llu", z->where,
                       name, (unsigned long long)st->size, (unsigned long long)st->comp_size);
    return 0;
}

int zipfile_read(const struct zipfile *z, int member, size_t most, char **bytes, size_t *size,
                 struct err *err) {
    zip_stat_t st;
    *bytes = NULL;
    *size = 0;
    int rc = look(z, member, most, &st, err);
    if (rc) return rc;
    zip_file_t *file = libzip.fopen_index(z->zip, (zip_uint64_t)member, 0);
    if (!file) return fail(z, err);
    char *room = xmalloc((size_t)st.size + 1);
    zip_int64_t n = libzip.fread(file, room, st.size);
    /* The size may be a lie; and a wrong checksum is an error of the read that finds the end. */
    int ends = libzip.fread(file, room + st.size, 1) == 0;
    if (libzip.fclose(file) || !ends || n < 0 || (zip_uint64_t)n != st.size) {
        xfree(room);
        return err_set(err, HEED_EFORMAT, "%.120s%.100s: it cannot be unpacked", z->where,
                       zipfile_name(z, member));
    }
    room[n] = 0;
    *bytes = room;
    *size = (size_t)n;
    return 0;
}

/* ---- stored members -------------------------------------------------------------------------- */

static uint64_t little(const char *at, int n) {
    uint64_t x = 0;
    for (int i = n; i-- > 0;) x = x << 8 | (unsigned char)at[i];
    return x;
}

static int is_at(const struct zipfile *z, uint64_t at, const char *mark, size_t size) {
    return at <= z->size && z->size - at >= size && memcmp(z->bytes + at, mark, 4) == 0;
}

/* Where the directory begins, or UINT64_MAX: its end is the last record that fits, with a comment
 * of at most 64 KiB behind it. */
static uint64_t directory(const struct zipfile *z) {
    for (uint64_t back = 22; back <= z->size && back <= 22 + 0xFFFF; back++) {
        uint64_t end = z->size - back;
        if (!is_at(z, end, "PK\5\6", 22) || little(z->bytes + end + 20, 2) != back - 22) continue;
        uint64_t at = little(z->bytes + end + 16, 4);
        if (end < 20 || !is_at(z, end - 20, "PK\6\7", 20)) return at;
        uint64_t wide = little(z->bytes + end - 12, 8); /* the 64-bit record */
        return is_at(z, wide, "PK\6\6", 56) ? little(z->bytes + wide + 48, 8) : UINT64_MAX;
    }
    return UINT64_MAX;
}

/* Where the local header of the entry at `at` is: 32 bits, or 64 in the field of type 1, behind the
 * sizes that did not fit either. */
static uint64_t local_offset(const char *entry, const char *extra, size_t size) {
    uint64_t offset = little(entry + 42, 4);
    if (offset != 0xFFFFFFFF) return offset;
    size_t skip =
        8 * ((little(entry + 20, 4) == 0xFFFFFFFF) + (little(entry + 24, 4) == 0xFFFFFFFF));
    for (size_t at = 0; size - at >= 4;) {
        size_t n = (size_t)little(extra + at + 2, 2);
        if (n > size - at - 4) break;
        if (little(extra + at, 2) == 1)
            return n >= skip + 8 ? little(extra + at + 4 + skip, 8) : UINT64_MAX;
        at += 4 + n;
    }
    return UINT64_MAX;
}

/* The first byte of the stored member, or NULL where the file does not show it plainly. */
static const char *locate(const struct zipfile *z, int member, const zip_stat_t *st) {
    uint64_t at = directory(z);
    for (int i = 0; is_at(z, at, "PK\1\2", 46); i++) {
        const char *entry = z->bytes + at;
        uint64_t name = little(entry + 28, 2), extra = little(entry + 30, 2),
                 all = 46 + name + extra + little(entry + 32, 2);
        if (all > z->size - at) return NULL;
        if (i < member) {
            at += all;
            continue;
        }
        if (name != strlen(st->name) || memcmp(entry + 46, st->name, name) != 0) return NULL;
        uint64_t local = local_offset(entry, entry + 46 + name, extra);
        if (!is_at(z, local, "PK\3\4", 30)) return NULL;
        uint64_t head = 30 + little(z->bytes + local + 26, 2) + little(z->bytes + local + 28, 2);
        if (head > z->size - local || st->size > z->size - local - head) return NULL;
        return z->bytes + local + head;
    }
    return NULL;
}

static uint32_t checksum(const char *bytes, size_t size) {
    uLong sum = crc32_z(0, NULL, 0);
    return (uint32_t)crc32_z(sum, (const Bytef *)bytes, size);
}

int zipfile_view(struct zipfile *z, int member, size_t most, const char **bytes, size_t *size,
                 struct err *err) {
    zip_stat_t st;
    *bytes = NULL;
    *size = 0;
    int rc = look(z, member, most, &st, err);
    if (rc) return rc;
    if (st.comp_method == ZIP_CM_STORE) *bytes = locate(z, member, &st);
    if (*bytes && checksum(*bytes, (size_t)st.size) != st.crc)
        return err_set(err, HEED_EFORMAT, "%.120s%.100s: damaged: its checksum is another",
                       z->where, st.name);
    *size = (size_t)st.size;
    if (*bytes) return 0;
    if (!z->unpacked[member]) rc = zipfile_read(z, member, most, &z->unpacked[member], size, err);
    *bytes = z->unpacked[member];
    return rc;
}

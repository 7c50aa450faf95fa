/* test_zipfile.c — zip archives of Python's zipfile: read, viewed in place, damaged; and those that
 * mean harm. */
#include "base/file.h"
#include "base/mem.h"
#include "damage.h"
#include "io/zipfile.h"
#include "test.h"

/* x.zip in the test's directory, written by the lines of Python: z is the open archive, text what
 * to put into it. xfree. */
static char *python_zip(const char *lines) {
    char *path = path_join(test_dir(), "x.zip"), command[4096];
    snprintf(command, sizeof command,
             "python3 -c 'import zipfile, warnings\n"
             "warnings.simplefilter(\"ignore\")\n"
             "text = b\"To be, or not to be. \" * 50\n"
             "with zipfile.ZipFile(\"%s\", \"w\") as z:\n%s'",
             path, lines);
    assert_int_equal(system(command), 0);
    return path;
}

static const char three[] = " z.comment = b\"PK\\5\\6 is not the end\"\n"
                            " z.writestr(\"stored\", text)\n"
                            " z.writestr(\"packed/name\", text, zipfile.ZIP_DEFLATED)\n"
                            " with z.open(\"wide\", \"w\", force_zip64=True) as f: f.write(text)\n";

static void expect_text(const char *got, size_t size) {
    const char *line = "To be, or not to be. ";
    assert_int_equal(size, 50 * strlen(line));
    for (size_t i = 0; i < size; i++) assert_int_equal(got[i], line[i % strlen(line)]);
}

TEST(reads) {
    struct zipfile *z;
    struct err err = {0};
    char *path = python_zip(three), *bytes;
    const char *view[3], *again;
    size_t size;
    ASSERT_OK(zipfile_open(&z, path, &err), err);
    assert_int_equal(zipfile_count(z), 3);
    assert_string_equal(zipfile_name(z, 1), "packed/name");
    assert_int_equal(zipfile_find(z, "wide"), 2);
    assert_int_equal(zipfile_find(z, "name"), -1);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(zipfile_read(z, i, 1050, &bytes, &size, &err), err);
        expect_text(bytes, size);
        assert_int_equal(bytes[size], 0);
        xfree(bytes);
        ASSERT_OK(zipfile_view(z, i, 1050, &view[i], &size, &err), err);
        expect_text(view[i], size);
        ASSERT_OK(zipfile_view(z, i, 1050, &again, &size, &err), err);
        assert_ptr_equal(again, view[i]);
        assert_int_equal(size, 1050);
        ASSERT_ERR(zipfile_read(z, i, 1049, &bytes, &size, &err), err, HEED_ELIMIT, "1049 bytes");
        ASSERT_ERR(zipfile_view(z, i, 1049, &again, &size, &err), err, HEED_ELIMIT, "x.zip: ");
    }
    assert_string_equal(file_map_at(view[0]), path); /* in the file itself */
    assert_string_equal(file_map_at(view[2]), path);
    assert_null(file_map_at(view[1]));
    zipfile_close(z);
    xfree(path);
}

static void expect_error(const char *lines, enum heed_status status, const char *part) {
    struct zipfile *z;
    struct err err = {0};
    char *path = python_zip(lines);
    ASSERT_ERR(zipfile_open(&z, path, &err), err, status, part);
    assert_null(z);
    xfree(path);
}

TEST(harm) {
    expect_error(" z.writestr(\"a\", text); z.writestr(\"a\", text)\n", HEED_EFORMAT,
                 "two members a");
    expect_error(" z.writestr(\"a/../../b\", text)\n", HEED_EFORMAT, "leads elsewhere");
    expect_error(" z.writestr(\"/etc/passwd\", text)\n", HEED_EFORMAT, "leads elsewhere");
    expect_error(" for i in range(10001): z.writestr(str(i), b\"\")\n", HEED_ELIMIT,
                 "more than 10000 members");
    struct zipfile *z;
    struct err err = {0};
    char *path = python_zip(" z.writestr(\"a\", text, zipfile.ZIP_BZIP2)\n"), *bytes;
    size_t size;
    ASSERT_OK(zipfile_open(&z, path, &err), err);
    ASSERT_ERR(zipfile_read(z, 0, 4096, &bytes, &size, &err), err, HEED_EFORMAT, "method 12");
    zipfile_close(z);
    ASSERT_ERR(zipfile_open_bytes(&z, "", 0, NULL, &err), err, HEED_EFORMAT, "not a zip archive");
    xfree(path);
}

/* A size that would have to be taken before it is found to be a lie. */
TEST(claims) {
    struct zipfile *z;
    struct err err = {0};
    char *path = python_zip(" z.writestr(\"a\", text, zipfile.ZIP_DEFLATED)\n"), *bytes, *got;
    size_t size, all;
    ASSERT_OK(file_read_all(&bytes, &all, path, 1 << 20, &err), err);
    char *entry = bytes; /* in the directory */
    while (memcmp(entry, "PK\1\2", 4)) entry++;
    memcpy(entry + 24, "\0\0\0\x70", 4);
    ASSERT_OK(zipfile_open_bytes(&z, bytes, all, "x", &err), err);
    ASSERT_ERR(zipfile_read(z, 0, SIZE_MAX, &got, &size, &err), err, HEED_EFORMAT,
               "a: 1879048192 bytes cannot be in ");
    zipfile_close(z);
    xfree(bytes);
    xfree(path);
}

static void read_all(const char *bytes, size_t size) {
    struct zipfile *z;
    struct err err = {0};
    if (zipfile_open_bytes(&z, bytes, size, "x", &err)) return;
    for (int i = 0; i < zipfile_count(z); i++) {
        char *copy;
        const char *view;
        size_t n;
        int rc = zipfile_view(z, i, 1 << 16, &view, &size, &err);
        if (!rc && size) expect_text(view, size); /* what was damaged did not come through */
        if (zipfile_read(z, i, 1 << 16, &copy, &n, &err)) continue;
        if (!rc) assert_memory_equal(view, copy, n);
        xfree(copy);
    }
    zipfile_close(z);
}

TEST(damaged) {
    char *path = python_zip(three);
    damage_file(path, read_all);
    xfree(path);
}

TESTS(T(reads), T(harm), T(claims), T(damaged))

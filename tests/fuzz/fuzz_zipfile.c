/* fuzz_zipfile.c — any bytes are a zip archive: refused with a message, or every member is unpacked
 * to the same bytes that a view of it has, or refused. */
#include "fuzz.h"

#include "base/mem.h"
#include "io/zipfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zipfile *z;
    struct err err = {0};
    int rc = zipfile_open_bytes(&z, (const char *)data, size, "x", &err);
    want(rc <= 0 && !rc == !err.msg[0] && !rc == !!z);
    if (rc) return 0;
    for (int i = 0; i < zipfile_count(z); i++) {
        char *copy;
        const char *view;
        size_t n, m;
        want(zipfile_find(z, zipfile_name(z, i)) == i);
        rc = zipfile_view(z, i, 1 << 16, &view, &m, &err);
        if (zipfile_read(z, i, 1 << 16, &copy, &n, &err)) continue;
        if (!rc) want(n == m && memcmp(view, copy, n) == 0);
        xfree(copy);
    }
    zipfile_close(z);
    return 0;
}

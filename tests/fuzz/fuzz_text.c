/* fuzz_text.c — any bytes are a file: lines come out as data/text.h promises, or one error does. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/utf8.h"
#include "data/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(int condition) {
    if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    want(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    struct err err = {0};
    struct text *text;
    struct line line;
    int rc = text_open_fd(&text, fd, 0, "input", &err);
    want(rc <= 0 && !text == !!rc);
    uint64_t lines = 0;
    /* A bomb may hold gigabytes of lines; some of them will do. */
    for (; text && (rc = text_next(text, &line, &err)) > 0 && lines < 100000; lines++) {
        want(line.size <= 3 * (size_t)TEXT_MAX_LINE && strlen(line.text) == line.size);
        want(utf8_clean_prefix(line.text, line.size) == line.size);
        want(!memchr(line.text, '\n', line.size));
        want(!(line.flags & LINE_TOO_LONG) || line.size == 0);
    }
    want(rc >= 0 || strncmp(err.msg, "input: ", 7) == 0);
    if (text && rc <= 0) want(text_counts(text).lines == lines);
    text_close(text);
    close(fd);
    return 0;
}

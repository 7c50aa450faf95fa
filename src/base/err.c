/* err.c — status texts, error messages, and the one place that aborts. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *heed_version(void) { return HEED_VERSION; }

const char *heed_status_text(int status) {
    switch (status) {
#define TEXT_CASE(name, value, text)                                                               \
    case value:                                                                                    \
        return text;
        HEED_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "unknown status";
    }
}

void err_fill(struct err *err, enum heed_status code, const char *fmt, ...) {
    if (!err) return;
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
}

void bug(const char *file, int line, const char *what) {
    fprintf(stderr, "heed: bug at %s:%d: %s\n", file, line, what);
    abort();
}

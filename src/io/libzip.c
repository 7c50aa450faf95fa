/* libzip.c — see libzip.h. */
#include "io/libzip.h"

#include <pthread.h>

#include "base/loader.h"

#ifndef LIBZIP_FILE /* the Makefile says it */
#define LIBZIP_FILE "libzip.so.5"
#endif

struct libzip libzip;

static struct err why; /* it cannot be loaded */

static void load(void) {
#define LIBZIP_NAME(name) "zip_" #name,
    static const char *const names[] = {LIBZIP_FUNCTIONS(LIBZIP_NAME)};
#undef LIBZIP_NAME
    _Static_assert(sizeof libzip == sizeof names, "a pointer each");
    loader_library(&libzip, names, sizeof names / sizeof *names, LIBZIP_FILE, &why);
}

int libzip_load(struct err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (why.code && err) *err = why;
    return why.code;
}

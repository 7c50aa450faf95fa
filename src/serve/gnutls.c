/* gnutls.c — see gnutls.h. */
#include "serve/gnutls.h"

#include <pthread.h>

#include "base/loader.h"

#ifndef GNUTLS_FILE /* the Makefile says it */
#define GNUTLS_FILE "libgnutls.so.30"
#endif

struct gnutls gnutls;

static struct err why; /* it cannot be loaded */

static void load(void) {
#define GNUTLS_NAME(name) "gnutls_" #name,
    static const char *const names[] = {GNUTLS_FUNCTIONS(GNUTLS_NAME)};
#undef GNUTLS_NAME
    _Static_assert(sizeof gnutls == sizeof names, "a pointer each");
    loader_library(&gnutls, names, sizeof names / sizeof *names, GNUTLS_FILE, &why);
}

int gnutls_load(struct err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (why.code && err) *err = why;
    return why.code;
}

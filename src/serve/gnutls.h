/* gnutls.h — GnuTLS, loaded by those who serve. */
#ifndef SERVE_GNUTLS_H
#define SERVE_GNUTLS_H

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/err.h"

/* gnutls_NAME is gnutls.NAME. */
#define GNUTLS_FUNCTIONS(X)                                                                        \
    X(alpn_set_protocols)                                                                          \
    X(bye)                                                                                         \
    X(certificate_allocate_credentials)                                                            \
    X(certificate_free_credentials)                                                                \
    X(certificate_set_x509_key_file)                                                               \
    X(credentials_set)                                                                             \
    X(deinit)                                                                                      \
    X(error_is_fatal)                                                                              \
    X(handshake)                                                                                   \
    X(handshake_set_timeout)                                                                       \
    X(hash_fast)                                                                                   \
    X(init)                                                                                        \
    X(memcmp)                                                                                      \
    X(priority_deinit)                                                                             \
    X(priority_init)                                                                               \
    X(priority_set)                                                                                \
    X(record_check_pending)                                                                        \
    X(record_get_direction)                                                                        \
    X(record_recv)                                                                                 \
    X(record_send)                                                                                 \
    X(strerror)                                                                                    \
    X(transport_set_int2)

#define GNUTLS_POINTER(name) __typeof__(gnutls_##name) *name;
struct gnutls {
    GNUTLS_FUNCTIONS(GNUTLS_POINTER)
};
#undef GNUTLS_POINTER

extern struct gnutls gnutls; /* after gnutls_load */

/* Does something once only, and may be called by several threads. */
int gnutls_load(struct err *err);

#endif

/* tls.h — TLS on sockets that do not block, by GnuTLS. */
#ifndef SERVE_TLS_H
#define SERVE_TLS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Is GnuTLS there? Whoever serves asks first; the rest loads it, too, but cannot do without. */
int tls_load(struct err *err);

struct tls; /* a certificate and its key */
int tls_open(struct tls **tls, const char *certificate, const char *key, struct err *err);
void tls_free(struct tls *tls); /* after all its sessions */

struct tls_session;
struct tls_session *tls_begin(struct tls *tls, int fd); /* NULL: no memory */
void tls_end(struct tls_session *session);              /* says good-bye if that can be said */

enum { TLS_AGAIN = -2, TLS_BROKEN = -1 };

/* 0: done. */
int tls_handshake(struct tls_session *session);

/* Bytes moved, 0 at the end, TLS_AGAIN or TLS_BROKEN. */
ssize_t tls_read(struct tls_session *session, void *data, size_t size);
ssize_t tls_write(struct tls_session *session, const void *data, size_t size);

int tls_pending(struct tls_session *session);     /* bytes that were read from the socket already */
int tls_wants_write(struct tls_session *session); /* what TLS_AGAIN waits for */

/* SHA-256, and a comparison that takes the same time wherever two texts differ. */
enum { DIGEST_SIZE = 32 };
void digest(unsigned char out[DIGEST_SIZE], const void *data, size_t size);
int digest_equal(const unsigned char *a, const unsigned char *b);

#endif

/* tls.c — see tls.h. */
#include "serve/tls.h"

#include "base/mem.h"
#include "serve/gnutls.h"

struct tls {
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
};

struct tls_session {
    gnutls_session_t session;
    int shaken;
};

int tls_load(struct err *err) { return gnutls_load(err); }

int tls_open(struct tls **tls, const char *certificate, const char *key, struct err *err) {
    *tls = NULL;
    int rc = gnutls_load(err);
    if (rc) return rc;
    struct tls *t = *tls = xcalloc(1, sizeof *t);
    rc = gnutls.certificate_allocate_credentials(&t->credentials);
    if (rc >= 0)
        rc = gnutls.certificate_set_x509_key_file(t->credentials, certificate, key,
                                                  GNUTLS_X509_FMT_PEM);
    if (rc >= 0) rc = gnutls.priority_init(&t->priority, "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1", NULL);
    if (rc >= 0) return 0;
    tls_free(t);
    *tls = NULL;
    return err_set(err, HEED_EIO, "certificate %.90s with key %.90s: %s", certificate, key,
                   gnutls.strerror(rc));
}

void tls_free(struct tls *tls) {
    if (!tls) return;
    if (tls->priority) gnutls.priority_deinit(tls->priority);
    if (tls->credentials) gnutls.certificate_free_credentials(tls->credentials);
    xfree(tls);
}

struct tls_session *tls_begin(struct tls *tls, int fd) {
    struct tls_session *s = xcalloc(1, sizeof *s);
    if (gnutls.init(&s->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        xfree(s);
        return NULL;
    }
    gnutls.priority_set(s->session, tls->priority);
    gnutls.credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    gnutls_datum_t http = {(unsigned char *)"http/1.1", 8};
    gnutls.alpn_set_protocols(s->session, &http, 1, 0);
    gnutls.handshake_set_timeout(s->session, GNUTLS_INDEFINITE_TIMEOUT); /* the server's business */
    gnutls.transport_set_int2(s->session, fd, fd);
    return s;
}

void tls_end(struct tls_session *session) {
    if (!session) return;
    if (session->shaken) gnutls.bye(session->session, GNUTLS_SHUT_WR);
    gnutls.deinit(session->session);
    xfree(session);
}

static ssize_t outcome(ssize_t n) {
    if (n >= 0) return n;
    return n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED || !gnutls.error_is_fatal((int)n)
               ? TLS_AGAIN
               : TLS_BROKEN;
}

int tls_handshake(struct tls_session *session) {
    int rc = (int)outcome(gnutls.handshake(session->session));
    session->shaken = rc == 0;
    return rc;
}

ssize_t tls_read(struct tls_session *session, void *data, size_t size) {
    return outcome(gnutls.record_recv(session->session, data, size));
}

ssize_t tls_write(struct tls_session *session, const void *data, size_t size) {
    return outcome(gnutls.record_send(session->session, data, size));
}

int tls_pending(struct tls_session *session) {
    return gnutls.record_check_pending(session->session) > 0;
}

int tls_wants_write(struct tls_session *session) {
    return gnutls.record_get_direction(session->session);
}

void digest(unsigned char out[DIGEST_SIZE], const void *data, size_t size) {
    BUG_ON(gnutls_load(NULL) || gnutls.hash_fast(GNUTLS_DIG_SHA256, data, size, out) < 0);
}

int digest_equal(const unsigned char *a, const unsigned char *b) {
    return gnutls.memcmp(a, b, DIGEST_SIZE) == 0;
}

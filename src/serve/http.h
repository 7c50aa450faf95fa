/* http.h — an HTTP/1.1 server: one thread, any number of connections, answers now or later.
 *
 * One thread reads, parses, calls the handler and writes; nothing in it waits for one client. A
 * handler answers before it returns, or keeps the exchange and answers when it is woken: http_wake
 * is the only call that other threads make, and it makes the server's thread call `woken`. So
 * everything that a handler owns is touched by one thread, and needs no locks.
 *
 *     http_open    listens
 *     http_start   serves, in a thread of its own
 *     handle(x)    once per request that is whole; ends in http_answer, or in http_begin,
 *                  http_write ... and http_end, at any time
 *     http_drain   new requests are told to come back (503), those that were begun are served
 *     http_close   the end
 *
 * Who owns what. An exchange belongs to the server and lives until it was answered to the end and
 * the answer was sent or nobody wanted it any more, and in any case until the handler returns;
 * every exchange is answered once, also when its client has gone (x->lost), and x->release is
 * called before it goes.
 *
 * Hang-ups. While an exchange waits for its answer its socket is watched. A client that ends its
 * side of the connection has either gone, or wants its answer still, and TCP says the same in both
 * cases; so it is sent `100 Continue`, which every client of HTTP/1.1 must put up with, and one
 * that has gone answers that with a reset. Then `gone` is called, within a round trip of the
 * hang-up. For HTTP/1.0, which knows no 1xx, an end is a hang-up. A client that vanishes without a
 * word is noticed by keep-alive probes.
 *
 * Hostile clients. A head must arrive within `timeout` seconds; a body, and the taking of an
 * answer, may take longer, but never stand still that long, nor have less than HTTP_MIN_RATE bytes
 * a second on average. Connections, bodies, and
 * all bodies together have limits; at the limit the connection that has been idle longest makes
 * room. An idle connection has no buffers. Memory of a request grows as it arrives, not as it
 * claims. */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include "base/err.h"
#include "serve/http_parse.h"
#include "serve/listen.h"
#include "serve/tls.h"

enum {
    HTTP_MAX_HEAD = 320 << 10, /* clients put whole texts into a URL */
    HTTP_MIN_RATE = 4096,
    HTTP_MAX_UNREAD = 4 << 20 /* of a stream that its client does not read */
};

struct http_server;

struct http_exchange {
    struct http_head head;
    const char *body; /* with a NUL behind it */
    size_t n_body;
    char client[ADDRESS_TEXT]; /* whoever asks: the peer, or whom trusted proxies name */
    int trusted;               /* the peer is such a proxy */
    int secure;                /* it came over TLS */
    double begun;              /* clock_seconds() when it was whole */

    /* the handler's own */
    void *own;
    const char *route;
    void (*woken)(struct http_exchange *x, unsigned what);
    void (*gone)(struct http_exchange *x); /* at most once, before the answer; may be NULL */
    void (*release)(struct http_exchange *x);

    /* for the log */
    int status, lost;
    uint64_t sent; /* bytes of the answer, its head included */
    double took;   /* from begun until the last byte */

    struct http_private *hidden;
};

struct http_options {
    const struct listen_spec *listen; /* [n_listen] */
    int n_listen;
    struct tls *tls; /* NULL: none; of TCP only */
    const struct address_range *trusted;
    int n_trusted;
    int max_connections;
    size_t max_body, max_buffered; /* of one request, of all together */
    double timeout, idle;          /* seconds */
    int retry_after;               /* what clients are told while draining */
    const char *headers;           /* lines that every answer has, each with its CR LF */
    void *ctx;
    void (*handle)(void *ctx, struct http_exchange *x);
    /* after an answer was sent or lost; also of requests that were refused unread. Or NULL */
    void (*log)(void *ctx, const struct http_exchange *x);
};

/* Options and what they point to must outlive the server. */
int http_open(struct http_server **server, const struct http_options *options, struct err *err);
int http_start(struct http_server *server, struct err *err);

/* Where number i listens, with the port that the system chose. */
const char *http_where(const struct http_server *server, int i);

/* From any thread. Draining returns 1 when every request is answered and sent, 0 after `seconds`.
 * When seal returns, the handler will not be called again; those that wait to be woken still are.
 * Close waits for their answers, and loses everything else. */
int http_drain(struct http_server *server, double seconds);
void http_seal(struct http_server *server);
void http_close(struct http_server *server);

/* For connections to come; the one before must live until the server is closed. */
void http_set_tls(struct http_server *server, struct tls *tls);

/* From any thread, as long as the exchange has not been answered: woken(x, what) follows, with the
 * bits of all calls that came together. */
void http_wake(struct http_exchange *x, unsigned what);

/* ---- answers: the server's thread only ------------------------------------------------------- */

struct http_answer {
    int status;
    const char *type;    /* NULL: no Content-Type */
    const char *headers; /* further lines, each with its CR LF; NULL: none */
    const char *body;
    size_t size;
    char *owned; /* xfree'd when sent, or NULL */
};
void http_answer(struct http_exchange *x, const struct http_answer *answer);

/* An answer whose size is not known: chunks. */
void http_begin(struct http_exchange *x, const char *type, const char *headers);
void http_write(struct http_exchange *x, const char *data, size_t size); /* may call x->gone */
void http_end(struct http_exchange *x);

struct http_stats {
    int connections, idle, active; /* active: requests being received, answered, or sent */
    uint64_t accepted, turned_away, requests, refused, timeouts, hangups, bytes_in, bytes_out;
    size_t buffered;
};
struct http_stats http_stats(const struct http_server *server); /* the server's thread only */

#endif

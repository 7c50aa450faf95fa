/* http_connection.h — the inside of the server of http.h: connections, and who moves them on.
 *
 * For src/serve/http*.c only. All of it belongs to the server's thread but for what the lock is of.
 *
 *     http_accept.c       a connection comes, or is turned away
 *     http_receive.c      bytes become requests; handlers are called
 *     http_send.c         answers become bytes
 *     http_connection.c   states, what is waited for, hang-ups
 *     http.c              the thread that calls them when there is something to do
 *
 * Any call may end the connection: its state is DEAD then, and its memory stays until
 * connections_reap, which is called when no event can point to it any more. */
#ifndef SERVE_HTTP_CONNECTION_H
#define SERVE_HTTP_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "serve/http.h"

enum { SCRATCH = 64 << 10 };

enum kind { PORT, CONNECTION, MAILBOX };
enum state {
    HANDSHAKE,
    IDLE, /* between requests: no buffers */
    HEAD, /* a request has begun */
    BODY,
    BUSY,    /* it is whole, and the answer is not */
    SENDING, /* the answer is whole, and not all of it is sent */
    LINGER,  /* everything is sent; reads what the client still sends, lest a reset destroy it */
    DEAD     /* to be freed when no event can point to it any more */
};

struct port {
    enum kind kind;
    struct listener listener;
};

struct piece {
    struct piece *next;
    const char *data;
    char *owned;
    size_t size, at;
    char bytes[];
};

struct connection {
    enum kind kind;
    enum state state;
    int fd;
    uint32_t events; /* that are watched */
    struct http_server *server;
    struct connection *prev, *next, *ready_next;
    struct tls_session *tls;
    double since;   /* this state began */
    double stirred; /* bytes moved last */
    uint64_t moved; /* bytes since then */
    char *in;
    size_t n_in, cap_in, scanned;
    struct http_private *x;
    struct piece *out, *last;
    size_t n_out;
    int must_close, ended, ready, grace; /* ended: the client sends nothing more */
    int served;                          /* it has had an answer */
    int spoken;                          /* of TLS: its first byte is no letter */
    char peer[ADDRESS_TEXT];
};

struct http_private {
    struct http_exchange x;
    struct http_server *server;
    struct connection *c; /* NULL: the client has gone */
    char *text, *body;
    size_t cap_body;
    struct http_chunks chunks;
    int answered, streaming, continued, keep;
    unsigned mail; /* bits; the server's lock */
    int mailed;
    struct http_private *mail_next;
};

struct http_server {
    struct http_options options;
    struct port *port;
    int epoll, bell; /* an eventfd */
    enum kind mailbox;
    pthread_t thread;
    int started;
    _Atomic(struct tls *) tls;
    struct connection *first, *last, *ready, *dead;
    int n_waiting; /* exchanges without a whole answer */
    int n_exchange;
    struct http_private *spent; /* to be freed */
    int paused;                 /* out of descriptors: not accepting until the next tick */
    double now;
    struct http_stats stats;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t drained_changed;
    struct http_private *mail;
    atomic_int ringing; /* who have left mail and not rung yet: the server stays until they have */
    int draining, drained, sealing, sealed, stopping;
    int saw_drain, saw_seal, quiet; /* the thread's own; quiet: nothing has come for a tick */
    double drain_begun, last_call;  /* when it stops; 0: not yet */
    char scratch[SCRATCH];
};

/* ---- http_connection.c ----------------------------------------------------------------------- */

void connection_append(struct connection *c);
void connection_drop_input(struct connection *c);
void connection_enter(struct connection *c, enum state state);
/* Tells epoll what this connection waits for. */
void connection_want(struct connection *c);
/* Its input is looked at before the thread waits again. */
void connection_make_ready(struct connection *c);
/* The connection is over, whatever was going on. An exchange whose handler has not answered yet
 * stays until it has. */
void connection_hang_up(struct connection *c);
/* The exchange is over. It is freed when no handler can hold it any more: see connections_reap. */
void exchange_over(struct http_private *p);
void connections_reap(struct http_server *s);

/* ---- http_send.c ----------------------------------------------------------------------------- */

/* Sends what it can. */
void connection_flush(struct connection *c);
void connection_say(struct connection *c, const char *data, size_t size);

/* ---- http_receive.c -------------------------------------------------------------------------- */

/* Answers without having read, or understood, all of the request. */
void connection_refuse(struct connection *c, int status, const char *why);
/* One request out of the input, if it holds one. */
void connection_advance(struct connection *c);
void connection_receive(struct connection *c);
void connection_event(struct connection *c, uint32_t events);

/* ---- http_accept.c --------------------------------------------------------------------------- */

void port_accept(struct http_server *s, struct port *port);
void ports_watch(struct http_server *s, int on);

#endif

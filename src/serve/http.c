/* http.c — see http.h. */
#define _GNU_SOURCE /* accept4 */
#include "serve/http.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    EVENTS = 256,
    ACCEPTS = 64, /* at a time, before others have their turn */
    SCRATCH = 64 << 10,
    JOIN = 32 << 10, /* bodies up to this size are sent together with their head */
    LINGER_SECONDS = 2,
    LAST_SECONDS = 1, /* for those who came before the end */
    LINGER_BYTES = 4 << 20,
    OVERHEAD = 64 << 10, /* framing of chunks that any body may have */
    TICK_MS = 250
};

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
    int draining, drained, sealing, sealed, stopping;
    int saw_drain, saw_seal, quiet; /* the thread's own; quiet: nothing has come for a tick */
    double drain_begun, last_call;  /* when it stops; 0: not yet */
    char scratch[SCRATCH];
};

/* ---- connections ----------------------------------------------------------------------------- */

static void unlink_connection(struct connection *c) {
    struct http_server *s = c->server;
    if (c->prev)
        c->prev->next = c->next;
    else
        s->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    else
        s->last = c->prev;
}

static void append_connection(struct connection *c) {
    struct http_server *s = c->server;
    c->prev = s->last, c->next = NULL;
    if (s->last)
        s->last->next = c;
    else
        s->first = c;
    s->last = c;
}

static void drop_input(struct connection *c) {
    xfree(c->in);
    c->in = NULL;
    c->n_in = c->cap_in = c->scanned = 0;
}

static void drop_output(struct connection *c) {
    while (c->out) {
        struct piece *p = c->out;
        c->out = p->next;
        xfree(p->owned);
        xfree(p);
    }
    c->last = NULL;
    c->n_out = 0;
}

static void enter(struct connection *c, enum state state) {
    struct http_server *s = c->server;
    s->stats.idle += (state == IDLE) - (c->state == IDLE);
    c->state = state;
    c->since = c->stirred = s->now;
    c->moved = 0;
    if (state == IDLE) { /* the longest idle come first */
        unlink_connection(c);
        append_connection(c);
        if (!c->n_in) drop_input(c);
    }
}

/* Tells epoll what this connection waits for. */
static void want(struct connection *c) {
    uint32_t events = 0;
    switch (c->state) {
    case HANDSHAKE:
        events = tls_wants_write(c->tls) ? EPOLLOUT : EPOLLIN;
        break;
    case IDLE:
    case HEAD:
    case BODY:
        events = c->out ? EPOLLIN | EPOLLOUT : EPOLLIN;
        break;
    case BUSY:
        events = (c->ended ? 0 : EPOLLRDHUP) | (c->out ? EPOLLOUT : 0);
        break;
    case SENDING:
        events = EPOLLOUT;
        break;
    case LINGER:
        events = EPOLLIN;
        break;
    default:
        return;
    }
    if (events == c->events) return;
    c->events = events;
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &e);
}

/* The exchange is over. It is freed when no handler can hold it any more: see reap. */
static void free_exchange(struct http_private *p) {
    struct http_server *s = p->server;
    p->x.took = clock_seconds() - p->x.begun;
    if (s->options.log) s->options.log(s->options.ctx, &p->x);
    s->n_exchange--;
    p->mail_next = s->spent;
    s->spent = p;
}

/* The connection is over, whatever was going on. An exchange whose handler has not answered yet
 * stays until it has. */
static void hang_up(struct connection *c) {
    struct http_server *s = c->server;
    struct http_private *p = c->x;
    if (c->state == DEAD) return;
    if (c->out && c->state == SENDING) p->x.lost = 1;
    enum state was = c->state;
    enter(c, DEAD);
    unlink_connection(c);
    c->next = s->dead;
    s->dead = c;
    s->stats.connections--;
    tls_end(c->tls);
    close(c->fd);
    drop_input(c);
    drop_output(c);
    c->x = NULL;
    if (!p) return;
    p->c = NULL;
    if (p->answered) {
        free_exchange(p);
    } else if (was == BUSY) {
        p->x.lost = 1;
        s->stats.hangups++;
        if (p->x.gone) p->x.gone(&p->x);
    } else { /* it never was whole, so no handler has seen it */
        p->x.lost = 1;
        s->n_waiting--;
        free_exchange(p);
    }
}

static void reap(struct http_server *s) {
    while (s->spent) {
        struct http_private *p = s->spent;
        s->spent = p->mail_next;
        if (p->x.release) p->x.release(&p->x);
        s->stats.buffered -= p->cap_body;
        xfree(p->text);
        xfree(p->body);
        xfree(p);
    }
    while (s->dead && !s->ready) {
        struct connection *c = s->dead;
        s->dead = c->next;
        xfree(c);
    }
}

static void make_ready(struct connection *c) {
    if (c->ready) return;
    c->ready = 1;
    c->ready_next = c->server->ready;
    c->server->ready = c;
}

/* ---- sending --------------------------------------------------------------------------------- */

static ssize_t put(struct connection *c, const char *data, size_t size) {
    if (c->tls) return tls_write(c->tls, data, size);
    ssize_t n = send(c->fd, data, size, MSG_NOSIGNAL);
    if (n >= 0) return n;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? TLS_AGAIN : TLS_BROKEN;
}

static void linger(struct connection *c) {
    if (c->ended) {
        hang_up(c);
        return;
    }
    tls_end(c->tls);
    c->tls = NULL;
    shutdown(c->fd, SHUT_WR);
    drop_input(c);
    enter(c, LINGER);
    want(c);
}

/* The answer has been sent: on to the next request. */
static void finish(struct connection *c) {
    struct http_private *p = c->x;
    BUG_ON(!p);
    int keep = p->keep && !c->must_close && !c->ended, half_read = c->must_close || c->n_in > 0;
    c->x = NULL;
    p->c = NULL;
    free_exchange(p);
    if (!keep) {
        enter(c, SENDING);
        if (half_read)
            linger(c);
        else
            hang_up(c);
        return;
    }
    c->grace = 0;
    enter(c, c->n_in ? HEAD : IDLE);
    want(c);
    if (c->n_in || (c->tls && tls_pending(c->tls))) make_ready(c);
}

/* Sends what it can. May end the connection. */
static void flush(struct connection *c) {
    while (c->out) {
        struct piece *p = c->out;
        ssize_t n = put(c, p->data + p->at, p->size - p->at);
        if (n == TLS_AGAIN) break;
        if (n < 0) {
            hang_up(c);
            return;
        }
        p->at += (size_t)n;
        c->moved += (uint64_t)n;
        c->stirred = c->server->now;
        c->n_out -= (size_t)n;
        c->server->stats.bytes_out += (uint64_t)n;
        if (c->x) c->x->x.sent += (uint64_t)n;
        if (p->at < p->size) continue;
        c->out = p->next;
        if (!c->out) c->last = NULL;
        xfree(p->owned);
        xfree(p);
    }
    if (!c->out && c->state == SENDING)
        finish(c);
    else
        want(c);
}

static void append_piece(struct connection *c, struct piece *p) {
    if (!p->size) {
        xfree(p->owned);
        xfree(p);
        return;
    }
    if (!c->out && c->state == BUSY) c->since = c->stirred = c->server->now, c->moved = 0;
    if (c->last)
        c->last->next = p;
    else
        c->out = p;
    c->last = p;
    c->n_out += p->size;
}

static void append_copy(struct connection *c, const char *data, size_t size) {
    struct piece *p = xcalloc(1, sizeof *p + size);
    memcpy(p->bytes, data, size);
    p->data = p->bytes;
    p->size = size;
    append_piece(c, p);
}

static const char *reason(int status) {
    static const struct {
        int status;
        const char *text;
    } known[] = {{100, "Continue"},
                 {200, "OK"},
                 {204, "No Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status) return known[i].text;
    return "Unknown";
}

/* The head of an answer as a piece with `room` more bytes behind it. */
static struct piece *head_piece(struct http_private *p, const struct http_answer *a, size_t room) {
    struct http_server *s = p->server;
    const char *common = s->options.headers ? s->options.headers : "";
    const char *more = a->headers ? a->headers : "";
    size_t cap = 320 + strlen(common) + strlen(more) + (a->type ? strlen(a->type) : 0);
    struct piece *piece = xcalloc(1, sizeof *piece + cap + room);
    char *text = piece->bytes, date[40];
    time_t t = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&t, &utc));
    size_t n = (size_t)snprintf(text, cap, "HTTP/1.1 %d %s\r\nDate: %s\r\n%s%s", a->status,
                                reason(a->status), date, common, more);
    if (a->type) n += (size_t)snprintf(text + n, cap - n, "Content-Type: %s\r\n", a->type);
    if (p->streaming && p->x.head.minor)
        n += (size_t)snprintf(text + n, cap - n, "Transfer-Encoding: chunked\r\n");
    else if (!p->streaming && a->status != 204 && a->status != 304)
        n += (size_t)snprintf(text + n, cap - n, "Content-Length: %zu\r\n", a->size);
    if (!p->keep || !p->x.head.minor)
        n += (size_t)snprintf(text + n, cap - n, "Connection: %s\r\n",
                              p->keep ? "keep-alive" : "close");
    n += (size_t)snprintf(text + n, cap - n, "\r\n");
    piece->data = text;
    piece->size = n;
    return piece;
}

/* The answer is whole. The exchange may be gone afterwards. */
static void conclude(struct http_private *p) {
    p->answered = 1;
    p->server->n_waiting--;
    if (!p->c) {
        free_exchange(p);
        return;
    }
    enter(p->c, SENDING);
    flush(p->c);
}

static void decide_keep(struct http_private *p) {
    p->keep =
        p->x.head.keep_alive && p->c && !p->c->must_close && !p->c->ended && !p->server->saw_drain;
}

void http_answer(struct http_exchange *x, const struct http_answer *a) {
    struct http_private *p = x->hidden;
    BUG_ON(p->answered || p->streaming);
    x->status = a->status;
    decide_keep(p);
    int bare = strcmp(x->head.method, "HEAD") == 0 || a->status == 204 || a->status == 304;
    size_t size = bare ? 0 : a->size;
    if (p->c && size <= JOIN) {
        struct piece *piece = head_piece(p, a, size);
        if (size) memcpy(piece->bytes + piece->size, a->body, size);
        piece->size += size;
        append_piece(p->c, piece);
    } else if (p->c) {
        append_piece(p->c, head_piece(p, a, 0));
        struct piece *body = xcalloc(1, sizeof *body);
        *body = (struct piece){.data = a->body, .size = size, .owned = a->owned};
        append_piece(p->c, body);
        conclude(p);
        return;
    }
    xfree(a->owned);
    conclude(p);
}

void http_begin(struct http_exchange *x, const char *type, const char *headers) {
    struct http_private *p = x->hidden;
    struct http_answer a = {.status = 200, .type = type, .headers = headers};
    x->status = 200;
    p->streaming = 1;
    decide_keep(p);
    if (!x->head.minor) p->keep = 0; /* the end of the connection is the end of the answer */
    if (!p->c) return;
    append_piece(p->c, head_piece(p, &a, 0));
    flush(p->c);
}

void http_write(struct http_exchange *x, const char *data, size_t size) {
    struct http_private *p = x->hidden;
    if (!p->c || !size) return;
    char line[24] = "";
    if (x->head.minor)
        append_copy(p->c, line, (size_t)snprintf(line, sizeof line, "%zx\r\n", size));
    append_copy(p->c, data, size);
    if (x->head.minor) append_copy(p->c, "\r\n", 2);
    if (p->c->n_out > HTTP_MAX_UNREAD)
        hang_up(p->c);
    else
        flush(p->c);
}

void http_end(struct http_exchange *x) {
    struct http_private *p = x->hidden;
    if (p->c && x->head.minor) append_copy(p->c, "0\r\n\r\n", 5);
    conclude(p);
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct http_private *new_exchange(struct connection *c) {
    struct http_private *p = xcalloc(1, sizeof *p);
    p->server = c->server;
    p->c = c;
    p->x.hidden = p;
    p->x.head = (struct http_head){.method = "", .path = "", .query = "", .minor = 1};
    p->x.body = "";
    p->x.begun = c->server->now;
    snprintf(p->x.client, sizeof p->x.client, "%s", c->peer);
    c->x = p;
    c->server->n_exchange++;
    c->server->n_waiting++;
    return p;
}

/* Answers without having read, or understood, all of the request. */
static void refuse(struct connection *c, int status, const char *why) {
    char body[160], headers[64] = "";
    struct http_server *s = c->server;
    if (!c->x) new_exchange(c);
    c->must_close = 1;
    s->stats.refused++;
    if (status == 503)
        snprintf(headers, sizeof headers, "Retry-After: %d\r\n", s->options.retry_after);
    int n = snprintf(body, sizeof body, "{\"error\":\"%s\"}\n", why);
    http_answer(&c->x->x, &(struct http_answer){.status = status,
                                                .type = "application/json",
                                                .headers = headers,
                                                .body = body,
                                                .size = (size_t)n});
}

static void dispatch(struct connection *c) {
    struct http_server *s = c->server;
    struct http_private *p = c->x;
    struct http_exchange *x = &p->x;
    if (p->body) {
        p->body[x->n_body] = 0;
        x->body = p->body;
    }
    x->begun = clock_seconds();
    x->secure = c->tls != NULL;
    x->trusted = address_within(c->peer, s->options.trusted, s->options.n_trusted);
    const char *forwarded = NULL;
    for (int i = 0; i < x->head.n_header; i++) /* of several lines the last is the proxy's */
        if (strcmp(x->head.header[i].name, "x-forwarded-for") == 0)
            forwarded = x->head.header[i].value;
    address_client(x->client, c->peer, forwarded, s->options.trusted, s->options.n_trusted);
    s->stats.requests++;
    c->served = 1;
    enter(c, BUSY);
    want(c);
    if (s->saw_seal || (s->saw_drain && !c->grace))
        refuse(c, 503, "the server is shutting down");
    else
        s->options.handle(s->options.ctx, x);
}

/* Room for `more` bytes of body, and a NUL. 0, or a status. */
static int grow_body(struct http_private *p, size_t more) {
    struct http_server *s = p->server;
    size_t need = p->x.n_body + more + 1;
    if (need - 1 > s->options.max_body) return 413;
    if (need <= p->cap_body) return 0;
    size_t cap = 2 * p->cap_body > need ? 2 * p->cap_body : need;
    if (!p->x.head.chunked && cap > p->x.head.length + 1) cap = (size_t)p->x.head.length + 1;
    if (s->stats.buffered + (cap - p->cap_body) > s->options.max_buffered) return 503;
    s->stats.buffered += cap - p->cap_body;
    p->body = xrealloc(p->body, cap);
    p->cap_body = cap;
    return 0;
}

static const char *why_not(int status) {
    return status == 413   ? "the request is larger than this server allows"
           : status == 431 ? "a trailer of the request is too long"
           : status == 503 ? "too many requests are being received"
                           : "the chunks of the request are malformed";
}

/* As http_chunks_take. */
static int feed_chunks(struct http_private *p, const char *data, size_t n, size_t *used) {
    char part[4096];
    int rc = grow_body(p, 0);
    while (*used < n && !rc) {
        size_t most = n - *used < sizeof part ? n - *used : sizeof part, took, got;
        rc = http_chunks_take(&p->chunks, data + *used, most, &took, part, &got);
        *used += took;
        int full = grow_body(p, got);
        if (full) return full;
        memcpy(p->body + p->x.n_body, part, got);
        p->x.n_body += got;
        if (p->chunks.overhead > OVERHEAD + 8 * (uint64_t)p->x.n_body) return 400;
    }
    return rc;
}

/* Takes body out of data[0..n); the bytes used. The request may be whole, or refused, then. */
static size_t feed_body(struct connection *c, const char *data, size_t n) {
    struct http_private *p = c->x;
    struct http_head *h = &p->x.head;
    size_t used = 0;
    int rc, whole;
    if (h->chunked) {
        rc = feed_chunks(p, data, n, &used);
        whole = rc == 1;
        if (whole) rc = 0;
    } else {
        size_t left = (size_t)h->length - p->x.n_body;
        used = n < left ? n : left;
        rc = grow_body(p, used);
        if (!rc) memcpy(p->body + p->x.n_body, data, used);
        if (!rc) p->x.n_body += used;
        whole = !rc && p->x.n_body == h->length;
    }
    if (rc)
        refuse(c, rc, why_not(rc));
    else if (whole)
        dispatch(c);
    return used;
}

/* The head has come: what about the body? */
static void begin_body(struct connection *c) {
    struct http_private *p = c->x;
    struct http_head *h = &p->x.head;
    if (h->length > c->server->options.max_body) {
        refuse(c, 413, why_not(413));
        return;
    }
    if (!h->chunked && !h->length) {
        dispatch(c);
        return;
    }
    enter(c, BODY);
    if (h->expects_continue && !c->n_in) {
        append_copy(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        flush(c);
        if (c->state != BODY) return;
    }
    if (c->n_in) {
        size_t before = c->n_in;
        char *in = c->in;
        c->in = NULL; /* it may be dropped under our feet */
        c->n_in = c->cap_in = 0;
        size_t used = feed_body(c, in, before);
        if (c->state != DEAD && c->state != LINGER && used < before) {
            c->in = xmalloc(before - used);
            memcpy(c->in, in + used, before - used);
            c->n_in = c->cap_in = before - used;
            if (c->state == IDLE) enter(c, HEAD), make_ready(c);
        }
        xfree(in);
    }
    want(c);
}

/* One request out of the input, if it holds one. */
static void advance(struct connection *c) {
    const char *why = NULL;
    if ((c->state != IDLE && c->state != HEAD) || !c->n_in) return;
    if (c->state == IDLE) enter(c, HEAD);
    while (c->n_in >= 2 && memcmp(c->in, "\r\n", 2) == 0) { /* blank lines between requests */
        memmove(c->in, c->in + 2, c->n_in -= 2);
        c->scanned = 0;
    }
    size_t end = http_head_end(c->in, c->n_in, &c->scanned);
    if (end == SIZE_MAX || (!end && c->n_in >= HTTP_MAX_HEAD)) {
        int line = end == SIZE_MAX || memchr(c->in, '\n', c->n_in) != NULL;
        refuse(c,
               end == SIZE_MAX ? 400
               : line          ? 431
                               : 414,
               end == SIZE_MAX ? "the lines of a request end in CR LF, and have no NUL"
               : line          ? "the headers are too long"
                               : "the URL is too long");
        return;
    }
    if (!end) return;
    struct http_private *p = new_exchange(c);
    p->text = xmalloc(end + 1);
    memcpy(p->text, c->in, end);
    p->text[end] = 0;
    memmove(c->in, c->in + end, c->n_in -= end);
    c->scanned = 0;
    if (!c->n_in) drop_input(c);
    int rc = http_parse_head(&p->x.head, p->text, end, &why);
    if (rc)
        refuse(c, rc, why);
    else
        begin_body(c);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void take(struct connection *c, const char *data, size_t n) {
    c->moved += n;
    c->stirred = c->server->now;
    c->server->stats.bytes_in += n;
    if (c->state == LINGER) {
        if (c->moved > LINGER_BYTES) hang_up(c);
        return;
    }
    if (c->state == BODY) {
        size_t used = feed_body(c, data, n);
        data += used, n -= used;
    }
    if (!n || c->state == DEAD || c->state == LINGER) return;
    if (c->n_in + n > c->cap_in) {
        c->cap_in = 2 * c->cap_in > c->n_in + n ? 2 * c->cap_in : c->n_in + n;
        c->in = xrealloc(c->in, c->cap_in);
    }
    memcpy(c->in + c->n_in, data, n);
    c->n_in += n;
    advance(c);
}

static void receive(struct connection *c) {
    struct http_server *s = c->server;
    do {
        ssize_t n = c->tls ? tls_read(c->tls, s->scratch, sizeof s->scratch)
                           : recv(c->fd, s->scratch, sizeof s->scratch, 0);
        if (n < 0 && !c->tls) n = errno == EAGAIN || errno == EINTR ? TLS_AGAIN : TLS_BROKEN;
        if (n == TLS_AGAIN) return;
        if (n <= 0) {
            hang_up(c);
            return;
        }
        take(c, s->scratch, (size_t)n);
    } while (c->tls && tls_pending(c->tls) &&
             (c->state == IDLE || c->state == HEAD || c->state == BODY));
}

/* Does the client begin with a method? Handshakes begin with a byte that is no letter. */
static int speaks_plainly(const struct connection *c) {
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && byte >= 'A' && byte <= 'Z';
}

static void shake_hands(struct connection *c) {
    if (!c->spoken && speaks_plainly(c)) {
        tls_end(c->tls);
        c->tls = NULL;
        enter(c, HEAD);
        refuse(c, 400, "this port speaks HTTPS: use https://");
        return;
    }
    c->spoken = 1;
    int rc = tls_handshake(c->tls);
    if (rc == TLS_BROKEN) {
        hang_up(c);
        return;
    }
    if (rc == 0) enter(c, IDLE);
    want(c);
    if (rc == 0) receive(c);
}

/* The client has ended its side while its answer is being made: see http.h. */
static void probe(struct connection *c) {
    c->ended = 1;
    BUG_ON(!c->x);
    if (!c->x->x.head.minor || c->x->streaming) {
        hang_up(c);
        return;
    }
    append_copy(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    flush(c);
}

static void on_connection(struct connection *c, uint32_t events) {
    if (c->state == DEAD) return;
    if (events & (EPOLLERR | EPOLLHUP)) {
        hang_up(c);
        return;
    }
    if (c->state == HANDSHAKE) {
        shake_hands(c);
        return;
    }
    if (events & EPOLLOUT) flush(c);
    if (events & EPOLLRDHUP && c->state == BUSY && !c->ended) probe(c);
    if (events & EPOLLIN &&
        (c->state == IDLE || c->state == HEAD || c->state == BODY || c->state == LINGER))
        receive(c);
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* Closes the connection that has been idle longest, and on which no request has come by now. */
static int evict_idle(struct http_server *s) {
    char byte;
    for (struct connection *c = s->first; c; c = c->next)
        if (c->state == IDLE && !c->ready && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
            hang_up(c);
            return 1;
        }
    return 0;
}

static void turn_away(struct http_server *s, int fd) {
    static const char body[] = "{\"error\":\"The server has too many connections\"}\n";
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 503 Service Unavailable\r\n%sRetry-After: %d\r\nContent-Type: "
                     "application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     s->options.headers ? s->options.headers : "", s->options.retry_after,
                     sizeof body - 1, body);
    ssize_t sent =
        n < (int)sizeof text ? send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    (void)sent; /* it is closed in any case */
    close(fd);
    s->stats.turned_away++;
}

static void new_connection(struct http_server *s, const struct port *port, int fd,
                           const struct sockaddr_storage *from) {
    struct tls *tls = port->listener.is_unix ? NULL : atomic_load(&s->tls);
    struct connection *c = xcalloc(1, sizeof *c);
    *c = (struct connection){.kind = CONNECTION, .state = HANDSHAKE, .fd = fd, .server = s};
    address_text(c->peer, from);
    if (tls && !(c->tls = tls_begin(tls, fd))) {
        xfree(c);
        turn_away(s, fd);
        return;
    }
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e)) {
        tls_end(c->tls);
        xfree(c);
        turn_away(s, fd);
        return;
    }
    c->events = EPOLLIN;
    append_connection(c);
    enter(c, tls ? HANDSHAKE : IDLE);
    s->stats.connections++;
    s->stats.accepted++;
}

static void watch_ports(struct http_server *s, int on) {
    for (int i = 0; i < s->options.n_listen; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &s->port[i]};
        /* a socket of systemd's keeps those who come now for the next server */
        if (on && s->saw_drain && s->port[i].listener.given) continue;
        epoll_ctl(s->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->port[i].listener.fd, &e);
    }
    s->paused = !on;
}

static void on_port(struct http_server *s, struct port *port) {
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        int fd = accept4(port->listener.fd, (struct sockaddr *)&from, &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            if (evict_idle(s)) continue;
            watch_ports(s, 0);
            return;
        }
        if (fd < 0) return;
        if (s->stats.connections >= s->options.max_connections && !evict_idle(s))
            turn_away(s, fd);
        else
            new_connection(s, port, fd, &from);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void deliver(struct http_server *s) {
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct http_private *p = s->mail;
        unsigned what = 0;
        if (p) {
            s->mail = p->mail_next;
            what = p->mail;
            p->mail = 0;
            p->mailed = 0;
        }
        pthread_mutex_unlock(&s->lock);
        if (!p) return;
        if (p->x.woken) p->x.woken(&p->x, what);
    }
}

void http_wake(struct http_exchange *x, unsigned what) {
    struct http_private *p = x->hidden;
    struct http_server *s = p->server;
    const uint64_t one = 1;
    pthread_mutex_lock(&s->lock);
    p->mail |= what;
    int first = !s->mail;
    if (!p->mailed) {
        p->mailed = 1;
        p->mail_next = s->mail;
        s->mail = p;
    }
    /* under the lock: the exchange may be gone once it is delivered, and the server after that */
    ssize_t rung = first ? write(s->bell, &one, sizeof one) : 0;
    (void)rung; /* it cannot fail, but by having rung already */
    pthread_mutex_unlock(&s->lock);
}

static void check_time(struct connection *c) {
    const struct http_options *o = &c->server->options;
    double age = c->server->now - c->since, allowed = o->timeout;
    switch (c->state) {
    case IDLE:
        allowed = o->idle;
        break;
    case LINGER:
        allowed = LINGER_SECONDS;
        break;
    case BUSY:
        if (!c->out) return;
        __attribute__((fallthrough));
    case BODY:
    case SENDING:
        allowed += (double)c->moved / HTTP_MIN_RATE;
        break;
    default:
        break;
    }
    int stuck = c->state != IDLE && c->server->now - c->stirred > o->timeout;
    if (age <= allowed && !stuck) return;
    if (c->state != IDLE && c->state != LINGER) c->server->stats.timeouts++;
    if ((c->state == HEAD || c->state == BODY) && !c->out)
        refuse(c, 408, "the request took too long to arrive");
    else
        hang_up(c);
}

static void sweep(struct http_server *s) {
    for (struct connection *c = s->first, *next; c; c = next) {
        next = c->next;
        check_time(c);
    }
    if (s->paused) watch_ports(s, 1);
}

/* Draining: has everything that was begun been answered? */
static void look_at_drain(struct http_server *s) {
    pthread_mutex_lock(&s->lock);
    int draining = s->draining;
    if (s->sealing && !s->sealed) {
        s->sealed = s->saw_seal = 1;
        pthread_cond_broadcast(&s->drained_changed);
    }
    pthread_mutex_unlock(&s->lock);
    if (!draining) return;
    if (!s->saw_drain) {
        s->saw_drain = 1;
        s->drain_begun = s->now;
        for (struct connection *c = s->first; c; c = c->next)
            c->grace = c->state == HEAD || c->state == BODY;
        for (int i = 0; i < s->options.n_listen; i++)
            if (s->port[i].listener.given)
                epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->port[i].listener.fd, NULL);
    }
    /* nor may anything lie in a socket that nobody has looked at */
    int left = s->n_exchange || (!s->quiet && s->now < s->drain_begun + 1);
    for (const struct connection *c = s->first; c && !left; c = c->next) left = c->grace;
    pthread_mutex_lock(&s->lock);
    s->drained = !left;
    if (!left) pthread_cond_broadcast(&s->drained_changed);
    pthread_mutex_unlock(&s->lock);
}

static void run_ready(struct http_server *s) {
    struct connection *list = s->ready;
    s->ready = NULL;
    while (list) {
        struct connection *c = list;
        list = c->ready_next;
        c->ready = 0;
        if (c->state == IDLE || c->state == HEAD) {
            if (c->n_in) advance(c);
            if (c->tls && (c->state == IDLE || c->state == HEAD) && tls_pending(c->tls)) receive(c);
        }
    }
}

static void on_event(struct http_server *s, const struct epoll_event *e) {
    uint64_t count;
    switch (*(enum kind *)e->data.ptr) {
    case PORT:
        on_port(s, e->data.ptr);
        break;
    case CONNECTION:
        on_connection(e->data.ptr, e->events);
        break;
    case MAILBOX:
        if (read(s->bell, &count, sizeof count) < 0) return; /* nothing rang: no matter */
    }
}

/* The last who have come are answered, too: closing a port resets those that wait at it. Then
 * nobody can come any more. Ports that were given are the next server's. */
static void shut_ports(struct http_server *s) {
    for (int i = 0; i < s->options.n_listen; i++) {
        struct port *port = &s->port[i];
        if (port->listener.given || port->listener.fd < 0) continue;
        uint64_t before;
        do {
            before = s->stats.accepted;
            on_port(s, port);
        } while (s->stats.accepted > before && !s->paused);
        epoll_ctl(s->epoll, EPOLL_CTL_DEL, port->listener.fd, NULL);
        listener_close(&port->listener);
    }
    s->saw_seal = 1;
    s->last_call = s->now + LAST_SECONDS;
}

/* Is somebody in the midst of a request, has not begun the first, or not read all of the answer? */
static int is_waited_for(const struct connection *c) { return c->state != IDLE || !c->served; }

/* Nothing is in work any more. 1: all connections can be closed. */
static int has_ended(struct http_server *s) {
    if (!s->last_call) shut_ports(s);
    if (s->now < s->last_call)
        for (const struct connection *c = s->first; c; c = c->next)
            if (is_waited_for(c)) return 0;
    return 1;
}

static void *serve(void *arg) {
    struct http_server *s = arg;
    struct epoll_event event[EVENTS];
    double tick = 0;
    sigset_t all;
    sigfillset(&all); /* signals are for the program's own thread */
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;) {
        int n = epoll_wait(s->epoll, event, EVENTS, s->ready ? 0 : TICK_MS);
        s->now = clock_seconds();
        s->quiet = n == 0;
        for (int i = 0; i < n; i++) on_event(s, &event[i]);
        deliver(s);
        run_ready(s);
        if (s->now >= tick) {
            tick = s->now + TICK_MS / 1000.0;
            sweep(s);
        }
        look_at_drain(s);
        reap(s);
        pthread_mutex_lock(&s->lock);
        int stopping = s->stopping;
        pthread_mutex_unlock(&s->lock);
        if (!stopping || !has_ended(s)) continue;
        while (s->first) hang_up(s->first);
        if (!s->n_waiting) break;
    }
    s->ready = NULL;
    reap(s);
    return NULL;
}

/* ---- the server ------------------------------------------------------------------------------ */

int http_open(struct http_server **server, const struct http_options *options, struct err *err) {
    struct http_server *s = *server = xcalloc(1, sizeof *s);
    const int on = 1, idle = 60, interval = 15, count = 3;
    int rc = 0, n = 0;
    s->options = *options;
    s->mailbox = MAILBOX;
    atomic_init(&s->tls, options->tls);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->drained_changed, NULL);
    s->port = xcalloc((size_t)options->n_listen + 1, sizeof *s->port);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &s->mailbox};
    if (s->epoll < 0 || s->bell < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->bell, &e))
        rc = err_set(err, HEED_EIO, "cannot make an epoll: %s", strerror(errno));
    for (; n < options->n_listen && !rc; n++) {
        struct port *p = &s->port[n];
        p->kind = PORT;
        rc = listener_open(&p->listener, &options->listen[n], err);
        if (rc || p->listener.is_unix) continue;
        /* connections inherit them */
        setsockopt(p->listener.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(p->listener.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        setsockopt(p->listener.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        setsockopt(p->listener.fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
        setsockopt(p->listener.fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    }
    if (!rc) return 0;
    s->options.n_listen = n;
    http_close(s);
    *server = NULL;
    return rc;
}

int http_start(struct http_server *s, struct err *err) {
    s->now = clock_seconds();
    watch_ports(s, 1);
    int rc = pthread_create(&s->thread, NULL, serve, s);
    if (rc) return err_set(err, HEED_EIO, "cannot start a thread: %s", strerror(rc));
    s->started = 1;
    return 0;
}

const char *http_where(const struct http_server *s, int i) { return s->port[i].listener.where; }

void http_set_tls(struct http_server *s, struct tls *tls) { atomic_store(&s->tls, tls); }

struct http_stats http_stats(const struct http_server *s) {
    struct http_stats stats = s->stats;
    stats.active = s->n_exchange;
    return stats;
}

static void ring(struct http_server *s) {
    const uint64_t one = 1;
    if (write(s->bell, &one, sizeof one) < 0) return; /* it has rung already */
}

int http_drain(struct http_server *s, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    pthread_mutex_lock(&s->lock);
    s->draining = 1;
    ring(s);
    int rc = 0;
    while (!s->drained && !rc) rc = pthread_cond_timedwait(&s->drained_changed, &s->lock, &until);
    rc = s->drained;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void http_seal(struct http_server *s) {
    pthread_mutex_lock(&s->lock);
    s->sealing = 1;
    ring(s);
    while (!s->sealed) pthread_cond_wait(&s->drained_changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void http_close(struct http_server *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = 1;
    pthread_mutex_unlock(&s->lock);
    if (s->started) {
        ring(s);
        pthread_join(s->thread, NULL);
    }
    for (int i = 0; i < s->options.n_listen; i++) listener_close(&s->port[i].listener);
    if (s->epoll >= 0) close(s->epoll);
    if (s->bell >= 0) close(s->bell);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->drained_changed);
    xfree(s->port);
    xfree(s);
}

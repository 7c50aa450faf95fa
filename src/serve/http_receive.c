/* http_receive.c — requests: see http_connection.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/http_connection.h"

enum {
    LINGER_BYTES = 4 << 20,
    OVERHEAD = 64 << 10 /* framing of chunks that any body may have */
};

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

void connection_refuse(struct connection *c, int status, const char *why) {
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
    connection_enter(c, BUSY);
    connection_want(c);
    if (s->saw_seal || (s->saw_drain && !c->grace))
        connection_refuse(c, 503, "the server is shutting down");
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
        connection_refuse(c, rc, why_not(rc));
    else if (whole)
        dispatch(c);
    return used;
}

static void say_continue(struct connection *c) {
    connection_say(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    connection_flush(c);
}

/* The head has come: what about the body? */
static void begin_body(struct connection *c) {
    struct http_private *p = c->x;
    struct http_head *h = &p->x.head;
    if (h->length > c->server->options.max_body) {
        connection_refuse(c, 413, why_not(413));
        return;
    }
    if (!h->chunked && !h->length) {
        dispatch(c);
        return;
    }
    connection_enter(c, BODY);
    if (h->expects_continue && !c->n_in) {
        say_continue(c);
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
            if (c->state == IDLE) connection_enter(c, HEAD), connection_make_ready(c);
        }
        xfree(in);
    }
    connection_want(c);
}

void connection_advance(struct connection *c) {
    const char *why = NULL;
    if ((c->state != IDLE && c->state != HEAD) || !c->n_in) return;
    if (c->state == IDLE) connection_enter(c, HEAD);
    while (c->n_in >= 2 && memcmp(c->in, "\r\n", 2) == 0) { /* blank lines between requests */
        memmove(c->in, c->in + 2, c->n_in -= 2);
        c->scanned = 0;
    }
    size_t end = http_head_end(c->in, c->n_in, &c->scanned);
    if (end == SIZE_MAX || (!end && c->n_in >= HTTP_MAX_HEAD)) {
        int line = end == SIZE_MAX || memchr(c->in, '\n', c->n_in) != NULL;
        connection_refuse(c,
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
    if (!c->n_in) connection_drop_input(c);
    int rc = http_parse_head(&p->x.head, p->text, end, &why);
    if (rc)
        connection_refuse(c, rc, why);
    else
        begin_body(c);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void take(struct connection *c, const char *data, size_t n) {
    c->moved += n;
    c->stirred = c->server->now;
    c->server->stats.bytes_in += n;
    if (c->state == LINGER) {
        if (c->moved > LINGER_BYTES) connection_hang_up(c);
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
    connection_advance(c);
}

void connection_receive(struct connection *c) {
    struct http_server *s = c->server;
    do {
        ssize_t n = c->tls ? tls_read(c->tls, s->scratch, sizeof s->scratch)
                           : recv(c->fd, s->scratch, sizeof s->scratch, 0);
        if (n < 0 && !c->tls) n = errno == EAGAIN || errno == EINTR ? TLS_AGAIN : TLS_BROKEN;
        if (n == TLS_AGAIN) return;
        if (n <= 0) {
            connection_hang_up(c);
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
        connection_enter(c, HEAD);
        connection_refuse(c, 400, "this port speaks HTTPS: use https://");
        return;
    }
    c->spoken = 1;
    int rc = tls_handshake(c->tls);
    if (rc == TLS_BROKEN) {
        connection_hang_up(c);
        return;
    }
    if (rc == 0) connection_enter(c, IDLE);
    connection_want(c);
    if (rc == 0) connection_receive(c);
}

/* The client has ended its side while its answer is being made: see http.h. */
static void probe(struct connection *c) {
    c->ended = 1;
    BUG_ON(!c->x);
    if (!c->x->x.head.minor || c->x->streaming) {
        connection_hang_up(c);
        return;
    }
    say_continue(c);
}

void connection_event(struct connection *c, uint32_t events) {
    if (c->state == DEAD) return;
    if (events & (EPOLLERR | EPOLLHUP)) {
        connection_hang_up(c);
        return;
    }
    if (c->state == HANDSHAKE) {
        shake_hands(c);
        return;
    }
    if (events & EPOLLOUT) connection_flush(c);
    if (events & EPOLLRDHUP && c->state == BUSY && !c->ended) probe(c);
    if (events & EPOLLIN &&
        (c->state == IDLE || c->state == HEAD || c->state == BODY || c->state == LINGER))
        connection_receive(c);
}

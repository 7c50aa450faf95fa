/* http_send.c — answers: see http.h and http_connection.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/mem.h"
#include "serve/http_connection.h"

enum { JOIN = 32 << 10 }; /* bodies up to this size are sent together with their head */

static ssize_t put(struct connection *c, const char *data, size_t size) {
    if (c->tls) return tls_write(c->tls, data, size);
    ssize_t n = send(c->fd, data, size, MSG_NOSIGNAL);
    if (n >= 0) return n;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? TLS_AGAIN : TLS_BROKEN;
}

static void linger(struct connection *c) {
    if (c->ended) {
        connection_hang_up(c);
        return;
    }
    tls_end(c->tls);
    c->tls = NULL;
    shutdown(c->fd, SHUT_WR);
    connection_drop_input(c);
    connection_enter(c, LINGER);
    connection_want(c);
}

/* The answer has been sent: on to the next request. */
static void finish(struct connection *c) {
    struct http_private *p = c->x;
    BUG_ON(!p);
    int keep = p->keep && !c->must_close && !c->ended, half_read = c->must_close || c->n_in > 0;
    c->x = NULL;
    p->c = NULL;
    exchange_over(p);
    if (!keep) {
        connection_enter(c, SENDING);
        if (half_read)
            linger(c);
        else
            connection_hang_up(c);
        return;
    }
    c->grace = 0;
    connection_enter(c, c->n_in ? HEAD : IDLE);
    connection_want(c);
    if (c->n_in || (c->tls && tls_pending(c->tls))) connection_make_ready(c);
}

void connection_flush(struct connection *c) {
    while (c->out) {
        struct piece *p = c->out;
        ssize_t n = put(c, p->data + p->at, p->size - p->at);
        if (n == TLS_AGAIN) break;
        if (n < 0) {
            connection_hang_up(c);
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
        connection_want(c);
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

void connection_say(struct connection *c, const char *data, size_t size) {
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
        exchange_over(p);
        return;
    }
    connection_enter(p->c, SENDING);
    connection_flush(p->c);
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
    connection_flush(p->c);
}

void http_write(struct http_exchange *x, const char *data, size_t size) {
    struct http_private *p = x->hidden;
    if (!p->c || !size) return;
    char line[24] = "";
    if (x->head.minor)
        connection_say(p->c, line, (size_t)snprintf(line, sizeof line, "%zx\r\n", size));
    connection_say(p->c, data, size);
    if (x->head.minor) connection_say(p->c, "\r\n", 2);
    if (p->c->n_out > HTTP_MAX_UNREAD)
        connection_hang_up(p->c);
    else
        connection_flush(p->c);
}

void http_end(struct http_exchange *x) {
    struct http_private *p = x->hidden;
    if (p->c && x->head.minor) connection_say(p->c, "0\r\n\r\n", 5);
    conclude(p);
}

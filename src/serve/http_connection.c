/* http_connection.c — see http_connection.h. */
#include "serve/http_connection.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

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

void connection_append(struct connection *c) {
    struct http_server *s = c->server;
    c->prev = s->last, c->next = NULL;
    if (s->last)
        s->last->next = c;
    else
        s->first = c;
    s->last = c;
}

void connection_drop_input(struct connection *c) {
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

void connection_enter(struct connection *c, enum state state) {
    struct http_server *s = c->server;
    s->stats.idle += (state == IDLE) - (c->state == IDLE);
    c->state = state;
    c->since = c->stirred = s->now;
    c->moved = 0;
    if (state == IDLE) { /* the longest idle come first */
        unlink_connection(c);
        connection_append(c);
        if (!c->n_in) connection_drop_input(c);
    }
}

void connection_want(struct connection *c) {
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

void exchange_over(struct http_private *p) {
    struct http_server *s = p->server;
    p->x.took = clock_seconds() - p->x.begun;
    if (s->options.log) s->options.log(s->options.ctx, &p->x);
    s->n_exchange--;
    p->mail_next = s->spent;
    s->spent = p;
}

void connection_hang_up(struct connection *c) {
    struct http_server *s = c->server;
    struct http_private *p = c->x;
    if (c->state == DEAD) return;
    if (c->out && c->state == SENDING) p->x.lost = 1;
    enum state was = c->state;
    connection_enter(c, DEAD);
    unlink_connection(c);
    c->next = s->dead;
    s->dead = c;
    s->stats.connections--;
    tls_end(c->tls);
    close(c->fd);
    connection_drop_input(c);
    drop_output(c);
    c->x = NULL;
    if (!p) return;
    p->c = NULL;
    if (p->answered) {
        exchange_over(p);
    } else if (was == BUSY) {
        p->x.lost = 1;
        s->stats.hangups++;
        if (p->x.gone) p->x.gone(&p->x);
    } else { /* it never was whole, so no handler has seen it */
        p->x.lost = 1;
        s->n_waiting--;
        exchange_over(p);
    }
}

void connections_reap(struct http_server *s) {
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

void connection_make_ready(struct connection *c) {
    if (c->ready) return;
    c->ready = 1;
    c->ready_next = c->server->ready;
    c->server->ready = c;
}

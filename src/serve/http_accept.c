/* http_accept.c — connections that come: see http_connection.h. */
#define _GNU_SOURCE /* accept4 */
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "serve/http_connection.h"

enum { ACCEPTS = 64 }; /* at a time, before others have their turn */

/* Closes the connection that has been idle longest, and on which no request has come by now. */
static int evict_idle(struct http_server *s) {
    char byte;
    for (struct connection *c = s->first; c; c = c->next)
        if (c->state == IDLE && !c->ready && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
            connection_hang_up(c);
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
    connection_append(c);
    connection_enter(c, tls ? HANDSHAKE : IDLE);
    s->stats.connections++;
    s->stats.accepted++;
}

void ports_watch(struct http_server *s, int on) {
    for (int i = 0; i < s->options.n_listen; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &s->port[i]};
        /* a socket of systemd's keeps those who come now for the next server */
        if (on && s->saw_drain && s->port[i].listener.given) continue;
        epoll_ctl(s->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->port[i].listener.fd, &e);
    }
    s->paused = !on;
}

void port_accept(struct http_server *s, struct port *port) {
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        int fd = accept4(port->listener.fd, (struct sockaddr *)&from, &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            if (evict_idle(s)) continue;
            ports_watch(s, 0);
            return;
        }
        if (fd < 0) return;
        if (s->stats.connections >= s->options.max_connections && !evict_idle(s))
            turn_away(s, fd);
        else
            new_connection(s, port, fd, &from);
    }
}

/* http.c — the server's thread, its start and its end: see http.h. */
#include "serve/http.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/http_connection.h"

enum {
    EVENTS = 256,
    LINGER_SECONDS = 2,
    LAST_SECONDS = 1, /* for those who came before the end */
    TICK_MS = 250
};

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

static void ring(struct http_server *s) {
    const uint64_t one = 1;
    if (write(s->bell, &one, sizeof one) < 0) return; /* it has rung already */
}

void http_wake(struct http_exchange *x, unsigned what) {
    struct http_private *p = x->hidden;
    struct http_server *s = p->server;
    pthread_mutex_lock(&s->lock);
    p->mail |= what;
    int first = !s->mail;
    if (!p->mailed) {
        p->mailed = 1;
        p->mail_next = s->mail;
        s->mail = p;
    }
    atomic_fetch_add_explicit(&s->ringing, first, memory_order_relaxed);
    pthread_mutex_unlock(&s->lock); /* which who is woken wants; the exchange may be gone now */
    if (!first) return;
    ring(s);
    atomic_fetch_sub_explicit(&s->ringing, 1, memory_order_release);
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
        connection_refuse(c, 408, "the request took too long to arrive");
    else
        connection_hang_up(c);
}

static void sweep(struct http_server *s) {
    for (struct connection *c = s->first, *next; c; c = next) {
        next = c->next;
        check_time(c);
    }
    if (s->paused) ports_watch(s, 1);
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
            if (c->n_in) connection_advance(c);
            if (c->tls && (c->state == IDLE || c->state == HEAD) && tls_pending(c->tls))
                connection_receive(c);
        }
    }
}

static void on_event(struct http_server *s, const struct epoll_event *e) {
    uint64_t count;
    switch (*(enum kind *)e->data.ptr) {
    case PORT:
        port_accept(s, e->data.ptr);
        break;
    case CONNECTION:
        connection_event(e->data.ptr, e->events);
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
            port_accept(s, port);
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
        connections_reap(s);
        pthread_mutex_lock(&s->lock);
        int stopping = s->stopping;
        pthread_mutex_unlock(&s->lock);
        if (!stopping || !has_ended(s)) continue;
        while (s->first) connection_hang_up(s->first);
        if (!s->n_waiting) break;
    }
    s->ready = NULL;
    connections_reap(s);
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
    ports_watch(s, 1);
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
    while (atomic_load_explicit(&s->ringing, memory_order_acquire)) sched_yield();
    for (int i = 0; i < s->options.n_listen; i++) listener_close(&s->port[i].listener);
    if (s->epoll >= 0) close(s->epoll);
    if (s->bell >= 0) close(s->bell);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->drained_changed);
    xfree(s->port);
    xfree(s);
}

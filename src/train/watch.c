/* watch.c — see watch.h. */
#define _GNU_SOURCE /* accept4, pipe2 */
#include "train/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    MAX_ADDRESS = 16,
    HISTORY = 15,       /* durations that a median is taken of */
    ENOUGH = 3,         /* durations without which there is no median */
    DOZE_MS = 200,      /* most between two looks */
    BEAT_MS = 1000,     /* between two words */
    CONNECT_MS = 60000, /* for all to connect */
    TRY_MS = 5000,      /* for one address */
    HELLO_MS = 5000     /* for whoever has connected to say who it is */
};
static const double straggles = 1.2;
static const double suspicious = 2.5; /* seconds of silence, when the launcher ends the ranks */

enum word_kind { WORD_HELLO, WORD_BEAT, WORD_BYE, WORD_LOST };

/* All that is ever sent, in one size. */
struct word {
    uint64_t secret;
    int32_t kind, rank, pid, phase;
    int64_t step;
    double since, median; /* seconds in this phase, and of those before it; 0: not known yet */
    char host[64];
    struct watch_report lost;
};

struct peer {
    int fd; /* -1: it has said goodbye, or is this rank */
    double heard;
    struct word last;
    char in[sizeof(struct word)]; /* the next one, as far as it has come */
    size_t n_in;
};

struct watch {
    struct watch_options options;
    int rank, size;
    uint64_t secret;
    struct peer *peer; /* [size]; of other ranks than 0, only peer[0] is used */
    struct word self;  /* who this is */
    pthread_t thread;
    int wake[2];
    /* Shared with whoever trains. */
    pthread_mutex_t lock;
    int leaving;
    int64_t step;
    enum watch_phase phase;
    double began, busy;
    double history[WATCH_N_PHASE][HISTORY];
    int n_history[WATCH_N_PHASE];
};

/* ---- words ----------------------------------------------------------------------------------- */

static const char *phase_name(int phase) {
    static const char *const name[] = {
#define WATCH_NAME(name, text) text,
        WATCH_PHASES(WATCH_NAME)
#undef WATCH_NAME
    };
    return phase >= 0 && phase < WATCH_N_PHASE ? name[phase] : "?";
}

const char *watch_text(char text[WATCH_TEXT], const struct watch_report *r) {
    static const char *const what[] = {"is gone, last heard of at", "is silent since",
                                       "is stuck in", "has failed at"};
    snprintf(text, WATCH_TEXT, "rank %d on %.63s (pid %d) %s step %lld, %s", r->rank, r->host,
             r->pid, what[r->kind], (long long)r->step, phase_name((int)r->phase));
    if (r->kind != WATCH_STUCK) return text;
    size_t n = strlen(text);
    snprintf(text + n, WATCH_TEXT - n, ", for %.0f s", r->seconds);
    return text;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *value, int n) {
    double *sorted = xmalloc((size_t)n * sizeof *sorted), median;
    memcpy(sorted, value, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    xfree(sorted);
    return median;
}

struct watch_spread watch_spread(const double *seconds, int n) {
    int least = 0, most = 0;
    double median = median_of(seconds, n);
    for (int r = 1; r < n; r++) {
        if (seconds[r] > seconds[most]) most = r;
        if (seconds[r] < seconds[least]) least = r;
    }
    return (struct watch_spread){.least = median > 0 ? seconds[least] / median : 1,
                                 .most = median > 0 ? seconds[most] / median : 1,
                                 .slowest = most};
}

int watch_straggler(const double *seconds, int n, double *ratio) {
    struct watch_spread spread = watch_spread(seconds, n);
    *ratio = spread.most;
    return *ratio > straggles ? spread.slowest : -1;
}

/* ---- what this rank does --------------------------------------------------------------------- */

static int waits(enum watch_phase phase) { return phase == WATCH_EXCHANGE || phase == WATCH_WAIT; }

static void add_history(struct watch *w, enum watch_phase phase, double seconds) {
    w->history[phase][w->n_history[phase]++ % HISTORY] = seconds;
}

void watch_took(struct watch *w, enum watch_phase phase, double seconds) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    add_history(w, phase, seconds);
    pthread_mutex_unlock(&w->lock);
}

void watch_phase(struct watch *w, int64_t step, enum watch_phase phase) {
    if (!w) return;
    double now = clock_seconds();
    pthread_mutex_lock(&w->lock);
    double took = now - w->began;
    /* A wait for the disk is the rest of what watch_took says it took. */
    if (w->phase != WATCH_DISK) add_history(w, w->phase, took);
    if (!waits(w->phase)) w->busy += took;
    w->step = step;
    w->phase = phase;
    w->began = now;
    pthread_mutex_unlock(&w->lock);
}

double watch_busy(struct watch *w) {
    if (!w) return 0;
    pthread_mutex_lock(&w->lock);
    double busy = w->busy + (waits(w->phase) ? 0 : clock_seconds() - w->began);
    pthread_mutex_unlock(&w->lock);
    return busy;
}

/* The word for now. */
static struct word beat(struct watch *w) {
    struct word word = w->self;
    word.kind = WORD_BEAT;
    pthread_mutex_lock(&w->lock);
    int n = w->n_history[w->phase];
    word.step = w->step;
    word.phase = (int32_t)w->phase;
    word.since = clock_seconds() - w->began;
    if (n >= ENOUGH) word.median = median_of(w->history[w->phase], n < HISTORY ? n : HISTORY);
    pthread_mutex_unlock(&w->lock);
    return word;
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* Waits until fd can be read or written; 0 when it took too long. */
static int ready(int fd, short events, int ms) {
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    do n = poll(&p, 1, ms);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* A word that does not fit is as good as a connection that ended, which is noticed when reading. */
static void say(const struct peer *peer, const struct word *word) {
    if (peer->fd >= 0)
        while (send(peer->fd, word, sizeof *word, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

/* Reads what there is: 1 a whole word, 0 not yet, -1 the end. */
static int hear(struct peer *peer, struct word *word) {
    ssize_t n = recv(peer->fd, peer->in + peer->n_in, sizeof peer->in - peer->n_in, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
    if (n <= 0) return -1;
    peer->n_in += (size_t)n;
    if (peer->n_in < sizeof peer->in) return 0;
    memcpy(word, peer->in, sizeof *word);
    peer->n_in = 0;
    return 1;
}

static void set_nonblocking(int fd) {
    int one = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Where rank 0 can be reached. */
struct invitation {
    uint64_t secret;
    int n_address, port;
    char host[64];
    struct sockaddr_storage address[MAX_ADDRESS];
    struct err err;
};

static socklen_t size_of(const struct sockaddr *a) {
    return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void set_port(struct sockaddr_storage *a, int port) {
    if (a->ss_family == AF_INET)
        ((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
}

/* The addresses of this machine's interfaces, but link-local ones. */
static void list_addresses(struct invitation *inv) {
    struct ifaddrs *all, *a;
    if (getifaddrs(&all) != 0) return;
    for (a = all; a && inv->n_address < MAX_ADDRESS; a = a->ifa_next) {
        if (!a->ifa_addr || !(a->ifa_flags & IFF_UP)) continue;
        int family = a->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)a->ifa_addr;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
        memcpy(&inv->address[inv->n_address++], a->ifa_addr, size_of(a->ifa_addr));
    }
    freeifaddrs(all);
}

/* A socket at any port of this address, or -1. */
static int bind_to(const struct sockaddr *address) {
    int zero = 0, fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, address, size_of(address)) == 0 && listen(fd, 128) == 0) return fd;
    close(fd);
    return -1;
}

/* On all interfaces, of both families where there are both. */
static int open_door(int *port, struct err *err) {
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    struct sockaddr_in old = {.sin_family = AF_INET};
    union {
        struct sockaddr any;
        struct sockaddr_in old;
        struct sockaddr_in6 new;
    } bound;
    socklen_t size = sizeof bound;
    memset(&bound, 0, sizeof bound);
    int fd = bind_to((const struct sockaddr *)&any);
    if (fd < 0) fd = bind_to((const struct sockaddr *)&old);
    if (fd < 0 || getsockname(fd, &bound.any, &size) != 0)
        err_set(err, HEED_EIO, "watch: cannot listen: %s", strerror(errno));
    *port = ntohs(bound.any.sa_family == AF_INET ? bound.old.sin_port : bound.new.sin6_port);
    return fd;
}

/* A whole word within the time, from a connection that is not trusted yet. */
static int first_word(int fd, struct word *word, double until) {
    struct peer peer = {.fd = fd};
    int got = 0;
    while (got == 0) {
        double left = until - clock_seconds();
        if (left <= 0 || !ready(fd, POLLIN, (int)(1e3 * left) + 1)) return 0;
        got = hear(&peer, word);
    }
    return got > 0;
}

static int let_in(struct watch *w, int door, struct err *err) {
    double until = clock_seconds() + 1e-3 * CONNECT_MS;
    for (int missing = w->size - 1; missing > 0;) {
        double now = clock_seconds();
        if (now > until || !ready(door, POLLIN, (int)(1e3 * (until - now)) + 1)) {
            int r = 1;
            while (w->peer[r].fd >= 0) r++;
            return err_set(err, HEED_EIO,
                           "watch: rank %d did not connect to rank 0 (%s) within %d s; is there a "
                           "firewall between them?",
                           r, w->self.host, CONNECT_MS / 1000);
        }
        struct word word;
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        set_nonblocking(fd);
        if (!first_word(fd, &word, clock_seconds() + 1e-3 * HELLO_MS) || word.secret != w->secret ||
            word.kind != WORD_HELLO || word.rank < 1 || word.rank >= w->size ||
            w->peer[word.rank].fd >= 0) {
            close(fd);
            continue;
        }
        word.host[sizeof word.host - 1] = 0;
        w->peer[word.rank].fd = fd;
        w->peer[word.rank].last = word;
        missing--;
    }
    return 0;
}

static int try_address(struct sockaddr_storage *address, int port) {
    const struct sockaddr *a = (const struct sockaddr *)address;
    int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), failure = 0;
    socklen_t size = sizeof failure;
    if (fd < 0) return -1;
    set_nonblocking(fd);
    set_port(address, port);
    if (connect(fd, a, size_of(a)) == 0) return fd;
    if (errno == EINPROGRESS && ready(fd, POLLOUT, TRY_MS) &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure == 0)
        return fd;
    close(fd);
    return -1;
}

static int is_loopback(const struct sockaddr_storage *a) {
    if (a->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
}

/* Addresses of the loopback are another's on another machine, and the only ones on some. */
static int go_in(struct watch *w, struct invitation *inv, struct err *err) {
    int here = strcmp(inv->host, w->self.host) == 0;
    for (int i = 0; i < inv->n_address; i++) {
        if (is_loopback(&inv->address[i]) && !here) continue;
        int fd = try_address(&inv->address[i], inv->port);
        if (fd < 0) continue;
        struct word hello = w->self;
        hello.kind = WORD_HELLO;
        w->peer[0].fd = fd;
        say(&w->peer[0], &hello);
        return 0;
    }
    return err_set(err, HEED_EIO,
                   "watch: rank %d on %s cannot connect to rank 0 on %s, port %d; is there a "
                   "firewall between them?",
                   w->rank, w->self.host, inv->host, inv->port);
}

/* Everybody is connected to rank 0, or all know why not. */
static int meet(struct watch *w, struct comm *comm, struct err *err) {
    struct invitation inv = {0};
    struct word *who = xcalloc((size_t)w->size, sizeof *who);
    struct err mine = {0};
    int door = -1;
    if (w->rank == 0) {
        if (getrandom(&inv.secret, sizeof inv.secret, 0) != (ssize_t)sizeof inv.secret)
            inv.secret = (uint64_t)(uintptr_t)w ^ (uint64_t)getpid();
        memcpy(inv.host, w->self.host, sizeof inv.host);
        list_addresses(&inv);
        door = open_door(&inv.port, &inv.err);
    }
    comm_bcast(comm, &inv, sizeof inv, 0);
    comm_gather(comm, who, &w->self, sizeof w->self);
    w->peer[0].last = who[0];
    xfree(who);
    w->secret = w->self.secret = inv.secret;
    int rc = comm->err.code ? comm_check(comm, &mine) : inv.err.code;
    if (inv.err.code) mine = inv.err;
    if (!rc) rc = w->rank == 0 ? let_in(w, door, &mine) : go_in(w, &inv, &mine);
    if (door >= 0) close(door);
    struct err *all = xcalloc((size_t)w->size, sizeof *all);
    comm_gather(comm, all, &mine, sizeof mine);
    for (int r = w->size - 1; r >= 0; r--)
        if (all[r].code) {
            rc = (int)all[r].code;
            if (err) *err = all[r];
        }
    xfree(all);
    return rc ? rc : comm_check(comm, err);
}

/* ---- watching -------------------------------------------------------------------------------- */

static struct watch_report report_on(const struct peer *peer, enum watch_kind kind,
                                     double seconds) {
    const struct word *l = &peer->last;
    struct watch_report r = {.kind = kind,
                             .rank = l->rank,
                             .pid = l->pid,
                             .step = l->step,
                             .phase = (enum watch_phase)l->phase,
                             .seconds = seconds};
    memcpy(r.host, l->host, sizeof r.host);
    return r;
}

/* Rank 0 tells the others. Nobody is told twice: whoever is told ends. */
static void declare(struct watch *w, struct watch_report report) {
    struct word word = w->self;
    word.kind = WORD_LOST;
    word.lost = report;
    word.lost.told = 1;
    for (int r = 1; r < w->size && w->rank == 0; r++) say(&w->peer[r], &word);
    w->options.lost(w->options.ctx, &report);
}

/* How long a rank may stay in the phase it is in. */
static double patience(const struct watch *w, const struct word *l) {
    const struct watch_options *o = &w->options;
    if (l->phase == WATCH_SETUP) return 1e30;
    if (l->median <= 0) return o->first;
    return o->factor * l->median > o->least ? o->factor * l->median : o->least;
}

/* Rank 0: is anybody stuck? Those who wait are not, unless all do. */
static int find_stuck(struct watch *w, struct watch_report *report) {
    int n_wait = 0;
    w->peer[0].last = beat(w);
    for (int r = 0; r < w->size; r++) n_wait += waits((enum watch_phase)w->peer[r].last.phase);
    for (int r = 0; r < w->size; r++) {
        const struct word *l = &w->peer[r].last;
        if ((r > 0 && w->peer[r].fd < 0) || (n_wait < w->size && waits((enum watch_phase)l->phase)))
            continue;
        if (l->since <= patience(w, l)) continue;
        *report = report_on(&w->peer[r], WATCH_STUCK, l->since);
        return 1;
    }
    return 0;
}

/* A word of a peer, or its end. Non-zero: somebody is lost, see *report. */
static int attend(struct watch *w, struct peer *peer, double now, struct watch_report *report) {
    struct word word;
    int got;
    while (peer->fd >= 0 && (got = hear(peer, &word)) != 0) {
        if (got < 0) {
            *report = report_on(peer, WATCH_GONE, now - peer->heard);
            return 1;
        }
        if (word.secret != w->secret || word.phase < 0 || word.phase >= WATCH_N_PHASE) continue;
        word.host[sizeof word.host - 1] = word.lost.host[sizeof word.lost.host - 1] = 0;
        peer->heard = now;
        if (word.kind == WORD_LOST) {
            *report = word.lost;
            return 1;
        }
        if (word.kind == WORD_BYE) {
            close(peer->fd);
            peer->fd = -1;
        } else {
            peer->last = word;
        }
    }
    return 0;
}

/* Looks at all peers; `late` is how long this thread could not run. */
static int look(struct watch *w, double now, double late, struct watch_report *report) {
    for (int r = 0; r < w->size; r++) {
        struct peer *peer = &w->peer[r];
        if (peer->fd < 0) continue;
        if (attend(w, peer, now, report)) return 1;
        peer->heard += late;
        double silence = w->options.silence;
        if (w->options.stop && *w->options.stop && silence > suspicious) silence = suspicious;
        if (peer->fd >= 0 && now - peer->heard > silence) {
            *report = report_on(peer, WATCH_SILENT, now - peer->heard);
            return 1;
        }
    }
    return w->rank == 0 && find_stuck(w, report);
}

/* Sleeps until there is something to read or it is time to speak. */
static void doze(struct watch *w, struct pollfd *p, double until) {
    int n = 0;
    double left = fmin(until - clock_seconds(), 1e-3 * DOZE_MS);
    p[n++] = (struct pollfd){.fd = w->wake[0], .events = POLLIN};
    for (int r = 0; r < w->size; r++)
        if (w->peer[r].fd >= 0) p[n++] = (struct pollfd){.fd = w->peer[r].fd, .events = POLLIN};
    if (left > 0) poll(p, (nfds_t)n, (int)(1e3 * left) + 1);
}

static int is_leaving(struct watch *w) {
    pthread_mutex_lock(&w->lock);
    int leaving = w->leaving;
    pthread_mutex_unlock(&w->lock);
    return leaving;
}

static void *run(void *arg) {
    struct watch *w = arg;
    struct pollfd *p = xcalloc((size_t)w->size + 1, sizeof *p);
    double next = clock_seconds();
    double absent = -1e30; /* until when this rank was, for so long that the others gave it up */
    struct watch_report report;
    while (!is_leaving(w)) {
        double now = clock_seconds(), late = now - next - 1e-3 * BEAT_MS;
        if (now - next > w->options.silence / 2) absent = now;
        if (look(w, now, late > 0 ? late : 0, &report)) {
            report.told |= now - absent < w->options.silence; /* what ended them is known */
            if (!is_leaving(w)) declare(w, report);
            break;
        }
        if (now >= next) {
            struct word word = beat(w);
            for (int r = 0; r < w->size; r++) say(&w->peer[r], &word);
            next = now + 1e-3 * BEAT_MS;
        }
        doze(w, p, next);
    }
    xfree(p);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void release(struct watch *w) {
    for (int r = 0; r < w->size; r++)
        if (w->peer[r].fd >= 0) close(w->peer[r].fd);
    for (int i = 0; i < 2; i++)
        if (w->wake[i] >= 0) close(w->wake[i]);
    pthread_mutex_destroy(&w->lock);
    xfree(w->peer);
    xfree(w);
}

static void set_options(struct watch_options *o) {
    if (o->silence <= 0) o->silence = 10;
    if (o->least <= 0) o->least = 60;
    if (o->factor <= 0) o->factor = 20;
    if (o->first <= 0) o->first = 600;
}

int watch_new(struct watch **out, struct comm *comm, const struct watch_options *options,
              struct err *err) {
    *out = NULL;
    if (comm->size == 1) return 0;
    struct watch *w = xcalloc(1, sizeof *w);
    *w = (struct watch){
        .options = *options, .rank = comm->rank, .size = comm->size, .wake = {-1, -1}};
    set_options(&w->options);
    w->peer = xcalloc((size_t)w->size, sizeof *w->peer);
    for (int r = 0; r < w->size; r++) w->peer[r].fd = -1;
    w->self.rank = w->rank;
    w->self.pid = (int32_t)getpid();
    gethostname(w->self.host, sizeof w->self.host - 1);
    pthread_mutex_init(&w->lock, NULL);
    w->began = clock_seconds();
    int rc = meet(w, comm, err);
    for (int r = 0; r < w->size; r++) w->peer[r].heard = clock_seconds();
    if (!rc && pipe2(w->wake, O_CLOEXEC) != 0)
        rc = err_set(err, HEED_EIO, "watch: no pipe: %s", strerror(errno));
    if (!rc && pthread_create(&w->thread, NULL, run, w) != 0)
        rc = err_set(err, HEED_EIO, "watch: cannot start a thread");
    if (rc)
        release(w);
    else
        *out = w;
    return rc;
}

void watch_free(struct watch *w, int failed) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->leaving = 1;
    pthread_mutex_unlock(&w->lock);
    while (write(w->wake[1], "", 1) < 0 && errno == EINTR) continue;
    pthread_join(w->thread, NULL);
    struct word word = beat(w);
    word.kind = failed ? WORD_LOST : WORD_BYE;
    if (failed) {
        struct peer self = {.last = word};
        word.lost = report_on(&self, WATCH_FAILED, 0);
        word.lost.told = 1;
    }
    for (int r = 0; r < w->size; r++) say(&w->peer[r], &word);
    release(w);
}

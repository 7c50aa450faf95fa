/* cmd_serve.c — `heed serve`: translation over HTTP (docs/serve.md).
 *
 * The sockets are opened first, so that whoever comes while the models are being read is told to
 * wait, and not turned away. SIGTERM and SIGINT drain: what was begun is answered, then the server
 * ends; a second one ends it at once. SIGHUP reads models, keys, certificate and log file again.
 * This thread does nothing but wait for signals. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/models.h"
#include "serve/server.h"

enum { RESERVED = 128 }; /* descriptors for everything but connections */

static struct serve_args {
    struct option_list models, listen, trust, glossaries;
    struct api_options api;
    struct desk_options desk;
    const char *tls_cert, *tls_key, *cors, *access_log, *metrics_token;
    int log_texts, max_connections, max_body, timeout, idle, drain, no_page, no_files, quiet;
} args;

#define OPTIONS_OF serve_args
static const struct option rows[] = {
    ROW(LIST, "model", models, NULL,
        "models to serve: a name (see heed models) or a directory; FROM-TO= before it where the "
        "model does not say its languages, or FROM-TO,FROM-TO= for some of many; if not given, all "
        "that are installed",
        .arg = "[FROM-TO=]MODEL"),
    ROW(LIST, "glossary", glossaries, NULL,
        "files of terms and their translations, for requests without terms of their own; FROM-TO= "
        "before each where more than one model is served",
        .arg = "[FROM-TO=]FILE"),
    ROW(LIST, "listen", listen, NULL,
        "where to listen: HOST:PORT, [ADDRESS]:PORT, :PORT (everywhere), unix:PATH; if not given, "
        "127.0.0.1:5000, or the sockets that systemd passes",
        .arg = "WHERE"),
    ROW(STRING, "tls_cert", tls_cert, NULL, "certificate (chain) for https, PEM", .arg = "FILE"),
    ROW(STRING, "tls_key", tls_key, NULL, "its private key, PEM", .arg = "FILE"),
    ROW(INT, "char_limit", api.char_limit, "100000", "characters of one text; 0: any number",
        .max = 1 << 24),
    ROW(INT, "batch_limit", api.batch_limit, "10000", "texts of one request; 0: any number",
        .max = 1 << 24),
    ROW(INT, "alternatives_limit", api.alternatives, "10", "alternatives that may be asked for",
        .max = DESK_MAX_ALTERNATIVES),
    ROW(INT, "req_limit", api.req_limit, "0",
        "requests per minute and client, each text of a list counted; 0: any number",
        .max = 1 << 30),
    ROW(INT, "flood_limit", api.flood, "0",
        "after so many refused requests within an hour a client is shut out; 0: never",
        .max = 1 << 30),
    ROW(INT, "max_body", max_body, "16", "size of a request in MiB", .min = 1, .max = 1024),
    ROW(INT, "max_connections", max_connections, "10000",
        "connections at a time; the one that has been idle longest makes room", .min = 1,
        .max = 1 << 20),
    ROW(INT, "queue", desk.max_jobs, "1024", "requests that may wait or be in work", .min = 1,
        .max = 1 << 20),
    ROW(INT, "deadline", api.deadline, "300", "seconds for a translation; 0: any number",
        .max = 1 << 20),
    ROW(INT, "timeout", timeout, "30",
        "seconds for a request to arrive, and for its answer to be taken", .min = 1,
        .max = 1 << 20),
    ROW(INT, "idle", idle, "75", "seconds that a connection may be idle", .min = 1, .max = 1 << 20),
    ROW(INT, "drain", drain, "30", "seconds to answer what was begun when the server is to end",
        .max = 1 << 20),
    ROW(STRING, "api_keys", api.keys_file, NULL,
        "file of API keys: a SHA-256 per line, perhaps followed by requests per minute",
        .arg = "FILE"),
    ROW(FLAG, "require_api_key", api.require_key, NULL, "serve only those who have a key"),
    ROW(STRING, "get_key_url", api.key_url, NULL, "where a key can be had, for a message",
        .arg = "URL"),
    ROW(LIST, "trust", trust, NULL,
        "proxies whose X-Forwarded-For is believed: 10.0.0.1, 10.0.0.0/8, ::1, unix",
        .arg = "ADDRESS"),
    ROW(STRING, "cors", cors, "*", "origin whose pages may ask this server; none: no other",
        .arg = "ORIGIN"),
    ROW(FLAG, "metrics", api.metrics, NULL, "answer /metrics, for Prometheus"),
    ROW(STRING, "metrics_token", metrics_token, NULL, "file with the token that /metrics wants",
        .arg = "FILE"),
    ROW(STRING, "suggestions", api.suggest_file, NULL,
        "accept suggested translations, and add them to this file", .arg = "FILE"),
    ROW(FLAG, "no_files", no_files, NULL, "do not translate files"),
    ROW(STRING, "frontend_source", api.source, NULL, "language that the page begins with",
        .arg = "CODE"),
    ROW(STRING, "frontend_target", api.target, NULL, "language that it translates into",
        .arg = "CODE"),
    ROW(FLAG, "no_page", no_page, NULL, "only the API, not the page"),
    ROW(STRING, "access_log", access_log, NULL,
        "log of requests, a line of JSON each; - is standard output", .arg = "FILE"),
    ROW(FLAG, "log_texts", log_texts, NULL, "also log what is to be translated"),
    PRECISION_ROW(desk.precision),
    DEVICE_ROWS(desk.where, "auto"),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

#define tell(...)                                                                                  \
    do {                                                                                           \
        if (!args.quiet) fprintf(stderr, __VA_ARGS__);                                             \
    } while (0)

/* ---- models ---------------------------------------------------------------------------------- */

/* What the server points to lasts as long as the program. */
static struct pairs_from *from;
static struct server_options options;

static int find_models(struct pairs *pairs, struct err *err) {
    int n = args.models.n, rc = 0;
    from = xcalloc((size_t)n + 1, sizeof *from);
    for (int i = 0; i < n && !rc; i++) {
        const char *word;
        from[i].named = pairs_before(args.models.item[i], &from[i].size, &word);
        rc = models_find(&from[i].dir, word, err);
    }
    struct err why;
    if (!rc && (rc = pairs_find(pairs, from, n, &why)))
        err_set(err, rc, "--model: %.240s", why.msg);
    return rc;
}

/* A device that is not there is better found out now than when others can connect already. */
static int check_device(struct err *err) {
    struct backend *be;
    const char *device = args.desk.where.device;
    if (!device || strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0) return 0;
    int rc = backend_open(&be, &args.desk.where, err);
    if (!rc) backend_close(be);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Sockets that systemd opened for us begin at descriptor 3. */
static int passed_sockets(void) {
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    if (!pid || !n || strtol(pid, NULL, 10) != (long)getpid()) return 0;
    long count = strtol(n, NULL, 10);
    return count > 0 && count < 1024 ? (int)count : 0;
}

static int prepare_addresses(struct http_options *o, struct err *err) {
    int passed = passed_sockets(), rc = 0;
    static const char *standard = "127.0.0.1:5000";
    if (!args.listen.n && !passed) args.listen = (struct option_list){&standard, 1};
    struct listen_spec *listen = xcalloc((size_t)args.listen.n + (size_t)passed, sizeof *listen);
    for (int i = 0; i < args.listen.n; i++) listen[i].text = args.listen.item[i];
    for (int i = 0; i < passed; i++) listen[args.listen.n + i].fd = 3 + i;
    struct address_range *trusted = xcalloc((size_t)args.trust.n + 1, sizeof *trusted);
    for (int i = 0; i < args.trust.n && !rc; i++) {
        struct err why;
        if (address_range_parse(&trusted[i], args.trust.item[i], &why))
            rc = cli_usage(err, "--trust: %s", why.msg);
    }
    o->listen = listen;
    o->n_listen = args.listen.n + passed;
    o->trusted = trusted;
    o->n_trusted = args.trust.n;
    return rc;
}

static int check_origin(struct err *err) {
    for (const char *c = args.cors; *c; c++)
        if (*c <= ' ' || *c == 0x7F)
            return cli_usage(err, "--cors: '%.60s' is not an origin", args.cors);
    return 0;
}

/* As many descriptors as may be had, and no more connections than that. */
static void fit_connections(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) return;
    r.rlim_cur = r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r) || getrlimit(RLIMIT_NOFILE, &r)) return;
    rlim_t room = r.rlim_cur > 2 * RESERVED ? r.rlim_cur - RESERVED : r.rlim_cur / 2;
    if ((rlim_t)args.max_connections > room) args.max_connections = (int)room;
}

static int open_server(struct server **s, struct err *err) {
    options = (struct server_options){
        .glossary = args.glossaries.item,
        .n_glossary = args.glossaries.n,
        .api = args.api,
        .desk = args.desk,
        .http = {.max_connections = args.max_connections,
                 .max_body = (size_t)args.max_body << 20,
                 .max_buffered = (size_t)(args.max_body < 16 ? 16 : args.max_body) << 24,
                 .timeout = args.timeout,
                 .idle = args.idle,
                 .retry_after = 5},
        .tls_cert = args.tls_cert,
        .tls_key = args.tls_key,
        .cors = args.cors,
        .access_log = args.access_log,
        .log_fd = STDOUT_FILENO,
        .log_texts = args.log_texts,
        .metrics_token = args.metrics_token};
    int rc = prepare_addresses(&options.http, err);
    if (!rc) rc = check_origin(err);
    if (!rc) rc = find_models(&options.pairs, err);
    if (!rc) rc = check_device(err);
    if (!rc) rc = server_open(s, &options, err);
    if (rc) return rc;
    for (int i = 0; i < options.http.n_listen; i++) {
        const char *where = server_where(*s, i);
        int local = strncmp(where, "unix:", 5) == 0;
        const char *scheme = server_secret(*s) ? "https://" : "http://";
        tell("heed: listening on %s%s\n", local ? "" : scheme, where);
    }
    double begun = clock_seconds();
    if ((rc = server_ready(*s, err))) return rc;
    tell("heed: ready after %.2f s, %d model%s for %d pair%s of languages\n",
         clock_seconds() - begun, args.models.n, PLURAL(args.models.n), options.pairs.n,
         PLURAL(options.pairs.n));
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Tells systemd, where that is who started us. */
static void notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!path || !*path || strlen(path) >= sizeof a.sun_path) return;
    memcpy(a.sun_path, path, strlen(path));
    if (a.sun_path[0] == '@') a.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (fd >= 0 && sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a, size) < 0)
        tell("heed: warning: systemd cannot be told '%s': %s\n", state, strerror(errno));
    if (fd >= 0) close(fd);
}

static void say_kept(const char *what, const struct err *why) {
    fprintf(stderr, "heed: %s kept: %s\n", what, why->msg);
}

static void reload(struct server *s) {
    notify("RELOADING=1");
    int bad = server_reload(s, say_kept);
    tell("heed: reloaded%s\n", bad ? ", but for what is said above" : "");
    notify("READY=1");
}

static void drain(struct server *s, const sigset_t *signals) {
    const struct timespec now = {0};
    notify("STOPPING=1");
    tell("heed: draining: new requests are refused, those there are have %d s\n", args.drain);
    double until = clock_seconds() + args.drain;
    while (!server_drain(s, 1) && clock_seconds() < until) {
        int number = sigtimedwait(signals, NULL, &now);
        if (number == SIGTERM || number == SIGINT) break;
    }
}

/* Suggestions that cannot be kept are better refused now than when the first one comes. */
static int check_suggestions(struct err *err) {
    const char *path = args.api.suggest_file;
    if (!path) return 0;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640); /* others' texts */
    if (fd < 0) return err_set(err, HEED_EIO, "%s: %s", path, strerror(errno));
    close(fd);
    return 0;
}

static int run(struct err *err) {
    struct server *s = NULL;
    sigset_t signals;
    int number = 0;
    if (!args.tls_cert != !args.tls_key)
        return cli_usage(err, "serve: --tls-cert and --tls-key go together");
    if (args.api.require_key && !args.api.keys_file)
        return cli_usage(err, "serve: --require-api-key needs --api-keys");
    if (args.log_texts && !args.access_log)
        return cli_usage(err, "serve: --log-texts needs --access-log");
    if (check_suggestions(err)) return HEED_EIO;
    if (!args.models.n) {
        int rc = models_all(&args.models, err);
        if (rc) return rc;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before there are threads, which inherit it */
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_ARENA_MAX, 2); /* every reload has new threads, which need no heaps of their own */
    /* said, it stays: a large block that was freed would move the next ones into the heap, where
     * every reload finds another place for them and touches it */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    args.api.page = !args.no_page;
    args.api.files = !args.no_files;
    fit_connections();
    int rc = open_server(&s, err);
    if (!rc) notify("READY=1");
    while (!rc && number != SIGTERM && number != SIGINT) {
        if (sigwait(&signals, &number)) break;
        if (number == SIGHUP) reload(s);
    }
    if (!rc) drain(s, &signals);
    server_close(s);
    if (!rc) tell("heed: ended\n");
    return rc;
}

const struct command cmd_serve = {.name = "serve",
                                  .summary =
                                      "translate over HTTP: LibreTranslate's API, and a page",
                                  .usage = "[--model [FROM-TO=]MODEL...] [options]",
                                  .groups = groups,
                                  .run = run};

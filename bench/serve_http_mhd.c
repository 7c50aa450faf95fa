/* serve_http_mhd.c — the other way to build heed serve's HTTP: libmicrohttpd, with the settings
 * that a translation server needs. bench/serve_http.sh measures it beside our own.
 *
 *     serve_http_mhd PORT     answers every request with {"status":"ok"}
 *
 * One thread with epoll, as ours. Clients exist that put a text of 256 KiB into the URL, and
 * libmicrohttpd takes a connection's memory as one block when the connection comes, so that block
 * has to have 300 KiB. */
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* What the library gives its callback. */
#define REQUEST                                                                                    \
    void *ctx, struct MHD_Connection *connection, const char *url, const char *method,             \
        const char *version, const char *body, size_t *n_body, void **state

static enum MHD_Result answer(REQUEST) {
    static int begun;
    (void)ctx, (void)url, (void)method, (void)version, (void)body;
    if (!*state) {
        *state = &begun;
        return MHD_YES;
    }
    if (*n_body) {
        *n_body = 0;
        return MHD_YES;
    }
    static char text[] = "{\"status\":\"ok\"}\n";
    struct MHD_Response *r =
        MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    enum MHD_Result ok = MHD_queue_response(connection, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return ok;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: serve_http_mhd PORT\n"), 2;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, (uint16_t)atoi(argv[1]), NULL,
        NULL, answer, NULL, MHD_OPTION_CONNECTION_LIMIT, 20000u, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)(300 << 10), MHD_OPTION_END);
    if (!d) return fprintf(stderr, "serve_http_mhd: cannot listen on port %s\n", argv[1]), 1;
    int got;
    sigwait(&set, &got);
    MHD_stop_daemon(d);
    return 0;
}

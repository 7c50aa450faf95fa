/* server.h — a whole server: what clients may ask for (api.h), where they ask (http.h), and who
 * translates (desk.h), opened in order and closed in the other.
 *
 * The sockets are opened first, so that whoever comes while the models are being read is told to
 * wait, and not turned away: server_open, then server_ready. Messages about options begin with
 * their names on the command line. Owns everything but what the options point to. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "serve/api.h"
#include "serve/pairs.h"

struct server_options {
    struct pairs pairs;          /* the models; released with the server */
    const char *const *glossary; /* [n_glossary] "FILE", or "en-de=FILE" */
    int n_glossary;
    struct api_options api;
    struct desk_options desk;
    struct http_options http;       /* addresses and limits */
    const char *tls_cert, *tls_key; /* NULL: plain HTTP */
    const char *cors;               /* origin, or "none" */
    const char *access_log;         /* NULL: none; "-": log_fd */
    int log_fd, log_texts;
    const char *metrics_token; /* file, or NULL */
};

struct server;

/* After an error, too, server_close frees what there is. */
int server_open(struct server **server, const struct server_options *options, struct err *err);
/* Opens the models. */
int server_ready(struct server *server, struct err *err);
void server_close(struct server *server);

const char *server_where(const struct server *server, int i); /* it listens, and */
int server_secret(const struct server *server);               /* whether by TLS */

/* Reads keys, log file, certificate and models again. What cannot be read stays as it was, and
 * `kept` is told; returns how much. */
int server_reload(struct server *server, void (*kept)(const char *what, const struct err *why));

/* Refuses what is new from now on; 1 when all that was begun is answered, after at most so many
 * seconds. */
int server_drain(struct server *server, double seconds);

#endif

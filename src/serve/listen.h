/* listen.h — sockets to listen on, and addresses of those who call. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <netinet/in.h>

#include "base/err.h"

enum { ADDRESS_TEXT = 64 };

/* Either a socket that somebody opened for us (systemd), or what to open: HOST:PORT, [V6]:PORT,
 * :PORT (all addresses), or unix:PATH. */
struct listen_spec {
    const char *text; /* NULL: fd */
    int fd;
};

struct listener {
    int fd;
    int is_unix, given;
    char *path;      /* of a socket that we made and remove */
    char where[160]; /* "127.0.0.1:5000", "unix:/run/heed.sock" */
};

/* Non-blocking, close-on-exec. A host with several addresses gets the first that works. */
int listener_open(struct listener *l, const struct listen_spec *spec, struct err *err);
void listener_close(struct listener *l);

/* A range of addresses, "10.0.0.0/8", "::1", or "unix". IPv4 is kept as IPv6 (::ffff:0:0/96). */
struct address_range {
    struct in6_addr address;
    int bits; /* -1: unix */
};
int address_range_parse(struct address_range *range, const char *text, struct err *err);

/* The peer of a connection as text: "192.0.2.1", "2001:db8::1", "unix". */
struct sockaddr_storage;
void address_text(char text[ADDRESS_TEXT], const struct sockaddr_storage *address);
int address_within(const char *text, const struct address_range *range, int n);

/* Who asks: the peer; if that is trusted, the last address of X-Forwarded-For (NULL: none) that is
 * not. What is not an address ends the walk. */
void address_client(char client[ADDRESS_TEXT], const char *peer, const char *forwarded,
                    const struct address_range *trusted, int n);

#endif

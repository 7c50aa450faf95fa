/* listen.c — see listen.h. */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"

enum { BACKLOG = 1024 };

/* ---- addresses ------------------------------------------------------------------------------- */

static int parse_address(struct in6_addr *to, const char *text) {
    struct in_addr four;
    if (inet_pton(AF_INET6, text, to) == 1) return 1;
    if (inet_pton(AF_INET, text, &four) != 1) return 0;
    memset(to, 0, sizeof *to);
    to->s6_addr[10] = to->s6_addr[11] = 0xFF;
    memcpy(to->s6_addr + 12, &four, 4);
    return 1;
}

int address_range_parse(struct address_range *range, const char *text, struct err *err) {
    char copy[ADDRESS_TEXT];
    snprintf(copy, sizeof copy, "%s", text);
    if (strcmp(text, "unix") == 0) {
        *range = (struct address_range){.bits = -1};
        return 0;
    }
    char *slash = strchr(copy, '/'), *end = NULL;
    if (slash) *slash++ = 0;
    int most = strchr(copy, ':') ? 128 : 32;
    long bits = slash ? strtol(slash, &end, 10) : most;
    if (!parse_address(&range->address, copy) || bits < 0 || bits > most ||
        (slash && (*end || end == slash)))
        return err_set(err, HEED_EINVAL,
                       "'%.60s' is not an address: expected 10.0.0.1, 10.0.0.0/8, ::1 or unix",
                       text);
    range->bits = (int)bits + (most == 32 ? 96 : 0);
    return 0;
}

void address_text(char text[ADDRESS_TEXT], const struct sockaddr_storage *address) {
    snprintf(text, ADDRESS_TEXT, "unix");
    if (address->ss_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, ADDRESS_TEXT);
    } else if (address->ss_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six))
            inet_ntop(AF_INET, six->s6_addr + 12, text, ADDRESS_TEXT);
        else
            inet_ntop(AF_INET6, six, text, ADDRESS_TEXT);
    }
}

int address_within(const char *text, const struct address_range *range, int n) {
    struct in6_addr a;
    int is_unix = strcmp(text, "unix") == 0;
    if (!is_unix && !parse_address(&a, text)) return 0;
    for (int i = 0; i < n; i++) {
        int bits = range[i].bits;
        if (is_unix || bits < 0) {
            if (is_unix && bits < 0) return 1;
            continue;
        }
        size_t whole = (size_t)bits / 8;
        if (memcmp(&a, &range[i].address, whole) != 0) continue;
        int rest = bits % 8;
        if (!rest || ((a.s6_addr[whole] ^ range[i].address.s6_addr[whole]) >> (8 - rest)) == 0)
            return 1;
    }
    return 0;
}

void address_client(char client[ADDRESS_TEXT], const char *peer, const char *forwarded,
                    const struct address_range *trusted, int n) {
    snprintf(client, ADDRESS_TEXT, "%s", peer);
    size_t end = forwarded ? strlen(forwarded) : 0;
    while (end > 0 && address_within(client, trusted, n)) {
        size_t from = end;
        while (from > 0 && forwarded[from - 1] != ',') from--;
        size_t at = from + strspn(forwarded + from, " \t"), length = at < end ? end - at : 0;
        while (length && (forwarded[at + length - 1] == ' ' || forwarded[at + length - 1] == '\t'))
            length--;
        char word[ADDRESS_TEXT];
        struct in6_addr a;
        if (length >= sizeof word) return;
        memcpy(word, forwarded + at, length);
        word[length] = 0;
        if (!parse_address(&a, word)) return;
        snprintf(client, ADDRESS_TEXT, "%s", word);
        end = from ? from - 1 : 0;
    }
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int describe(struct listener *l, struct err *err) {
    struct sockaddr_storage a;
    socklen_t size = sizeof a;
    char text[ADDRESS_TEXT];
    if (getsockname(l->fd, (struct sockaddr *)&a, &size))
        return err_set(err, HEED_EIO, "descriptor %d is not a socket: %s", l->fd, strerror(errno));
    l->is_unix = a.ss_family == AF_UNIX;
    address_text(text, &a);
    if (a.ss_family == AF_UNIX)
        snprintf(l->where, sizeof l->where, "unix:%s", ((struct sockaddr_un *)&a)->sun_path);
    else if (a.ss_family == AF_INET)
        snprintf(l->where, sizeof l->where, "%s:%d", text,
                 ntohs(((struct sockaddr_in *)&a)->sin_port));
    else if (a.ss_family == AF_INET6)
        snprintf(l->where, sizeof l->where, "[%s]:%d", text,
                 ntohs(((struct sockaddr_in6 *)&a)->sin6_port));
    else
        return err_set(err, HEED_EINVAL, "descriptor %d: not a socket of a kind known here", l->fd);
    return 0;
}

/* A socket that a server left behind when it was killed does not keep the next one from listening;
 * one that somebody serves does, and so does any other file. */
static int remove_stale(const struct sockaddr_un *a) {
    struct stat st;
    if (lstat(a->sun_path, &st) || !S_ISSOCK(st.st_mode)) return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int dead =
        fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return dead && unlink(a->sun_path) == 0;
}

static int open_unix(struct listener *l, const char *path, struct err *err) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof a.sun_path)
        return err_set(err, HEED_EINVAL, "unix:%.120s: a path of 1 to %zu bytes is wanted", path,
                       sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path));
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = l->fd < 0 ? -1 : bind(l->fd, (struct sockaddr *)&a, sizeof a);
    if (rc && errno == EADDRINUSE && remove_stale(&a))
        rc = bind(l->fd, (struct sockaddr *)&a, sizeof a);
    if (rc || listen(l->fd, BACKLOG))
        return err_set(err, HEED_EIO, "cannot listen on unix:%.120s: %s", path, strerror(errno));
    l->path = xstrdup(path);
    return 0;
}

static int bind_one(struct listener *l, const struct addrinfo *a) {
    const int on = 1, off = 0;
    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) return -1;
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(l->fd, a->ai_addr, a->ai_addrlen) == 0 && listen(l->fd, BACKLOG) == 0) return 0;
    int why = errno;
    close(l->fd);
    l->fd = -1;
    errno = why;
    return -1;
}

static int open_tcp(struct listener *l, const char *text, struct err *err) {
    char host[128];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || end == colon + 1 || *end || port < 0 || port > 65535 || n >= sizeof host)
        return err_set(err, HEED_EINVAL,
                       "'%.120s' is not HOST:PORT, [ADDRESS]:PORT, :PORT or unix:PATH", text);
    int brackets = n >= 2 && text[0] == '[' && text[n - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)n - 2 * brackets, text + brackets);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
    int rc = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &list);
    if (rc) return err_set(err, HEED_EIO, "'%.120s': %s", text, gai_strerror(rc));
    /* all addresses: the IPv6 socket takes IPv4, too */
    rc = -1;
    for (int pass = *host ? 1 : 0; pass < 2 && rc; pass++)
        for (const struct addrinfo *a = list; a && rc; a = a->ai_next)
            if (pass || a->ai_family == AF_INET6) rc = bind_one(l, a);
    int why = errno;
    freeaddrinfo(list);
    if (rc) return err_set(err, HEED_EIO, "cannot listen on %.120s: %s", text, strerror(why));
    return 0;
}

int listener_open(struct listener *l, const struct listen_spec *spec, struct err *err) {
    *l = (struct listener){.fd = -1, .given = !spec->text};
    int rc = 0;
    if (!spec->text) {
        l->fd = spec->fd;
        fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
        fcntl(l->fd, F_SETFD, FD_CLOEXEC);
    } else if (strncmp(spec->text, "unix:", 5) == 0) {
        rc = open_unix(l, spec->text + 5, err);
    } else {
        rc = open_tcp(l, spec->text, err);
    }
    if (!rc) rc = describe(l, err);
    if (rc) listener_close(l);
    return rc;
}

void listener_close(struct listener *l) {
    if (l->fd >= 0) close(l->fd);
    if (l->path) unlink(l->path);
    xfree(l->path);
    l->path = NULL;
    l->fd = -1;
}

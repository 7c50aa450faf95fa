/* http_parse.c — see http_parse.h. */
#include "serve/http_parse.h"

#include <string.h>
#include <strings.h>

/* ---- the head -------------------------------------------------------------------------------- */

size_t http_head_end(const char *text, size_t size, size_t *scanned) {
    size_t at = *scanned, from = at, end = 0;
    while (!end && at < size) {
        const char *lf = memchr(text + at, '\n', size - at);
        if (!lf) break;
        size_t i = (size_t)(lf - text);
        if (i == 0 || text[i - 1] != '\r') return SIZE_MAX;
        at = i + 1;
        if (i >= 3 && text[i - 2] == '\n') end = at;
    }
    /* Of the body, which may have come along, nothing is read: it may have any bytes. */
    size_t to = end ? end : size;
    if (to > from && memchr(text + from, 0, to - from)) return SIZE_MAX;
    if (!end) *scanned = size;
    return end;
}

static int is_token(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long http_unescape(char *text, size_t size, int plus) {
    size_t to = 0;
    for (size_t at = 0; at < size; at++) {
        if (text[at] == '%') {
            int high = at + 2 < size ? hex(text[at + 1]) : -1;
            int low = high >= 0 ? hex(text[at + 2]) : -1;
            if (low < 0) return -1;
            text[to++] = (char)(high << 4 | low);
            at += 2;
        } else {
            text[to++] = (char)(plus && text[at] == '+' ? ' ' : text[at]);
        }
    }
    return (long)to;
}

static int refuse(const char **why, int status, const char *what) {
    *why = what;
    return status;
}

static int parse_target(struct http_head *h, char *target, const char **why) {
    for (const char *c = target; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7F)
            return refuse(why, 400, "the request line is malformed");
    if (strcmp(target, "*") == 0) {
        h->path = target, h->query = "";
        return 0;
    }
    if (target[0] != '/') { /* as it is written to a proxy: http://host/path */
        size_t skip = strncasecmp(target, "http://", 7) == 0    ? 7
                      : strncasecmp(target, "https://", 8) == 0 ? 8
                                                                : 0;
        char *path = skip ? strchr(target + skip, '/') : NULL;
        if (!path) return refuse(why, 400, "the target of the request is not a path");
        target = path;
    }
    target[strcspn(target, "#")] = 0;
    char *query = strchr(target, '?');
    if (query) *query++ = 0;
    h->query = query ? query : "";
    long n = http_unescape(target, strlen(target), 0);
    if (n < 0 || memchr(target, 0, (size_t)n))
        return refuse(why, 400, "the path is not encoded properly");
    target[n] = 0;
    h->path = target;
    return 0;
}

static int parse_request_line(struct http_head *h, char *line, const char **why) {
    size_t n = 0;
    while (is_token((unsigned char)line[n])) n++;
    char *target = line + n + 1, *version = n && line[n] == ' ' ? strrchr(target, ' ') : NULL;
    if (!version || version == target || n > 32)
        return refuse(why, 400, "the request line is malformed");
    line[n] = 0;
    h->method = line;
    *version++ = 0;
    if (strcmp(version, "HTTP/1.1") == 0 || strcmp(version, "HTTP/1.0") == 0)
        h->minor = version[7] - '0';
    else
        return strncmp(version, "HTTP/", 5) == 0
                   ? refuse(why, 505, "this server speaks HTTP/1.1")
                   : refuse(why, 400, "the request line is malformed");
    return parse_target(h, target, why);
}

static int parse_header(struct http_head *h, char *line, const char **why) {
    size_t n = 0;
    for (; is_token((unsigned char)line[n]); n++)
        if (line[n] >= 'A' && line[n] <= 'Z') line[n] |= 32;
    if (!n || line[n] != ':') return refuse(why, 400, "a header line is malformed");
    line[n] = 0;
    char *value = line + n + 1;
    value += strspn(value, " \t");
    size_t end = strlen(value);
    while (end && (value[end - 1] == ' ' || value[end - 1] == '\t')) end--;
    value[end] = 0;
    for (const char *c = value; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7F)
            return refuse(why, 400, "a header has control characters");
    if (h->n_header == HTTP_MAX_HEADERS) return refuse(why, 431, "too many headers");
    h->header[h->n_header++] = (struct http_header){line, value};
    return 0;
}

/* Is the word in a list like "close, TE"? */
static int lists(const char *value, const char *word) {
    size_t n = strlen(word);
    for (const char *c = value; *c; c += *c == ',') {
        c += strspn(c, " \t");
        size_t length = strcspn(c, ","), used = length;
        while (used && (c[used - 1] == ' ' || c[used - 1] == '\t')) used--;
        if (used == n && strncasecmp(c, word, n) == 0) return 1;
        c += length;
    }
    return 0;
}

static int parse_length(uint64_t *length, const char *value, const char **why) {
    size_t n = strspn(value, "0123456789");
    if (!n || value[n] || n > 18) return refuse(why, 400, "Content-Length is not a length");
    *length = 0;
    for (const char *c = value; *c; c++) *length = *length * 10 + (uint64_t)(*c - '0');
    return 0;
}

/* What the headers say about this request as a message. */
static int parse_framing(struct http_head *h, const char **why) {
    int n_host = 0, n_length = 0, n_coding = 0, rc = 0;
    h->keep_alive = h->minor == 1;
    for (int i = 0; i < h->n_header && !rc; i++) {
        const char *name = h->header[i].name, *value = h->header[i].value;
        if (strcmp(name, "host") == 0) {
            n_host++;
        } else if (strcmp(name, "content-length") == 0) {
            n_length++;
            rc = parse_length(&h->length, value, why);
        } else if (strcmp(name, "transfer-encoding") == 0) {
            n_coding++;
            h->chunked = 1;
            if (strcasecmp(value, "chunked") != 0)
                rc = refuse(why, 501, "the only transfer coding this server knows is chunked");
        } else if (strcmp(name, "connection") == 0) {
            if (lists(value, "close"))
                h->keep_alive = 0;
            else if (!h->minor && lists(value, "keep-alive"))
                h->keep_alive = 1;
        } else if (strcmp(name, "expect") == 0) {
            if (strcasecmp(value, "100-continue") == 0)
                h->expects_continue = h->minor;
            else
                rc = refuse(why, 417, "this expectation cannot be met");
        }
    }
    if (rc) return rc;
    if (n_host > 1 || (n_host == 0 && h->minor)) return refuse(why, 400, "there must be one Host");
    if (n_length > 1 || n_coding > 1 || (n_length && n_coding) || (n_coding && !h->minor))
        return refuse(why, 400, "the length of the body is stated more than once");
    return 0;
}

int http_parse_head(struct http_head *head, char *text, size_t size, const char **why) {
    *head = (struct http_head){.method = "", .path = "", .query = ""};
    int rc = 0, first = 1;
    for (size_t at = 0; at < size && !rc;) {
        char *line = text + at, *end = memchr(line, '\r', size - at);
        if (!end || (size_t)(end - text) + 1 >= size || end[1] != '\n')
            return refuse(why, 400, "a line does not end in CR LF");
        *end = 0;
        at = (size_t)(end - text) + 2;
        if (end == line) break;
        rc = first ? parse_request_line(head, line, why) : parse_header(head, line, why);
        first = 0;
    }
    if (!rc && first) return refuse(why, 400, "the request is empty");
    return rc ? rc : parse_framing(head, why);
}

const char *http_header(const struct http_head *head, const char *name) {
    for (int i = 0; i < head->n_header; i++)
        if (strcmp(head->header[i].name, name) == 0) return head->header[i].value;
    return NULL;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF };
enum { MAX_LINE = 4096, MAX_TRAILERS = 16 << 10 };

/* One byte that is not body. 1: the last. */
static int framing(struct http_chunks *k, char c) {
    int digit;
    k->overhead++;
    if (++k->line > (k->state == TRAILER ? MAX_TRAILERS : MAX_LINE)) return 431;
    switch (k->state) {
    case SIZE:
        if ((digit = hex(c)) >= 0) {
            if (++k->digits > 15) return 413;
            k->left = k->left << 4 | (uint64_t)digit;
            return 0;
        }
        if (!k->digits || (c != '\r' && c != ';' && c != ' ' && c != '\t')) return 400;
        k->state = c == '\r' ? SIZE_LF : EXTENSION;
        return 0;
    case EXTENSION:
        if (c == '\n' || c == 0) return 400;
        if (c == '\r') k->state = SIZE_LF;
        return 0;
    case SIZE_LF:
        if (c != '\n') return 400;
        k->state = k->left ? DATA : TRAILER;
        k->line = k->digits = 0;
        return 0;
    case DATA_CR:
        if (c != '\r') return 400;
        k->state = DATA_LF;
        return 0;
    case DATA_LF:
        if (c != '\n') return 400;
        k->state = SIZE;
        k->line = 0;
        return 0;
    case TRAILER: /* digits: of the trailer's line so far; trailers are not looked at */
        if (c == '\n' || c == 0) return 400;
        if (c == '\r')
            k->state = TRAILER_LF;
        else
            k->digits = 1;
        return 0;
    default:
        if (c != '\n') return 400;
        if (!k->digits) return 1;
        k->digits = 0;
        k->state = TRAILER;
        return 0;
    }
}

int http_chunks_take(struct http_chunks *k, const char *in, size_t n, size_t *used, char *out,
                     size_t *n_out) {
    int rc = 0;
    *used = *n_out = 0;
    while (*used < n && !rc) {
        if (k->state != DATA) {
            rc = framing(k, in[(*used)++]);
            continue;
        }
        size_t take = n - *used < k->left ? n - *used : (size_t)k->left;
        memcpy(out + *n_out, in + *used, take);
        *used += take;
        *n_out += take;
        k->left -= take;
        if (!k->left) k->state = DATA_CR;
    }
    return rc;
}

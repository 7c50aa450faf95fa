/* fuzz_http.c — any bytes are a request: refused, or a head whose parts lie within it, and a body
 * that does not depend on how its chunks arrive. */
#include "fuzz.h"

#include "serve/http_parse.h"

static void inside(const char *part, const char *text, size_t size) {
    want(!*part || (part >= text && part < text + size));
    want(strlen(part) <= size);
}

static void check_head(const uint8_t *data, size_t size) {
    size_t scanned = 0, whole = http_head_end((const char *)data, size, &scanned), at = 0,
           piece = 0;
    for (size_t n = 0; n <= size && !piece; n += 1 + n / 7) /* in pieces: the same end */
        piece = http_head_end((const char *)data, n < size ? n : size, &at);
    want(!piece || piece == whole);
    if (!whole || whole == SIZE_MAX) return;
    want(whole <= size);
    char *text = malloc(whole + 1);
    struct http_head head;
    const char *why = NULL;
    memcpy(text, data, whole);
    text[whole] = 0;
    int rc = http_parse_head(&head, text, whole, &why);
    want(!rc == !why && (!rc || (rc >= 400 && rc < 600)));
    if (!rc) {
        inside(head.method, text, whole);
        inside(head.path, text, whole);
        inside(head.query, text, whole);
        want(head.path[0] == '/' || strcmp(head.path, "*") == 0);
        want(head.n_header <= HTTP_MAX_HEADERS && (!head.chunked || !head.length));
        for (int i = 0; i < head.n_header; i++) {
            inside(head.header[i].name, text, whole);
            want(http_header(&head, head.header[i].name) != NULL);
        }
    }
    free(text);
}

static size_t decode(char *out, const uint8_t *data, size_t size, size_t step, int *rc) {
    struct http_chunks k = {0};
    size_t n = 0, at = 0;
    *rc = 0;
    while (at < size && !*rc) {
        size_t most = size - at < step ? size - at : step, used, got;
        *rc = http_chunks_take(&k, (const char *)data + at, most, &used, out + n, &got);
        want(used <= most && got <= used);
        n += got, at += used;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_head(data, size);
    char *one = malloc(size + 1), *other = malloc(size + 1);
    int a, b;
    size_t n = decode(one, data, size, size + 1, &a);
    want(n == decode(other, data, size, 3, &b) && a == b && memcmp(one, other, n) == 0);
    free(one);
    free(other);
    return 0;
}

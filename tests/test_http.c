/* test_http.c — the parts of the server that know no sockets: heads, chunks, bodies, addresses,
 * limits, keys, language codes. Whole servers are in tests/serve. */
#include "test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "serve/api.h"
#include "serve/body.h"
#include "serve/http_parse.h"
#include "serve/keys.h"
#include "serve/languages.h"
#include "serve/limits.h"
#include "serve/listen.h"

/* ---- heads ----------------------------------------------------------------------------------- */

static int parse(struct http_head *head, char *text) {
    const char *why = NULL;
    size_t scanned = 0, n = strlen(text);
    assert_int_equal(http_head_end(text, n, &scanned), n);
    int rc = http_parse_head(head, text, n, &why);
    assert_true(!rc == !why);
    return rc;
}

TEST(head_in_pieces) {
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n\0\nPK"; /* a body: any bytes */
    size_t scanned = 0, whole = sizeof text - 5;
    for (size_t n = 0; n < whole; n++) assert_int_equal(http_head_end(text, n, &scanned), 0);
    assert_int_equal(http_head_end(text, sizeof text - 1, &scanned), whole);
    scanned = 0;
    assert_int_equal(http_head_end("GET / HTTP/1.1\n", 15, &scanned), SIZE_MAX);
    scanned = 0;
    assert_int_equal(http_head_end("GET \0", 5, &scanned), SIZE_MAX);
    scanned = 0;
    assert_int_equal(http_head_end("GET \0\r\n\r\n", 9, &scanned), SIZE_MAX);
}

TEST(head_is_read) {
    struct http_head h;
    char text[] = "POST /a%20b/c?q=1%20&r HTTP/1.1\r\nHOST:  x \t\r\nContent-Length: 12\r\n"
                  "Connection: TE, Close\r\nX-Y:\r\n\r\n";
    assert_int_equal(parse(&h, text), 0);
    assert_string_equal(h.method, "POST");
    assert_string_equal(h.path, "/a b/c");
    assert_string_equal(h.query, "q=1%20&r");
    assert_string_equal(http_header(&h, "host"), "x");
    assert_string_equal(http_header(&h, "x-y"), "");
    assert_null(http_header(&h, "x-z"));
    assert_int_equal(h.length, 12);
    assert_false(h.keep_alive || h.chunked);
    char old[] = "GET http://h/p HTTP/1.0\r\n\r\n";
    assert_int_equal(parse(&h, old), 0);
    assert_string_equal(h.path, "/p");
    assert_false(h.keep_alive);
}

TEST(unescaping) {
    char text[] = "a%41+%2b%";
    assert_int_equal(http_unescape(text, 8, 1), 4);
    assert_memory_equal(text, "aA +", 4);
    char bad[] = "%4";
    assert_int_equal(http_unescape(bad, 2, 0), -1);
    char worse[] = "%4g";
    assert_int_equal(http_unescape(worse, 3, 0), -1);
}

/* Whatever the pieces, the same body. */
TEST(chunks_in_pieces) {
    static const char in[] = "5;x=\"y\"\r\nhello\r\n00A\r\n, my world\r\n0\r\nA: b\r\n\r\nrest";
    for (size_t step = 1; step < sizeof in; step++) {
        struct http_chunks k = {0};
        char out[64], part[64];
        size_t n = 0, at = 0;
        int rc = 0;
        while (!rc && at < sizeof in - 1) {
            size_t most = sizeof in - 1 - at < step ? sizeof in - 1 - at : step, used, got;
            rc = http_chunks_take(&k, in + at, most, &used, part, &got);
            memcpy(out + n, part, got);
            n += got, at += used;
        }
        assert_int_equal(rc, 1);
        assert_int_equal(n, 15);
        assert_memory_equal(out, "hello, my world", 15);
        assert_string_equal(in + at, "rest");
    }
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static int read_body(struct body *b, const char *type, const char *query, const char *text) {
    const char *why;
    return body_read(
        b, &(struct body_source){.type = type, .query = query, .content = {text, strlen(text)}},
        &why);
}

static void want_field(const struct body *b, const char *name, const char *value) {
    struct body_text text;
    int rc = body_string(b, name, &text);
    assert_true(value ? rc == 0 : rc == 1);
    if (!value) return;
    assert_int_equal(text.size, strlen(value));
    assert_memory_equal(text.text, value, text.size);
}

TEST(forms) {
    struct body b;
    static const char type[] = "Application/X-WWW-Form-Urlencoded; charset=utf-8";
    assert_int_equal(read_body(&b, type, "a=1&&b=2", "a=3&c=x%3D%26+y&d&=e&q="), 0);
    want_field(&b, "a", "1");
    want_field(&b, "b", "2");
    want_field(&b, "c", "x=& y");
    want_field(&b, "d", NULL);
    want_field(&b, "q", NULL);
    want_field(&b, "z", NULL);
    body_release(&b);
    assert_int_equal(read_body(&b, type, NULL, "a=%"), 400);
    body_release(&b);
    char *many = xcalloc(4001, 1);
    for (int i = 0; i < 1001; i++) memcpy(many + 2 * i, "a&", 2);
    assert_int_equal(read_body(&b, type, NULL, many), 413);
    body_release(&b);
    xfree(many);
}

TEST(parts) {
    struct body b;
    static const char text[] =
        "preamble\r\n--x y\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\na\r\n--x\r\n"
        "--x y \r\ncontent-disposition: form-data; filename=\"a;\\\"b\"; name=f\r\n"
        "Content-Type: text/plain\r\n\r\n\r\n--x y\r\n"
        "Content-Disposition: form-data; name=e\r\n\r\n--x y--\r\nepilogue";
    assert_int_equal(read_body(&b, "multipart/form-data; boundary=\"x y\"", "k=v", text), 0);
    want_field(&b, "k", "v");
    want_field(&b, "q", "a\r\n--x");
    want_field(&b, "e", NULL);
    const struct body_field *f = body_field(&b, "f");
    assert_non_null(f);
    assert_int_equal(f->value.size, 0);
    assert_memory_equal(f->filename.text, "a;\\\"b", 5);
    body_release(&b);
    assert_int_equal(read_body(&b, "multipart/form-data", NULL, text), 400);
    body_release(&b);
}

TEST(json) {
    struct body b;
    assert_int_equal(read_body(&b, "application/json", "q=no", "{\"q\":\"ü\",\"n\":1,\"z\":null}"),
                     0);
    want_field(&b, "q", "ü");
    want_field(&b, "z", NULL);
    struct body_text text;
    assert_int_equal(body_string(&b, "n", &text), -1);
    body_release(&b);
    assert_int_equal(read_body(&b, "application/x+json", NULL, "[]"), 400);
    body_release(&b);
    assert_int_equal(read_body(&b, "text/json", NULL, "{\"q\":1}"), 0);
    want_field(&b, "q", NULL);
    body_release(&b);
    size_t n = 2 * (size_t)BODY_MAX_VALUES + 10;
    char *many = xcalloc(n + 1, 1);
    memset(many, ',', n);
    assert_int_equal(read_body(&b, "application/json", NULL, many), 413);
    body_release(&b);
    xfree(many);
}

/* ---- addresses ------------------------------------------------------------------------------- */

TEST(clients_behind_proxies) {
    struct address_range r[3];
    char client[ADDRESS_TEXT];
    struct err err;
    assert_int_equal(address_range_parse(&r[0], "10.0.0.0/8", &err), 0);
    assert_int_equal(address_range_parse(&r[1], "fd00::/12", &err), 0);
    assert_int_equal(address_range_parse(&r[2], "unix", &err), 0);
    static const char *const bad[] = {"10.0.0.0/33", "10.0.0",    "a",          "",
                                      "::1/129",     "10.0.0.1/", "10.0.0.1/x", "::1/-1"};
    struct address_range unused;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(address_range_parse(&unused, bad[i], &err), HEED_EINVAL);
    static const struct {
        const char *peer, *forwarded, *client;
    } cases[] = {{"192.0.2.1", "1.2.3.4", "192.0.2.1"}, /* not trusted: its word counts nothing */
                 {"10.1.2.3", "1.2.3.4", "1.2.3.4"},
                 {"10.1.2.3", "6.6.6.6, 1.2.3.4 , 10.9.9.9", "1.2.3.4"},
                 {"fd0f::1", "2001:db8::1", "2001:db8::1"},
                 {"fd10::1", "2001:db8::1", "fd10::1"},
                 {"unix", "1.2.3.4", "1.2.3.4"},
                 {"10.1.2.3", NULL, "10.1.2.3"},
                 {"10.1.2.3", "10.1.1.1", "10.1.1.1"},
                 {"10.1.2.3", "6.6.6.6, evil", "10.1.2.3"},
                 {"10.1.2.3", "", "10.1.2.3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        address_client(client, cases[i].peer, cases[i].forwarded, r, 3);
        assert_string_equal(client, cases[i].client);
    }
}

/* ---- limits and keys ------------------------------------------------------------------------- */

TEST(buckets) {
    struct limits *l = limits_new(60, 3);
    uint64_t a = limits_client(l, "192.0.2.1", NULL), b = limits_client(l, "192.0.2.2", NULL);
    int wait;
    assert_int_not_equal(a, b);
    assert_int_equal(limits_client(l, "2001:db8::1", NULL), limits_client(l, "2001:db8::2", NULL));
    assert_int_equal(limits_take(l, a, 60, -1, 100, &wait), LIMITS_OK);
    assert_int_equal(limits_take(l, a, 1, -1, 100, &wait), LIMITS_SLOW);
    assert_in_range(wait, 1, 2);
    assert_int_equal(limits_take(l, b, 1, -1, 100, &wait), LIMITS_OK);
    assert_int_equal(limits_take(l, a, 1, -1, 101.5, &wait), LIMITS_OK);
    assert_int_equal(limits_take(l, a, 1000, 0, 101.5, &wait), LIMITS_OK); /* a key without limit */
    /* more than a bucket holds: when it is full, as a debt */
    assert_int_equal(limits_take(l, b, 90, -1, 200, &wait), LIMITS_OK);
    assert_int_equal(limits_take(l, b, 1, -1, 230, &wait), LIMITS_SLOW);
    assert_int_equal(limits_take(l, b, 1, -1, 232, &wait), LIMITS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(limits_take(l, a, 60, -1, 101.5, &wait), LIMITS_SLOW);
    assert_int_equal(limits_take(l, a, 1, -1, 200, &wait), LIMITS_SHUT_OUT);
    assert_true(limits_is_shut_out(l, a, 200) && !limits_is_shut_out(l, b, 200));
    assert_false(limits_is_shut_out(l, a, 10000));
    for (int i = 0; i < 100000; i++) { /* the table does not grow, and nobody is lost for good */
        char address[40];
        snprintf(address, sizeof address, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        assert_int_equal(limits_take(l, limits_client(l, address, NULL), 1, -1, 300, &wait),
                         LIMITS_OK);
    }
    limits_free(l);
}

TEST(key_files) {
    char path[512];
    struct keys *keys;
    struct err err;
    snprintf(path, sizeof path, "%s/keys", test_dir());
    static const char good[] =
        "# nobody\n\n9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  -\n"
        "60303AE22B998861BCE3B28F33EEC1BE758A213C86C93C076DBE9F558C11C752 600 # test2\r\n";
    assert_int_equal(file_write_all(path, good, sizeof good - 1, &err), 0);
    assert_int_equal(keys_read(&keys, path, &err), 0);
    assert_int_equal(keys->n, 2);
    assert_int_equal(keys_find(keys, "test", 4)->per_minute, -1);
    assert_int_equal(keys_find(keys, "test2", 5)->per_minute, 600);
    assert_null(keys_find(keys, "tesT", 4));
    assert_null(keys_find(keys, "", 0));
    keys_free(keys);
    static const char *const bad[] = {"test\n", "9f86d0\n",
                                      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0"
                                      "0a08x\n",
                                      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0"
                                      "0a08 many\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(file_write_all(path, bad[i], strlen(bad[i]), &err), 0);
        assert_int_equal(keys_read(&keys, path, &err), HEED_EFORMAT);
        assert_non_null(strstr(err.msg, "keys:1: expected"));
    }
}

/* ---- languages ------------------------------------------------------------------------------- */

TEST(language_codes) {
    char code[LANGUAGES_CODE];
    static const char *const pairs[][2] = {
        {"EN", "en"}, {"pt-BR", "pb"}, {"zh-Hans", "zh"}, {"ZH-HANT", "zt"}, {"de", "de"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(languages_code(code, pairs[i][0], strlen(pairs[i][0])), 0);
        assert_string_equal(code, pairs[i][1]);
    }
    assert_int_equal(languages_code(code, "abcdefghijklmnop", 16), -1);
    assert_string_equal(languages_name("de", NULL), "German");
    assert_string_equal(languages_name("de", "de"), "Deutsch");
    assert_string_equal(languages_name("de", "en-GB,de;q=0.9"), "German");
    assert_string_equal(languages_name("de", "fr,de-CH;q=0.3,en;q=0.2"), "Deutsch");
    assert_string_equal(languages_name("xx", "de"), "xx");
}

TEST(detection) {
    struct served s[] = {{.code = "en"}, {.code = "de"}, {.code = "pb"}};
    struct languages l = {s, 3};
    struct languages_guess g[LANGUAGES_GUESSES];
    static const struct {
        const char *text, *code;
    } cases[] = {
        {"Das ist ein ganz einfacher Satz auf Deutsch.", "de"},
        {"This is a perfectly simple sentence.", "en"},
        {"Esta é uma frase muito simples em português do Brasil.", "pb"},
        {"Hallo", "de"},
        {"", "en"},
        {"これは日本語の文です", "en"}}; /* not served: whatever there is, without conviction */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = languages_detect(g, &l, cases[i].text, strlen(cases[i].text), 0);
        assert_in_range(n, 1, LANGUAGES_GUESSES);
        assert_string_equal(g[0].code, cases[i].code);
        assert_true(g[0].confidence >= 0 && g[0].confidence <= 100);
    }
    static const char html[] = "<span class=\"the quick brown fox jumps over the lazy dog and more "
                               "english words\">Das ist ein Satz auf Deutsch</span>";
    languages_detect(g, &l, html, sizeof html - 1, 1);
    assert_string_equal(g[0].code, "de");
}

/* ---- a server whose models are still being read ---------------------------------------------- */

static void ask(char *answer, size_t room, const char *where, const char *request) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)atoi(strrchr(where, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t n = 0;
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    for (ssize_t got; n < room - 1 && (got = read(fd, answer + n, room - 1 - n)) > 0;)
        n += (size_t)got;
    answer[n] = 0;
    close(fd);
}

TEST(not_ready_yet) {
    static const char head[] = "HTTP/1.1 503 Service Unavailable\r\n";
    static const char *const requests[] = {
        "GET /health HTTP/1.0\r\n\r\n", "GET /languages HTTP/1.0\r\n\r\n",
        "POST /translate?q=a&source=en&target=de HTTP/1.0\r\n\r\n",
        "POST /detect?q=a HTTP/1.0\r\n\r\n"};
    struct api *api;
    struct err err;
    char answer[32768];
    assert_int_equal(api_open(&api, &(struct api_options){.alternatives = 3}, &err), 0);
    struct listen_spec listen = {.text = "127.0.0.1:0"};
    struct http_options options = {.listen = &listen,
                                   .n_listen = 1,
                                   .max_connections = 10,
                                   .max_body = 1000,
                                   .max_buffered = 10000,
                                   .timeout = 5,
                                   .idle = 5,
                                   .retry_after = 1,
                                   .ctx = api,
                                   .handle = api_handle,
                                   .log = api_log};
    assert_int_equal(http_open(&api->http, &options, &err), 0);
    assert_int_equal(http_start(api->http, &err), 0);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        ask(answer, sizeof answer, http_where(api->http, 0), requests[i]);
        assert_memory_equal(answer, head, sizeof head - 1);
        assert_non_null(strstr(answer, "\r\nRetry-After: 2\r\n"));
        assert_non_null(strstr(answer, "{\"error\":\"The models are being loaded\"}\n"));
    }
    ask(answer, sizeof answer, http_where(api->http, 0), "GET /spec HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(answer, " 200 OK\r\n"));
    http_close(api->http);
    api_close(api);
}

TESTS(T(head_in_pieces), T(head_is_read), T(unescaping), T(chunks_in_pieces), T(forms), T(parts),
      T(json), T(clients_behind_proxies), T(buckets), T(key_files), T(language_codes), T(detection),
      T(not_ready_yet))

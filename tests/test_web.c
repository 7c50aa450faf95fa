/* test_web.c — the page's files in the program (serve/web.h): whole, packed, tagged, and free of
 * what their Content-Security-Policy forbids. */
#include <regex.h>
#include <zlib.h>

#include "base/mem.h"
#include "serve/web.h"
#include "test.h"

static size_t size_of(struct web_bytes bytes) { return (size_t)(bytes.end - bytes.at); }

static const struct web_file *found(const char *path) {
    const struct web_file *file = web_find(path);
    if (!file) fail_msg("no %s", path);
    return file;
}

TEST(packed_is_the_same) {
    size_t n = 0;
    for (const struct web_file *f; (f = web_at(n)); n++) {
        size_t size = size_of(f->plain);
        assert_true(size > 0 && size_of(f->packed) < size);
        unsigned char *out = xmalloc(size + 1);
        z_stream z = {.next_in = (unsigned char *)f->packed.at,
                      .avail_in = (uInt)size_of(f->packed),
                      .next_out = out,
                      .avail_out = (uInt)size + 1};
        assert_int_equal(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
        assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
        assert_int_equal(z.total_out, size);
        assert_memory_equal(out, f->plain.at, size);
        inflateEnd(&z);
        free(out);
        assert_ptr_equal(web_find(f->path), f);
    }
    assert_true(n >= 10);
}

TEST(paths_are_exact) {
    assert_string_equal(found("/")->type, "text/html; charset=utf-8");
    assert_string_equal(found("/docs")->type, "text/html; charset=utf-8");
    assert_string_equal(found("/style.css")->type, "text/css; charset=utf-8");
    assert_string_equal(found("/app.js")->type, "text/javascript; charset=utf-8");
    assert_string_equal(found("/icon.svg")->type, "image/svg+xml");
    const char *none[] = {"", "//", "/app.js/", "/APP.JS", "/index.html.gz", "/../web.c", "/docs/"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (web_find(none[i])) fail_msg("'%s' was found", none[i]);
}

TEST(tags_tell_contents_apart) {
    for (size_t i = 0; web_at(i); i++) {
        const char *tag = web_at(i)->etag;
        assert_int_equal(strlen(tag), 24);
        assert_memory_equal(tag, "W/\"", 3);
        assert_int_equal(strspn(tag + 3, "0123456789abcdef"), 20);
        assert_string_equal(tag + 23, "\"");
        for (size_t j = 0; j < i; j++) {
            struct web_bytes a = web_at(i)->plain, b = web_at(j)->plain;
            int same = size_of(a) == size_of(b) && !memcmp(a.at, b.at, size_of(a));
            assert_int_equal(!strcmp(tag, web_at(j)->etag), same);
        }
    }
}

TEST(if_none_match) {
    const struct web_file *f = found("/app.js");
    char list[100];
    assert_false(web_fresh(f, NULL));
    assert_false(web_fresh(f, ""));
    assert_false(web_fresh(f, "W/"));
    assert_false(web_fresh(f, "\"abc\", W/\"def\""));
    assert_true(web_fresh(f, "*"));
    assert_true(web_fresh(f, f->etag));
    assert_true(web_fresh(f, f->etag + 2)); /* strong: compared weakly all the same */
    assert_false(web_fresh(f, found("/")->etag));
    snprintf(list, sizeof list, "\"abc\" ,%s , \"x\"", f->etag);
    assert_true(web_fresh(f, list));
    snprintf(list, sizeof list, "%sx", f->etag);
    assert_false(web_fresh(f, list));
    snprintf(list, sizeof list, "%.23s", f->etag);
    assert_false(web_fresh(f, list));
}

TEST(accept_encoding) {
    const char *yes[] = {"gzip",        "deflate, gzip;q=1.0, *;q=0.5", "GZIP", "*",
                         "br ; q=0, *", "identity;q=0.5,gzip ; q=0.3"};
    const char *no[] = {"",      "identity", "gzip;q=0", "gzip;q=0.0, *",
                        "*;q=0", "gzip2, x", "x-gz",     "br"};
    assert_false(web_takes_gzip(NULL));
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!web_takes_gzip(yes[i])) fail_msg("not taken: '%s'", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (web_takes_gzip(no[i])) fail_msg("taken: '%s'", no[i]);
}

/* The policy would make a browser refuse these; better not to write them. */
TEST(nothing_from_elsewhere) {
    const char *forbidden[] = {"<script>",
                               "<style",
                               "[[:space:]]style=",
                               "[[:space:]]on[a-z]+=\"",
                               "javascript:",
                               "eval\\(",
                               "innerHTML",
                               "outerHTML",
                               "insertAdjacentHTML",
                               "document\\.write",
                               "(src|href)=\"(/|https?:)",
                               "[: ]url\\(",
                               "@import",
                               "setAttribute\\('style"};
    assert_non_null(strstr(web_csp, "default-src 'none'"));
    assert_null(strstr(web_csp, "unsafe"));
    const struct web_file *f;
    for (size_t i = 0; (f = web_at(i)); i++) {
        char *text = xmalloc(size_of(f->plain) + 1);
        memcpy(text, f->plain.at, size_of(f->plain));
        text[size_of(f->plain)] = 0;
        for (size_t k = 0; k < sizeof forbidden / sizeof *forbidden; k++) {
            regex_t re;
            assert_int_equal(regcomp(&re, forbidden[k], REG_EXTENDED | REG_NOSUB), 0);
            if (!regexec(&re, text, 0, NULL, 0)) fail_msg("%s has %s", f->path, forbidden[k]);
            regfree(&re);
        }
        for (const char *at = text; (at = strstr(at, "://")); at++)
            if (strncmp(at - 4, "http://www.w3.org/2000/svg", 26) != 0)
                fail_msg("%s names another place: %.40s", f->path, at - 5);
        free(text);
    }
}

TESTS(T(packed_is_the_same), T(paths_are_exact), T(tags_tell_contents_apart), T(if_none_match),
      T(accept_encoding), T(nothing_from_elsewhere))

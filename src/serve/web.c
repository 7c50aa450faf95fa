/* web.c — the page's files inside the program; see web.h.
 *
 * For every src/serve/web/NAME make writes NAME.gz and NAME.etag into build/web, and tells the
 * assembler to look for files in both folders. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/mem.h"
#include "serve/web.h"

#define HTML "text/html; charset=utf-8"
#define CSS  "text/css; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"
#define SVG  "image/svg+xml"

/* symbol, file, type, path */
#define WEB_FILES(X)                                                                               \
    X(index, "index.html", HTML, "/")                                                              \
    X(docs, "docs.html", HTML, "/docs")                                                            \
    X(style, "style.css", CSS, "/style.css")                                                       \
    X(icon, "icon.svg", SVG, "/icon.svg")                                                          \
    X(icon_old, "icon.svg", SVG, "/favicon.ico")                                                   \
    X(theme_js, "theme.js", JS, "/theme.js")                                                       \
    X(app_js, "app.js", JS, "/app.js")                                                             \
    X(api_js, "api.js", JS, "/api.js")                                                             \
    X(words_js, "words.js", JS, "/words.js")                                                       \
    X(attention_js, "attention.js", JS, "/attention.js")                                           \
    X(file_js, "file.js", JS, "/file.js")                                                          \
    X(docs_js, "docs.js", JS, "/docs.js")

/* The file, the same packed, and the tag with a NUL. */
#define EMBED(NAME, FILE, TYPE, PATH)                                                              \
    extern __attribute__((visibility("hidden"))) const char web_##NAME[], web_##NAME##_gz[],       \
        web_##NAME##_etag[];                                                                       \
    __asm__(".section .rodata\n"                                                                   \
            "web_" #NAME ":\n"                                                                     \
            ".incbin \"" FILE "\"\n"                                                               \
            "web_" #NAME "_gz:\n"                                                                  \
            ".incbin \"" FILE ".gz\"\n"                                                            \
            "web_" #NAME "_etag:\n"                                                                \
            ".incbin \"" FILE ".etag\"\n"                                                          \
            ".byte 0\n"                                                                            \
            ".text\n");
WEB_FILES(EMBED)

#define ROW(NAME, FILE, TYPE, PATH)                                                                \
    {PATH,                                                                                         \
     TYPE,                                                                                         \
     web_##NAME##_etag,                                                                            \
     {web_##NAME, web_##NAME##_gz},                                                                \
     {web_##NAME##_gz, web_##NAME##_etag}},
static const struct web_file files[] = {WEB_FILES(ROW)};

const char web_csp[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                       "connect-src 'self'; form-action 'none'; base-uri 'none'; "
                       "frame-ancestors 'none'; require-trusted-types-for 'script'; "
                       "trusted-types 'none'";

const struct web_file *web_at(size_t i) {
    return i < sizeof files / sizeof *files ? &files[i] : NULL;
}

const struct web_file *web_find(const char *path) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(files[i].path, path)) return &files[i];
    return NULL;
}

/* The next member of a list with commas, without the spaces around it; 0 at the end. */
static int next_member(const char **list, const char **member, size_t *size) {
    *list += strspn(*list, ", \t");
    if (!**list) return 0;
    *member = *list;
    *size = strcspn(*list, ",");
    *list += *size;
    while (*size && strchr(" \t", (*member)[*size - 1])) --*size;
    return 1;
}

/* Weak comparison: W/ does not count. No tag of ours has a comma in it. */
int web_fresh(const struct web_file *file, const char *if_none_match) {
    const char *own = file->etag + 2, *member;
    size_t n_own = strlen(own), size;
    while (if_none_match && next_member(&if_none_match, &member, &size)) {
        if (size == 1 && *member == '*') return 1;
        if (size > 2 && !strncmp(member, "W/", 2)) member += 2, size -= 2;
        if (size == n_own && !memcmp(member, own, size)) return 1;
    }
    return 0;
}

/* gzip by name if it is there, else what * says; `;q=0` forbids. */
int web_takes_gzip(const char *accept_encoding) {
    const char *member;
    size_t size;
    int any = 0;
    while (accept_encoding && next_member(&accept_encoding, &member, &size)) {
        size_t n_name = strcspn(member, ";, \t");
        if (n_name > size) n_name = size;
        const char *q = memchr(member, '=', size);
        int allowed = !q || strtod(q + 1, NULL) > 0;
        if (n_name == 4 && !strncasecmp(member, "gzip", 4)) return allowed;
        if (n_name == 1 && *member == '*') any = allowed;
    }
    return any;
}

char *web_gzip(const char *data, size_t size, size_t *packed) {
    enum { GZIP = 16 + 15 }; /* zlib's word for the format, and its largest window */
    z_stream z = {0};
    if (size > UINT32_MAX / 2 ||
        deflateInit2(&z, 1, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    size_t room = deflateBound(&z, size);
    char *out = xmalloc(room);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    BUG_ON(deflate(&z, Z_FINISH) != Z_STREAM_END); /* there is room for it */
    *packed = z.total_out;
    deflateEnd(&z);
    return out;
}

/* placeholder.c — see placeholder.h. */
#include "text/placeholder.h"

#include <string.h>

enum { LONGEST = 80 };

static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

static int in_name(char c) { return is_letter(c) || is_digit(c) || (c && strchr("_.:-,#", c)); }

/* A name in brackets: {name} (name) {{ name }}. */
static size_t bracketed(const char *t, size_t size, char open, char close) {
    size_t depth = 0, at, name;
    while (depth < size && depth < 3 && t[depth] == open) depth++;
    if (depth == 0) return 0;
    for (at = depth; depth > 1 && at < size && t[at] == ' ';) at++;
    for (name = at; at < size && at < LONGEST && in_name(t[at]);) at++;
    if (at == name && depth > 1) return 0;
    while (depth > 1 && at < size && t[at] == ' ') at++;
    for (size_t i = 0; i < depth; i++, at++)
        if (at >= size || t[at] != close) return 0;
    return at;
}

/* printf's: %s %d %5.2f %1$s %ld %(name)s. No space flag: "50% discount" is no placeholder. */
static size_t directive(const char *t, size_t size) {
    size_t at = 1, name = size > 1 ? bracketed(t + 1, size - 1, '(', ')') : 0;
    at += name;
    while (at < size && at < LONGEST && t[at] && (is_digit(t[at]) || strchr("$+-#.*'", t[at])))
        at++;
    while (at < size && at < LONGEST && t[at] && strchr("hlLzjtq", t[at])) at++;
    if (at >= size || !t[at] || !strchr("sdiufFeEgGxXocp@", t[at])) return 0;
    at++;
    return at < size && (is_letter(t[at]) || t[at] < 0) ? 0 : at;
}

size_t placeholder_at(const char *t, size_t size) {
    size_t n;
    if (size < 2) return 0;
    if (t[0] == '{') return bracketed(t, size, '{', '}');
    if (t[0] != '$' && t[0] != '%') return 0;
    if (t[1] == '{') return (n = bracketed(t + 1, size - 1, '{', '}')) ? n + 1 : 0;
    return t[0] == '%' ? directive(t, size) : 0;
}

int placeholder_in(const char *text, size_t size) {
    for (size_t at = 0; at < size; at++)
        if (placeholder_at(text + at, size - at)) return 1;
    return 0;
}

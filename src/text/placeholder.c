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

/* ---- addresses ------------------------------------------------------------------------------- */

enum { LONGEST_NAME = 64 }; /* of a mailbox or host: they are looked for at every word */

static int in_host(char c) { return is_letter(c) || is_digit(c) || c == '-'; }
static int in_mailbox(char c) { return in_host(c) || (c && strchr("._%+", c)); }

/* May the byte be in an address? Not white space and what quotes or encloses one; of what is not
 * ASCII letters may, and punctuation (U+2000 to U+206F, U+3000 to U+303F, U+FF00 on, « and »)
 * not. */
static int in_address(const char *t, size_t size) {
    unsigned char c = (unsigned char)t[0], next = size > 1 ? (unsigned char)t[1] : 0;
    if (c < 0x80) return c > ' ' && c != 0x7F && !strchr("<>\"`|{}", c);
    if (c == 0xC2) return next != 0xAB && next != 0xBB && next != 0xA0;
    if (c == 0xE2) return next != 0x80 && next != 0x81;
    return !(c == 0xE3 && next == 0x80) && !(c == 0xEF && next >= 0xBC);
}

/* How far an address goes on from `at`: without the marks of the sentence that it ends, and without
 * a bracket that it has not opened. */
static size_t address_end(const char *t, size_t size, size_t at) {
    int open = 0;
    size_t end = at;
    for (; at < size && in_address(t + at, size - at); at++) {
        if (t[at] == '(') open++;
        if (t[at] == ')' && --open < 0) break;
        if (!strchr(".,;:!?'*(", t[at])) end = at + 1;
    }
    return end;
}

/* a.example, with a last part of letters alone: its length, or 0. */
static size_t host(const char *t, size_t size) {
    size_t at = 0, part = 0, dots = 0, letters = 0;
    for (; at < size && at < LONGEST_NAME && (in_host(t[at]) || t[at] == '.'); at++) {
        if (t[at] != '.') {
            letters += (size_t)is_letter(t[at]);
            continue;
        }
        if (at == part || at + 1 >= size || !in_host(t[at + 1])) break;
        part = at + 1;
        letters = 0;
        dots++;
    }
    return dots && letters >= 2 && letters == at - part ? at : 0;
}

static size_t web(const char *t, size_t size) {
    size_t at = 0;
    while (at < size && at < 10 && is_letter(t[at])) at++;
    if (at > 1 && size - at > 3 && memcmp(t + at, "://", 3) == 0) {
        size_t end = address_end(t, size, at + 3);
        return end > at + 3 ? end : 0;
    }
    size_t name = host(t, size);
    if (name == 0) return 0;
    if (name < size && t[name] == '/') return address_end(t, size, name);
    return name > 4 && memcmp(t, "www.", 4) == 0 ? name : 0;
}

static size_t mail(const char *t, size_t size) {
    size_t at = 0, name;
    while (at < size && at < LONGEST_NAME && in_mailbox(t[at])) at++;
    if (at == 0 || at >= size || t[at] != '@') return 0;
    return (name = host(t + at + 1, size - at - 1)) ? at + 1 + name : 0;
}

/* /usr/lib, with two slashes at least, ~/b, C:\b. */
static size_t path(const char *t, size_t size) {
    size_t end = 0;
    if (size > 2 && t[0] == '~' && t[1] == '/') end = address_end(t, size, 2);
    if (size > 3 && is_letter(t[0]) && t[1] == ':' && t[2] == '\\') end = address_end(t, size, 3);
    if (size > 3 && t[0] == '/' && is_letter(t[1])) {
        end = address_end(t, size, 1);
        if (!memchr(t + 1, '/', end - 1)) return 0;
    }
    return end;
}

static size_t address(const char *t, size_t size) {
    size_t n = web(t, size);
    if (!n) n = mail(t, size);
    return n ? n : path(t, size);
}

static size_t filled_in(const char *t, size_t size) {
    size_t n;
    if (size < 2) return 0;
    if (t[0] == '{') return bracketed(t, size, '{', '}');
    if (t[0] != '$' && t[0] != '%') return 0;
    if (t[1] == '{') return (n = bracketed(t + 1, size - 1, '{', '}')) ? n + 1 : 0;
    return t[0] == '%' ? directive(t, size) : 0;
}

/* May an address begin at text[at], or is it within a word? */
static int begins(const char *text, size_t size, size_t at) {
    if (at == 0) return 1;
    if (text[at] < 0) return 0;
    for (at--; at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80;) at--;
    if (text[at] < 0) return !in_address(text + at, size - at);
    return !in_mailbox(text[at]) && !strchr("/@\\", text[at]);
}

size_t placeholder_at(const char *text, size_t size, size_t at) {
    size_t n = filled_in(text + at, size - at);
    return n || !begins(text, size, at) ? n : address(text + at, size - at);
}

int placeholder_in(const char *text, size_t size) {
    for (size_t at = 0; at < size; at++)
        if (placeholder_at(text, size, at)) return 1;
    return 0;
}

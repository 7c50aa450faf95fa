/* body.c — see body.h. */
#define _GNU_SOURCE /* memmem */
#include "serve/body.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "io/json.h"
#include "serve/http_parse.h"

static const char malformed[] =
    "The browser (or proxy) sent a request that this server could not understand.";
static const char too_many[] = "Invalid request: too many fields";

/* ---- forms ----------------------------------------------------------------------------------- */

static int add_field(struct body *b, struct body_field field) {
    if (b->n == BODY_MAX_FIELDS) return 413;
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 8;
        b->field = xrealloc(b->field, (size_t)b->cap * sizeof *b->field);
    }
    b->field[b->n++] = field;
    return 0;
}

/* a=b&c=d, decoded in a copy; a % that leads nowhere stays what it is. */
static int add_form(struct body *b, const char *text, size_t size) {
    char *copy = xmalloc(size + 1);
    memcpy(copy, text, size);
    copy[size] = 0;
    b->kept = xrealloc(b->kept, (size_t)(b->n_kept + 1) * sizeof *b->kept);
    b->kept[b->n_kept++] = copy;
    for (size_t at = 0; at < size;) {
        char *pair = copy + at, *end = memchr(pair, '&', size - at);
        size_t length = end ? (size_t)(end - pair) : size - at;
        at += length + 1;
        if (!length) continue;
        char *equals = memchr(pair, '=', length);
        struct body_field f = {.name = {pair, equals ? (size_t)(equals - pair) : length}};
        f.value.text = equals ? equals + 1 : pair + length;
        f.value.size = equals ? length - f.name.size - 1 : 0;
        long n = http_unescape(pair, f.name.size, 1);
        if (n >= 0) f.name.size = (size_t)n;
        n = http_unescape((char *)f.value.text, f.value.size, 1);
        if (n >= 0) f.value.size = (size_t)n;
        int rc = n < 0 ? 400 : add_field(b, f);
        if (rc) return rc;
    }
    return 0;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The parameter of a header such as `form-data; name="q"`; quotes taken off, escapes left. */
static struct body_text parameter(const char *value, size_t size, const char *name) {
    size_t n = strlen(name), at = 0;
    while (at < size && value[at] != ';') at++;
    while (at < size) {
        at++;
        while (at < size && (value[at] == ' ' || value[at] == '\t')) at++;
        size_t key = at;
        while (at < size && value[at] != '=' && value[at] != ';') at++;
        int ours = at - key == n && strncasecmp(value + key, name, n) == 0;
        if (at >= size || value[at] == ';') continue;
        size_t begin = ++at, end;
        if (at < size && value[at] == '"') {
            begin = ++at;
            while (at < size && value[at] != '"') at += 1 + (value[at] == '\\' && at + 1 < size);
            if (at >= size) break; /* the quote never ends */
            end = at++;
        } else {
            while (at < size && value[at] != ';') at++;
            end = at;
            while (end > begin && (value[end - 1] == ' ' || value[end - 1] == '\t')) end--;
        }
        if (ours) return (struct body_text){value + begin, end - begin};
        while (at < size && value[at] != ';') at++;
    }
    return (struct body_text){NULL, 0};
}

/* What the headers of a part say: its names. */
static int part_head(struct body_part *part, const char *head, size_t size) {
    static const char disposition[] = "content-disposition:";
    enum { N = sizeof disposition - 1 };
    for (size_t at = 0; at < size;) {
        const char *line = head + at, *end = memmem(line, size - at, "\r\n", 2);
        size_t length = end ? (size_t)(end - line) : size - at;
        at += length + 2;
        if (length < N || strncasecmp(line, disposition, N) != 0) continue;
        part->name = parameter(line + N, length - N, "name");
        part->filename = parameter(line + N, length - N, "filename");
        return part->name.text ? 0 : 400;
    }
    return 400;
}

int body_parts(const char *data, size_t size, const char *boundary, size_t n_boundary,
               int (*each)(void *ctx, const struct body_part *part), void *ctx) {
    char mark[80] = "\r\n--";
    if (!n_boundary || n_boundary > 70) return 400;
    memcpy(mark + 4, boundary, n_boundary);
    size_t n_mark = n_boundary + 4;
    /* the first one may stand at the very beginning */
    int first = size >= n_mark - 2 && memcmp(data, mark + 2, n_mark - 2) == 0;
    const char *at = first ? data - 2 : memmem(data, size, mark, n_mark);
    if (!at) return 400;
    at += n_mark;
    const char *end = data + size;
    for (;;) {
        if (end - at >= 2 && memcmp(at, "--", 2) == 0) return 0;
        while (at < end && (*at == ' ' || *at == '\t')) at++;
        if (end - at < 2 || memcmp(at, "\r\n", 2) != 0) return 400;
        at += 2;
        size_t left = (size_t)(end - at),
               look = left < BODY_MAX_PART_HEAD ? left : BODY_MAX_PART_HEAD;
        const char *blank = memmem(at, look, "\r\n\r\n", 4);
        struct body_part part = {.name = {NULL, 0}};
        int rc = blank ? part_head(&part, at, (size_t)(blank - at)) : 400;
        if (rc) return rc;
        at = blank + 4;
        /* the mark begins with the line end that a part's head has, too: an empty part */
        const char *close = memmem(at - 2, (size_t)(end - at) + 2, mark, n_mark);
        if (!close) return 400;
        part.value = (struct body_text){at, close < at ? 0 : (size_t)(close - at)};
        if ((rc = each(ctx, &part))) return rc;
        at = close + n_mark;
    }
}

static int add_part(void *ctx, const struct body_part *part) {
    return add_field(
        ctx,
        (struct body_field){.name = part->name, .value = part->value, .filename = part->filename});
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Values take many times the memory of their bytes, so they are counted before they are read. */
static size_t count_values(const char *text, size_t size) {
    size_t n = 1;
    int in_string = 0;
    for (size_t i = 0; i < size; i++) {
        if (in_string) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                in_string = 0;
        } else {
            in_string = text[i] == '"';
            n += text[i] == ',';
        }
    }
    return n;
}

static int read_json(struct body *b, struct body_text content, const char **why) {
    const char *text = content.text;
    size_t size = content.size;
    *why = malformed;
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, size -= 3;
    if (count_values(text, size) > BODY_MAX_VALUES) {
        *why = too_many;
        return 413;
    }
    if (json_in_text(&b->json, text, size, "the request", NULL)) return 400;
    if (json_is_object(b->json)) return 0;
    *why = "Invalid JSON format";
    return 400;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* application/json, or application/ANYTHING+json; n: the type's length. */
static int is_json(const char *type, size_t n) {
    if (n == 16 && strncasecmp(type, "application/json", 16) == 0) return 1;
    return n > 17 && strncasecmp(type, "application/", 12) == 0 &&
           strncasecmp(type + n - 5, "+json", 5) == 0;
}

int body_read(struct body *body, const struct body_source *from, const char **why) {
    const char *type = from->type ? from->type : "";
    size_t n = strcspn(type, "; \t");
    int rc = 0;
    *body = (struct body){0};
    *why = malformed;
    if (is_json(type, n)) return read_json(body, from->content, why);
    if (from->query && *from->query) rc = add_form(body, from->query, strlen(from->query));
    if (!rc && n == 33 && strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0)
        rc = add_form(body, from->content.text, from->content.size);
    if (!rc && n == 19 && strncasecmp(type, "multipart/form-data", 19) == 0) {
        struct body_text boundary = parameter(type, strlen(type), "boundary");
        rc = boundary.text ? body_parts(from->content.text, from->content.size, boundary.text,
                                        boundary.size, add_part, body)
                           : 400;
    }
    if (rc == 413) *why = too_many;
    return rc;
}

void body_release(struct body *body) {
    json_decref(body->json);
    for (int i = 0; i < body->n_kept; i++) xfree(body->kept[i]);
    xfree(body->kept);
    xfree(body->field);
    *body = (struct body){0};
}

const struct body_field *body_field(const struct body *body, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < body->n; i++)
        if (body->field[i].name.size == n && memcmp(body->field[i].name.text, name, n) == 0)
            return &body->field[i];
    return NULL;
}

int body_string(const struct body *body, const char *name, struct body_text *text) {
    *text = (struct body_text){NULL, 0};
    if (!body->json) {
        const struct body_field *f = body_field(body, name);
        if (f) *text = f->value;
        return !f || !f->value.size;
    }
    const json_t *v = json_object_get(body->json, name);
    if (!v || json_is_null(v)) return 1;
    if (!json_is_string(v)) return -1;
    *text = (struct body_text){json_string_value(v), json_string_length(v)};
    return text->size == 0;
}

/* body.h — the fields of a request, however they came: JSON, a form, parts of a form (multipart),
 * or the query of the URL.
 *
 * The content type decides; a body of any other type is not looked at. JSON stands alone,
 * everything else is put together with the query, whose fields come first. Texts of forms may hold
 * any bytes; those of JSON are UTF-8 without NUL, or the request is refused.
 *
 * A body borrows the exchange's bytes, changing nothing in them, and owns what it decoded. */
#ifndef SERVE_BODY_H
#define SERVE_BODY_H

#include <jansson.h>
#include <stddef.h>

enum {
    BODY_MAX_FIELDS = 1000,       /* of a form, all parts counted */
    BODY_MAX_VALUES = 200 * 1000, /* of JSON */
    BODY_MAX_PART_HEAD = 8 << 10
};

struct body_text {
    const char *text; /* NULL: not there */
    size_t size;
};

struct body_field {
    struct body_text name, value;
    struct body_text filename; /* of a part that is a file, as it came: never a path to open */
};

struct body {
    json_t *json; /* an object; NULL where it is not JSON */
    struct body_field *field;
    int n, cap;
    char **kept; /* what was decoded */
    int n_kept;
};

/* What a request has; any may be NULL. */
struct body_source {
    const char *type;  /* Content-Type */
    const char *query; /* as it came */
    struct body_text content;
};

/* 0, or the status to refuse it with and *why. Release it in either case. */
int body_read(struct body *body, const struct body_source *from, const char **why);
void body_release(struct body *body);

/* A field of a form; the first of its name. */
const struct body_field *body_field(const struct body *body, const char *name);

/* A text of that name: 0; 1 where it is not there, empty, or null; -1 where it is no text. */
int body_string(const struct body *body, const char *name, struct body_text *text);

/* The parts of a multipart/form-data body, for each of which `each` is called until it returns a
 * status; views of the bytes. */
struct body_part {
    struct body_text name, filename, value;
};
int body_parts(const char *data, size_t size, const char *boundary, size_t n_boundary,
               int (*each)(void *ctx, const struct body_part *part), void *ctx);

#endif

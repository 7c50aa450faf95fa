/* fuzz_body.c — any bytes are the body of a request: the first one says as what it is read (a form,
 * JSON, or parts), and the query is the same bytes. */
#include "fuzz.h"

#include "serve/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const types[] = {"application/x-www-form-urlencoded", "application/json",
                                        "multipart/form-data; boundary=x",
                                        "multipart/form-data; boundary=\"-\"; charset=utf-8"};
    if (!size) return 0;
    char *query = malloc(size), *content = malloc(size);
    memcpy(query, data + 1, size - 1);
    memcpy(content, data + 1, size - 1); /* its own memory: nothing may be read beyond its end */
    query[size - 1] = 0;
    struct body body;
    const char *why = NULL;
    struct body_text text;
    int rc = body_read(&body,
                       &(struct body_source){.type = types[data[0] & 3],
                                             .query = data[0] & 4 ? query : NULL,
                                             .content = {content, size - 1}},
                       &why);
    want(rc == 0 || ((rc == 400 || rc == 413) && why));
    want(body.n <= BODY_MAX_FIELDS);
    for (int i = 0; i < body.n && !rc; i++) {
        const struct body_field *f = &body.field[i];
        unsigned sum = 0;
        for (size_t k = 0; k < f->name.size; k++) sum += (unsigned char)f->name.text[k];
        for (size_t k = 0; k < f->value.size; k++) sum += (unsigned char)f->value.text[k];
        for (size_t k = 0; k < f->filename.size; k++) sum += (unsigned char)f->filename.text[k];
        want(sum < 3000000000u && f->value.size <= size && f->filename.size <= size);
    }
    if (!rc) body_string(&body, "q", &text);
    body_release(&body);
    free(query);
    free(content);
    return 0;
}

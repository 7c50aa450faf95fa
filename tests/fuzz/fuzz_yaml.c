/* fuzz_yaml.c — any bytes are YAML: refused with a message, or a value that can be written as JSON
 * and read again. */
#include "fuzz.h"

#include "io/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *value, *again;
    struct err err = {0};
    int rc = yaml_in_text(&value, (const char *)data, size, "x", &err);
    want(rc <= 0 && !rc == !err.msg[0] && !rc == !!value);
    if (rc) return 0;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT);
    want(text != NULL);
    want(json_in_text(&again, text, strlen(text), "x", &err) == 0 || !json_is_object(value));
    json_decref(again);
    json_decref(value);
    free(text);
    return 0;
}

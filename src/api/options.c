/* options.c — see options.h. */
#include "api/options.h"

#include <string.h>

void api_options_init(void *options, size_t size, const void *defaults, size_t defaults_size) {
    if (!options || size < sizeof size) return;
    memset(options, 0, size);
    memcpy(options, defaults, size < defaults_size ? size : defaults_size);
    memcpy(options, &size, sizeof size);
}

int api_options_read(void *own, size_t own_size, const void *options, const char *name,
                     struct err *err) {
    size_t size;
    if (!options) return 0;
    memcpy(&size, options, sizeof size);
    if (size < sizeof size || size > own_size)
        return err_set(err, HEED_EINVAL,
                       "%s: size is %zu, but this library knows at most %zu; call %s_init, or use "
                       "a newer library",
                       name, size, own_size, name);
    memcpy(own, options, size);
    return 0;
}

_Static_assert(sizeof((heed_error *)0)->message == sizeof((struct err *)0)->msg, "copied whole");

int api_error(heed_error *error, int code, const struct err *err) {
    if (!error) return code;
    error->code = code;
    memcpy(error->message, code ? err->msg : "", code ? sizeof error->message : 1);
    return code;
}

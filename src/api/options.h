/* options.h — the public header's structures, whose size depends on the caller's version, and
 * errors on their way out. */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include <stddef.h>

#include "base/err.h"

/* Fills the caller's structure of `size` bytes with as many of the defaults, and sets its size
 * field (the first member, a size_t). */
void api_options_init(void *options, size_t size, const void *defaults, size_t defaults_size);

/* Overwrites *own, which holds the defaults, with what the caller's structure holds; NULL changes
 * nothing. name is for the message when the structure was never initialised or belongs to a later
 * version. */
int api_options_read(void *own, size_t own_size, const void *options, const char *name,
                     struct err *err);

/* Copies the message to *error, if the caller gave one, and returns the code. */
int api_error(heed_error *error, int code, const struct err *err);

#endif

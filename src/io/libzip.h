/* libzip.h — libzip, loaded when the first archive is opened: few runs open any. */
#ifndef IO_LIBZIP_H
#define IO_LIBZIP_H

#include <zip.h>

#include "base/err.h"

/* zip_NAME is libzip.NAME. */
#define LIBZIP_FUNCTIONS(X)                                                                        \
    X(close)                                                                                       \
    X(discard)                                                                                     \
    X(error_fini)                                                                                  \
    X(error_init)                                                                                  \
    X(error_strerror)                                                                              \
    X(fclose)                                                                                      \
    X(file_replace)                                                                                \
    X(file_set_mtime)                                                                              \
    X(fopen_index)                                                                                 \
    X(fread)                                                                                       \
    X(get_error)                                                                                   \
    X(get_name)                                                                                    \
    X(get_num_entries)                                                                             \
    X(name_locate)                                                                                 \
    X(open_from_source)                                                                            \
    X(source_buffer)                                                                               \
    X(source_buffer_create)                                                                        \
    X(source_close)                                                                                \
    X(source_error)                                                                                \
    X(source_free)                                                                                 \
    X(source_keep)                                                                                 \
    X(source_open)                                                                                 \
    X(source_read)                                                                                 \
    X(source_stat)                                                                                 \
    X(stat_index)

#define LIBZIP_POINTER(name) __typeof__(zip_##name) *name;
struct libzip {
    LIBZIP_FUNCTIONS(LIBZIP_POINTER)
};
#undef LIBZIP_POINTER

extern struct libzip libzip; /* after libzip_load */

/* Does something once only, and may be called by several threads. */
int libzip_load(struct err *err);

#endif

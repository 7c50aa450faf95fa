/* heed.h — the public face of libheed, a Transformer for sequence-to-sequence work.
 *
 * The only header a program that embeds heed includes. Handles are opaque, no other library's types
 * appear, nothing here prints or exits, and there is no global state. Functions that can fail return
 * HEED_OK (0) or a negative status. */
#ifndef HEED_H
#define HEED_H

#ifdef __cplusplus
extern "C" {
#endif

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0
#define HEED_VERSION       "0.1.0"

#if defined(__GNUC__)
#define HEED_API __attribute__((visibility("default")))
#else
#define HEED_API
#endif

/* Every status the library returns: name, value, one line of text. */
#define HEED_STATUS_MAP(X)                                                                         \
    X(HEED_OK, 0, "success")                                                                       \
    X(HEED_EINVAL, -1, "invalid argument")                                                         \
    X(HEED_ECONFIG, -2, "impossible configuration")                                                \
    X(HEED_ENOMEM, -3, "out of memory")                                                            \
    X(HEED_EIO, -4, "input or output failed")                                                      \
    X(HEED_EFORMAT, -5, "malformed file")                                                          \
    X(HEED_EDEVICE, -6, "device not available or failed")                                          \
    X(HEED_ELIMIT, -7, "limit exceeded")                                                           \
    X(HEED_EINTERNAL, -8, "internal error")                                                        \
    X(HEED_ECANCELLED, -9, "cancelled by the caller")

enum heed_status {
#define HEED_STATUS_ENUM(name, value, text) name = value,
    HEED_STATUS_MAP(HEED_STATUS_ENUM)
#undef HEED_STATUS_ENUM
};

/* Version of the library linked at run time, "major.minor.patch". */
HEED_API const char *heed_version(void);

/* One line of English for a status; never NULL, also for values that are no status. */
HEED_API const char *heed_status_text(int status);

#ifdef __cplusplus
}
#endif

#endif

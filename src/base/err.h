/* err.h — how failure travels.
 *
 * A function that can fail for a reason outside this program's control (a file, a configuration,
 * memory, a device) returns 0 or a negative enum heed_status and takes a `struct err *` as its last
 * argument, which it fills with a message complete enough to print as it is: what, where, which
 * value. err may be NULL when the caller only wants the code.
 *
 * A broken promise inside the program is not an error but a bug: BUG_ON aborts, always. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "heed.h"

struct err {
    enum heed_status code;
    char msg[256];
};

/* Fills *err (if any) and evaluates to code, so that `return err_set(err, HEED_EIO, "...")` reads
 * well. A macro, so that compilers and analysers see which value it has. */
#define err_set(err, code, ...)                                                                    \
    __extension__({                                                                                \
        err_fill((err), (code), __VA_ARGS__);                                                      \
        (int)(code);                                                                               \
    })
void err_fill(struct err *err, enum heed_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void bug(const char *file, int line, const char *what) __attribute__((noreturn, cold));
#define BUG_ON(cond)                                                                               \
    do {                                                                                           \
        if (__builtin_expect(!!(cond), 0)) bug(__FILE__, __LINE__, #cond);                         \
    } while (0)

#endif

/* ct2_file.h — model.bin of CTranslate2, versions 1 to 6: variables by name.
 *
 *     version 1           u32 version, u32 n, n variables
 *     version 2           string spec, u32 revision between the two
 *     version 3           u32 n, n aliases (two strings) at the end
 *     version 4           a variable has u8 type, u32 bytes in the place of u8 size, u32 elements
 *     a variable          string name, u8 rank, rank x u32 shape, type and length, the values
 *     a string            u16 length, its NUL counted, the text, NUL
 *
 * Names of the first revision are OpenNMT-tf's and are turned into today's. Everything is checked
 * against the size of the file; variables are views of its bytes, which must outlive them, and need
 * not be aligned. */
#ifndef CONVERT_CT2_FILE_H
#define CONVERT_CT2_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keep.h"

enum { CT2_RANK = 4, CT2_VARIABLES = 100000, CT2_VERSION = 6 };
enum ct2_type { CT2_F32, CT2_I8, CT2_I16, CT2_I32, CT2_F16, CT2_BF16, CT2_TYPES };

struct ct2_variable {
    const char *name;
    int rank;
    uint32_t shape[CT2_RANK];
    enum ct2_type type;
    const unsigned char *data;
    size_t bytes;
};

struct ct2_file {
    uint32_t version, revision;
    const char *spec;              /* "TransformerSpec" */
    struct ct2_variable *variable; /* sorted by name, aliases among them */
    int n, room;
    struct keep keep; /* names */
};

/* `where` begins every message. To be released, after an error too. */
int ct2_file_read(struct ct2_file *file, const void *data, size_t size, const char *where,
                  struct err *err);
void ct2_file_release(struct ct2_file *file);

/* NULL: there is none. */
const struct ct2_variable *ct2_find(const struct ct2_file *file, const char *name);

/* The value of a scalar, or `otherwise` where there is none of that name. */
double ct2_scalar(const struct ct2_file *file, const char *name, double otherwise);

#endif

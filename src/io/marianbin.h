/* marianbin.h — Marian's .bin files: all tensors of a model, one after the other.
 *
 *     u64 version (1), u64 n
 *     n x { u64 bytes of the name with its NUL, u64 type, u64 rank, u64 bytes of the data }
 *     the names, the shapes (i32), u64 size of a padding, the padding, the data
 *
 * A tensor of intgemm8 or intgemm16 is one of integers with a float behind the last: w = q / scale.
 * Except for embeddings (a name with "Wemb" in it) the integers are those of the transposed matrix:
 * shape [2, 3] has three rows of two. marianbin_read turns such a shape around, so that here every
 * tensor is in the order that its shape says.
 *
 * Files come from outside: every size is checked before it is used, and names that occur twice,
 * types that we do not read, and bytes that belong to nothing are refused. */
#ifndef IO_MARIANBIN_H
#define IO_MARIANBIN_H

#include "io/safetensors.h"

enum { MARIANBIN_MAX_TENSORS = 1 << 16, MARIANBIN_MAX_NAME = 256 };

struct marianbin_tensor {
    struct tensor tensor; /* F32, F16, I8, I16, I32 */
    float scale;          /* of intgemm, above 0; 0: of no such type */
    int turned;           /* the shape is not that of the file but turned around */
};

struct marianbin {
    struct marianbin_tensor *item; /* by name, in the order of strcmp */
    int n;
};

/* Does a file begin like this? */
int marianbin_looks(const void *bytes, size_t size);

/* Tensors point into the bytes, which must live as long. `where` begins messages. */
int marianbin_read(struct marianbin *bin, const void *bytes, size_t size, const char *where,
                   struct err *err);
void marianbin_release(struct marianbin *bin); /* {0} is fine */

const struct marianbin_tensor *marianbin_find(const struct marianbin *bin, const char *name);

#endif

/* npy.h — arrays of NumPy's .npy format, versions 1 to 3: a magic number, a Python dictionary as
 * text, then the elements.
 *
 * The dictionary is read strictly: `descr` a little-endian type of the list below, `fortran_order`
 * False, `shape` a tuple of at most SAFETENSORS_MAX_RANK sizes, each once and nothing else. The
 * elements must be exactly as many as the shape says. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include "io/safetensors.h"

/* The array in these bytes as a tensor that points into them, `name` (borrowed) its name. `where`
 * and `name` begin messages. Types: F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL. */
int npy_read(struct tensor *t, const char *bytes, size_t size, const char *where, const char *name,
             struct err *err);

#endif

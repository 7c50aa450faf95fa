/* safetensors.h — reads safetensors files: an 8-byte header length, a JSON header, then the tensors.
 *
 * The file is mapped, not copied: tensors point into the mapping and live as long as it. Files come from
 * outside, so nothing in the header is believed: every size and offset is checked against the file, the
 * tensors must cover the data exactly, without holes or overlap, and any violation is one error that
 * names the file, the tensor and the value. */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include <stdint.h>

#include "base/file.h"

enum { SAFETENSORS_MAX_RANK = 8 };

struct tensor {
    const char *name;
    const char *dtype; /* "F32", "BF16", "I32", ... */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *data; /* row-major, little-endian, not necessarily aligned */
    size_t size;      /* bytes */
};

struct safetensors {
    struct file_map map;
    struct tensor *tensor; /* in file order */
    int n_tensor;
    void *json; /* owns names and metadata */
};

int safetensors_open(struct safetensors *st, const char *path, struct err *err);
void safetensors_close(struct safetensors *st);

/* NULL when there is none of that name. */
const struct tensor *safetensors_find(const struct safetensors *st, const char *name);
const char *safetensors_metadata(const struct safetensors *st, const char *key);

#endif

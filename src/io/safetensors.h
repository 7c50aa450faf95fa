/* safetensors.h — safetensors files: an 8-byte header length, a JSON header, then the tensors.
 *
 * Reading: the file is mapped, not copied: tensors point into the mapping and live as long as it.
 * Files come from outside, so nothing in the header is trusted: every size and offset is checked
 * against the file, the tensors must cover the data exactly, without holes or overlap, and any
 * violation is one error that names the file, the tensor and the value.
 *
 * Writing: streamed and atomic. The tensors are declared first, which makes the header, then their
 * bytes are given in the same order; the header is padded so that the data begin at a multiple of
 * 64.
 *
 * A file may carry checksums of its tensors: metadata `xxh3`, XXH3-64 of each in the order of the
 * file, 16 hexadecimal digits each. They find what a damaged or half-written file would otherwise
 * turn into wrong numbers. */
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
    struct tensor *tensor;         /* in file order */
    const struct tensor **by_name; /* [n_tensor] in the order of their names */
    int n_tensor;
    size_t header_size; /* bytes before the data, the length itself included */
    void *json;         /* owns names and metadata */
};

int safetensors_open(struct safetensors *st, const char *path, struct err *err);
void safetensors_close(struct safetensors *st);

/* NULL when there is none of that name. */
const struct tensor *safetensors_find(const struct safetensors *st, const char *name);
const char *safetensors_metadata(const struct safetensors *st, const char *key);

/* HEED_EFORMAT when a tensor is not what its checksum says; 0 in a file without checksums. Reads
 * everything, by n_thread threads (0: all CPUs). */
int safetensors_verify(const struct safetensors *st, const char *path, int n_thread,
                       struct err *err);

/* Calls fn for every entry of the metadata until it returns nonzero, which is returned. */
int safetensors_metadata_each(const struct safetensors *st,
                              int (*fn)(void *ctx, const char *key, const char *value), void *ctx);

/* Elements [first, first + count) of an F32, BF16 or F16 tensor as f32. Other types are a bug. */
int tensor_is_float(const struct tensor *t); /* is it one of the three? */
void tensor_values(const struct tensor *t, size_t first, size_t count, float *out);
size_t tensor_count(const struct tensor *t); /* elements */

void tensor_shape_text(char *text, size_t size, const int64_t *shape, int rank); /* "[2, 3]" */

/* ---- writing --------------------------------------------------------------------------------- */

/* A tensor to come. Each must begin at a multiple of its element's size (the wider types first). */
struct tensor_spec {
    const char *name, *dtype;
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
};

struct metadata {
    const char *key, *value; /* UTF-8; a NULL key ends the list */
};

/* As a key: checksums are wanted, whatever the value is. */
#define SAFETENSORS_CHECKSUMS "xxh3"

struct safetensors_writer {
    struct file_writer file;
    uint64_t left;       /* bytes still to come */
    uint32_t header_crc; /* crc32c of everything before the data, checksums not yet filled in */
    struct checksums *checksums; /* or NULL: not wanted */
};

/* metadata may be NULL. */
int safetensors_create(struct safetensors_writer *w, const char *path,
                       const struct tensor_spec *spec, int n, const struct metadata *metadata,
                       struct err *err);

/* The next bytes of the data; errors stick. */
void safetensors_write(struct safetensors_writer *w, const void *data, size_t size);

/* Exactly one of the two ends a writer. Fewer or more bytes than declared are a bug. */
int safetensors_commit(struct safetensors_writer *w, struct err *err);
void safetensors_abort(struct safetensors_writer *w);

#endif

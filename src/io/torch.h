/* torch.h — PyTorch's checkpoints (pytorch_model.bin): the tensors of a state dictionary.
 *
 * Two containers: a zip (stored members NAME/data.pkl and NAME/data/KEY), and the older sequence of
 * pickles with the storages behind them. Both are mapped, and tensors are views into the mapping.
 * The pickle is only read (pickle.h): a tensor is what _rebuild_tensor_v2 and _rebuild_parameter of
 * torch._utils are given, in a dictionary or an OrderedDict at the top; whatever else is in there
 * is left alone.
 *
 * Files are hostile: an offset, size or stride that leads out of a storage, a storage that leads
 * out of the file, and a name that comes twice are errors. */
#ifndef IO_TORCH_H
#define IO_TORCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { TORCH_MAX_RANK = 8 };

/* Element (i, j, ...) is at data[i * stride[0] + j * stride[1] + ...], in elements. */
struct torch_tensor {
    const char *name;
    const char *dtype; /* as safetensors calls it: "F32", "F16", "BF16", ... */
    int rank;
    int64_t shape[TORCH_MAX_RANK], stride[TORCH_MAX_RANK];
    const void *data; /* little-endian, not necessarily aligned */
};

struct torch_file;

int torch_open(struct torch_file **file, const char *path, struct err *err);

/* The same of bytes that stay the caller's and must live as long. */
int torch_open_bytes(struct torch_file **file, const char *bytes, size_t size, const char *where,
                     struct err *err);
void torch_close(struct torch_file *file); /* NULL is fine */

int torch_count(const struct torch_file *file);
const struct torch_tensor *torch_at(const struct torch_file *file, int i); /* sorted by name */
const struct torch_tensor *torch_find(const struct torch_file *file, const char *name);

#endif

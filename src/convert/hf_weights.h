/* hf_weights.h — the tensors of a Hugging Face model, in whichever file they are.
 *
 *     model.safetensors    or model.safetensors.index.json and the files that it lists
 *     pytorch_model.bin    or pytorch_model.bin.index.json and its files; in either container
 *
 * The first of these that is there. Files are mapped. */
#ifndef CONVERT_HF_WEIGHTS_H
#define CONVERT_HF_WEIGHTS_H

#include "convert/bundle.h"
#include "io/torch.h"

struct hf_weights;

int hf_weights_present(const struct bundle *bundle);
int hf_weights_open(struct hf_weights **weights, struct bundle *bundle, struct err *err);
void hf_weights_close(struct hf_weights *weights); /* NULL is fine */

/* Sorted by name. */
int hf_weights_count(const struct hf_weights *weights);
const struct torch_tensor *hf_weights_at(const struct hf_weights *weights, int i);
const struct torch_tensor *hf_weights_find(const struct hf_weights *weights, const char *name);

#endif

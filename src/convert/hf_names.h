/* hf_names.h — what MarianMT, M2M100 and mBART call their tensors. */
#ifndef CONVERT_HF_NAMES_H
#define CONVERT_HF_NAMES_H

#include "convert/foreign.h"

enum { HF_NAME = 96 };

/* With tie all, embeddings are one tensor of another name. */
void hf_name(char name[HF_NAME], const struct foreign_role *role, int tie);

#endif

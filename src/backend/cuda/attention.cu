/* attention.cu — ragged multi-head scaled dot-product attention, and its reverse.  PAPER: 3.2.
 *
 * Two ways to the same numbers: attention_tensor.cu multiplies bf16 strips on tensor cores, for the
 * head widths models have; attention_general.cu is plain f32 arithmetic for f32, other widths,
 * unaligned slices. Which one runs depends on types, shapes and addresses alone, so a batch gives
 * the same bits every time. Probabilities for viewing are computed afterwards from lse: asking for
 * them changes nothing else.
 *
 * Workspace: D_i = dout_i . o_i, one f32 per head and query, backward only.
 * Math: docs/math/attention.md.   Spec: ref/attention.c.   Figures: docs/notes/gpu.md. */
#include "backend/cuda/attention.h"

void cuda_attention_fwd(struct backend *base, const struct attention_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    if (attention_tensor_fits(a, false))
        attention_tensor_fwd(be, a);
    else
        attention_general_fwd(be, a);
    if (!mat_empty(&a->probs)) attention_general_probs(be, a);
}

void cuda_attention_bwd(struct backend *base, const struct attention_args *a) {
    struct cuda_backend *be = cuda_of(base);
    float *delta =
        (float *)cuda_workspace_beside(be, sizeof(float) * (size_t)a->n_head * (size_t)a->q.rows);
    if (!delta) return;
    cuda_await(be, {&a->dq, &a->dk, &a->dv});
    if (attention_tensor_fits(a, true))
        attention_tensor_bwd(be, a, delta);
    else
        attention_general_bwd(be, a, delta);
}

/* amx_patch.h — 32 x 32 sums in AMX's registers, with other work done between the steps.
 *
 * A step multiplies 64 bytes of depth (32 bf16, 64 int8): two registers of x (32 rows), two of w
 * (32 columns), four sums. Four multiplications are issued in 64 cycles; of the 4 KiB they take,
 * one operand should come from the first-level cache and one may come from the second, which must
 * then deliver 32 bytes per cycle. Meanwhile the vector units and most of the load ports are idle.
 * What a product has to do besides (storing the patch before, quantising the next rows, asking for
 * lines that will be wanted) is cut into pieces that fit between steps, `aside`: the smaller and
 * the more evenly spread, the more of it the multiplications hide. It is a constant function that
 * is inlined into the loop. */
#ifndef BACKEND_CPU_AMX_PATCH_H
#define BACKEND_CPU_AMX_PATCH_H

#include "backend/cpu/amx.h"
#include "backend/cpu/gemm_store.h"

enum { AMX_SIDE = 32, AMX_REGISTER = 1024, AMX_PATCH = 4096 }; /* rows and columns, bytes, bytes */

struct amx_patch {
    const char *x;          /* row 0; 64 bytes per step and row */
    int64_t ldx;            /* bytes from row to row, */
    int64_t x_half;         /* to row 16, */
    int64_t x_step;         /* and to the next step */
    const char *w;          /* columns 0 .. 15, a register per step */
    int64_t w_half;         /* bytes to columns 16 .. 31, */
    int64_t w_step;         /* and to the next step */
    int x_stream, w_stream; /* not wanted again soon */
    int steps, rows;        /* with 16 rows or fewer wanted only half the work is done */
    int every;              /* steps between two calls of aside */
    const char *from;       /* the sums so far, [32][32] of 4 bytes, or NULL: zeros */
    int64_t ld_from;        /* bytes from row to row */
    char *to;               /* where they go; rows that are not wanted may be anything */
    int64_t ld_to;
};

typedef void amx_aside_fn(void *ctx);

#define AMX_MULTIPLY(i8, sum, a, b)                                                                \
    do {                                                                                           \
        if (i8)                                                                                    \
            amx_multiply_i8(sum, a, b);                                                            \
        else                                                                                       \
            amx_multiply(sum, a, b);                                                               \
    } while (0)

#define AMX_LOAD(stream, reg, base, stride)                                                        \
    do {                                                                                           \
        if (stream)                                                                                \
            amx_load_stream(reg, base, stride);                                                    \
        else                                                                                       \
            amx_load(reg, base, stride);                                                           \
    } while (0)

GEMM_INLINE void amx_load_sums(const char *t, int64_t ld, const int both) {
    amx_load(0, t, ld);
    amx_load(1, t + 64, ld);
    if (!both) return;
    amx_load(2, t + 16 * ld, ld);
    amx_load(3, t + 16 * ld + 64, ld);
}

GEMM_INLINE void amx_store_sums(char *t, int64_t ld, const int both) {
    amx_store(0, t, ld);
    amx_store(1, t + 64, ld);
    if (!both) return;
    amx_store(2, t + 16 * ld, ld);
    amx_store(3, t + 16 * ld + 64, ld);
}

#ifdef __AVX512BW__

/* A patch of f32 sums that goes into a bf16 C, 32 columns wide, as gemm_round_rows would do it, a
 * few rows at a time. */
struct amx_rounding {
    const float *t; /* [32][32], the next row */
    uint16_t *c;
    int64_t ldc;
    int rows; /* left */
    __mmask16 numbers;
    __m512 bias[2], floor; /* -0 where there is no bias, -inf without a ReLU */
};

GEMM_INLINE struct amx_rounding amx_round_to(const struct gemm_store *to, const float *t,
                                             int rows) {
    struct amx_rounding r = {.t = t, .c = to->c, .ldc = to->ldc, .rows = rows, .numbers = 0xffff};
    r.bias[0] = to->bias ? gemm_bias_vector(to, 0) : _mm512_set1_ps(-0.0f);
    r.bias[1] = to->bias ? gemm_bias_vector(to, 16) : _mm512_set1_ps(-0.0f);
    r.floor = _mm512_set1_ps(to->relu ? 0 : -__builtin_inff());
    return r;
}

GEMM_INLINE void amx_round_rows(struct amx_rounding *r, int n) {
    const __m512 bias0 = r->bias[0], bias1 = r->bias[1], floor = r->floor;
    const int rows = n < r->rows ? n : r->rows;
    const float *t = r->t;
    uint16_t *c = r->c;
    for (int i = 0; i < rows; i++, t += AMX_SIDE, c += r->ldc) {
        const __m512 x0 = _mm512_max_ps(floor, _mm512_add_ps(_mm512_load_ps(t), bias0));
        const __m512 x1 = _mm512_max_ps(floor, _mm512_add_ps(_mm512_load_ps(t + 16), bias1));
        r->numbers = _mm512_mask_cmp_ps_mask(r->numbers, x0, x1, _CMP_ORD_Q);
        _mm512_storeu_si512(c, gemm_upper_halves(gemm_round_vector(x0), gemm_round_vector(x1)));
    }
    r->t = t;
    r->c = c;
    r->rows -= rows;
}

#endif

enum { PAST_X = 1, PAST_W = 2 }; /* whose tiles are loaded past the first-level cache */

GEMM_INLINE void amx_patch_rows(const struct amx_patch *q, const int i8, const int both,
                                const int past, amx_aside_fn *aside, void *ctx) {
    const int64_t ldx = q->ldx;
    const char *x = q->x, *x1 = q->x + q->x_half, *w = q->w, *w1 = q->w + q->w_half;
    if (q->from)
        amx_load_sums(q->from, q->ld_from, both);
    else
        amx_zero_sums();
    int due = 1;
    for (int step = 0; step < q->steps; step++) {
        AMX_LOAD(past & PAST_X, 4, x, ldx);
        AMX_LOAD(past & PAST_W, 6, w, 64);
        AMX_MULTIPLY(i8, 0, 4, 6);
        AMX_LOAD(past & PAST_W, 7, w1, 64);
        AMX_MULTIPLY(i8, 1, 4, 7);
        if (both) {
            AMX_LOAD(past & PAST_X, 5, x1, ldx);
            AMX_MULTIPLY(i8, 2, 5, 6);
            AMX_MULTIPLY(i8, 3, 5, 7);
        }
        x += q->x_step;
        x1 += q->x_step;
        w += q->w_step;
        w1 += q->w_step;
        if (--due > 0) continue;
        due = q->every;
        aside(ctx);
    }
    amx_store_sums(q->to, q->ld_to, both);
}

/* to = from + x by w. */
GEMM_INLINE void amx_patch(const struct amx_patch *q, const int i8, amx_aside_fn *aside,
                           void *ctx) {
    if (q->rows <= 16)
        amx_patch_rows(q, i8, 0, PAST_X | PAST_W, aside, ctx);
    else if (!q->w_stream)
        amx_patch_rows(q, i8, 1, PAST_X, aside, ctx);
    else if (!q->x_stream)
        amx_patch_rows(q, i8, 1, PAST_W, aside, ctx);
    else
        amx_patch_rows(q, i8, 1, PAST_X | PAST_W, aside, ctx);
}

#endif

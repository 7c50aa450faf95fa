/* little.c — operands of a small product on their way to its kernel. See little.h. */
#include "backend/cpu/little.h"

#include "backend/cpu/rows.h"
#include "base/num.h"

static int64_t round16(int n) { return ((int64_t)n + 15) / 16 * 16; }

static size_t bytes_of(int rows, int cols) {
    return (size_t)rows * (size_t)round16(cols) * sizeof(float);
}

/* A and B are each copied at most once, A as it lies. */
size_t little_workspace(int m, int n, int k) {
    return max_size(bytes_of(m, k), bytes_of(k, m)) + bytes_of(k, n);
}

/* f32 rows of a bf16 matrix, `ld` apart. */
static void widen(const struct isa *isa, float *dst, int64_t ld, const struct gemm_operand *src,
                  int rows, int cols) {
    const uint16_t *from = src->data;
    for (int i = 0; i < rows; i++)
        isa->rows->convert(dst + i * ld, DTYPE_F32, from + i * src->ld, DTYPE_BF16, cols, 1);
}

void little_run(const struct isa *isa, const struct gemm *g, void *workspace) {
    struct little p = {.m = g->m, .n = g->n, .k = g->k, .c = g->c, .ldc = g->ldc, .add = g->add};
    const int a_rows = g->a.trans ? g->k : g->m, a_cols = g->a.trans ? g->m : g->k;
    int64_t lda = g->a.ld;
    float *to = workspace;
    p.a = g->a.data;
    if (g->a.type != DTYPE_F32) {
        lda = round16(a_cols);
        widen(isa, to, lda, &g->a, a_rows, a_cols);
        p.a = to;
        to += a_rows * lda;
    }
    p.a_row = g->a.trans ? 1 : lda;
    p.a_depth = g->a.trans ? lda : 1;

    p.b = g->b.data;
    p.ldb = g->b.ld;
    if (g->b.trans || g->b.type != DTYPE_F32) {
        p.ldb = round16(g->n);
        p.b = to;
        if (g->b.trans)
            isa->little->turn(to, p.ldb, &g->b, g->n, g->k);
        else
            widen(isa, to, p.ldb, &g->b, g->k, g->n);
    }
    isa->little->multiply(&p);
}

/* ops.c — tensors of op tests: making them, looking at them, comparing them. See ops.h. */
#include "ops.h"

#include "backend/cpu/isa.h"
#include "backend/device.h"
#include "base/mem.h"
#include "gpu.h"
#include "ops_build.h"

enum { POISON = 0xff, GUARD = 64 }; /* all ones is a NaN in every float type */

/* Allowed distance from ref, relative to the expected tensor: of the whole in the 2-norm, and of
 * every element against the largest one. Sums in f32 over some hundred terms lose a few of the 24
 * bits; in bf16 every value stored in between has 8 bits. */
static const struct {
    double norm, element;
} tolerance[DTYPE_COUNT] = {
    [DTYPE_F32] = {3e-6, 6e-6},
    [DTYPE_BF16] = {8e-3, 2e-2},
};

/* Our data are near 1, so smaller results than this are differences of larger numbers, whose error
 * they carry: the gradient of a softmax over one key is 0 in theory only. */
#define SMALL 0.1

/* ---- tensors --------------------------------------------------------------------------------- */

double tensor_get(const struct tensor *t, const unsigned char *image, int i, int j) {
    return dtype_load(image, t->m.type, i * t->m.ld + t->left + j);
}

void tensor_put(const struct tensor *t, unsigned char *image, int i, int j, double x) {
    dtype_store(image, t->m.type, i * t->m.ld + t->left + j, x);
}

/* FNV-1a: the values of a tensor follow from its name and its case. */
static uint64_t hash(uint64_t h, const char *s) {
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

struct tensor *tensor_new(struct op_test *test, const char *name, enum role role, enum axis axis,
                          int rows, int cols) {
    BUG_ON(test->n == OPS_MAX_TENSOR);
    struct tensor *t = &test->t[test->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->role = role;
    t->axis = axis;
    t->left = test->c->left;
    t->m = (struct mat){.rows = rows, .cols = cols, .type = test->type};
    t->m.ld = t->left + cols + test->c->right;
    return t;
}

struct tensor *tensor_wide(struct tensor *t) {
    t->m.type = dtype_wide(t->m.type);
    return t;
}

void tensor_fill(struct op_test *test, struct tensor *t, double mean, double deviation) {
    size_t one = dtype_size(t->m.type);
    struct rng rng = {.key = hash(hash(0xcbf29ce484222325u, test->c->name), t->name)};
    t->size = (size_t)t->m.rows * t->m.ld * one + GUARD;
    t->init = xmalloc(t->size);
    memset(t->init, POISON, t->size);
    for (int i = 0; i < t->m.rows && t->role != ROLE_OUT; i++)
        for (int j = 0; j < t->m.cols; j++)
            tensor_put(t, t->init, i, j, mean + deviation * rng_normal(&rng));
    t->buffer = backend_alloc(test->be, t->size, NULL);
    assert_non_null(t->buffer);
    t->m.data = (char *)t->buffer + (size_t)t->left * one;
}

int op_find(const struct op_test *test, const char *name) {
    for (int i = 0; i < test->n; i++)
        if (strcmp(test->t[i].name, name) == 0) return i;
    return -1;
}

void op_reset(struct op_test *test) {
    for (int i = 0; i < test->n; i++)
        backend_upload(test->be, test->t[i].buffer, test->t[i].init, test->t[i].size);
}

void op_save(struct op_test *test, struct op_image *image) {
    memset(image, 0, sizeof *image);
    for (int i = 0; i < test->n; i++) {
        image->t[i] = xmalloc(test->t[i].size);
        backend_download(test->be, image->t[i], test->t[i].buffer, test->t[i].size);
    }
}

void op_load(struct op_test *test, const struct op_image *image) {
    for (int i = 0; i < test->n; i++)
        backend_upload(test->be, test->t[i].buffer, image->t[i], test->t[i].size);
}

void op_image_free(struct op_image *image) {
    for (int i = 0; i < OPS_MAX_TENSOR; i++) xfree(image->t[i]);
    memset(image, 0, sizeof *image);
}

void op_close(struct op_test *test) {
    for (int i = 0; i < test->n; i++) {
        backend_free(test->be, test->t[i].buffer);
        xfree(test->t[i].init);
    }
    for (int i = 0; i < 2; i++) {
        backend_free(test->be, test->start[i]);
        backend_free(test->be, test->index[i]);
    }
    xfree(test);
}

/* ---- checks ---------------------------------------------------------------------------------- */

#define FAIL_CASE(test, t, what, fmt, ...)                                                         \
    fail_msg("%s '%s' %s, %s, %s: " fmt, (test)->c->op, (test)->c->name, dtype_name((test)->type), \
             what, (t)->name, __VA_ARGS__)

static void check_poison(const struct op_test *test, const struct tensor *t,
                         const unsigned char *image, size_t begin, size_t end, const char *what) {
    for (size_t at = begin; at < end; at++)
        if (image[at] != POISON) {
            size_t row = (size_t)t->m.ld * dtype_size(t->m.type);
            FAIL_CASE(test, t, what, "wrote beside the matrix, row %zu, byte %zu", at / row,
                      at % row);
        }
}

static void check_padding(const struct op_test *test, const struct tensor *t,
                          const unsigned char *image, const char *what) {
    size_t one = dtype_size(t->m.type), row = (size_t)t->m.ld * one, end = (size_t)t->m.rows * row;
    size_t left = (size_t)t->left * one, right = left + (size_t)t->m.cols * one;
    for (size_t at = 0; at < end; at += row) {
        check_poison(test, t, image, at, at + left, what);
        check_poison(test, t, image, at + right, at + row, what);
    }
    check_poison(test, t, image, end, t->size, what);
}

void ops_check_near(enum dtype type, const double *got, const double *want, int rows, int cols,
                    const char *what) {
    int n = rows * cols;
    double norm = 0, max = SMALL, off = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(want[i]) && isnan(got[i])) continue; /* poison in both */
        norm += want[i] * want[i];
        off += (got[i] - want[i]) * (got[i] - want[i]);
        max = fmax(max, fabs(want[i]));
    }
    double tol = tolerance[type].element * max, tol_norm = tolerance[type].norm;
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tol) && !(isnan(want[i]) && isnan(got[i])))
            fail_msg("%s[%d,%d] = %.9g, want %.9g within %.2g", what, i / cols, i % cols, got[i],
                     want[i], tol);
    norm = fmax(norm, n * SMALL * SMALL);
    if (!(sqrt(off) <= tol_norm * sqrt(norm)))
        fail_msg("%s: off by %.2g of its norm, at most %.2g wanted", what, sqrt(off / norm),
                 tol_norm);
}

static double *tensor_values(const struct tensor *t, const unsigned char *image) {
    double *x = xmalloc((size_t)t->m.rows * (size_t)t->m.cols * sizeof *x);
    for (int i = 0; i < t->m.rows; i++)
        for (int j = 0; j < t->m.cols; j++)
            x[(size_t)i * t->m.cols + j] = tensor_get(t, image, i, j);
    return x;
}

static void check_near(const struct op_test *test, const struct tensor *t, const unsigned char *got,
                       const unsigned char *want, const char *what) {
    char text[200];
    double *g = tensor_values(t, got), *w = tensor_values(t, want);
    snprintf(text, sizeof text, "%s '%s' %s, %s, %s", test->c->op, test->c->name,
             dtype_name(test->type), what, t->name);
    ops_check_near(test->type, g, w, t->m.rows, t->m.cols, text);
    /* A GPU keeps bf16 logits in bf16, where more of them are equal. */
    double slack = backend_device_memory(test->be) && test->type == DTYPE_BF16
                       ? 1 + 0.01 * test->q_start[test->n_seq]
                       : 0;
    int last = t->m.cols - 1; /* xent's hits, guide's supervised rows */
    if (strcmp(t->name, "totals") == 0 && !(fabs(g[last] - w[last]) <= slack))
        fail_msg("%s: count %g, want %g", text, g[last], w[last]);
    xfree(g);
    xfree(w);
}

void op_check_near(const struct op_test *test, const struct op_image *got,
                   const struct op_image *want, const char *what) {
    for (int i = 0; i < test->n; i++) {
        check_padding(test, &test->t[i], got->t[i], what);
        check_near(test, &test->t[i], got->t[i], want->t[i], what);
    }
}

void op_check_same(const struct op_test *test, const struct op_image *got,
                   const struct op_image *want, const char *what) {
    for (int n = 0; n < test->n; n++) {
        const struct tensor *t = &test->t[n];
        if (memcmp(got->t[n], want->t[n], t->size) == 0) continue;
        for (int i = 0; i < t->m.rows; i++)
            for (int j = 0; j < t->m.cols; j++) {
                double g = tensor_get(t, got->t[n], i, j), w = tensor_get(t, want->t[n], i, j);
                if (memcmp(&g, &w, sizeof g) != 0)
                    FAIL_CASE(test, t, what, "[%d,%d] = %.9g, want exactly %.9g", i, j, g, w);
            }
        FAIL_CASE(test, t, what, "%s", "padding differs");
    }
}

void op_check_sync(struct backend *be, const char *what) {
    struct err err = {0};
    if (backend_sync(be, &err)) fail_msg("%s: %s", what, err.msg);
}

/* ---- backends -------------------------------------------------------------------------------- */

struct backend *ops_ref_open(void) {
    struct backend *be;
    struct err err = {0};
    ASSERT_OK(backend_open(&be, &(struct backend_options){.device = "ref"}, &err), err);
    return be;
}

struct ops_backend *ops_cpu_open(void) {
    int n = 0, found = 0;
    while (isa_table[n]) n++;
    struct ops_backend *list = xcalloc(2 * (size_t)n + 1, sizeof *list);
    for (int i = 0; i < n; i++) {
        if (!isa_usable(isa_table[i])) continue;
        for (int thread = 1; thread <= 2; thread++) {
            struct backend_options o = {.device = "cpu", .n_thread = thread};
            struct err err = {0};
            o.isa = isa_table[i]->name;
            ASSERT_OK(backend_open(&list[found].be, &o, &err), err);
            snprintf(list[found++].text, sizeof list->text, "cpu %s, %d threads", o.isa, thread);
        }
    }
    assert_true(found >= 2); /* every machine runs the first set */
    return list;
}

struct ops_backend *ops_cuda_open(void) {
    struct backend *first = gpu_open();
    struct ops_backend *list = xcalloc(3, sizeof *list);
    list[0] = (struct ops_backend){first, "cuda"};
    list[1] = (struct ops_backend){gpu_open(), "cuda, again"};
    return list;
}

struct ops_backend *ops_open(const char *which) {
    return strcmp(which, "cuda") == 0 ? ops_cuda_open() : ops_cpu_open();
}

void ops_cpu_close(struct ops_backend *list) {
    for (int i = 0; list[i].be; i++) backend_close(list[i].be);
    xfree(list);
}

/* ---- loose ----------------------------------------------------------------------------------- */

static struct {
    struct backend *be;
    void *ptr;
} loose[4096];
static int n_loose;

static void *loose_new(struct backend *be, size_t size) {
    BUG_ON(n_loose == sizeof loose / sizeof *loose);
    void *ptr = backend_alloc(be, size, NULL);
    assert_non_null(ptr);
    loose[n_loose].be = be;
    loose[n_loose++].ptr = ptr;
    return ptr;
}

void ops_release(void) {
    while (n_loose > 0) {
        n_loose--;
        if (loose[n_loose].be)
            backend_free(loose[n_loose].be, loose[n_loose].ptr);
        else
            xfree(loose[n_loose].ptr);
    }
}

struct mat ops_mat(struct backend *be, enum dtype type, int rows, int cols, const double *values) {
    struct tensor t = {.m = {.ld = cols, .rows = rows, .cols = cols, .type = type}};
    size_t size = (size_t)rows * (size_t)cols * dtype_size(type);
    unsigned char *host = xmalloc(size);
    memset(host, POISON, size);
    for (int i = 0; i < rows && values; i++)
        for (int j = 0; j < cols; j++) tensor_put(&t, host, i, j, values[(size_t)i * cols + j]);
    t.m.data = loose_new(be, size);
    backend_upload(be, t.m.data, host, size);
    xfree(host);
    return t.m;
}

struct mat ops_random(struct backend *be, enum dtype type, int rows, int cols, uint64_t seed) {
    struct rng rng = {.key = seed};
    double *values = xmalloc((size_t)rows * (size_t)cols * sizeof *values);
    for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++) values[i] = rng_normal(&rng);
    struct mat m = ops_mat(be, type, rows, cols, values);
    xfree(values);
    return m;
}

int32_t *ops_ints(struct backend *be, const int32_t *values, int n) {
    int32_t *ptr = loose_new(be, (size_t)n * sizeof *ptr);
    backend_upload(be, ptr, values, (size_t)n * sizeof *ptr);
    return ptr;
}

double *ops_values(struct backend *be, const struct mat *m) {
    struct tensor t = {.m = *m};
    size_t size = ((size_t)(m->rows - 1) * m->ld + m->cols) * dtype_size(m->type);
    unsigned char *host = xmalloc(size);
    BUG_ON(n_loose == sizeof loose / sizeof *loose);
    backend_download(be, host, m->data, size);
    double *values = tensor_values(&t, host);
    xfree(host);
    loose[n_loose].be = NULL;
    loose[n_loose++].ptr = values;
    return values;
}

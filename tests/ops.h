/* ops.h — one op with all its tensors, described by a row of a table, on any backend and type.
 *
 * A case (op_cases[]) says op and shapes; op_open makes its tensors in a backend's memory: inputs
 * with values that depend only on case, tensor name and type, so that every backend sees the same
 * bits; outputs and all padding filled with NaN, so that what is not written, and what is written
 * beside, shows; accumulators with non-zero values, so that = and += differ. Tensors carry the
 * names of the fields of the op's argument struct. test_ops.c runs the table in three ways:
 * gradients, comparison, batching. */
#ifndef TESTS_OPS_H
#define TESTS_OPS_H

#include "backend/backend.h"
#include "backend/mat.h"
#include "backend/ops.h"
#include "test.h"

enum { OPS_MAX_SEQ = 12, OPS_MAX_TENSOR = 20 };

struct op_case {
    const char *op;        /* "linear", ... */
    const char *name;      /* what is special here */
    int len[OPS_MAX_SEQ];  /* sentence lengths, ended by 0 */
    int klen[OPS_MAX_SEQ]; /* lengths on the key side, when they differ */
    int d, d_out;          /* width; linear: in and out */
    int n_head, d_k, d_v;
    int n_vocab, n_pos;
    enum act act;
    float p, scale, smoothing;
    int causal, window;
    unsigned flags;
    int left, right; /* padding columns beside every matrix */
    int large;       /* too many elements for finite differences */
};

enum {
    BIAS = 1,     /* linear, xent: with b and db */
    NO_DX = 2,    /* linear: dx absent; xent, guide: no gradient */
    DX_ADD = 4,   /* linear: dx accumulates */
    PACKED = 8,   /* attention: q, k, v are slices of one matrix, so are dq, dk, dv; ssru: g, x */
    PROBS = 16,   /* attention: write P */
    SUM = 32,     /* add_norm: s present */
    WITH_DR = 64, /* add_norm: dr present */
    NO_DS = 128,  /* add_norm: ds absent, dx stands for both */
    R_IS_S = 256, /* add_norm aliases */
    DX_IS_DY = 512,
    DX_IS_DR = 1024,
    DS_IS_DY = 2048,
    DS_IS_DR = 4096,
    IGNORED = 8192,  /* xent: some targets < 0; embed: some ids < 0; guide: rows without links */
    ROW_NLL = 16384, /* xent: row_nll present */
    DPOS = 32768,    /* embed: dpos present */
    TIES = 65536,    /* xent: all logits of a row are equal */
    LINKS = 131072,  /* guide: several ranges a row, some of several keys; else one key a row */
    X_RELU = 262144, /* linear: x came out of a ReLU */
};

enum role { ROLE_IN, ROLE_OUT, ROLE_ACC };
enum axis { AXIS_NONE, AXIS_Q_ROWS, AXIS_K_ROWS, AXIS_Q_COLS }; /* which dimension counts tokens */

struct tensor {
    char name[12];
    enum role role;
    enum axis axis;
    struct mat m;        /* the whole of it, in backend memory */
    int left;            /* padding columns before m.data */
    size_t size;         /* bytes of the buffer, padding and guard included */
    void *buffer;        /* backend memory */
    unsigned char *init; /* [size] host: what op_reset uploads */
};

struct op_pair {
    int value, grad; /* tensors; grad < 0: the value is the loss itself (xent) */
};

struct op_test {
    const struct op_case *c;
    struct backend *be;
    enum dtype type;
    struct tensor t[OPS_MAX_TENSOR];
    int n;
    struct {
        char name[12], of[12];
        int first, cols; /* of the columns of `of`; cols == 0: all */
    } alias[8];
    int n_alias;
    struct op_pair loss[2], grad[6]; /* loss = sum value * grad; grad is d loss / d value */
    int n_loss, n_grad;
    int q_start[OPS_MAX_SEQ + 1], k_start[OPS_MAX_SEQ + 1], n_seq;
    int first_seq, end_seq; /* bound part of the batch */
    int32_t *start[2];      /* backend memory: offsets of the bound part, queries and keys */
    int32_t *index[2];      /* backend memory: ids and pos; target; or span and range */
    struct rows rq, rk;
};

/* Host copies of all tensors of a test. */
struct op_image {
    unsigned char *t[OPS_MAX_TENSOR];
};

extern const struct op_case op_cases[];
extern const int op_case_count;

struct op_test *op_open(struct backend *be, const struct op_case *c, enum dtype type);
void op_close(struct op_test *test);
void op_reset(struct op_test *test);                            /* all tensors as at first */
void op_bind(struct op_test *test, int first_seq, int end_seq); /* look at these sentences only */
void op_forward(struct op_test *test);
void op_backward(struct op_test *test);

/* Tensor `name`, or -1. */
int op_find(const struct op_test *test, const char *name);

void op_save(struct op_test *test, struct op_image *image);
void op_load(struct op_test *test, const struct op_image *image);
void op_image_free(struct op_image *image);

/* xent's and guide's grad_scale in all cases. */
#define OPS_GRAD_SCALE 0.75f

/* Element (i, j) of a tensor in its host copy. */
double tensor_get(const struct tensor *t, const unsigned char *image, int i, int j);
void tensor_put(const struct tensor *t, unsigned char *image, int i, int j, double x);

/* Fails unless the padding is as it was and got is near want, in the norm and per element. */
void op_check_near(const struct op_test *test, const struct op_image *got,
                   const struct op_image *want, const char *what);
/* Fails unless got and want are the same bits. */
void op_check_same(const struct op_test *test, const struct op_image *got,
                   const struct op_image *want, const char *what);

/* Fails with the backend's message if it has one. */
void op_check_sync(struct backend *be, const char *what);

/* A backend in one of its forms, and a text for messages. */
struct ops_backend {
    struct backend *be;
    char text[40];
};

/* The cpu backend in all its forms on this machine, ended by be == NULL. Forms come in pairs that
 * differ in the number of threads alone. */
struct ops_backend *ops_cpu_open(void);
void ops_cpu_close(struct ops_backend *list);

/* The same for a GPU: it comes twice, so that the tests that compare pairs compare two runs. See
 * gpu.h. */
struct ops_backend *ops_cuda_open(void);
struct ops_backend *ops_open(const char *which); /* "cpu" or "cuda" */
struct backend *ops_ref_open(void);

/* For tests off the table: a matrix with these values (NULL: NaN), its values, integers; all in a
 * backend's memory, given back by ops_release. ops_random is normal and depends on the seed
 * alone. */
struct mat ops_mat(struct backend *be, enum dtype type, int rows, int cols, const double *values);
struct mat ops_random(struct backend *be, enum dtype type, int rows, int cols, uint64_t seed);
int32_t *ops_ints(struct backend *be, const int32_t *values, int n);
double *ops_values(struct backend *be, const struct mat *m); /* host; row after row */
void ops_release(void);

/* Fails unless got is near want, in the norm and per element, for a result of this type. */
void ops_check_near(enum dtype type, const double *got, const double *want, int rows, int cols,
                    const char *what);

#endif

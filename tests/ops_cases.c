/* ops_cases.c — the table of op cases, and how each op's tensors and arguments are made from a
 * row. */
#include "backend/backend.h"
#include "backend/mat.h"
#include "backend/ops.h"
#include "base/mem.h"
#include "ops_build.h"

/* Shapes: one token; sentences of one token; odd sizes that fill no vector, panel or block; one
 * long sentence among short ones; more than one block of everything. */
/* clang-format off */
const struct op_case op_cases[] = {
    {"embed", "one token", {1}, .d = 1, .n_vocab = 1, .n_pos = 1},
    {"embed", "few", {3, 1, 5}, .d = 7, .n_vocab = 4, .n_pos = 6, .scale = 2.5f, .flags = DPOS},
    {"embed", "ignored ids", {4, 2}, .d = 5, .n_vocab = 3, .n_pos = 9, .flags = IGNORED | DPOS},
    {"embed", "dropout", {5, 1, 4}, .d = 19, .n_vocab = 6, .n_pos = 5, .p = 0.3f, .flags = DPOS},
    {"embed", "fixed positions, padded", {2, 3}, .d = 6, .n_vocab = 5, .n_pos = 3, .left = 1,
     .right = 2},
    {"embed", "many", {70, 1, 33, 2, 150}, .d = 67, .n_vocab = 90, .n_pos = 200, .p = 0.1f,
     .flags = DPOS | IGNORED, .large = 1},
    {"embed", "wide", {3, 17}, .d = 1037, .n_vocab = 9, .n_pos = 20, .p = 0.1f, .flags = DPOS,
     .large = 1},
    {"embed", "model width", {60, 9}, .d = 256, .n_vocab = 12, .n_pos = 64, .scale = 16,
     .p = 0.1f, .flags = DPOS | IGNORED, .large = 1},

    {"linear", "one by one", {1}, .d = 1, .d_out = 1, .flags = BIAS},
    {"linear", "plain", {3, 1, 5}, .d = 5, .d_out = 7},
    {"linear", "bias", {3, 1, 5}, .d = 5, .d_out = 7, .flags = BIAS},
    {"linear", "relu", {4, 2}, .d = 6, .d_out = 9, .act = ACT_RELU, .flags = BIAS},
    {"linear", "relu, no bias", {4, 2}, .d = 6, .d_out = 9, .act = ACT_RELU},
    {"linear", "gelu", {4, 2}, .d = 6, .d_out = 9, .act = ACT_GELU, .flags = BIAS},
    {"linear", "silu", {4, 2}, .d = 6, .d_out = 9, .act = ACT_SILU, .flags = BIAS},
    {"linear", "silu, no bias", {4, 2}, .d = 6, .d_out = 9, .act = ACT_SILU},
    {"linear", "dropout", {4, 3}, .d = 6, .d_out = 19, .p = 0.4f, .flags = BIAS},
    {"linear", "relu, dropout", {4, 3}, .d = 6, .d_out = 19, .act = ACT_RELU, .p = 0.4f,
     .flags = BIAS},
    {"linear", "gelu, dropout", {4, 3}, .d = 6, .d_out = 19, .act = ACT_GELU, .p = 0.4f,
     .flags = BIAS},
    {"linear", "silu, dropout, no bias", {4, 3}, .d = 6, .d_out = 19, .act = ACT_SILU, .p = 0.4f},
    {"linear", "dx adds", {3, 2}, .d = 5, .d_out = 4, .flags = BIAS | DX_ADD},
    {"linear", "no dx", {3, 2}, .d = 5, .d_out = 4, .flags = BIAS | NO_DX},
    {"linear", "padded", {3, 2}, .d = 5, .d_out = 4, .act = ACT_RELU, .flags = BIAS, .left = 1,
     .right = 2},
    {"linear", "padded, gelu, dx adds", {3, 2}, .d = 5, .d_out = 4, .act = ACT_GELU,
     .flags = BIAS | DX_ADD, .left = 3},
    {"linear", "through relu", {3, 2}, .d = 5, .d_out = 4, .flags = BIAS | X_RELU},
    {"linear", "through relu, dropout, padded", {3, 2}, .d = 5, .d_out = 4, .p = 0.3f,
     .flags = X_RELU, .left = 2, .right = 1},
    {"linear", "through relu, ragged", {70, 63, 1}, .d = 328, .d_out = 72, .p = 0.1f,
     .flags = BIAS | X_RELU, .large = 1},
    {"linear", "through relu, model width", {50, 9}, .d = 512, .d_out = 256,
     .flags = BIAS | X_RELU, .large = 1},
    {"linear", "few rows", {3, 1}, .d = 64, .d_out = 40, .flags = BIAS, .large = 1},
    {"linear", "few rows, relu", {17, 2}, .d = 1056, .d_out = 24, .act = ACT_RELU, .flags = BIAS,
     .large = 1},
    {"linear", "few rows, vocabulary", {5}, .d = 96, .d_out = 8200, .large = 1},
    {"linear", "deep", {9}, .d = 1100, .d_out = 33, .flags = BIAS, .large = 1},
    {"linear", "wide", {2, 11}, .d = 37, .d_out = 1030, .act = ACT_RELU, .p = 0.1f, .flags = BIAS,
     .large = 1},
    {"linear", "tall", {333, 1, 77}, .d = 65, .d_out = 130, .act = ACT_SILU, .p = 0.2f,
     .flags = BIAS | DX_ADD, .large = 1},
    {"linear", "tall, padded", {205, 1, 77}, .d = 130, .d_out = 67, .act = ACT_RELU,
     .flags = BIAS, .left = 1, .right = 4, .large = 1},
    {"linear", "model width", {60, 9}, .d = 256, .d_out = 512, .act = ACT_RELU, .p = 0.1f,
     .flags = BIAS | DX_ADD, .large = 1},
    {"linear", "model width, gelu", {40, 9}, .d = 128, .d_out = 64, .act = ACT_GELU, .p = 0.1f,
     .flags = BIAS, .large = 1},
    {"linear", "model width, plain", {60, 90}, .d = 512, .d_out = 128, .flags = BIAS, .large = 1},

    {"attention", "one token", {1}, .n_head = 1, .d_k = 1, .d_v = 1},
    {"attention", "ones", {1, 1, 1}, .n_head = 2, .d_k = 3, .d_v = 2, .causal = 1},
    {"attention", "self", {3, 1, 5}, .n_head = 2, .d_k = 3, .d_v = 3, .flags = PROBS},
    {"attention", "causal", {4, 1, 3}, .n_head = 2, .d_k = 3, .d_v = 5, .causal = 1,
     .flags = PROBS},
    {"attention", "cross", {3, 1, 4}, {2, 5, 1}, .n_head = 3, .d_k = 2, .d_v = 3, .flags = PROBS},
    {"attention", "window", {7, 1, 2}, .n_head = 1, .d_k = 3, .d_v = 2, .window = 2,
     .flags = PROBS},
    {"attention", "causal window", {6, 1}, .n_head = 2, .d_k = 2, .d_v = 3, .causal = 1,
     .window = 1},
    {"attention", "dropout", {4, 2}, .n_head = 2, .d_k = 3, .d_v = 3, .p = 0.3f, .flags = PROBS},
    {"attention", "causal dropout", {5, 1, 3}, .n_head = 2, .d_k = 3, .d_v = 4, .causal = 1,
     .p = 0.3f},
    {"attention", "cross dropout", {2, 3}, {4, 1}, .n_head = 2, .d_k = 3, .d_v = 4, .p = 0.5f},
    {"attention", "window dropout", {6, 3}, .n_head = 2, .d_k = 3, .d_v = 2, .window = 2,
     .p = 0.3f},
    {"attention", "packed", {4, 1, 3}, .n_head = 2, .d_k = 3, .d_v = 3, .causal = 1,
     .flags = PACKED},
    {"attention", "padded", {3, 2}, {1, 4}, .n_head = 2, .d_k = 3, .d_v = 5, .flags = PROBS,
     .left = 1, .right = 3},
    {"attention", "large scores", {5, 3}, .n_head = 1, .d_k = 4, .d_v = 3, .scale = 12,
     .flags = PROBS},
    {"attention", "one long, many short", {150, 1, 2, 1, 3, 1, 17, 1}, .n_head = 2, .d_k = 17,
     .d_v = 9, .causal = 1, .p = 0.1f, .flags = PACKED, .large = 1},
    {"attention", "long cross", {37, 129, 1}, {131, 1, 70}, .n_head = 3, .d_k = 8, .d_v = 32,
     .flags = PROBS, .large = 1},
    {"attention", "600", {600}, .n_head = 2, .d_k = 16, .d_v = 20, .flags = PROBS, .large = 1},
    {"attention", "600, causal", {600, 5}, .n_head = 1, .d_k = 64, .d_v = 64, .causal = 1,
     .p = 0.1f, .flags = PACKED, .large = 1},
    {"attention", "600, causal window", {600, 30}, .n_head = 1, .d_k = 8, .d_v = 8, .causal = 1,
     .window = 70, .large = 1},
    {"attention", "200, window 1", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .window = 1,
     .flags = PROBS, .large = 1},
    {"attention", "200, causal window 1", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .causal = 1,
     .window = 1, .large = 1},
    {"attention", "200, window 63", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .window = 63,
     .flags = PROBS, .large = 1},
    {"attention", "200, causal window 63", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .causal = 1,
     .window = 63, .large = 1},
    {"attention", "200, window 64", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .window = 64,
     .flags = PROBS, .large = 1},
    {"attention", "200, causal window 64", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .causal = 1,
     .window = 64, .large = 1},
    {"attention", "200, window 65", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .window = 65,
     .flags = PROBS, .large = 1},
    {"attention", "200, causal window 65", {200, 3}, .n_head = 1, .d_k = 4, .d_v = 5, .causal = 1,
     .window = 65, .large = 1},
    {"attention", "300, window", {300, 3, 90}, .n_head = 1, .d_k = 8, .d_v = 8, .window = 20,
     .p = 0.1f, .flags = PROBS, .large = 1},
    /* the widths of real heads */
    {"attention", "64 wide, short", {5, 1, 16, 9}, .n_head = 2, .d_k = 64, .d_v = 64,
     .flags = PROBS, .large = 1},
    {"attention", "32 wide, short, causal dropout", {5, 1, 16, 9}, .n_head = 2, .d_k = 32,
     .d_v = 32, .causal = 1, .p = 0.3f, .flags = PACKED, .large = 1},
    {"attention", "64 wide, 32 long", {32, 31, 17, 1, 30, 16}, .n_head = 2, .d_k = 64, .d_v = 64,
     .causal = 1, .flags = PACKED, .large = 1},
    {"attention", "64 wide, up to 64", {20, 64, 33, 3, 12, 40}, .n_head = 2, .d_k = 64, .d_v = 64,
     .causal = 1, .p = 0.1f, .large = 1},
    {"attention", "64 wide, cross", {50, 64, 33, 3}, {3, 40, 64, 17}, .n_head = 2, .d_k = 64,
     .d_v = 64, .p = 0.1f, .left = 8, .right = 16, .large = 1},
    {"attention", "128 wide", {20, 64, 33}, .n_head = 1, .d_k = 128, .d_v = 128, .causal = 1,
     .p = 0.1f, .large = 1},
    {"attention", "64 wide, up to 128", {128, 100, 65, 20}, .n_head = 1, .d_k = 64, .d_v = 64,
     .p = 0.1f, .large = 1},
    {"attention", "32 wide, window", {128, 100, 65, 20}, .n_head = 1, .d_k = 32, .d_v = 32,
     .window = 7, .p = 0.1f, .large = 1},
    {"attention", "64 wide, one long", {200, 3, 1, 5, 30, 64, 1, 9, 1, 2, 1, 1}, .n_head = 1,
     .d_k = 64, .d_v = 64, .causal = 1, .p = 0.1f, .large = 1},
    {"attention", "128 wide, causal window", {200, 30, 260}, .n_head = 1, .d_k = 128, .d_v = 128,
     .causal = 1, .window = 70, .large = 1},
    {"attention", "32 wide, long cross", {37, 129, 1, 140}, {131, 1, 70, 300}, .n_head = 2,
     .d_k = 32, .d_v = 32, .p = 0.2f, .flags = PROBS, .large = 1},
    {"attention", "16 wide", {20, 64, 33, 3}, .n_head = 4, .d_k = 16, .d_v = 16, .causal = 1,
     .p = 0.2f, .flags = PACKED, .large = 1},
    {"attention", "16 wide, long", {200, 130, 7}, .n_head = 2, .d_k = 16, .d_v = 16, .large = 1},
    {"attention", "keys of 16, values of 64", {5, 1, 16, 9, 60}, .n_head = 2, .d_k = 16, .d_v = 64,
     .causal = 1, .large = 1},
    {"attention", "keys of 16, long cross", {37, 129, 1}, {131, 40, 70}, .n_head = 2, .d_k = 16,
     .d_v = 64, .large = 1},
    {"attention", "keys of 32, values of 64", {100, 64, 12, 1}, .n_head = 2, .d_k = 32, .d_v = 64,
     .p = 0.1f, .large = 1},
    {"attention", "keys of 32, long", {150, 260}, .n_head = 1, .d_k = 32, .d_v = 64, .causal = 1,
     .large = 1},
    {"attention", "64 wide, unaligned", {40, 20}, .n_head = 2, .d_k = 64, .d_v = 64, .left = 1,
     .right = 3, .large = 1},

    {"add_norm", "one wide", {1}, .d = 2, .flags = SUM | BIAS},
    {"add_norm", "sum", {3, 1, 2}, .d = 5, .flags = SUM},
    {"add_norm", "norm only", {3, 1, 2}, .d = 5},
    {"add_norm", "norm only, dr", {3, 2}, .d = 5, .flags = WITH_DR},
    {"add_norm", "norm only, dr, dx is dr", {3, 2}, .d = 5, .flags = WITH_DR | DX_IS_DR},
    {"add_norm", "dr", {3, 2}, .d = 7, .flags = SUM | BIAS | WITH_DR},
    {"add_norm", "no ds", {3, 2}, .d = 7, .flags = SUM | BIAS | WITH_DR | NO_DS},
    {"add_norm", "dropout", {4, 3}, .d = 19, .p = 0.3f, .flags = SUM | BIAS},
    {"add_norm", "dropout, dr", {4, 3}, .d = 19, .p = 0.3f, .flags = SUM | WITH_DR},
    {"add_norm", "r is s", {4, 3}, .d = 9, .p = 0.3f, .flags = SUM | BIAS | WITH_DR | R_IS_S},
    {"add_norm", "dx is dy", {4, 3}, .d = 9, .p = 0.3f, .flags = SUM | BIAS | WITH_DR | DX_IS_DY},
    {"add_norm", "dx is dr", {4, 3}, .d = 9, .p = 0.3f, .flags = SUM | BIAS | WITH_DR | DX_IS_DR},
    {"add_norm", "ds is dy", {4, 3}, .d = 9, .p = 0.3f, .flags = SUM | BIAS | WITH_DR | DS_IS_DY},
    {"add_norm", "ds is dr", {4, 3}, .d = 9, .p = 0.3f, .flags = SUM | BIAS | WITH_DR | DS_IS_DR},
    {"add_norm", "dx is dr, ds is dy, r is s", {4, 3}, .d = 9, .p = 0.3f,
     .flags = SUM | BIAS | WITH_DR | DX_IS_DR | DS_IS_DY | R_IS_S},
    {"add_norm", "dx is dy, ds is dr", {4, 3}, .d = 9,
     .flags = SUM | BIAS | WITH_DR | DX_IS_DY | DS_IS_DR},
    {"add_norm", "padded", {4, 3}, .d = 9, .p = 0.3f, .flags = SUM | BIAS | WITH_DR, .left = 1,
     .right = 2},
    {"add_norm", "many", {150, 1, 83}, .d = 131, .p = 0.1f, .flags = SUM, .large = 1},
    {"add_norm", "many, aliases", {150, 1, 83}, .d = 1037, .p = 0.1f,
     .flags = SUM | BIAS | WITH_DR | DX_IS_DY | R_IS_S, .large = 1},
    {"add_norm", "256", {70, 1, 33}, .d = 256, .p = 0.1f,
     .flags = SUM | BIAS | WITH_DR | DX_IS_DR | R_IS_S, .large = 1},
    {"add_norm", "512", {70, 1, 33}, .d = 512, .p = 0.1f, .flags = SUM | BIAS | DX_IS_DY | R_IS_S,
     .large = 1},
    {"add_norm", "768", {9, 1}, .d = 768, .flags = WITH_DR | DX_IS_DR, .large = 1},
    {"add_norm", "1024", {70, 1}, .d = 1024, .p = 0.1f, .flags = SUM | BIAS, .large = 1},

    {"xent", "one token", {1}, .d = 1, .n_vocab = 2},
    {"xent", "plain", {3, 1}, .d = 5, .n_vocab = 7, .flags = ROW_NLL},
    {"xent", "smoothing", {3, 1}, .d = 5, .n_vocab = 7, .smoothing = 0.1f, .flags = ROW_NLL},
    {"xent", "bias", {3, 1}, .d = 5, .n_vocab = 9, .smoothing = 0.1f, .flags = BIAS},
    {"xent", "ignored", {3, 1, 5}, .d = 4, .n_vocab = 6, .smoothing = 0.1f,
     .flags = BIAS | IGNORED | ROW_NLL},
    {"xent", "ties", {9, 4}, .d = 4, .n_vocab = 3, .smoothing = 0.1f, .flags = ROW_NLL | TIES},
    {"xent", "padded", {3, 4}, .d = 4, .n_vocab = 6, .smoothing = 0.1f, .flags = BIAS | ROW_NLL,
     .left = 1, .right = 2},
    {"xent", "loss only", {3, 4}, .d = 4, .n_vocab = 6, .smoothing = 0.1f,
     .flags = BIAS | ROW_NLL | NO_DX},
    {"xent", "large logits", {3, 4}, .d = 4, .n_vocab = 6, .scale = 20, .smoothing = 0.1f,
     .flags = ROW_NLL},
    {"xent", "many", {150, 1, 83}, .d = 33, .n_vocab = 515, .smoothing = 0.1f,
     .flags = BIAS | IGNORED | ROW_NLL, .large = 1},
    {"xent", "many, loss only", {150, 1, 83}, .d = 33, .n_vocab = 515, .flags = ROW_NLL | NO_DX,
     .large = 1},
    {"xent", "several chunks", {1000, 99, 1, 970}, .d = 6, .n_vocab = 13, .smoothing = 0.1f,
     .flags = BIAS | IGNORED | ROW_NLL, .large = 1},
    {"xent", "large vocabulary", {9, 30, 2}, .d = 20, .n_vocab = 5003, .smoothing = 0.1f,
     .flags = ROW_NLL, .large = 1},
    {"xent", "model width", {60, 9, 40}, .d = 128, .n_vocab = 1024, .smoothing = 0.1f,
     .flags = BIAS | IGNORED | ROW_NLL, .large = 1},

    {"guide", "one by one", {1}, {1}, .d = 1},
    {"guide", "one key each", {3, 1, 4}, {2, 5, 1}, .d = 3},
    {"guide", "links", {3, 1, 4}, {7, 5, 9}, .d = 4, .flags = LINKS},
    {"guide", "ignored", {4, 1, 6, 2}, {7, 5, 9, 1}, .d = 5, .flags = LINKS | IGNORED},
    {"guide", "padded", {4, 3}, {2, 6}, .d = 3, .flags = LINKS | IGNORED, .left = 1, .right = 2},
    {"guide", "loss only", {4, 3}, {2, 6}, .d = 3, .flags = LINKS | IGNORED | NO_DX},
    {"guide", "large scores", {5, 3}, {4, 6}, .d = 4, .scale = 12, .flags = LINKS},
    {"guide", "one long, many short", {150, 1, 2, 1, 3, 1, 17, 1}, {140, 2, 1, 1, 5, 3, 20, 9},
     .d = 17, .flags = LINKS | IGNORED, .large = 1},
    {"guide", "long keys", {37, 129, 1}, {131, 1, 600}, .d = 32, .flags = LINKS, .large = 1},
    {"guide", "64 wide", {40, 64, 65, 3, 12, 40}, {37, 70, 64, 5, 11, 33}, .d = 64,
     .flags = LINKS | IGNORED, .left = 64, .right = 448, .large = 1},
    {"guide", "wider than a block's columns", {20, 33}, {33, 9}, .d = 300, .flags = LINKS,
     .large = 1},
    {"guide", "many, loss only", {140, 64, 65, 3}, {37, 70, 64, 5}, .d = 64,
     .flags = LINKS | IGNORED | NO_DX, .large = 1},

    {"ssru", "one by one", {1}, .d = 1},
    {"ssru", "few", {3, 1, 5}, .d = 7},
    {"ssru", "packed", {4, 1, 3}, .d = 9, .flags = PACKED},
    {"ssru", "padded", {4, 3}, .d = 5, .left = 1, .right = 2},
    {"ssru", "gates that are nearly shut", {6, 2}, .d = 5, .scale = 12},
    {"ssru", "model width", {60, 9, 1, 40}, .d = 256, .flags = PACKED, .large = 1},
    {"ssru", "one long, many short, more than a strip", {150, 1, 2, 1, 3, 1, 17, 1}, .d = 531,
     .scale = 4, .large = 1},
};
/* clang-format on */
const int op_case_count = sizeof op_cases / sizeof *op_cases;

/* ---- making ---------------------------------------------------------------------------------- */

static int total(const int *len) {
    int n = 0;
    for (int s = 0; s < OPS_MAX_SEQ && len[s]; s++) n += len[s];
    return n;
}

static const int *key_len(const struct op_case *c) { return c->klen[0] ? c->klen : c->len; }

static void in(struct op_test *t, const char *name, enum axis axis, int rows, int cols) {
    tensor_fill(t, tensor_new(t, name, ROLE_IN, axis, rows, cols), 0, 1);
}
/* Weights of a product over `depth` terms, scaled to keep the result near 1. */
static void weight(struct op_test *t, const char *name, int rows, int cols, int depth) {
    double scale = t->c->scale && strcmp(t->c->op, "xent") == 0 ? t->c->scale : 1;
    if (t->c->flags & TIES) scale = 0;
    tensor_fill(t, tensor_new(t, name, ROLE_IN, AXIS_NONE, rows, cols), 0, scale / sqrt(depth));
}
static void out(struct op_test *t, const char *name, enum axis axis, int rows, int cols) {
    tensor_fill(t, tensor_new(t, name, ROLE_OUT, axis, rows, cols), 0, 1);
}
/* Statistics, and parameter gradients, which accumulate. */
static void stat(struct op_test *t, const char *name, enum axis axis, int rows, int cols) {
    tensor_fill(t, tensor_wide(tensor_new(t, name, ROLE_OUT, axis, rows, cols)), 0, 1);
}
static void acc(struct op_test *t, const char *name, int rows, int cols) {
    tensor_fill(t, tensor_wide(tensor_new(t, name, ROLE_ACC, AXIS_NONE, rows, cols)), 0, 1);
}

static void alias(struct op_test *t, const char *name, const char *of, int first, int cols) {
    snprintf(t->alias[t->n_alias].name, sizeof t->alias->name, "%s", name);
    snprintf(t->alias[t->n_alias].of, sizeof t->alias->of, "%s", of);
    t->alias[t->n_alias].first = first;
    t->alias[t->n_alias++].cols = cols;
}

/* The tensor that holds `name`, itself or by alias. */
static int holder(const struct op_test *t, const char *name) {
    for (int i = 0; i < t->n_alias; i++)
        if (strcmp(t->alias[i].name, name) == 0) return op_find(t, t->alias[i].of);
    return op_find(t, name);
}

static void loss(struct op_test *t, const char *value, const char *grad) {
    t->loss[t->n_loss++] = (struct op_pair){holder(t, value), grad ? holder(t, grad) : -1};
}

static void grad(struct op_test *t, const char *value, const char *grad_name) {
    int v = holder(t, value), g = holder(t, grad_name);
    if (v >= 0 && g >= 0) t->grad[t->n_grad++] = (struct op_pair){v, g};
}

static void make_index(struct op_test *t, int which, int n, int bound, int ignore) {
    int32_t *host = xmalloc((size_t)n * sizeof *host);
    struct rng rng = {.key = 77 + (uint64_t)which};
    for (int i = 0; i < n; i++)
        host[i] = ignore && i % 3 == 1 ? -1 : (int32_t)rng_below(&rng, (uint32_t)bound);
    t->index[which] = backend_alloc(t->be, (size_t)n * sizeof *host, NULL);
    backend_upload(t->be, t->index[which], host, (size_t)n * sizeof *host);
    xfree(host);
}

static void make_embed(struct op_test *t, const struct op_case *c, int n) {
    in(t, "table", AXIS_NONE, c->n_vocab, c->d);
    in(t, "pos_table", AXIS_NONE, c->n_pos, c->d);
    out(t, "y", AXIS_Q_ROWS, n, c->d);
    in(t, "dy", AXIS_Q_ROWS, n, c->d);
    acc(t, "dtable", c->n_vocab, c->d);
    if (c->flags & DPOS) acc(t, "dpos", c->n_pos, c->d);
    loss(t, "y", "dy");
    grad(t, "table", "dtable");
    grad(t, "pos_table", "dpos");
    make_index(t, 0, n, c->n_vocab, c->flags & IGNORED);
    make_index(t, 1, n, c->n_pos, 0);
}

static void make_linear(struct op_test *t, const struct op_case *c, int n) {
    in(t, "x", AXIS_Q_ROWS, n, c->d);
    weight(t, "w", c->d_out, c->d, c->d);
    if (c->flags & BIAS) in(t, "b", AXIS_NONE, 1, c->d_out);
    out(t, "y", AXIS_Q_ROWS, n, c->d_out);
    if (c->act == ACT_GELU || c->act == ACT_SILU) out(t, "z", AXIS_Q_ROWS, n, c->d_out);
    in(t, "dy", AXIS_Q_ROWS, n, c->d_out);
    if (c->flags & DX_ADD)
        tensor_fill(t, tensor_new(t, "dx", ROLE_ACC, AXIS_Q_ROWS, n, c->d), 0, 1);
    else if (!(c->flags & NO_DX))
        out(t, "dx", AXIS_Q_ROWS, n, c->d);
    acc(t, "dw", c->d_out, c->d);
    if (c->flags & BIAS) acc(t, "db", 1, c->d_out);
    if ((c->flags & X_RELU) && (c->flags & BIAS)) acc(t, "dx_sum", 1, c->d);
    loss(t, "y", "dy");
    if (!(c->flags & X_RELU)) grad(t, "x", "dx"); /* else dx is not the gradient of x */
    grad(t, "w", "dw");
    grad(t, "b", "db");
}

static void make_attention(struct op_test *t, const struct op_case *c, int nq) {
    int nk = total(key_len(c)), dk = c->n_head * c->d_k, dv = c->n_head * c->d_v;
    if (c->flags & PACKED) {
        in(t, "qkv", AXIS_Q_ROWS, nq, 2 * dk + dv);
        out(t, "dqkv", AXIS_Q_ROWS, nq, 2 * dk + dv);
        alias(t, "q", "qkv", 0, dk), alias(t, "dq", "dqkv", 0, dk);
        alias(t, "k", "qkv", dk, dk), alias(t, "dk", "dqkv", dk, dk);
        alias(t, "v", "qkv", 2 * dk, dv), alias(t, "dv", "dqkv", 2 * dk, dv);
        grad(t, "qkv", "dqkv");
    } else {
        in(t, "q", AXIS_Q_ROWS, nq, dk), out(t, "dq", AXIS_Q_ROWS, nq, dk);
        in(t, "k", AXIS_K_ROWS, nk, dk), out(t, "dk", AXIS_K_ROWS, nk, dk);
        in(t, "v", AXIS_K_ROWS, nk, dv), out(t, "dv", AXIS_K_ROWS, nk, dv);
        grad(t, "q", "dq");
        grad(t, "k", "dk");
        grad(t, "v", "dv");
    }
    out(t, "o", AXIS_Q_ROWS, nq, dv);
    in(t, "dout", AXIS_Q_ROWS, nq, dv);
    stat(t, "lse", AXIS_Q_COLS, c->n_head, nq);
    int max = 0;
    for (int s = 0; s < t->n_seq; s++) max = key_len(c)[s] > max ? key_len(c)[s] : max;
    if (c->flags & PROBS) stat(t, "probs", AXIS_NONE, c->n_head * nq, max);
    loss(t, "o", "dout");
}

static void make_add_norm(struct op_test *t, const struct op_case *c, int n) {
    unsigned f = c->flags;
    in(t, "x", AXIS_Q_ROWS, n, c->d);
    if (f & SUM) in(t, "s", AXIS_Q_ROWS, n, c->d);
    if (f & R_IS_S)
        alias(t, "r", "s", 0, 0);
    else if (f & SUM)
        out(t, "r", AXIS_Q_ROWS, n, c->d);
    tensor_fill(t, tensor_new(t, "gamma", ROLE_IN, AXIS_NONE, 1, c->d), 1, 0.5);
    in(t, "beta", AXIS_NONE, 1, c->d);
    out(t, "y", AXIS_Q_ROWS, n, c->d);
    stat(t, "stats", AXIS_Q_ROWS, n, 2);
    in(t, "dy", AXIS_Q_ROWS, n, c->d);
    if (f & WITH_DR) in(t, "dr", AXIS_Q_ROWS, n, c->d);
    if (f & (DX_IS_DY | DX_IS_DR))
        alias(t, "dx", f & DX_IS_DY ? "dy" : "dr", 0, 0);
    else
        out(t, "dx", AXIS_Q_ROWS, n, c->d);
    if (f & (DS_IS_DY | DS_IS_DR))
        alias(t, "ds", f & DS_IS_DY ? "dy" : "dr", 0, 0);
    else if (f & SUM && !(f & NO_DS))
        out(t, "ds", AXIS_Q_ROWS, n, c->d);
    acc(t, "dgamma", 1, c->d);
    acc(t, "dbeta", 1, c->d);
    if (f & BIAS) acc(t, "dbias", 1, c->d);
    loss(t, "y", "dy");
    if (f & WITH_DR) loss(t, f & SUM ? "r" : "x", "dr");
    grad(t, "x", "dx");
    grad(t, "s", f & NO_DS ? "dx" : "ds");
    grad(t, "gamma", "dgamma");
    grad(t, "beta", "dbeta");
}

/* Sums of losses, begun with anything, and a count, begun with a whole number: in double it stays
 * exact in whatever order it is added up. */
static void make_totals(struct op_test *t, int n) {
    struct tensor *totals = tensor_new(t, "totals", ROLE_ACC, AXIS_NONE, 1, n);
    totals->m.type = DTYPE_F64;
    tensor_fill(t, totals, 0, 1);
    tensor_put(totals, totals->init, 0, n - 1, 3);
}

static void make_xent(struct op_test *t, const struct op_case *c, int n) {
    in(t, "x", AXIS_Q_ROWS, n, c->d);
    weight(t, "w", c->n_vocab, c->d, c->d);
    if (c->flags & BIAS) in(t, "b", AXIS_NONE, 1, c->n_vocab);
    make_totals(t, 3);
    if (c->flags & ROW_NLL) stat(t, "row_nll", AXIS_Q_COLS, 1, n);
    if (!(c->flags & NO_DX)) {
        out(t, "dx", AXIS_Q_ROWS, n, c->d);
        acc(t, "dw", c->n_vocab, c->d);
        if (c->flags & BIAS) acc(t, "db", 1, c->n_vocab);
    }
    loss(t, "totals", NULL);
    grad(t, "x", "dx");
    grad(t, "w", "dw");
    grad(t, "b", "db");
    make_index(t, 0, n, c->n_vocab, c->flags & IGNORED);
}

/* Links of every row: one key; or up to three ranges of up to three keys, with gaps between. */
static void make_links(struct op_test *t, const struct op_case *c, int nq) {
    int32_t *span = xcalloc(2 * (size_t)nq, sizeof *span), *range;
    int n = 0;
    struct rng rng = {.key = 79};
    range = xcalloc(6 * (size_t)nq, sizeof *range);
    for (int s = 0; s < t->n_seq; s++)
        for (int row = t->q_start[s]; row < t->q_start[s + 1]; row++) {
            int n_k = t->k_start[s + 1] - t->k_start[s], most = c->flags & LINKS ? 3 : 1;
            int at = (int)rng_below(&rng, (uint32_t)n_k);
            span[2 * row] = n;
            for (int r = 0; r < most && at < n_k; r++, n++) {
                int end = at + 1 + (int)rng_below(&rng, (uint32_t)most);
                range[2 * n] = at;
                range[2 * n + 1] = end < n_k ? end : n_k;
                at = end + 1;
            }
            if (c->flags & IGNORED && row % 3 == 1) n = span[2 * row];
            span[2 * row + 1] = n;
        }
    t->index[0] = backend_alloc(t->be, 2 * (size_t)nq * sizeof *span, NULL);
    t->index[1] = backend_alloc(t->be, 6 * (size_t)nq * sizeof *range, NULL);
    backend_upload(t->be, t->index[0], span, 2 * (size_t)nq * sizeof *span);
    backend_upload(t->be, t->index[1], range, 6 * (size_t)nq * sizeof *range);
    xfree(span);
    xfree(range);
}

static void make_guide(struct op_test *t, const struct op_case *c, int nq) {
    int nk = total(key_len(c));
    in(t, "q", AXIS_Q_ROWS, nq, c->d);
    in(t, "k", AXIS_K_ROWS, nk, c->d);
    make_totals(t, 2);
    if (!(c->flags & NO_DX)) {
        tensor_fill(t, tensor_new(t, "dq", ROLE_ACC, AXIS_Q_ROWS, nq, c->d), 0, 1);
        tensor_fill(t, tensor_new(t, "dk", ROLE_ACC, AXIS_K_ROWS, nk, c->d), 0, 1);
    }
    loss(t, "totals", NULL);
    grad(t, "q", "dq");
    grad(t, "k", "dk");
    make_links(t, c, nq);
}

static void make_ssru(struct op_test *t, const struct op_case *c, int n) {
    if (c->flags & PACKED) {
        in(t, "gx", AXIS_Q_ROWS, n, 2 * c->d);
        out(t, "dgx", AXIS_Q_ROWS, n, 2 * c->d);
        alias(t, "g", "gx", 0, c->d), alias(t, "dg", "dgx", 0, c->d);
        alias(t, "x", "gx", c->d, c->d), alias(t, "dx", "dgx", c->d, c->d);
        grad(t, "gx", "dgx");
    } else {
        tensor_fill(t, tensor_new(t, "g", ROLE_IN, AXIS_Q_ROWS, n, c->d), 0,
                    c->scale ? c->scale : 1);
        in(t, "x", AXIS_Q_ROWS, n, c->d);
        out(t, "dg", AXIS_Q_ROWS, n, c->d), out(t, "dx", AXIS_Q_ROWS, n, c->d);
        grad(t, "g", "dg");
        grad(t, "x", "dx");
    }
    stat(t, "c", AXIS_Q_ROWS, n, c->d);
    out(t, "o", AXIS_Q_ROWS, n, c->d);
    in(t, "dout", AXIS_Q_ROWS, n, c->d);
    loss(t, "o", "dout");
}

static void offsets(int *start, const int *len) {
    for (int s = 0; s < OPS_MAX_SEQ && len[s]; s++) start[s + 1] = start[s] + len[s];
}

struct op_test *op_open(struct backend *be, const struct op_case *c, enum dtype type) {
    struct op_test *t = xcalloc(1, sizeof *t);
    int n = total(c->len);
    t->c = c;
    t->be = be;
    t->type = type;
    while (t->n_seq < OPS_MAX_SEQ && c->len[t->n_seq]) t->n_seq++;
    offsets(t->q_start, c->len);
    offsets(t->k_start, key_len(c));
    for (int i = 0; i < 2; i++) t->start[i] = backend_alloc(be, sizeof t->q_start, NULL);
    if (strcmp(c->op, "embed") == 0) make_embed(t, c, n);
    if (strcmp(c->op, "linear") == 0) make_linear(t, c, n);
    if (strcmp(c->op, "attention") == 0) make_attention(t, c, n);
    if (strcmp(c->op, "add_norm") == 0) make_add_norm(t, c, n);
    if (strcmp(c->op, "xent") == 0) make_xent(t, c, n);
    if (strcmp(c->op, "guide") == 0) make_guide(t, c, n);
    if (strcmp(c->op, "ssru") == 0) make_ssru(t, c, n);
    BUG_ON(t->n == 0);
    op_reset(t);
    op_bind(t, 0, t->n_seq);
    return t;
}

/* ---- running --------------------------------------------------------------------------------- */

static struct rows bind_rows(struct op_test *t, int32_t *device, const int *start, int first,
                             int end) {
    struct rows r = {.start = device, .n_seq = end - first};
    int32_t host[OPS_MAX_SEQ + 1];
    for (int s = first; s <= end; s++) host[s - first] = start[s] - start[first];
    for (int s = first; s < end; s++)
        if (start[s + 1] - start[s] > r.max_len) r.max_len = start[s + 1] - start[s];
    r.n_tok = start[end] - start[first];
    backend_upload(t->be, device, host, (size_t)(r.n_seq + 1) * sizeof *host);
    return r;
}

void op_bind(struct op_test *t, int first_seq, int end_seq) {
    t->first_seq = first_seq;
    t->end_seq = end_seq;
    t->rq = bind_rows(t, t->start[0], t->q_start, first_seq, end_seq);
    t->rk = bind_rows(t, t->start[1], t->k_start, first_seq, end_seq);
}

/* The bound part of a tensor, or an absent view. */
static struct mat view(const struct op_test *t, const char *name) {
    int at = holder(t, name);
    if (at < 0) return (struct mat){0};
    const struct tensor *tensor = &t->t[at];
    struct mat m = tensor->m;
    size_t one = dtype_size(m.type);
    const int *start = tensor->axis == AXIS_K_ROWS ? t->k_start : t->q_start;
    int first = start[t->first_seq], n = start[t->end_seq] - first;
    if (tensor->axis == AXIS_Q_COLS) {
        m = mat_cols(m, first, n);
    } else if (tensor->axis != AXIS_NONE) {
        if (m.data) m.data = (char *)m.data + (size_t)first * m.ld * one;
        m.rows = n;
    }
    for (int i = 0; i < t->n_alias; i++)
        if (strcmp(t->alias[i].name, name) == 0 && t->alias[i].cols)
            m = mat_cols(m, t->alias[i].first, t->alias[i].cols);
    return m;
}
#define V(field) .field = view(t, #field)

static struct dropout drop_of(const struct op_case *c) {
    return (struct dropout){.p = c->p, .site = 5, .step = 9, .seed = 0x123456789abcdef0u};
}

static struct embed_args embed_of(const struct op_test *t) {
    int first = t->q_start[t->first_seq];
    return (struct embed_args){V(y),
                               V(table),
                               V(pos_table),
                               V(dy),
                               V(dtable),
                               V(dpos),
                               .ids = t->index[0] + first,
                               .pos = t->index[1] + first,
                               .scale = t->c->scale ? t->c->scale : 1,
                               .drop = drop_of(t->c)};
}

static struct linear_args linear_of(const struct op_test *t) {
    return (struct linear_args){V(y),
                                V(x),
                                V(w),
                                V(b),
                                V(z),
                                V(dy),
                                V(dx),
                                V(dw),
                                V(db),
                                V(dx_sum),
                                .act = t->c->act,
                                .x_act = t->c->flags & X_RELU ? ACT_RELU : ACT_NONE,
                                .drop = drop_of(t->c),
                                .x_p = t->c->flags & X_RELU ? t->c->p : 0,
                                .dx_add = !!(t->c->flags & DX_ADD)};
}

static struct attention_args attention_of(const struct op_test *t) {
    const struct op_case *c = t->c;
    struct attention_args a = {V(o),
                               V(q),
                               V(k),
                               V(v),
                               V(lse),
                               V(probs),
                               V(dout),
                               V(dq),
                               V(dk),
                               V(dv),
                               .rq = t->rq,
                               .rk = t->rk,
                               .n_head = c->n_head,
                               .causal = c->causal,
                               .window = c->window,
                               .drop = drop_of(c)};
    a.scale = (c->scale ? c->scale : 1) / sqrtf((float)c->d_k);
    if (t->rq.n_seq != t->n_seq)
        a.probs = (struct mat){0}; /* its layout depends on the whole batch */
    return a;
}

static struct add_norm_args add_norm_of(const struct op_test *t) {
    return (struct add_norm_args){
        V(y),  V(r),  V(x),  V(s),      V(gamma), V(beta),  V(stats),     V(dy),
        V(dr), V(dx), V(ds), V(dgamma), V(dbeta), V(dbias), .eps = 1e-5f, .drop = drop_of(t->c)};
}

static struct xent_args xent_of(const struct op_test *t) {
    return (struct xent_args){V(x),
                              V(w),
                              V(b),
                              V(totals),
                              V(row_nll),
                              V(dx),
                              V(dw),
                              V(db),
                              .target = t->index[0] + t->q_start[t->first_seq],
                              .smoothing = t->c->smoothing,
                              .grad_scale = OPS_GRAD_SCALE};
}

static struct guide_args guide_of(const struct op_test *t) {
    return (struct guide_args){V(q),
                               V(k),
                               V(totals),
                               V(dq),
                               V(dk),
                               .rq = t->rq,
                               .rk = t->rk,
                               .span = t->index[0] + 2 * t->q_start[t->first_seq],
                               .range = t->index[1],
                               .scale = (t->c->scale ? t->c->scale : 1) / sqrtf((float)t->c->d),
                               .grad_scale = OPS_GRAD_SCALE};
}

static struct ssru_args ssru_of(const struct op_test *t) {
    return (struct ssru_args){V(o), V(g), V(x), V(c), V(dout), V(dg), V(dx), .rows = t->rq};
}

#define RUN(noun, slot)                                                                            \
    if (strcmp(t->c->op, #noun) == 0) {                                                            \
        struct noun##_args a = noun##_of(t);                                                       \
        slot(t->be, &a);                                                                           \
    }

void op_forward(struct op_test *t) {
    RUN(embed, embed_fwd)
    RUN(linear, linear_fwd)
    RUN(attention, attention_fwd)
    RUN(add_norm, add_norm_fwd)
    RUN(xent, xent)
    RUN(guide, guide)
    RUN(ssru, ssru_fwd)
}

void op_backward(struct op_test *t) {
    RUN(embed, embed_bwd)
    RUN(linear, linear_bwd)
    RUN(attention, attention_bwd)
    RUN(add_norm, add_norm_bwd)
    RUN(ssru, ssru_bwd)
}

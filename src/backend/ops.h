/* ops.h — the seam: what a device must be able to compute so that the model is written once.
 *
 * Nineteen coarse ops, each implemented by every backend (ref, cpu, cuda). There is no graph,
 * no autograd, no per-op fallback: the model calls forward ops in the paper's order and backward
 * ops in the reverse order. Each op below states formula, shapes, aliasing, what is written (=) or
 * accumulated (+=), and what must be kept for the backward pass. The executable specification is
 * ref/; derivations are in docs/math/, one page per op, in these symbols.
 *
 * Rules that hold for every op
 * - Data are views (struct mat) into memory the caller got from the same backend. Views never own.
 * - A view with cols == 0 is absent. Optional arguments say so.
 * - "act type" is the type of activations, their gradients and the weights as the ops see them: F32
 *   or BF16 (ref also F64). Within one op all act-type arguments share one type. Statistics (lse,
 *   stats), losses and parameter gradients are F32; when the act type is F64 they are F64.
 *   Accumulation inside an op is never narrower than F32.
 * - Activation gradients are written (=) unless a flag says add; parameter gradients accumulate
 *   (+=).
 * - Ragged only: a batch is the concatenation of its sentences. There is no padding and no mask
 *   tensor. Only attention and ssru look at sentence boundaries; all other ops see [n_tok, d].
 * - Outputs do not overlap inputs unless the op says they may.
 * - Ops return void and may be asynchronous. A failure is sticky: later ops do nothing, and it
 *   surfaces at backend_sync. Shapes are checked once, in ops.c, before a backend sees them.
 * - Deterministic: the same arguments give the same bits. On the cpu backend the bits depend
 *   neither on the number of threads nor, for row-wise results, on the other rows of the batch.
 * - Nothing is allocated inside an op once backend_commit has been called (backend.h). */
#ifndef BACKEND_OPS_H
#define BACKEND_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "backend/beam.h"
#include "backend/mat.h"

/* How sentences lie in a packed batch: sentence s is rows start[s] .. start[s+1]-1. `start` is in
 * the backend's memory; the counts are known to the host. Sentences have at least one row. */
struct rows {
    const int32_t *start; /* [n_seq + 1] */
    int n_seq, n_tok, max_len;
};

/* Inverted dropout as a pure function of position. Element (row, col) is kept iff
 *     half(philox4x32(seed; col / 8, row, site, step), col % 8) >= threshold(p)
 * with half(x, i) the low (i even) or high (i odd) 16 bits of word i / 2, threshold(p) =
 * round(65536 p); kept values are scaled by 65536 / (65536 - threshold). p == 0 disables. `site`
 * names the place in the model, so that no two dropouts of a step share a mask; attention uses site
 * + (head << 16). p must be in [0, 1) with threshold(p) < 65536. */
struct dropout {
    float p;
    uint32_t site, step;
    uint64_t seed;
};

static inline uint32_t dropout_threshold(float p) { return (uint32_t)(p * 65536.0f + 0.5f); }
static inline float dropout_scale(float p) {
    return 65536.0f / (65536.0f - (float)dropout_threshold(p));
}

enum act { ACT_NONE, ACT_RELU, ACT_GELU, ACT_SILU }; /* GELU is the exact one, x Phi(x) */
static inline int act_keeps_z(enum act act) { return act == ACT_GELU || act == ACT_SILU; }

/* embed: token embedding plus position.
 *     y[i,:] = drop(scale * table[ids[i],:] + pos_table[pos[i],:])
 * y [N,d], table [V,d], pos_table [P,d], ids and pos: N int32 in backend memory. ids[i] < 0 stands
 * for the zero vector. ids[i] < V and 0 <= pos[i] < P is the caller's promise. table may be tiled.
 * bwd: dtable[ids[i],:] += scale * drop'(dy[i,:]);  dpos[pos[i],:] += drop'(dy[i,:]) where dpos is
 * present (learned positions), rows with equal index summed in ascending i. Keeps nothing. */
struct embed_args {
    struct mat y, table, pos_table;
    const int32_t *ids, *pos; /* [N] */
    float scale;
    struct dropout drop;
    struct mat dy, dtable, dpos;
};

/* linear: y = drop(act(z)), z = x w^T + b.
 * y, z [N,out], x [N,in], w [out,in], b [1,out] or absent. z is written and kept only for GELU and
 * SiLU; for none and ReLU it is absent. bwd needs x, w, y (ReLU), z (GELU, SiLU).
 * In fwd w may be tiled. A tiled I8 w multiplies x rounded row by row: with a_i = max_j |x_ij|,
 * u_ij = rint(x_ij * (127 / a_i)) (0 where a_i is 0 or 127 / a_i overflows), z_ij =
 * fma((float)(sum_k u_ik q_jk), (a_i / 127) * scale[j], b_j), in f32; the integer sum is exact, so
 * that z has the same bits on every instruction set. Where a row of x is not all finite, its row of
 * z is all NaN. A w with an x_scale is one of Marian's and
 * multiplies as there, in the same bits: u_ij = rint(x_ij * x_scale), at most 127 in size, and z_ij
 * = (float)(sum_k (u_ik + 127) q_jk) * unit[j] + (zero[j] + b_j), each operation rounded.
 * bwd: dz = act'(z) * drop'(dy);  dx (=, or += if dx_add) dz w;  dw += dz^T x;  db += column sums
 * of dz. dy is scratch: it holds dz afterwards. dx may be absent. dx must not overlap dy.
 * Where x is itself drop(relu(.)) of the layer below, x_act == ACT_RELU says so, and x_p is the p
 * of its dropout: dx then holds what has passed through both, dropout_scale(x_p) dz w where x > 0
 * and 0 elsewhere, and dx_sum [1,in] or absent += its column sums as stored, the gradient of the
 * bias below. This needs dx, and no dx_add. */
struct linear_args {
    struct mat y, x, w, b, z;
    enum act act, x_act; /* x_act: ACT_NONE or ACT_RELU; backward only */
    struct dropout drop;
    float x_p;
    struct mat dy, dx, dw, db, dx_sum;
    int dx_add;
};

/* attention: ragged scaled dot-product attention, all heads. For head h and query row i of a
 * sentence
 *     s_ij = scale * q_i . k_j,  P_i = softmax_j(s_ij),  o_i = sum_j drop(P)_ij v_j
 * over the key rows j of the same sentence that i may see: all of them; with `causal` only j <= i;
 * with `window` r > 0 only |i - j| <= r (i, j are positions in the sentence). q [Nq, n_head*d_k], k
 * [Nk, n_head*d_k], v [Nk, n_head*d_v], o [Nq, n_head*d_v]; any of them may be column slices of one
 * matrix. rq and rk have the same n_seq; causal or windowed attention needs rq == rk in lengths.
 * Dropout of P_ij draws at (row = row of i in the batch, col = j - first row of the sentence).
 * Kept for bwd: q, k, v, o and lse [n_head, Nq], lse_i = log sum_j exp(s_ij).
 * probs (viewing only, else absent) [n_head * Nq, rk.max_len]: P before dropout, zero where i does
 * not see j. No n x n matrix is stored otherwise.
 * bwd, with D_i = dout_i . o_i:  dP_ij = drop'(dout_i . v_j);  ds_ij = P_ij (dP_ij - D_i);
 *     dq_i = scale sum_j ds_ij k_j;  dk_j = scale sum_i ds_ij q_i;  dv_j = sum_i drop(P)_ij dout_i.
 *     All =.
 * dq, dk, dv may be column slices of one matrix; none may overlap dout. */
struct attention_args {
    struct mat o, q, k, v, lse, probs;
    struct rows rq, rk;
    int n_head, causal, window;
    float scale;
    struct dropout drop;
    struct mat dout, dq, dk, dv;
};

/* add_norm: residual connection and layer normalisation; both the paper's post-norm and pre-norm
 * are chains of it.
 *     r = x + drop(s);   y = gamma * (r - mean(r)) / sqrt(var(r) + eps) + beta
 * y, r, x, s [N,d]; gamma, beta [1,d]; var is the biased one. s may be absent: then r = x and `r`
 * must be absent too (the kept input is x). r may be s itself. Kept for bwd: r (or x when s is
 * absent) and stats [N,2] = (mean, 1/sqrt(var+eps)) per row.
 * bwd: g = LayerNorm'(dy) + dr, where dr (the gradient reaching r by other ways) may be absent;
 *     dx = g;  ds = drop'(g);  dgamma += sum dy * rhat;  dbeta += sum dy;  dbias += sum ds as
 *              stored.
 * dbias (the gradient of the bias that the layer which made s added) may be absent, and is when s
 * is. dx may be dy or dr itself. ds may be dy or dr itself, unless dx is the same one. ds is absent
 * when s is; when drop.p == 0 it may be absent too, dx then stands for both. */
struct add_norm_args {
    struct mat y, r, x, s, gamma, beta, stats;
    float eps;
    struct dropout drop;
    struct mat dy, dr, dx, ds, dgamma, dbeta, dbias;
};

/* xent: output projection, softmax and label-smoothed cross-entropy in one op, in chunks of rows,
 * so that the full [N,V] logits never exist. With z = x w^T + b and p = softmax(z)
 *     loss_i = lse_i - (1 - eps) z_i,t - (eps / V) sum_v z_iv,  nll_i = lse_i - z_i,t,  t =
 *     target[i]
 * x [N,d], w [V,d], b [1,V] or absent, target: N int32 in [0, V). Targets < 0 are ignored (loss and
 * gradient 0).
 * totals [1,3] += (sum loss, sum nll, number of i with argmax_v z_iv == t, ties to the lower v);
 * F64 always. row_nll [1,N] F32 (=) may be absent.
 * When dx is present also the gradient of grad_scale * sum loss:
 *     dz = grad_scale * (p - (1 - eps) onehot(t) - eps / V);  dx = dz w;  dw += dz^T x;  db +=
 *     column sums.
 * Keeps nothing. */
struct xent_args {
    struct mat x, w, b;
    const int32_t *target; /* [N] */
    float smoothing, grad_scale;
    struct mat totals, row_nll;
    struct mat dx, dw, db;
};

/* guide: teaches one head of an attention where to look: the cross-entropy of its probabilities
 * against known links, loss and gradient in one op. q [Nq,d_k] and k [Nk,d_k] are the columns of
 * that head; s and P are attention's, without dropout, every key being visible. Row i is linked to
 * the positions range[2r] .. range[2r+1]-1 of its sentence's keys, for the ranges r in span[2i] ..
 * span[2i+1]-1: m_i positions in all, A_ij = 1 / m_i for each of them and 0 elsewhere;
 *     loss_i = -sum_j A_ij log P_ij = lse_i - sum_j A_ij s_ij
 * Ranges are not empty, lie within the sentence and, those of one row, apart from each other (the
 * caller's promise). A row without ranges is not supervised. totals [1,2] F64 += (sum loss, number
 * of supervised rows).
 * When dq is present also the gradient of grad_scale * sum loss, added to what attention_bwd left:
 *     ds_ij = grad_scale (P_ij - A_ij);  dq_i += scale sum_j ds_ij k_j;  dk_j += scale sum_i ds_ij
 *     q_i
 * over the supervised i. All four may be column slices. Keeps nothing. */
struct guide_args {
    struct mat q, k;
    struct rows rq, rk;
    const int32_t *span, *range; /* [Nq,2]; [.,2] */
    float scale, grad_scale;
    struct mat totals;
    struct mat dq, dk;
};

/* attention_step: one query row per hypothesis over a cache, for decoding.
 *     o_b = sum_t softmax_t(scale * q_b . k[row(b,t)]) v[row(b,t)],  0 <= t < len[b],  len[b] >= 1
 * q [B, n_head*d_k], o [B, n_head*d_v]; k [C, n_head*d_k] and v [C, n_head*d_v] are the cache.
 * row(b,t) = index[b * index_ld + t] if index is present (self-attention over reordered beams),
 * else start[b] + t (cross-attention over a sentence's rows). max_len >= every len[b]. With window
 * r > 0 only t >= len[b] - 1 - r. k_new [B, n_head*d_k] and v_new [B, n_head*d_v], present together
 * or absent, are first written into the cache at row(b, len[b] - 1), which no other hypothesis of
 * this call reads or writes. q, k_new and v_new may be column slices of one matrix. Beside F32 the
 * cache may be F16, in host memory: new rows are rounded to it, what is larger than 65504 to that.
 * No backward. */
struct attention_step_args {
    struct mat o, q, k, v, k_new, v_new;
    const int32_t *index, *start, *len;
    int64_t index_ld;
    int n_head, max_len, window;
    float scale;
};

/* row(b, t), where index, start and len are in the memory of the host. */
static inline int64_t attention_step_row(const struct attention_step_args *a, int b, int t) {
    return a->index ? a->index[b * a->index_ld + t] : a->start[b] + t;
}

/* ssru: the recurrence that stands in a decoder's self-attention's place (Kim et al. 2019, the
 * simpler simple recurrent unit). For the rows i of a sentence in order, with c = 0 before the
 * first,
 *     f_i = 1 / (1 + exp(-g_i));  c_i = f_i c_{i-1} + (1 - f_i) x_i;  o_i = max(0, c_i)
 * element by element. o, g, x [N,d]; g and x may be column slices of one matrix. c [N,d] has the
 * type of statistics: a state lives through many steps. f and 1 - f are both accurate, however
 * large |g| is. Kept for bwd: g, x, c.
 * bwd, from the last row of a sentence to the first:
 *     dc_i = [c_i > 0] dout_i + f_{i+1} dc_{i+1}   (the second term: not in the last row)
 *     dx_i = (1 - f_i) dc_i;  dg_i = f_i (1 - f_i) (c_{i-1} - x_i) dc_i.  All =.
 * dg and dx may be column slices of one matrix; neither may overlap dout. */
struct ssru_args {
    struct mat o, g, x, c;
    struct rows rows;
    struct mat dout, dg, dx;
};

/* ssru_step: one row per hypothesis of ssru over a cache of states, for decoding. With row(b,t) =
 * index[b * index_ld + t] and n = len[b] >= 1 the tokens of hypothesis b, the new one included,
 *     c[row(b,n-1)] = f_b c[row(b,n-2)] + (1 - f_b) x_b;  o_b = max(0, c[row(b,n-1)])
 * where n == 1 has 0 for the state before. o, g, x [B,d]; c [C,d], in the type of statistics, is
 * the cache. No other hypothesis of this call reads or writes row(b,n-1). The bits are those of
 * ssru_fwd. No backward. */
struct ssru_step_args {
    struct mat o, g, x, c;
    const int32_t *index, *len;
    int64_t index_ld;
};

/* topk: the k best tokens of each row by log-probability.
 *     value[b,i], id[b,i] = i-th largest of log_softmax(z_b), ties to the lower id
 * logits [B,V] act type, value [B,k] F32 (as statistics are), id [B*k] int32. 1 <= k <= min(V,
 * TOPK_MAX). z is logits; or, where w is present, x w^T + b with the bits that linear_fwd would
 * give it, x [B,d], w [V,d], which may be tiled, b [1,V] or absent. Then logits is room that the
 * backend may use or leave alone, and holds nothing in particular afterwards. The results have the
 * same bits either way. No backward. */
enum { TOPK_MAX = 256 };
struct topk_args {
    struct mat value, logits, x, w, b;
    int32_t *id; /* [B,k] */
};

/* blend: what an ensemble makes of the next token, the weighted mean of its models' probabilities.
 *     out[b,v] = log sum_m weight[m] softmax(z_m[b])_v
 * z: n matrices [B,V], 1 <= n <= BLEND_MOST, each of an act type; out [B,V] F32 (F64 where z are),
 * which overlaps none of them. The weights are positive and sum to 1. A row in which some model has
 * a NaN, or nothing above -inf, is NaN. A row's bits depend on that row alone. No backward. */
enum { BLEND_MOST = 16 };
struct blend_args {
    struct mat out, z[BLEND_MOST];
    float weight[BLEND_MOST];
    int n;
};

/* beam_step: the bookkeeping of a beam search, one token of all sentences, without the host
 * (beam.h).
 *     for every sentence s that is not done: strike forbidden tokens out of its rows of candidates;
 *     beam_advance for every sentence still not done, in order: its live hypotheses are the next
 *     rows of the next step
 * n_seq sentences have room; their state is `table`. value [B,k] F32 without gaps and id [B*k] are
 * what topk gave for the rows of this step, and scratch afterwards. Banned tokens are struck out,
 * and so is the end mark below min_len tokens. lead[s], unless -1, is the first token of sentence
 * s, whatever the candidates are; it is not counted in min_len. A row with a NaN makes its
 * sentence done and broken. With `begin` there are no candidates yet: every sentence gets one live
 * hypothesis without tokens, whose token in the first step is bos; one whose max_len[s] is 0 is
 * absent, which is to say done. Rows of the next step, n_row of them: ids (tokens), pos, len (=
 * pos + 1), src_start and src_len (those of the sentence, from src[s] and src[s+1]), and index:
 * the line of the parent in old_index, then pos * n_row + row. Unused rows are made harmless:
 * token -1, pos 0, len 1, index step * n_row + row, source row 0. So any number of rows that is
 * not below count->n_row may be computed next. index and old_index do not overlap; both have lines
 * of `longest`. All pointers are in backend memory, rules.penalty too. No backward. */
struct beam_step_args {
    struct mat value;
    int32_t *id;
    struct beam_rules rules;
    int32_t bos;
    int min_len, begin, n_seq, n_row, longest;
    const int32_t *src, *max_len, *lead; /* [n_seq + 1], [n_seq], [n_seq] */
    struct beam_table table;
    int32_t *ids, *pos, *len, *src_start, *src_len; /* [n_row] */
    int32_t *index;                                 /* [n_row, longest] */
    const int32_t *old_index;
};

/* sumsq: sums of squares over ranges of SUMSQ_RANGE elements of a row, the last one shorter,
 *     out[i,j] += sum of x[i,c]^2 over j SUMSQ_RANGE <= c < (j + 1) SUMSQ_RANGE
 * out [rows, ceil(cols / SUMSQ_RANGE)] F64, x [rows,cols] of any float type. Fixed order, which
 * depends on the range alone: whoever has only some of the ranges gets the same bits for them. */
enum { SUMSQ_RANGE = 4096 };
struct sumsq_args {
    struct mat out, x;
};

/* sum: out[0,:] = tree of the rows of x, where the tree of one row is that row, and
 *     tree(r_0 .. r_(k-1)) = tree(r_0 .. r_(p-1)) + tree(r_p .. r_(k-1)),
 * p the largest power of two below k. Every addition rounds to the type of x. So the trees of equal
 * parts, if each has a power of two of rows, are the rows of a tree with the same bits: k gradients
 * may be added in one place or in several.
 * x [k,n], 1 <= k <= SUM_MOST, out [1,n], F32 (F64 on ref); out may be a row of x. */
enum { SUM_MOST = 4096, SUM_DEPTH = 13 }; /* depth: partial sums of such a tree at a time */
struct sum_args {
    struct mat out, x;
};

/* adam: one pass over flat buffers (Kingma & Ba; PAPER: 5.3). With g' = c * g,
 *     m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
 *     p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 * c = min(1, clip / sqrt(sumsq[0])) when clip > 0, else 1; sumsq [1,1] F64 is read on the device.
 * p, g, m, v are [1,n] F32 (F64 on ref); copy [1,n] BF16, or absent, receives p rounded. g is
 * zeroed when clear is set: the next step accumulates into it. avg, of p's shape and type, or
 * absent, follows the new p:
 *     avg += avg_weight (p - avg),  0 <= avg_weight <= 1 */
struct adam_args {
    struct mat p, g, m, v, copy, avg, sumsq;
    float lr, beta1, beta2, eps, clip, avg_weight;
    int64_t t; /* 1 for the first update */
    int clear;
};

/* round_rows: what int8 keeps of a matrix (tile.h), in place. Training computes with such weights
 * where they are to be rounded later.
 *     a_i = max_j |w_ij|,  w_ij = rint(w_ij * (127 / a_i)) * (a_i / 127)
 * w [rows, cols] F32 or BF16; every operation is rounded to f32, and the result to w's type. A row
 * in which 127 / a_i is not finite becomes zeros; one that has infinity or NaN stays as it is, for
 * somebody else to notice. A row's bits depend on that row alone. No backward: the gradient of
 * the result is taken for that of w. */
struct round_rows_args {
    struct mat w;
};

/* Every op with a slot: X(slot, argument struct). The order is that of reports. */
#define BACKEND_OPS(X)                                                                             \
    X(embed_fwd, embed_args)                                                                       \
    X(embed_bwd, embed_args)                                                                       \
    X(linear_fwd, linear_args)                                                                     \
    X(linear_bwd, linear_args)                                                                     \
    X(attention_fwd, attention_args)                                                               \
    X(attention_bwd, attention_args)                                                               \
    X(add_norm_fwd, add_norm_args)                                                                 \
    X(add_norm_bwd, add_norm_args)                                                                 \
    X(xent, xent_args)                                                                             \
    X(guide, guide_args)                                                                           \
    X(attention_step, attention_step_args)                                                         \
    X(ssru_fwd, ssru_args)                                                                         \
    X(ssru_bwd, ssru_args)                                                                         \
    X(ssru_step, ssru_step_args)                                                                   \
    X(topk, topk_args)                                                                             \
    X(blend, blend_args)                                                                           \
    X(beam_step, beam_step_args)                                                                   \
    X(sum, sum_args)                                                                               \
    X(sumsq, sumsq_args)                                                                           \
    X(adam, adam_args)                                                                             \
    X(round_rows, round_rows_args)

enum op {
#define OP_ENUM(slot, args) OP_##slot,
    BACKEND_OPS(OP_ENUM)
#undef OP_ENUM
        OP_COUNT
};

const char *op_name(enum op op); /* "embed_fwd" */

/* The ops, checked. */
struct backend;
#define OP_DECLARE(slot, args) void slot(struct backend *be, const struct args *a);
BACKEND_OPS(OP_DECLARE)
#undef OP_DECLARE

#endif

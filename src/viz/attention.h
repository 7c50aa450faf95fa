/* attention.h — attention as a picture: who looks at whom, how much, in which layer and head.
 *
 * As in the paper's figures 3 to 5: tokens in two columns, a line from each query to each key it
 * looks at, as strong as the probability, one colour per head. Or as heat maps, all layers and
 * heads side by side. The SVG is one such picture; the HTML page holds all of them to choose from,
 * works without a network, and needs a browser of 2023 or later (it inflates its data with
 * DecompressionStream).
 *
 * Everything is borrowed; errors stick to the writer. Tokens are hostile text: see label.h. */
#ifndef VIZ_ATTENTION_H
#define VIZ_ATTENTION_H

#include "base/file.h"

enum attention_kind { ATTENTION_ENC, ATTENTION_DEC, ATTENTION_CROSS, ATTENTION_KINDS };

/* One kind of attention: the layers [first_layer, first_layer + n_layer), counted from 1. */
struct attention_set {
    const char *const *query, *const *key; /* tokens */
    int n_query, n_key;
    int n_layer, first_layer;  /* n_layer 0: this kind is not shown */
    const float *const *probs; /* [n_layer] of [n_head, n_query, n_key] */
};

struct attention {
    const char *source, *target; /* the sentences */
    int n_head, first_head;      /* the heads there are, counted from 1 */
    const char *shown;           /* [n_head] which of them lines are drawn of; NULL: all */
    int only;                    /* lines of this query alone, counted from 1; 0: of all */
    struct attention_set set[ATTENTION_KINDS];
};

const char *attention_kind_name(enum attention_kind kind); /* "encoder self-attention" */
extern const char *const attention_kinds[];                /* "enc", "dec", "cross" */

/* One layer: tokens and lines, all heads in one picture. Several layers: a heat map for every layer
 * and head. */
void attention_svg(struct file_writer *w, const struct attention *a, enum attention_kind kind);

void attention_html(struct file_writer *w, const struct attention *a);

/* All numbers as they are: {"source", "target", "first_head", "kinds": [{"kind": "enc",
 * "first_layer", "query": [tokens], "key": [tokens], "probs": [layer][head][query][key]}]}. */
void attention_json(struct file_writer *w, const struct attention *a);

#endif

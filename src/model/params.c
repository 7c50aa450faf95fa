/* params.c — walks the X-macros of params.h, once to list the parameters and once to point at
 * them. */
#include "model/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* One walk over all parameters in the order of the flat buffer. `table` (may be NULL) collects
 * descriptions; the parts receive views into `base`, or those of `from` in turn. */
struct walk {
    const struct config *config;
    struct param_table *table;
    char *base;
    const struct mat *from;
    enum dtype type;
    size_t offset; /* elements so far */
    int d_ff;      /* of the stack it is in */
};

static void visit(struct walk *w, struct mat *view, const char *prefix, const struct param *p) {
    *view = (struct mat){.type = w->type};
    if (p->rows == 0) return;
    size_t n = (size_t)p->rows * (size_t)p->cols;
    if (w->table) {
        struct param *row = &w->table->param[w->table->n_param++];
        *row = *p;
        row->offset = w->offset;
        snprintf(row->name, sizeof row->name, "%s%s", prefix, p->name);
        w->table->n_value += n;
    }
    if (w->from) {
        *view = *w->from++;
        return;
    }
    view->rows = p->rows;
    view->cols = view->ld = p->cols;
    if (w->base) view->data = w->base + w->offset * dtype_size(w->type);
    w->offset += (n + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
}

#define VISIT(field, n_row, n_col, how, fan)                                                       \
    visit(w, &part->field, prefix,                                                                 \
          &(struct param){                                                                         \
              .name = #field, .rows = (n_row), .cols = (n_col), .fan_out = (fan), .init = (how)});

#define WALK_PART(function, type, LIST)                                                            \
    static void function(struct walk *w, struct type *part, const char *prefix) {                  \
        const struct config *c = w->config;                                                        \
        const int D = c->d_model, F = w->d_ff, QK = c->n_head * c->d_k, VV = c->n_head * c->d_v;   \
        (void)D, (void)F, (void)QK, (void)VV;                                                      \
        LIST(VISIT)                                                                                \
    }

WALK_PART(walk_self, self_params, SELF_PARAMS)
WALK_PART(walk_ssru, ssru_params, SSRU_PARAMS)
WALK_PART(walk_cross, cross_params, CROSS_PARAMS)
WALK_PART(walk_ff, ff_params, FF_PARAMS)
WALK_PART(walk_root, params, ROOT_PARAMS)

#define COUNT(field, rows, cols, init, fan_out) +1
enum {
    N_ROOT = 0 ROOT_PARAMS(COUNT),
    N_SELF = 0 SELF_PARAMS(COUNT),
    N_SSRU = 0 SSRU_PARAMS(COUNT),
    N_CROSS = 0 CROSS_PARAMS(COUNT),
    N_FF = 0 FF_PARAMS(COUNT)
};

static void walk_all(struct walk *w, struct params *p) {
    char prefix[32];
    walk_root(w, p, "");
    w->d_ff = config_d_ff(w->config, 0);
    for (int l = 0; l < w->config->n_layer_enc; l++) {
        snprintf(prefix, sizeof prefix, "enc.%d.self.", l);
        walk_self(w, &p->enc[l].self, prefix);
        snprintf(prefix, sizeof prefix, "enc.%d.ff.", l);
        walk_ff(w, &p->enc[l].ff, prefix);
    }
    w->d_ff = config_d_ff(w->config, 1);
    for (int l = 0; l < w->config->n_layer_dec; l++) {
        int ssru = w->config->decoder == DECODER_SSRU;
        snprintf(prefix, sizeof prefix, "dec.%d.%s.", l, ssru ? "ssru" : "self");
        if (ssru)
            walk_ssru(w, &p->dec[l].ssru, prefix);
        else
            walk_self(w, &p->dec[l].self, prefix);
        snprintf(prefix, sizeof prefix, "dec.%d.cross.", l);
        walk_cross(w, &p->dec[l].cross, prefix);
        snprintf(prefix, sizeof prefix, "dec.%d.ff.", l);
        walk_ff(w, &p->dec[l].ff, prefix);
    }
}

static void alloc_layers(struct params *p, const struct config *config) {
    *p = (struct params){0};
    p->enc = xcalloc((size_t)config->n_layer_enc, sizeof *p->enc);
    p->dec = xcalloc((size_t)config->n_layer_dec, sizeof *p->dec);
}

static void point(struct params *p, struct walk w) {
    alloc_layers(p, w.config);
    walk_all(&w, p);
    if (w.config->tie == TIE_ALL) p->src_embed = p->tgt_embed;
    if (w.config->tie != TIE_NONE) p->out = p->tgt_embed;
}

void params_init(struct params *p, const struct config *config, void *base, enum dtype type) {
    point(p, (struct walk){.config = config, .base = base, .type = type});
}

void params_view(struct params *p, const struct config *config, const struct mat *view) {
    point(p, (struct walk){.config = config, .from = view});
}

void params_release(struct params *p) {
    xfree(p->enc);
    xfree(p->dec);
    *p = (struct params){0};
}

void param_table_init(struct param_table *table, const struct config *config) {
    struct params scratch;
    alloc_layers(&scratch, config);
    size_t n = N_ROOT + (size_t)config->n_layer_enc * (N_SELF + N_FF) +
               (size_t)config->n_layer_dec * (N_SELF + N_SSRU + N_CROSS + N_FF);
    *table = (struct param_table){.param = xcalloc(n, sizeof *table->param)};
    struct walk w = {.config = config, .table = table};
    walk_all(&w, &scratch);
    table->n_elem = w.offset;
    params_release(&scratch);
}

void param_table_release(struct param_table *table) {
    xfree(table->param);
    *table = (struct param_table){0};
}

const struct param *param_table_find(const struct param_table *table, const char *name) {
    for (int i = 0; i < table->n_param; i++)
        if (strcmp(table->param[i].name, name) == 0) return &table->param[i];
    return NULL;
}

int param_is_matrix(const struct param *p) {
    return p->init == INIT_XAVIER || p->init == INIT_EMBED;
}

static void draw(float *x, const struct param *p, uint64_t seed, uint32_t index) {
    struct philox k = philox4x32(seed, index, 0, 0, 0x696e6974 /* "init" */);
    struct rng rng = {.key = (uint64_t)k.x[1] << 32 | k.x[0]};
    size_t n = (size_t)p->rows * (size_t)p->cols;
    double bound = sqrt(6.0 / ((double)p->cols + p->fan_out)), sigma = 1.0 / sqrt((double)p->cols);
    for (size_t i = 0; i < n; i++) switch (p->init) {
        case INIT_ZERO:
            x[i] = 0;
            break;
        case INIT_ONE:
            x[i] = 1;
            break;
        case INIT_XAVIER:
            x[i] = (float)(bound * (2 * rng_uniform(&rng) - 1));
            break;
        case INIT_EMBED:
        case INIT_POSITION:
            x[i] = (float)(sigma * rng_normal(&rng));
            break;
        }
}

void params_draw(float *flat, const struct param_table *table, uint64_t seed) {
    memset(flat, 0, table->n_elem * sizeof *flat);
    for (int i = 0; i < table->n_param; i++)
        draw(flat + table->param[i].offset, &table->param[i], seed, (uint32_t)i);
}

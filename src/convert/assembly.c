/* assembly.c — see assembly.h. The table below is the one that maps roles to parameters. */
#include "convert/assembly.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mat.h"
#include "base/half.h"
#include "base/mem.h"
#include "model/model.h"

/* ---- which matrix is part of which parameter ------------------------------------------------- */

struct row {
    const char *name; /* of a parameter, "enc.0." cut off */
    int decoder;      /* the stack, outside the layers */
    enum foreign_place place;
    int bias, n;
    enum foreign_what what[PART_MOST];
};

#define OF_STACK(param, decoder, bias, what)                                                       \
    {                                                                                              \
        param, decoder, IN_STACK, bias, 1, { what }                                                \
    }
#define OF_LAYER(param, place, bias, ...)                                                          \
    {                                                                                              \
        param, 0, place, bias, sizeof((int[]){__VA_ARGS__}) / sizeof(int), { __VA_ARGS__ }         \
    }
#define NORM_OF(sub, place)                                                                        \
    OF_LAYER(sub ".gamma", place, 0, THE_NORM), OF_LAYER(sub ".beta", place, 1, THE_NORM)
#define NORM_OF_STACK(param, decoder, what)                                                        \
    OF_STACK(param "_gamma", decoder, 0, what), OF_STACK(param "_beta", decoder, 1, what)

static const struct row rows[] = {
    OF_STACK("tgt_embed", 1, 0, THE_EMBEDDING),
    OF_STACK("src_embed", 0, 0, THE_EMBEDDING),
    OF_STACK("out", 1, 0, THE_OUTPUT),
    OF_STACK("out_bias", 1, 1, THE_OUTPUT),
    OF_STACK("src_pos", 0, 0, THE_POSITIONS),
    OF_STACK("tgt_pos", 1, 0, THE_POSITIONS),
    NORM_OF_STACK("enc_norm", 0, THE_FINAL_NORM),
    NORM_OF_STACK("dec_norm", 1, THE_FINAL_NORM),
    NORM_OF_STACK("src_embed_norm", 0, THE_EMBED_NORM),
    NORM_OF_STACK("tgt_embed_norm", 1, THE_EMBED_NORM),
    OF_LAYER("self.w_qkv", IN_SELF, 0, THE_QUERY, THE_KEY, THE_VALUE),
    OF_LAYER("self.b_qkv", IN_SELF, 1, THE_QUERY, THE_KEY, THE_VALUE),
    OF_LAYER("self.w_o", IN_SELF, 0, THE_RESULT),
    OF_LAYER("self.b_o", IN_SELF, 1, THE_RESULT),
    NORM_OF("self", IN_SELF),
    OF_LAYER("cross.w_q", IN_CROSS, 0, THE_QUERY),
    OF_LAYER("cross.b_q", IN_CROSS, 1, THE_QUERY),
    OF_LAYER("cross.w_kv", IN_CROSS, 0, THE_KEY, THE_VALUE),
    OF_LAYER("cross.b_kv", IN_CROSS, 1, THE_KEY, THE_VALUE),
    OF_LAYER("cross.w_o", IN_CROSS, 0, THE_RESULT),
    OF_LAYER("cross.b_o", IN_CROSS, 1, THE_RESULT),
    NORM_OF("cross", IN_CROSS),
    OF_LAYER("ff.w_1", IN_FF, 0, THE_FIRST),
    OF_LAYER("ff.b_1", IN_FF, 1, THE_FIRST),
    OF_LAYER("ff.w_2", IN_FF, 0, THE_SECOND),
    OF_LAYER("ff.b_2", IN_FF, 1, THE_SECOND),
    NORM_OF("ff", IN_FF),
    OF_LAYER("ssru.w", IN_SSRU, 0, THE_CELL),
    OF_LAYER("ssru.w_f", IN_SSRU, 0, THE_GATE),
    OF_LAYER("ssru.b_f", IN_SSRU, 1, THE_GATE),
    NORM_OF("ssru", IN_SSRU),
};

/* The row of a parameter, and the role that its parts have but for `what`. */
static const struct row *find_row(const char *name, struct foreign_role *role) {
    int in_layer = strncmp(name, "enc.", 4) == 0 || strncmp(name, "dec.", 4) == 0;
    *role = (struct foreign_role){.decoder = name[0] == 'd'};
    if (in_layer) {
        char *end;
        role->layer = (int)strtol(name + 4, &end, 10);
        name = end + 1;
    }
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (strcmp(rows[k].name, name) == 0 && in_layer == (rows[k].place != IN_STACK)) {
            if (!in_layer) role->decoder = rows[k].decoder;
            role->place = rows[k].place;
            role->bias = rows[k].bias;
            return &rows[k];
        }
    return NULL;
}

int assembly_roles(const char *param, struct foreign_role role[PART_MOST]) {
    struct foreign_role found;
    const struct row *row = find_row(param, &found);
    BUG_ON(!row);
    for (int k = 0; k < row->n; k++) {
        role[k] = found;
        role[k].what = row->what[k];
    }
    return row->n;
}

/* ---- finding them ---------------------------------------------------------------------------- */

/* What the scale of embeddings does to ours: tied matrices that must differ are tied no longer.
 * Returns the tie of the foreign model. */
static int untie(struct config *c, const struct foreign *m, float factor[2]) {
    int tie = c->tie;
    for (int k = 0; k < 2; k++) {
        double ours = sqrt((double)c->d_model), scale = m->embed_scale[k];
        factor[k] = scale && fabs(scale / ours - 1) > 1e-6 ? (float)(scale / ours) : 1;
    }
    if (factor[1] != 1) /* the output is not scaled */
        c->tie = TIE_NONE;
    else if (factor[0] != 1 && tie == TIE_ALL)
        c->tie = TIE_TARGET;
    return tie;
}

static int is_norm(enum foreign_what what) {
    return what == THE_NORM || what == THE_FINAL_NORM || what == THE_EMBED_NORM;
}

struct search {
    const struct foreign *model;
    int tie; /* of the foreign model */
};

/* Ours begin at the position of the first token. */
static void skip_positions(struct foreign_mat *mat, int first, int wanted) {
    if (mat->transposed || mat->rows - first < wanted) return; /* the shape will be refused */
    mat->data =
        (const char *)mat->data + (size_t)first * (size_t)mat->ld * foreign_type_size(mat->type);
    if (mat->n_scale == mat->rows) {
        mat->scale += first;
        mat->n_scale = wanted;
    }
    mat->rows = wanted;
}

static float scale_of(const struct foreign_mat *mat, int row) {
    float s; /* need not be aligned */
    memcpy(&s, mat->scale + (mat->n_scale == 1 ? 0 : row), sizeof s);
    return s;
}

static int check_scales(const struct foreign_mat *mat, const char *name, struct err *err) {
    if (mat->type != FOREIGN_I8 && mat->type != FOREIGN_I16) return 0;
    if (!mat->scale || (mat->n_scale != 1 && mat->n_scale != mat->rows))
        return err_set(err, HEED_EFORMAT, "%s: %d scales for %d rows of integers", name,
                       mat->scale ? mat->n_scale : 0, mat->rows);
    for (int i = 0; i < mat->n_scale; i++) {
        float s = scale_of(mat, i);
        if (!(s > 0) || !isfinite(s) || !isfinite(1 / s))
            return err_set(err, HEED_EFORMAT, "%s: scale %d is %g, not a positive number", name, i,
                           (double)s);
    }
    return 0;
}

/* One part and the shape that it must have; a vector is [1, height]. */
static int find_part(struct foreign_mat *mat, const struct search *s, struct foreign_role role,
                     int height, int cols, struct err *err) {
    char text[FOREIGN_ROLE_TEXT];
    int norm = is_norm(role.what), vector = norm || role.bias;
    if (role.what == THE_OUTPUT && !role.bias && s->tie != TIE_NONE) role.what = THE_EMBEDDING;
    if (role.what == THE_EMBEDDING && s->tie == TIE_ALL) role.decoder = 1;
    *mat = (struct foreign_mat){0};
    int rc = s->model->find(s->model, &role, mat, err);
    if (rc) return rc;
    foreign_role_text(text, &role);
    if (!mat->data && role.bias && !norm) return 0; /* zeros */
    if (!mat->data) return err_set(err, HEED_EFORMAT, "the model has no %s", text);
    if (mat->ld == 0) mat->ld = mat->transposed ? mat->rows : mat->cols;
    if (role.what == THE_POSITIONS) skip_positions(mat, s->model->first_position, height);
    int wanted = vector ? 1 : height, wide = vector ? height : cols;
    if (mat->rows != wanted || mat->cols != wide)
        return err_set(err, HEED_EFORMAT, "%s is [%d, %d], but must be [%d, %d]", text, mat->rows,
                       mat->cols, wanted, wide);
    return check_scales(mat, text, err);
}

/* Zero biases have a width, too: parts of a vector lie side by side. */
static int find_param(struct assembled *to, const struct assembly *a, const struct search *s,
                      const struct param *p, struct err *err) {
    const struct config *c = &a->config;
    struct foreign_role role;
    const struct row *row = find_row(p->name, &role);
    BUG_ON(!row);
    to->n = row->n;
    for (int k = 0; k < row->n; k++) {
        role.what = row->what[k];
        int vector = role.bias || is_norm(role.what), whole = vector ? p->cols : p->rows;
        int height = row->n == 1              ? whole
                     : role.what == THE_VALUE ? c->n_head * c->d_v
                                              : c->n_head * c->d_k;
        int rc = find_part(&to->part[k], s, role, height, p->cols, err);
        if (rc) return rc;
        to->part[k].rows = vector ? 1 : height;
        to->part[k].cols = vector ? height : p->cols;
    }
    return 0;
}

/* ---- positions ------------------------------------------------------------------------------- */

/* In the f32 arithmetic of the engines themselves: at a hundred positions theirs and exact sines
 * differ in the fifth digit. */
static void draw_positions(float *out, const struct foreign *m, int n, int d) {
    int half = d / 2;
    float step = logf(10000.0f) / (float)(half - 1);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < half; j++) {
            int at = m->first_position + i;
            float *to = out + (size_t)i * (size_t)d + j;
            if (m->positions == FOREIGN_MARIAN) {
                float angle = (float)at * expf((float)j * -step);
                to[0] = sinf(angle);
                to[half] = cosf(angle);
            } else {
                double angle = at / pow(10000, 2.0 * j / d);
                to[0] = (float)sin(angle);
                to[half] = (float)cos(angle);
            }
        }
}

/* Is the stored table that of the paper, bit for bit? Models that heed exported have it. */
static int is_ours(const struct foreign_mat *mat, const float *ours) {
    if (mat->type != FOREIGN_F32 || mat->transposed) return 0;
    size_t row = (size_t)mat->cols * sizeof *ours, step = (size_t)mat->ld * sizeof *ours;
    for (int i = 0; i < mat->rows; i++)
        if (memcmp((const char *)mat->data + (size_t)i * step, ours + (size_t)i * (size_t)mat->cols,
                   row) != 0)
            return 0;
    return 1;
}

static int look_at_table(struct assembly *a, const struct search *s, struct err *err) {
    struct config *c = &a->config;
    int rc = 0, ours = 1;
    float *table = xmalloc((size_t)c->max_len * (size_t)c->d_model * sizeof *table);
    model_sinusoids(table, DTYPE_F32, c->max_len, c->d_model);
    for (int k = 0; k < 2 && !rc; k++) {
        struct foreign_mat mat;
        struct foreign_role role = {.decoder = k, .what = THE_POSITIONS};
        rc = find_part(&mat, s, role, c->max_len, c->d_model, err);
        ours = ours && !rc && is_ours(&mat, table);
    }
    if (ours) c->positions = POSITIONS_SINUSOIDAL;
    xfree(table);
    return rc;
}

static int make_positions(struct assembly *a, const struct search *s, struct err *err) {
    struct config *c = &a->config;
    enum foreign_positions kind = s->model->positions;
    c->positions = kind == FOREIGN_OURS ? POSITIONS_SINUSOIDAL : POSITIONS_LEARNED;
    if (kind == FOREIGN_OURS) return 0;
    if (kind == FOREIGN_TABLE) return look_at_table(a, s, err);
    if (c->d_model % 2 || c->d_model < 4)
        return err_set(err, HEED_ECONFIG, "d_model: sines and cosines cannot share %d columns",
                       c->d_model);
    a->positions = mem_block((size_t)c->max_len * (size_t)c->d_model * sizeof *a->positions);
    if (!a->positions)
        return err_set(err, HEED_ENOMEM, "cannot allocate %d x %d position encodings", c->max_len,
                       c->d_model);
    draw_positions(a->positions, s->model, c->max_len, c->d_model);
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int assembly_init(struct assembly *a, const struct foreign *m, struct err *err) {
    float factor[2];
    *a = (struct assembly){.config = m->config};
    struct search s = {.model = m, .tie = untie(&a->config, m, factor)};
    a->config.positions = POSITIONS_LEARNED;
    int rc = config_check(&a->config, err);
    if (!rc) rc = make_positions(a, &s, err);
    if (!rc) param_table_init(&a->table, &a->config);
    if (!rc) a->param = xcalloc((size_t)a->table.n_param, sizeof *a->param);
    for (int i = 0; i < a->table.n_param && !rc; i++) {
        const struct param *p = &a->table.param[i];
        struct assembled *to = &a->param[i];
        int source = strcmp(p->name, "src_embed") == 0, target = strcmp(p->name, "tgt_embed") == 0;
        int positions = strcmp(p->name, "src_pos") == 0 || strcmp(p->name, "tgt_pos") == 0;
        to->factor = source ? factor[0] : target ? factor[1] : 1;
        if (positions && a->positions) {
            to->n = 1;
            to->part[0] = (struct foreign_mat){
                .data = a->positions, .rows = p->rows, .cols = p->cols, .ld = p->cols};
        } else {
            rc = find_param(to, a, &s, p, err);
        }
    }
    if (rc) assembly_release(a);
    return rc;
}

void assembly_release(struct assembly *a) {
    if (a->table.param) param_table_release(&a->table);
    xfree(a->param);
    mem_block_free(a->positions);
    *a = (struct assembly){0};
}

/* ---- values ---------------------------------------------------------------------------------- */

static float value_at(const char *at, enum foreign_type type) {
    uint16_t bits;
    int16_t whole;
    float f;
    switch (type) {
    case FOREIGN_F32:
        memcpy(&f, at, sizeof f);
        return f;
    case FOREIGN_I8:
        return (float)*(const int8_t *)at;
    case FOREIGN_I16:
        memcpy(&whole, at, sizeof whole);
        return (float)whole;
    default:
        memcpy(&bits, at, sizeof bits);
        return type == FOREIGN_F16 ? f16_load(bits) : bf16_load(bits);
    }
}

/* n values that lie `step` bytes apart; a loop for each type, so that compilers make vectors of
 * them. */
static void values(float *out, const char *at, size_t step, int n, enum foreign_type type) {
#define EACH(TYPE)                                                                                 \
    case TYPE:                                                                                     \
        for (int j = 0; j < n; j++) out[j] = value_at(at + (size_t)j * step, TYPE);                \
        break
    switch (type) {
        EACH(FOREIGN_F32);
        EACH(FOREIGN_F16);
        EACH(FOREIGN_BF16);
        EACH(FOREIGN_I16);
        EACH(FOREIGN_I8);
    }
#undef EACH
}

/* Row i of a part, times the factor. */
static void part_row(const struct foreign_mat *m, int i, float factor, float *out) {
    size_t size = foreign_type_size(m->type), ld = (size_t)m->ld * size;
    const char *at = m->data;
    if (!at) {
        memset(out, 0, (size_t)m->cols * sizeof *out);
        return;
    }
    if (m->transposed)
        values(out, at + (size_t)i * size, ld, m->cols, m->type);
    else
        values(out, at + (size_t)i * ld, size, m->cols, m->type);
    if (m->scale) {
        float scale = scale_of(m, i);
        for (int j = 0; j < m->cols; j++) out[j] /= scale;
    }
    for (int j = 0; factor != 1 && j < m->cols; j++) out[j] *= factor;
}

/* The part that row r of a parameter is in, and which of its rows that is. */
static const struct foreign_mat *part_of(const struct assembled *p, int r, int *row) {
    int k = 0;
    for (; r >= p->part[k].rows; k++) r -= p->part[k].rows;
    *row = r;
    return &p->part[k];
}

void assembly_rows(const struct assembly *a, int i, int first, int last, float *out) {
    const struct assembled *p = &a->param[i];
    int cols = a->table.param[i].cols, row;
    if (a->table.param[i].rows == 1) { /* parts lie side by side */
        for (int k = 0; k < p->n; out += p->part[k++].cols)
            part_row(&p->part[k], 0, p->factor, out);
        return;
    }
    for (int r = first; r < last; r++, out += cols) {
        const struct foreign_mat *m = part_of(p, r, &row);
        part_row(m, row, p->factor, out);
    }
}

int assembly_is_int8(const struct assembly *a, int i) {
    const struct assembled *p = &a->param[i];
    for (int k = 0; k < p->n; k++)
        if (p->part[k].type != FOREIGN_I8) return 0;
    return 1;
}

float assembly_x_scale(const struct assembly *a, int i) {
    const struct assembled *p = &a->param[i];
    for (int k = 1; k < p->n; k++)
        if (p->part[k].x_scale != p->part[0].x_scale) return 0;
    return assembly_is_int8(a, i) && p->factor == 1 ? p->part[0].x_scale : 0;
}

void assembly_leave(const struct assembly *a, int i, int r, int32_t sum, float *unit, float *zero) {
    int row;
    const struct foreign_mat *m = part_of(&a->param[i], r, &row);
    float scale = scale_of(m, row), most = 127 / m->x_scale * (127 / scale);
    *unit = 1 / (m->x_scale * scale);
    *zero = (float)sum * (-most / 127);
}

void assembly_int8(const struct assembly *a, int i, int r, int8_t *q, float *scale) {
    int row;
    const struct foreign_mat *m = part_of(&a->param[i], r, &row);
    const int8_t *at = m->data;
    size_t step = m->transposed ? (size_t)m->ld : 1;
    at += m->transposed ? (size_t)row : (size_t)row * (size_t)m->ld;
    if (step == 1)
        memcpy(q, at, (size_t)m->cols);
    else
        for (int j = 0; j < m->cols; j++) q[j] = at[(size_t)j * step];
    *scale = 1 / scale_of(m, row) * a->param[i].factor;
}

/* assembly.h — our parameters, made of the matrices of a foreign model.
 *
 * assembly_init asks the reader for every matrix that our parameters consist of and checks its
 * shape; after that any rows of any parameter can be had, by several threads at once. Nothing is
 * copied before somebody wants it: an assembly holds views of the reader's memory, and owns only
 * tables of positions that it has computed. The model must outlive it. */
#ifndef CONVERT_ASSEMBLY_H
#define CONVERT_ASSEMBLY_H

#include "convert/foreign.h"
#include "model/params.h"

enum { PART_MOST = 3 }; /* matrices stacked in one parameter */

/* What is stacked in the parameter of that name, from the top; returns how many. */
int assembly_roles(const char *param, struct foreign_role role[PART_MOST]);

/* One parameter. */
struct assembled {
    struct foreign_mat part[PART_MOST]; /* stacked; data NULL: zeros */
    int n;
    float factor; /* that all values are multiplied by */
};

struct assembly {
    struct config config; /* ours, checked: what the model's becomes */
    struct param_table table;
    struct assembled *param; /* [table.n_param] */
    float *positions;        /* computed, or NULL */
};

int assembly_init(struct assembly *a, const struct foreign *model, struct err *err);
void assembly_release(struct assembly *a);

/* Rows [first, last) of parameter i as f32, [last - first, cols]. A vector has one row. */
void assembly_rows(const struct assembly *a, int i, int first, int last, float *out);

/* Are all values of parameter i int8, with one scale per row at most? */
int assembly_is_int8(const struct assembly *a, int i);

/* Row r of such a parameter as it is: cols values q, and the scale, w = q * scale. */
void assembly_int8(const struct assembly *a, int i, int r, int8_t *q, float *scale);

/* The x_scale (backend/mat.h) of such a parameter, where all of its matrices have the same; or 0.
 * And unit and zero of row r, whose values q add up to `sum`, in the bits that Marian's have. */
float assembly_x_scale(const struct assembly *a, int i);
void assembly_leave(const struct assembly *a, int i, int r, int32_t sum, float *unit, float *zero);

/* model.safetensors of all parameters, in the plain form or, int8, tiled. *report says what became
 * of them. */
int assembly_write(const struct assembly *a, const char *path,
                   const struct foreign_options *options, struct foreign_report *report,
                   struct err *err);

#endif

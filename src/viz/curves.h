/* curves.h — line charts as a self-contained SVG: learning curves to look at, print or put into a
 * page.
 *
 * A picture is a column of panels that share their horizontal axis. Linear axes begin at 0. Points
 * that are not finite (and, on a logarithmic axis, not positive) leave a gap, and a point between
 * gaps is a dot. Long curves are thinned to what the width can show: each pixel column draws the
 * range of its points, so that no spike is lost. The title may be any bytes, such as a path. */
#ifndef VIZ_CURVES_H
#define VIZ_CURVES_H

#include "base/file.h"

struct curve {
    const char *name;    /* in the legend */
    const double *x, *y; /* [n], x ascending */
    int n;
    int marked; /* a dot on every point: for a few exact points */
};

struct panel {
    const char *title;
    const struct curve *curve;
    int n_curve;
    int height; /* of the plot, pixels */
    int log;    /* logarithmic vertical axis */
};

/* Writes the picture; errors stick to the writer. */
void curves_write(struct file_writer *w, const char *title, const char *x_label,
                  const struct panel *panel, int n_panel);

#endif

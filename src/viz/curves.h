/* curves.h — line charts as a self-contained SVG: learning curves to look at, print or put into a
 * page.
 *
 * A picture is a column of panels that share their horizontal axis; it follows the reader's choice
 * of a light or dark page. Linear axes begin at 0. Points that are not finite (and, on a
 * logarithmic axis, not positive) leave a gap, and a point between gaps is a dot. Long curves are
 * thinned to what the width can show: each pixel column draws the range of its points, so that no
 * spike is lost. Texts may be any bytes, such as a path. */
#ifndef VIZ_CURVES_H
#define VIZ_CURVES_H

#include "base/file.h"

enum scale { SCALE_LINEAR, SCALE_LOG, SCALE_LOG2 }; /* LOG2: logarithmic, ticks at powers of two */

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
    enum scale scale;
};

struct chart {
    const char *title, *x_label;
    const struct panel *panel;
    int n_panel;
    enum scale x_scale;
};

/* Writes the picture; errors stick to the writer. */
void curves_write(struct file_writer *w, const struct chart *chart);

#endif

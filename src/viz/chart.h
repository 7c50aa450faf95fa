/* chart.h — charts as people write them: JSON to what curves.h draws (docs/plot.md).
 *
 * The file is hostile: numbers of things and lengths of texts are limited, unknown keys refused. */
#ifndef VIZ_CHART_H
#define VIZ_CHART_H

#include <jansson.h>

#include "viz/curves.h"

enum { CHART_MAX_PANELS = 16, CHART_MAX_CURVES = 24 /* of a panel */ };

struct chart_file; /* holds what the chart points to */

/* `where` begins messages. The texts of the chart stay in `value`, which must live as long. */
int chart_read(struct chart_file **file, const json_t *value, const char *where, struct err *err);
const struct chart *chart_of(const struct chart_file *file);
void chart_free(struct chart_file *file);

#endif

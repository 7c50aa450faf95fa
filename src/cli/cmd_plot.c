/* cmd_plot.c — `heed plot FILE --out FILE`: a chart, given as JSON, as an SVG picture (viz/chart.h,
 * docs/plot.md). */
#include "cli/cli.h"
#include "io/json.h"
#include "viz/chart.h"

static struct plot_args {
    struct option_list file;
    const char *out;
} args;

#define OPTIONS_OF plot_args
static const struct option rows[] = {
    ROW(WORDS, "file", file, NULL, "the chart: a JSON file, see docs/plot.md", .arg = "FILE",
        .min = 1, .max = 1),
    ROW(STRING, "out", out, NULL, "the SVG file to write", .arg = "FILE", .required = 1, .made = 1),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

static int run(struct err *err) {
    json_t *value = NULL;
    struct chart_file *file = NULL;
    struct file_writer w;
    int rc = json_in_file(&value, args.file.item[0], err);
    if (!rc) rc = chart_read(&file, value, args.file.item[0], err);
    if (!rc && !(rc = file_writer_open_output(&w, args.out, err))) {
        curves_write(&w, chart_of(file));
        rc = file_writer_commit(&w, err);
    }
    if (file) chart_free(file);
    json_decref(value);
    return rc;
}

const struct command cmd_plot = {.name = "plot",
                                 .summary = "draw a chart as an SVG picture",
                                 .usage = "FILE --out FILE",
                                 .groups = groups,
                                 .run = run};

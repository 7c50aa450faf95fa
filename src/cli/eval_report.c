/* eval_report.c — see eval_report.h: scores as text in sacreBLEU's format, as a table of systems,
 * or as JSON lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/eval_report.h"
#include "io/json.h"

enum { CELL = 512 };

/* "20.8", and "20.8 (μ = 20.8 ± 0.6)" where it was resampled. */
static void score_text(char *out, const struct eval *eval, const struct eval_metric *m,
                       const struct eval_result *r, const char *mean) {
    int n = snprintf(out, CELL, "%.*f", eval->width, eval_value(m, r->sum));
    if (eval->resampling)
        snprintf(out + n, CELL - (size_t)n, " (%s%.*f ± %.*f)", mean, eval->width, r->interval.mean,
                 eval->width, r->interval.half);
}

static void details_text(char *out, const struct eval_metric *m, const uint64_t *sum) {
    out[0] = 0;
    if (m->kind == METRIC_PARSEVAL) parseval_details(out, CELL, sum);
    if (m->kind != METRIC_BLEU) return;
    struct bleu_score score;
    bleu_score(&score, sum, &m->bleu);
    bleu_details(out, CELL, &score);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_lines(const struct eval *eval) {
    for (int m = 0; m < eval->n_metric; m++) {
        const struct eval_metric *metric = &eval->metric[m];
        char score[CELL], details[CELL];
        score_text(score, eval, metric, &eval->result[m], "μ = ");
        details_text(details, metric, eval->result[m].sum);
        if (eval->score_only)
            printf("%s\n", score);
        else
            printf("%s|%s = %s%s%s\n", metric->name, metric->signature, score,
                   details[0] ? " " : "", details);
    }
}

/* Characters, so that ± does not disturb the columns. */
static int width_of(const char *text) {
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static void pad(const char *text, int width) {
    printf("%s%*s", text, width - width_of(text) + 2, "");
}

static void cell_text(char *out, const struct eval *eval, int h, int m) {
    const struct eval_result *r = &eval->result[h * eval->n_metric + m];
    score_text(out, eval, &eval->metric[m], r, "");
    size_t n = strlen(out);
    if (r->p_value >= 0)
        snprintf(out + n, CELL - n, " (p = %.4f)%s", r->p_value, r->p_value > 0.05 ? "" : "*");
}

static void title_text(char *out, const struct eval *eval, int m) {
    snprintf(out, CELL, "%s%s", eval->metric[m].name, eval->resampling ? " (μ ± 95 % CI)" : "");
}

/* A row per system, a column per metric. */
static void print_table(const struct eval *eval) {
    char text[CELL];
    int first = width_of("system"), width[EVAL_MAX_METRICS] = {0};
    for (int h = 0; h < eval->n_hyp; h++)
        first = width_of(eval->hyp[h]) > first ? width_of(eval->hyp[h]) : first;
    for (int m = 0; m < eval->n_metric; m++) {
        title_text(text, eval, m);
        width[m] = width_of(text);
        for (int h = 0; h < eval->n_hyp; h++) {
            cell_text(text, eval, h, m);
            width[m] = width_of(text) > width[m] ? width_of(text) : width[m];
        }
    }
    pad("system", first);
    for (int m = 0; m < eval->n_metric; m++) {
        title_text(text, eval, m);
        pad(text, m + 1 < eval->n_metric ? width[m] : width_of(text) - 2);
    }
    printf("\n");
    for (int h = 0; h < eval->n_hyp; h++) {
        pad(eval->hyp[h], first);
        for (int m = 0; m < eval->n_metric; m++) {
            cell_text(text, eval, h, m);
            pad(text, m + 1 < eval->n_metric ? width[m] : width_of(text) - 2);
        }
        printf("\n");
    }
    printf("\n");
    for (int m = 0; m < eval->n_metric; m++)
        printf("%s|%s\n", eval->metric[m].name, eval->metric[m].signature);
    if (eval->paired)
        printf(
            "p: probability that chance makes a difference from %s this large; * marks p <= 0.05\n",
            eval->hyp[0]);
}

void eval_print_text(const struct eval *eval) {
    if (eval->n_hyp == 1)
        print_lines(eval);
    else
        print_table(eval);
}

void eval_print_segment(const struct eval *eval, const uint32_t *stat) {
    for (int m = 0; m < eval->n_metric; m++, stat += EVAL_MAX_STATS) {
        uint64_t sum[EVAL_MAX_STATS];
        for (int k = 0; k < eval->metric[m].n_stat; k++) sum[k] = stat[k];
        printf("%s%.*f", m ? "\t" : "", eval->width, eval_value(&eval->metric[m], sum));
    }
    printf("\n");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* As many digits as the text shows: two programs that agree on the text agree here. */
static json_t *rounded(double value, int width) {
    char text[64];
    snprintf(text, sizeof text, "%.*f", width, value);
    return json_real(strtod(text, NULL));
}

static json_t *score_json(const struct eval *eval, const struct eval_metric *m,
                          const uint64_t *sum) {
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(m->name));
    json_object_set_new(object, "score", rounded(eval_value(m, sum), eval->width));
    json_object_set_new(object, "signature", json_string(m->signature));
    char details[CELL];
    details_text(details, m, sum);
    if (details[0]) json_object_set_new(object, "verbose_score", json_string(details));
    return object;
}

static void dump(json_t *object) {
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
    printf("\n");
    json_decref(object);
}

void eval_print_json(const struct eval *eval) {
    for (int i = 0; i < eval->n_hyp * eval->n_metric; i++) {
        const struct eval_result *r = &eval->result[i];
        json_t *object = score_json(eval, &eval->metric[i % eval->n_metric], r->sum);
        json_object_set_new(object, "system", json_out_string(eval->hyp[i / eval->n_metric]));
        if (eval->resampling) {
            json_object_set_new(object, "confidence_mean", rounded(r->interval.mean, eval->width));
            json_object_set_new(object, "confidence_var", rounded(r->interval.half, eval->width));
        }
        if (r->p_value >= 0) json_object_set_new(object, "p_value", json_real(r->p_value));
        dump(object);
    }
}

void eval_print_segment_json(const struct eval *eval, const uint32_t *stat) {
    for (int m = 0; m < eval->n_metric; m++, stat += EVAL_MAX_STATS) {
        uint64_t sum[EVAL_MAX_STATS];
        for (int k = 0; k < eval->metric[m].n_stat; k++) sum[k] = stat[k];
        json_t *object = score_json(eval, &eval->metric[m], sum);
        json_object_set_new(object, "line", json_integer((json_int_t)eval->n_segment + 1));
        dump(object);
    }
}

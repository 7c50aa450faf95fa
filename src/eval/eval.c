/* eval.c — see eval.h: reads hypotheses and references side by side, counts on all threads, and
 * resamples.
 *
 * Reading is one thread's work and cheap; counting is cut into tasks of a few segments. Results
 * land in a row per segment and are added up in order afterwards, so nothing depends on who counted
 * what. */
#include "eval/eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "data/text.h"

enum {
    BLOCK_SEGMENTS = 4096,
    BLOCK_BYTES = 8 << 20, /* of all files together; long lines make blocks shorter */
    TASK_SEGMENTS = 32
};

/* One of the files, and its lines of the block at hand. */
struct column {
    const char *path;
    struct text *text;
    char *buffer;
    size_t used, room;
    size_t begin[BLOCK_SEGMENTS + 1]; /* line i is buffer[begin[i] .. begin[i + 1]) */
};

/* What a thread counts with. */
struct counter {
    struct bleu bleu;
    struct chrf chrf;
    struct parseval parseval;
};

struct work {
    struct eval *eval;
    struct pool *pool;
    struct column *column;   /* [n_column]: systems, then references */
    struct counter *counter; /* [threads, n_metric] */
    uint32_t *stat;          /* [BLOCK_SEGMENTS, n_hyp, n_metric, EVAL_MAX_STATS] */
    int n_column, n;         /* n: segments in the block */
};

static const char *shown(const struct column *c) {
    return strcmp(c->path, "-") == 0 ? "standard input" : c->path;
}

/* ---- metrics --------------------------------------------------------------------------------- */

const char *const eval_metric_names[] = {"bleu", "chrf", "chrf++", "parseval", NULL};

static int read_rules(struct eval *eval, const char *evalb, struct err *err) {
    if (eval->n_ref > 1)
        return err_set(err, HEED_EINVAL, "metric: parseval takes one reference, not %d",
                       eval->n_ref);
    if (evalb) return parseval_read_rules(&eval->rules, evalb, err);
    parseval_default_rules(&eval->rules);
    return 0;
}

int eval_add(struct eval *eval, int which, const struct bleu_options *bleu, const char *evalb,
             struct err *err) {
    static const int kinds[] = {METRIC_BLEU, METRIC_CHRF, METRIC_CHRF, METRIC_PARSEVAL};
    struct eval_metric m = {.kind = kinds[which], .bleu = *bleu, .rules = &eval->rules};
    m.chrf = (struct chrf_options){6, which == 2 ? 2 : 0, 2, bleu->lowercase};
    if (m.kind == METRIC_BLEU) {
        m.n_stat = BLEU_N_STAT;
        snprintf(m.name, sizeof m.name, "BLEU");
        bleu_signature(m.signature, sizeof m.signature, &m.bleu, eval->n_ref, eval->resampling);
    } else if (m.kind == METRIC_PARSEVAL) {
        int rc = read_rules(eval, evalb, err);
        if (rc) return rc;
        m.n_stat = PARSEVAL_N_STAT;
        snprintf(m.name, sizeof m.name, "PARSEVAL");
        parseval_signature(m.signature, sizeof m.signature, m.rules, eval->resampling);
    } else {
        m.n_stat = chrf_n_stat(&m.chrf);
        chrf_name(m.name, sizeof m.name, &m.chrf);
        chrf_signature(m.signature, sizeof m.signature, &m.chrf, eval->n_ref, eval->resampling);
    }
    for (int i = 0; i < eval->n_metric; i++)
        if (strcmp(eval->metric[i].name, m.name) == 0)
            return err_set(err, HEED_EINVAL, "metric: %s is given twice", m.name);
    eval->metric[eval->n_metric++] = m;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* 1: a line was added; 0: the end; negative: an error. */
static int read_line(struct column *c, int at, struct err *err) {
    struct line line;
    int rc = text_next(c->text, &line, err);
    if (rc <= 0) return rc;
    if (line.flags & LINE_TOO_LONG)
        return err_set(err, HEED_ELIMIT, "%s: line %llu is longer than %s bytes", shown(c),
                       (unsigned long long)text_counts(c->text).lines,
                       num_grouped((char[28]){0}, TEXT_MAX_LINE));
    if (c->used + line.size > c->room) {
        c->room = 2 * (c->used + line.size);
        c->buffer = xrealloc(c->buffer, c->room);
    }
    if (line.size) memcpy(c->buffer + c->used, line.text, line.size);
    c->used += line.size;
    c->begin[at + 1] = c->used;
    return 1;
}

/* Some files have ended and others have not: says how long each is, the first two that differ. */
static int lengths_differ(struct work *work, struct err *err) {
    struct line line;
    for (int i = 0; i < work->n_column; i++) {
        int rc;
        do rc = text_next(work->column[i].text, &line, err);
        while (rc > 0);
        if (rc < 0) return rc;
    }
    const struct column *first = &work->column[0], *other = first;
    uint64_t n = text_counts(first->text).lines;
    for (int i = 1; i < work->n_column && text_counts(other->text).lines == n; i++)
        other = &work->column[i];
    return err_set(err, HEED_EFORMAT, "%.90s has %llu lines, %.90s has %llu", shown(first),
                   (unsigned long long)n, shown(other),
                   (unsigned long long)text_counts(other->text).lines);
}

/* The next block; work->n is 0 at the end. */
static int read_block(struct work *work, struct err *err) {
    size_t bytes = 0;
    for (int i = 0; i < work->n_column; i++) work->column[i].used = work->column[i].begin[0] = 0;
    for (work->n = 0; work->n < BLOCK_SEGMENTS && bytes < BLOCK_BYTES; work->n++) {
        int n_line = 0;
        bytes = 0;
        for (int i = 0; i < work->n_column; i++) {
            int rc = read_line(&work->column[i], work->n, err);
            if (rc < 0) return rc;
            n_line += rc;
            bytes += work->column[i].used;
        }
        if (n_line == 0) return 0;
        if (n_line < work->n_column) return lengths_differ(work, err);
    }
    return 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

static struct segment segment_of(const struct column *c, int at) {
    return (struct segment){c->buffer + c->begin[at], c->begin[at + 1] - c->begin[at]};
}

static void count_segment(const struct work *work, struct counter *counter, int at) {
    const struct eval *eval = work->eval;
    struct segment ref[EVAL_MAX_FILES];
    for (int r = 0; r < eval->n_ref; r++) ref[r] = segment_of(&work->column[eval->n_hyp + r], at);
    uint32_t *out =
        work->stat + (size_t)at * (size_t)eval->n_hyp * (size_t)eval->n_metric * EVAL_MAX_STATS;
    for (int h = 0; h < eval->n_hyp; h++) {
        struct segment hyp = segment_of(&work->column[h], at);
        for (int m = 0; m < eval->n_metric; m++, out += EVAL_MAX_STATS) {
            uint64_t stat[EVAL_MAX_STATS] = {0};
            if (eval->metric[m].kind == METRIC_BLEU)
                bleu_count(&counter[m].bleu, stat, hyp, ref, eval->n_ref);
            else if (eval->metric[m].kind == METRIC_PARSEVAL)
                parseval_count(&counter[m].parseval, stat, hyp, ref);
            else
                chrf_count(&counter[m].chrf, stat, hyp, ref, eval->n_ref);
            for (int k = 0; k < eval->metric[m].n_stat; k++) out[k] = (uint32_t)stat[k];
        }
    }
}

static void count_task(void *ctx, int task, int thread) {
    const struct work *work = ctx;
    int end = (task + 1) * TASK_SEGMENTS;
    for (int at = task * TASK_SEGMENTS; at < end && at < work->n; at++)
        count_segment(work, work->counter + (size_t)thread * (size_t)work->eval->n_metric, at);
}

static void keep(struct eval_result *result, const uint32_t *stat, size_t n_stat, size_t segment) {
    size_t need = (segment + 1) * n_stat;
    if (need > result->room) {
        result->room = 2 * need;
        result->stat = xrealloc(result->stat, result->room * sizeof *result->stat);
    }
    memcpy(result->stat + segment * n_stat, stat, n_stat * sizeof *stat);
}

static void add_block(const struct work *work) {
    struct eval *eval = work->eval;
    const uint32_t *stat = work->stat;
    for (int at = 0; at < work->n; at++, eval->n_segment++) {
        if (eval->on_segment) eval->on_segment(eval, stat);
        for (int i = 0; i < eval->n_hyp * eval->n_metric; i++, stat += EVAL_MAX_STATS) {
            int n_stat = eval->metric[i % eval->n_metric].n_stat;
            for (int k = 0; k < n_stat; k++) eval->result[i].sum[k] += stat[k];
            if (eval->resampling) keep(&eval->result[i], stat, (size_t)n_stat, eval->n_segment);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static int work_open(struct work *work, struct err *err) {
    const struct eval *eval = work->eval;
    for (int i = 0; i < work->n_column; i++) {
        struct column *c = &work->column[i];
        c->path = i < eval->n_hyp ? eval->hyp[i] : eval->ref[i - eval->n_hyp];
        int rc = text_open(&c->text, c->path, err);
        if (rc) return rc;
        /* Never NULL, not even for empty lines: memory functions want a pointer. */
        c->room = 1 << 16;
        c->buffer = xmalloc(c->room);
    }
    for (int i = 0; i < pool_size(work->pool) * eval->n_metric; i++) {
        const struct eval_metric *m = &eval->metric[i % eval->n_metric];
        if (m->kind == METRIC_BLEU)
            bleu_init(&work->counter[i].bleu, &m->bleu);
        else if (m->kind == METRIC_PARSEVAL)
            parseval_init(&work->counter[i].parseval, m->rules);
        else
            chrf_init(&work->counter[i].chrf, &m->chrf);
    }
    return 0;
}

static void work_close(struct work *work) {
    for (int i = 0; i < work->n_column; i++) {
        if (work->column[i].text) text_close(work->column[i].text);
        xfree(work->column[i].buffer);
    }
    for (int i = 0; i < pool_size(work->pool) * work->eval->n_metric; i++) {
        bleu_release(&work->counter[i].bleu);
        chrf_release(&work->counter[i].chrf);
        parseval_release(&work->counter[i].parseval);
    }
    xfree(work->column);
    xfree(work->counter);
    xfree(work->stat);
}

static int count_all(struct work *work, struct err *err) {
    for (;;) {
        int rc = read_block(work, err);
        if (rc) return rc;
        if (work->n == 0) break;
        pool_run(work->pool, count_task, work, (work->n + TASK_SEGMENTS - 1) / TASK_SEGMENTS);
        add_block(work);
    }
    for (int i = 0; i < work->n_column; i++) {
        uint64_t replaced = text_counts(work->column[i].text).replaced;
        if (replaced && work->eval->on_replaced)
            work->eval->on_replaced(shown(&work->column[i]), replaced);
    }
    if (work->eval->n_segment) return 0;
    return err_set(err, HEED_EFORMAT, "%s: has no lines", shown(&work->column[0]));
}

static int count(struct eval *eval, struct pool *pool, struct err *err) {
    struct work work = {.eval = eval, .pool = pool, .n_column = eval->n_hyp + eval->n_ref};
    size_t cells = (size_t)eval->n_hyp * (size_t)eval->n_metric;
    work.column = xcalloc((size_t)work.n_column, sizeof *work.column);
    work.counter = xcalloc((size_t)pool_size(pool) * (size_t)eval->n_metric, sizeof *work.counter);
    work.stat = xmalloc(BLOCK_SEGMENTS * cells * EVAL_MAX_STATS * sizeof *work.stat);
    int rc = work_open(&work, err);
    if (!rc) rc = count_all(&work, err);
    work_close(&work);
    return rc;
}

/* ---- scores ---------------------------------------------------------------------------------- */

double eval_value(const struct eval_metric *metric, const uint64_t *sum) {
    if (metric->kind == METRIC_PARSEVAL) return parseval_value(sum, metric->rules);
    return metric->kind == METRIC_BLEU ? bleu_value(sum, &metric->bleu)
                                       : chrf_score(sum, &metric->chrf);
}

static int resample(struct eval *eval, struct pool *pool, struct err *err) {
    int n = eval->n_hyp * eval->n_metric, n_sample = eval->resampling->n_sample;
    struct bootstrap_series *series = xcalloc((size_t)n, sizeof *series);
    for (int i = 0; i < n; i++) {
        struct eval_result *r = &eval->result[i];
        const struct eval_metric *m = &eval->metric[i % eval->n_metric];
        r->sample = xmalloc((size_t)n_sample * sizeof *r->sample);
        series[i] = (struct bootstrap_series){.stat = r->stat,
                                              .n_stat = m->n_stat,
                                              .score = bleu_value,
                                              .options = &m->bleu,
                                              .scores = r->sample};
        if (m->kind == METRIC_CHRF) series[i].score = chrf_value, series[i].options = &m->chrf;
        if (m->kind == METRIC_PARSEVAL)
            series[i].score = parseval_value, series[i].options = m->rules;
    }
    int rc = bootstrap_run(series, n, eval->n_segment, eval->resampling, pool, err);
    for (int i = 0; i < n && !rc; i++) {
        struct eval_result *r = &eval->result[i], *first = &eval->result[i % eval->n_metric];
        const struct eval_metric *m = &eval->metric[i % eval->n_metric];
        r->interval = bootstrap_interval(r->sample, n_sample);
        if (!eval->paired || r == first) continue;
        double distance = fabs(eval_value(m, r->sum) - eval_value(m, first->sum));
        r->p_value = bootstrap_p_value(r->sample, first->sample, n_sample, distance);
    }
    xfree(series);
    return rc;
}

int eval_run(struct eval *eval, struct pool *pool, struct err *err) {
    int n = eval->n_hyp * eval->n_metric;
    eval->result = xcalloc((size_t)n, sizeof *eval->result);
    for (int i = 0; i < n; i++) eval->result[i].p_value = -1;
    int rc = count(eval, pool, err);
    return !rc && eval->resampling ? resample(eval, pool, err) : rc;
}

void eval_release(struct eval *eval) {
    for (int i = 0; eval->result && i < eval->n_hyp * eval->n_metric; i++) {
        xfree(eval->result[i].stat);
        xfree(eval->result[i].sample);
    }
    xfree(eval->result);
}

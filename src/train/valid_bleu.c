/* valid_bleu.c — see valid_bleu.h. */
#include "train/valid_bleu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "data/text.h"
#include "eval/bleu.h"
#include "search/translator.h"
#include "train/agree.h"

enum { BATCH = 32 }; /* lines; on a GPU too, whose memory belongs to the run */

struct pair {
    struct line source, reference; /* copies */
    int number;
};

struct valid_bleu {
    const struct setup *setup;
    const volatile int *stop;
    struct pair *pair; /* [n], shortest source first */
    int n;
    struct translation *result; /* [BATCH] */
    /* From the first measurement on. The backend is the run's; so is the model where the backend
     * runs plain weights, else `tiles` follow it. */
    struct frozen *tiles;
    struct engine engine;
    struct translator *translator;
};

static struct line copy_line(const struct line *line) {
    struct line copy = *line;
    char *text = xmalloc(line->size + 1);
    memcpy(text, line->text, line->size + 1);
    copy.text = text;
    return copy;
}

static int by_length(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    if (x->source.size != y->source.size) return x->source.size < y->source.size ? -1 : 1;
    return x->number - y->number;
}

static int read_pairs(struct valid_bleu *b, struct text *src, struct text *tgt, int lines,
                      struct err *err) {
    struct line line, reference;
    while (b->n < lines) {
        int rc = text_next(src, &line, err), rc_tgt = rc > 0 ? text_next(tgt, &reference, err) : 0;
        if (rc <= 0 || rc_tgt <= 0) return rc < 0 ? rc : rc_tgt < 0 ? rc_tgt : 0;
        if ((line.flags | reference.flags) & LINE_TOO_LONG) continue;
        b->pair[b->n] = (struct pair){copy_line(&line), copy_line(&reference), b->n + 1};
        b->n++;
    }
    return 0;
}

int valid_bleu_open(struct valid_bleu **bleu, const struct setup *setup, int lines,
                    const volatile int *stop, struct err *err) {
    struct text *src = NULL, *tgt = NULL;
    struct valid_bleu *b = xcalloc(1, sizeof *b);
    *b = (struct valid_bleu){.setup = setup, .stop = stop};
    b->pair = xcalloc((size_t)lines, sizeof *b->pair);
    b->result = xcalloc(BATCH, sizeof *b->result);
    int rc = text_open(&src, setup->a->valid_src, err);
    if (!rc) rc = text_open(&tgt, setup->a->valid_tgt, err);
    if (!rc) rc = read_pairs(b, src, tgt, lines, err);
    text_close(src);
    text_close(tgt);
    qsort(b->pair, (size_t)b->n, sizeof *b->pair, by_length);
    if (rc)
        valid_bleu_close(b);
    else
        *bleu = b;
    return rc;
}

void valid_bleu_close(struct valid_bleu *b) {
    if (!b) return;
    translator_free(b->translator);
    if (b->tiles) model_free(b->engine.model[0]);
    frozen_close(b->tiles);
    for (int i = 0; i < b->n; i++) {
        xfree((char *)(uintptr_t)b->pair[i].source.text);
        xfree((char *)(uintptr_t)b->pair[i].reference.text);
    }
    xfree(b->pair);
    xfree(b->result);
    xfree(b);
}

static int should_stop(void *ctx, int done, int total) {
    const struct valid_bleu *b = ctx;
    (void)done, (void)total;
    return *b->stop;
}

/* The model as it is now. */
static int take_weights(struct valid_bleu *b, struct err *err) {
    const struct setup *s = b->setup;
    if (b->tiles) return frozen_refresh(b->tiles, s->model, err);
    if (b->translator) return 0;
    b->engine = (struct engine){.be = s->be,
                                .model = {s->model},
                                .n = 1,
                                .max_len = s->config.max_len,
                                .source = s->src_tokenizer,
                                .target = s->tgt_tokenizer,
                                .tongues = s->tongues};
    int rc = 0;
    if (backend_wants_tiles(s->be)) {
        rc = frozen_from_model(&b->tiles, s->model, PRECISION_F32, s->a->where.n_thread, err);
        if (!rc) rc = frozen_model(&b->engine.model[0], b->tiles, s->be, err);
    }
    if (!rc) b->translator = translator_new(&b->engine);
    return rc;
}

/* Translates pairs first .. first + n - 1 and counts. */
static int measure_batch(struct valid_bleu *b, struct bleu *bleu, int first, int n,
                         struct err *err) {
    struct translator_poll poll = {should_stop, b};
    struct translator_input input[BATCH] = {{0}};
    const struct pair *pair = b->pair + first;
    for (int i = 0; i < n; i++)
        input[i] = (struct translator_input){.text = pair[i].source.text,
                                             .size = pair[i].source.size,
                                             .name = "validation line",
                                             .number = (uint64_t)pair[i].number};
    int rc = translator_run(b->translator, input, n, b->result, &poll, err);
    for (int i = 0; i < n && !rc; i++) {
        struct segment reference = {pair[i].reference.text, pair[i].reference.size};
        struct segment said = {b->result[i].best[0].text, b->result[i].best[0].size};
        bleu_add(bleu, said, &reference, 1);
    }
    return rc;
}

/* The batches whose turn this rank is. */
static int measure_own(struct valid_bleu *b, struct bleu *bleu, struct err *err) {
    const struct setup *s = b->setup;
    struct translator_options options = translator_defaults();
    options.batch_sentences = BATCH;
    options.batch_tokens = 2048;
    if (s->valid_source.tagged) options.prefix_token = s->a->valid_tag;
    options.source_lang = s->said.source_lang;
    options.target_lang = s->said.target_lang;
    int rc = take_weights(b, err), step = BATCH * s->comm->size;
    if (!rc) rc = translator_set(b->translator, &options, err);
    for (int i = BATCH * s->comm->rank; i < b->n && !rc; i += step)
        rc = measure_batch(b, bleu, i, min_int(BATCH, b->n - i), err);
    return rc;
}

int valid_bleu_measure(void *ctx, double *score, struct err *err) {
    struct valid_bleu *b = ctx;
    struct comm *comm = b->setup->comm;
    struct counts {
        uint64_t stopped, sum[BLEU_N_STAT];
    } mine = {0}, total = {0}, *all = xcalloc((size_t)comm->size, sizeof *all);
    struct bleu bleu;
    struct bleu_score result;
    *score = NAN;
    bleu_init(&bleu, &(struct bleu_options){.tokenizer = TOKENIZE_13A, .smooth_value = -1});
    int rc = measure_own(b, &bleu, err);
    mine.stopped = rc == HEED_ECANCELLED;
    memcpy(mine.sum, bleu.sum, sizeof mine.sum);
    watch_phase(b->setup->watch, b->setup->opt->step, WATCH_WAIT);
    int first = -1;
    rc = agree_all(comm, mine.stopped ? 0 : rc, &first, err);
    if (!rc) comm_gather(comm, all, &mine, sizeof mine);
    if (!rc) rc = comm_check(comm, err);
    for (int r = 0; r < comm->size; r++) {
        total.stopped |= all[r].stopped;
        for (int i = 0; i < BLEU_N_STAT; i++) total.sum[i] += all[r].sum[i];
    }
    bleu_score(&result, total.sum, &bleu.options);
    if (!rc && !total.stopped) *score = result.score;
    bleu_release(&bleu);
    xfree(all);
    return rc;
}

/* train_bleu.c — see train_bleu.h. */
#include "cli/train_bleu.h"

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "data/text.h"
#include "eval/bleu.h"
#include "search/translator.h"

struct train_bleu {
    const struct train_setup *setup;
    const volatile int *stop;
    struct translator_input *input; /* [n] */
    char **reference;               /* [n] */
    struct translation *result;     /* [n] */
    int n;
    /* From the first measurement on. The backend is the run's; so is the model where the backend
     * runs plain weights, else `tiles` follow it. */
    struct frozen *tiles;
    struct engine engine;
    struct translator *translator;
};

static char *copy_line(const struct line *line) {
    char *text = xmalloc(line->size + 1);
    memcpy(text, line->text, line->size + 1);
    return text;
}

static int read_pairs(struct train_bleu *b, struct text *src, struct text *tgt, int lines,
                      struct err *err) {
    struct line line, reference;
    while (b->n < lines) {
        int rc = text_next(src, &line, err), rc_tgt = rc > 0 ? text_next(tgt, &reference, err) : 0;
        if (rc <= 0 || rc_tgt <= 0) return rc < 0 ? rc : rc_tgt < 0 ? rc_tgt : 0;
        if ((line.flags | reference.flags) & LINE_TOO_LONG) continue;
        b->input[b->n] = (struct translator_input){.text = copy_line(&line),
                                                   .size = line.size,
                                                   .name = "validation line",
                                                   .number = (uint64_t)b->n + 1};
        b->reference[b->n++] = copy_line(&reference);
    }
    return 0;
}

int train_bleu_open(struct train_bleu **bleu, const struct train_setup *setup, int lines,
                    const volatile int *stop, struct err *err) {
    struct text *src = NULL, *tgt = NULL;
    struct train_bleu *b = xcalloc(1, sizeof *b);
    *b = (struct train_bleu){.setup = setup, .stop = stop};
    b->input = xcalloc((size_t)lines, sizeof *b->input);
    b->reference = xcalloc((size_t)lines, sizeof *b->reference);
    b->result = xcalloc((size_t)lines, sizeof *b->result);
    int rc = text_open(&src, setup->a->valid_src, err);
    if (!rc) rc = text_open(&tgt, setup->a->valid_tgt, err);
    if (!rc) rc = read_pairs(b, src, tgt, lines, err);
    text_close(src);
    text_close(tgt);
    if (rc)
        train_bleu_close(b);
    else
        *bleu = b;
    return rc;
}

void train_bleu_close(struct train_bleu *b) {
    if (!b) return;
    translator_free(b->translator);
    if (b->tiles) model_free(b->engine.model[0]);
    frozen_close(b->tiles);
    for (int i = 0; i < b->n; i++) {
        xfree((char *)(uintptr_t)b->input[i].text);
        xfree(b->reference[i]);
    }
    xfree(b->input);
    xfree(b->reference);
    xfree(b->result);
    xfree(b);
}

static int should_stop(void *ctx, int done, int total) {
    const struct train_bleu *b = ctx;
    (void)done, (void)total;
    return *b->stop;
}

static double score_of(const struct train_bleu *b) {
    struct bleu bleu;
    struct bleu_score score;
    bleu_init(&bleu, &(struct bleu_options){.tokenizer = TOKENIZE_13A, .smooth_value = -1});
    for (int i = 0; i < b->n; i++) {
        struct segment reference = {b->reference[i], strlen(b->reference[i])};
        bleu_add(&bleu, (struct segment){b->result[i].best[0].text, b->result[i].best[0].size},
                 &reference, 1);
    }
    bleu_score(&score, bleu.sum, &bleu.options);
    bleu_release(&bleu);
    return score.score;
}

/* The model as it is now. */
static int take_weights(struct train_bleu *b, struct err *err) {
    const struct train_setup *s = b->setup;
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

int train_bleu_measure(void *ctx, double *score, struct err *err) {
    struct train_bleu *b = ctx;
    struct translator_options options = translator_defaults();
    struct translator_poll poll = {should_stop, b};
    options.batch_sentences = 32; /* on a GPU too, whose memory belongs to the run */
    options.batch_tokens = 2048;
    *score = NAN;
    int rc = take_weights(b, err);
    if (b->setup->valid_source.tagged) options.prefix_token = b->setup->a->valid_tag;
    options.source_lang = b->setup->said.source_lang;
    options.target_lang = b->setup->said.target_lang;
    if (!rc) rc = translator_set(b->translator, &options, err);
    if (!rc) rc = translator_run(b->translator, b->input, b->n, b->result, &poll, err);
    if (!rc) *score = score_of(b);
    return rc == HEED_ECANCELLED ? 0 : rc;
}

/* task.h — an order's way through one model, as text: into sentences, into tokens, and back.
 *
 * A task has documents (the order's texts). A document has units: itself, or, where it is HTML, the
 * texts that are between its tags (text/markup.h). A unit has sentences (data/passages.h; a line is
 * one), a sentence has parts: one, unless the model cannot take it whole (search/split.h). Parts
 * are what is searched.
 *
 *     task_new      copies and cleans the texts
 *     task_next     the next part, tokenised; portions are small, so that no text, however long,
 *                   keeps an engine from its next step
 *     task_found    what the search found for a part; then task_link, where links are wanted
 *     task_finish   all parts are done: the answers
 *
 * A sentence of more than TASK_PIECE bytes is cut, between words where there are some, before it is
 * tokenised; any other is treated as `heed translate` does, and its result is the same.
 *
 * Owns all its memory, answers included. task_new on any thread, the rest on one at a time. No
 * model is needed to make one; those that need one are given its facts. */
#ifndef SERVE_TASK_H
#define SERVE_TASK_H

#include "base/keep.h"
#include "data/sentences.h"
#include "search/align.h"
#include "search/carousel.h"
#include "search/engine.h"
#include "search/glossary.h"
#include "serve/desk.h"

enum { TASK_PIECE = 8192 };

/* What a task needs to know of an open model. */
struct task_facts {
    const struct engine *engine;
    const struct tokenizer *source, *target;
    int ended;       /* 1 if sources have an end mark */
    int limit;       /* tokens of a part, tag and end mark counted */
    float threshold; /* of links */
    const struct speller *speller;
    int shares_words; /* engine_shares_words */
};

struct part_candidate {
    char *text; /* [size], NUL-terminated */
    size_t size;
    /* [n], an end mark behind them, what leads before them; NULL: the search found nothing */
    int32_t *ids;
    int n;
    float *token_log_prob; /* [n], if words are wanted */
    float score, log_prob;
    int cut;
    struct desk_word *word; /* [n_word] if words are wanted, as the next */
    int n_word;
    struct align_link *link;
    int n_link;
};

struct errand;

struct part {
    int unit;
    const char *before; /* [n_before] of the text, kept; NULL: a space parts it from the last */
    size_t n_before;
    int32_t *src; /* [n_src] tag and end mark, if any, included */
    int n_src;
    const int32_t *said; /* [n_said] what is searched: src, or with terms in it */
    int n_said;
    int *word;   /* [pieces] that each token belongs to, if wanted, or -1 */
    int word_at; /* counted from this one of the unit */
    uint64_t key;
    const struct terms *terms;   /* that it must contain, or NULL */
    struct part_candidate *best; /* [n] what was found; n is 0 before */
    int n;
    /* the batcher's */
    struct part *next;
    struct errand *errand;
    const struct search_options *options; /* the errand's, or wider, for its terms */
    int seat, rows, cells;
    int steps; /* that it was in; of those that are not interactive */
    uint64_t since;
};

struct task;

/* What of an order concerns texts. n_best: candidates wanted. */
struct task_order {
    const struct desk_text *text;
    int n;
    enum desk_format format;
    int n_best;
    unsigned extras;
    const struct sentence_rules *rules; /* where sentences end */
    const struct glossary *glossary;    /* of the order's own terms, or NULL; borrowed */
};
struct task *task_new(const struct task_order *order);
void task_free(struct task *task);

/* What every part begins with, and its translation, before anything else is asked of it; of a model
 * that needs to be told nothing, {-1, -1}. */
void task_tell(struct task *task, const struct engine_tags *tags);
const struct engine_tags *task_told(const struct task *task);
int task_leads(const struct task *task); /* 1 if translations begin with a tag, no part of them */

/* 1 and the next part, whose bytes are added to *work; 0: there is none; or an error of the text.
 * Also 0, with *work raised, after so much was looked at without finding one: ask again, unless
 * task_read says that all is read. */
int task_next(struct task *task, const struct task_facts *facts, struct part **part, size_t *work,
              struct err *err);
int task_read(const struct task *task);
int task_idle(const struct task *task); /* all parts there are so far are found */
int task_done(const struct task *task); /* all is read and found */

/* Copies the result. HEED_EINTERNAL when it cannot be turned into text. */
int task_found(struct task *task, const struct task_facts *facts, struct part *part,
               const struct search_result *result, struct err *err);

/* Are links wanted of what was found of a part? Then candidate k has the attention `matrix` [its
 * tokens and the end mark, part->n_src]. */
int task_wants_links(const struct task *task, const struct part *part);
int task_link(struct task *task, const struct task_facts *facts, struct part *part, int k,
              const float *matrix, struct err *err);

unsigned task_extras(const struct task *task);
int task_documents(const struct task *task);
const struct part *task_first(const struct task *task); /* part of all; NULL: none yet */
int task_n_best(const struct task *task);
struct keep *task_keep(struct task *task); /* where answers lie */

/* What document of the part says so far, with the best hypothesis of the part; 0 if an earlier part
 * is not done, and nothing can be said. */
int task_partial(struct task *task, const struct task_facts *facts, const struct part *part,
                 const struct carousel_view *view, struct desk_partial *partial);

/* DESK_SCORE: the pairs, tokenised, one per document. An error if one is too long. */
struct task_pair {
    int32_t *src, *tgt; /* with their end marks */
    int n_src, n_tgt;
};
int task_pair(struct task *task, const struct task_facts *facts, int document,
              struct task_pair *pair, struct err *err);
void task_scored(struct task *task, const struct task_facts *facts, int document,
                 const struct task_pair *pair, const float *log_prob);

void task_attention(struct task *task, const struct desk_attention *attention);

/* Puts the answers together: [n], until task_free. */
const struct desk_answer *task_finish(struct task *task, int *n);

#endif

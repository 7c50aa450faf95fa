/* desk.h — where translations are ordered: a job is handed in from any thread, and its answer comes
 * back by a call.
 *
 * A desk has models by language pair (registry.h), each with one engine thread (batcher.h) in whose
 * running search the sentences of all jobs share every step. A pair without a model of its own is
 * served by two, through a third language. What a sentence becomes does not depend on what else
 * there is to do: on the CPU it is what `heed translate` makes of it, to the last bit.
 *
 *     desk_open       models, limits
 *     desk_submit     an order becomes a job, or is turned away: full, draining, refused
 *     desk_cancel     within one step of the decoder nothing is computed for it any more
 *     done(ctx, job)  once per accepted job, whatever happens to it
 *     desk_release    the job and its answers are gone
 *     desk_reload     other models for jobs to come
 *     desk_drain      no new jobs; wait for those there are
 *
 * Who owns what. An order and all that it points to is the caller's, and copied by desk_submit. A
 * job belongs to the caller from desk_submit to desk_release, also after done was called; answers
 * belong to the job. Releasing a job that is not done cancels it, and done is still called, with a
 * job that is gone when the call returns. desk_close cancels what is not done and waits for the
 * calls back, in which jobs may be released; all must be when it returns.
 *
 * Which thread. Everything here may be called from any thread, also from inside the calls back.
 * desk_submit and desk_cancel never wait for a model; desk_submit copies the texts, and that is all
 * the time it takes. The calls back (done, partial) come from engine threads only, with no lock
 * held; everybody's next step waits for them, so they must be short: hand over, and wake somebody.
 * Calls back of one job never overlap, and there is none after done.
 *
 * How it fails. What is wrong with an order in itself (no such pair, too many alternatives) is
 * refused by desk_submit with a message for people; what only the engine finds (a text that cannot
 * be split) ends the job as DESK_REFUSED; scores that are not numbers, and a backend that fails,
 * end jobs as DESK_FAILED, each with one message. After a backend failed, the desk opens the model
 * once more for the jobs to come; if that fails too, they are DESK_FAILED.
 *
 * Who is next. A job is interactive, normal or bulk (by its size, unless the order says so). A
 * sentence costs its tokens; those of a class have a weight (16, 4, 1); of clients with the same
 * weight each gets the same share, a client's jobs take turns, and nobody starves. While
 * interactive sentences are in work, only so many others take part in a step as leave it short; and
 * bulk never takes all seats. */
#ifndef SERVE_DESK_H
#define SERVE_DESK_H

#include "backend/backend.h"
#include "data/links.h"
#include "data/tokenizer.h"
#include "model/frozen.h"
#include "search/engine.h"
#include "search/search.h"

struct desk;
struct desk_job;

/* ---- orders ---------------------------------------------------------------------------------- */

/* TEXT: as people write it (data/passages.h): sentences are translated, what is between them is
 * kept. HTML: a document or a part of one (text/markup.h). LINE: one sentence, as a line of `heed
 * translate`. */
enum desk_format { DESK_TEXT, DESK_HTML, DESK_LINE };

/* AUTO: interactive up to DESK_SHORT bytes in all, bulk from DESK_LONG on. */
enum desk_class { DESK_AUTO, DESK_INTERACTIVE, DESK_NORMAL, DESK_BULK };
enum { DESK_SHORT = 1000, DESK_LONG = 20000 };

enum desk_extra {
    /* words of source and translation, links, confidence (of two models the last one's); not of
     * HTML */
    DESK_WORDS = 1,
    DESK_PARTIAL = 2, /* `partial` is called as the translation grows; not of HTML */
    /* of all layers and heads, of the best translation of the first sentence; by one model only */
    DESK_ATTENTION = 4,
    DESK_SCORE =
        8, /* how probable `given` is; nothing is translated. Not of HTML; one model only */
};

struct desk_text {
    const char *text; /* any bytes; no NUL is needed */
    size_t size;
    const char *given; /* DESK_SCORE: the translation to score, else not looked at */
    size_t given_size;
};

/* What the best hypothesis of text number `text` says so far, UTF-8: of a text of several sentences
 * those that are done, and what is under way of the next. The first `settled` bytes will not change
 * any more. Valid during the call. */
struct desk_partial {
    int text;
    const char *out;
    size_t size, settled;
};

/* A term of the source, and what translations must have in its place (search/glossary.h). */
struct desk_term {
    const char *source, *target;
};

struct desk_order {
    const struct desk_text *text; /* [n], n >= 1 */
    int n;
    const char *source, *target; /* as the models were named: "de", "en" */
    enum desk_format format;
    int alternatives; /* wanted besides the best; at most DESK_MAX_ALTERNATIVES */
    /* [n_term], at most DESK_MAX_TERMS, not through a third language; none: those of the models'
     * own glossaries, each on its part of the way */
    const struct desk_term *term;
    int n_term;
    const struct search_options *search; /* NULL: the model's own; n_best is not looked at */
    uint64_t client;                     /* whose share it comes out of */
    enum desk_class class;
    double deadline; /* clock_seconds() after which nobody wants it; 0: none */
    unsigned extras; /* enum desk_extra */
    void (*done)(void *ctx, struct desk_job *job);
    void (*partial)(void *ctx, struct desk_job *job, const struct desk_partial *partial);
    void *ctx;
};

enum { DESK_MAX_ALTERNATIVES = 15, DESK_MAX_TEXT = 16 << 20, DESK_MAX_TERMS = 1000 };

enum desk_turn {
    DESK_ACCEPTED,
    DESK_FULL,     /* come back in `retry_after` seconds */
    DESK_DRAINING, /* likewise, to another server */
    DESK_WRONG,    /* the message says what */
};

struct desk_refusal {
    struct err err;
    int retry_after; /* seconds, at least 1, by how fast the queue moves */
};

/* *job only if accepted. The first call back may come before this returns: what it needs to find
 * out whose job it is must lie behind ctx. refusal may be NULL. */
enum desk_turn desk_submit(struct desk *desk, const struct desk_order *order, struct desk_job **job,
                           struct desk_refusal *refusal);

/* Done jobs do not mind. Otherwise the job ends as DESK_CANCELLED. */
void desk_cancel(struct desk_job *job);
void desk_release(struct desk_job *job);

/* ---- answers --------------------------------------------------------------------------------- */

enum desk_status {
    DESK_RUNNING, /* waiting or in work */
    DESK_DONE,
    DESK_CANCELLED,
    DESK_DEADLINE,
    DESK_REFUSED, /* the job's own fault: message */
    DESK_FAILED,  /* ours: message */
};
enum desk_status desk_status(const struct desk_job *job);
const char *desk_message(const struct desk_job *job); /* "" unless REFUSED or FAILED */

struct desk_candidate {
    const char *text; /* NUL-terminated UTF-8 (a NUL byte of the source becomes U+FFFD) */
    size_t size;
    float score, log_prob; /* as in search.h, summed over sentences */
    int cut;               /* ended by a length limit, not by the model */
};

/* A word of the translation, and how sure the model is of it: the geometric mean of the
 * probabilities of its pieces, each given what comes before. */
struct desk_word {
    struct span at;
    float confidence;
};

/* The attention of a sentence and its best translation. Numbers are probabilities, [layer, head,
 * query, key]: enc over (n_src, n_src), dec over (n_tgt, n_tgt), cross over (n_tgt, n_src). Row t
 * of the decoder writes piece t of tgt, the end mark last; what it may look at (the keys of dec)
 * are the pieces that were written before, the begin mark first. */
struct desk_attention {
    const char *const *src, *const *tgt; /* [n_src], [n_tgt] pieces, U+2581 for a space */
    int n_src, n_tgt;
    int n_layer_enc, n_layer_dec, n_head;
    int n_layer_self; /* of dec: 0 in a decoder without self-attention */
    const float *enc, *dec, *cross;
};

/* Of one text. */
struct desk_answer {
    const struct desk_candidate *best; /* [n] best first, n >= 1; equal ones are not repeated */
    int n;
    int n_sentence;     /* that were translated */
    int replaced;       /* bytes that were not UTF-8 became U+FFFD: spans count in `source` */
    const char *source; /* DESK_WORDS, DESK_SCORE: the text as it was read */
    size_t source_size;
    /* DESK_WORDS: of `source` and of best[0]; links from word to word */
    const struct span *word;
    int n_word;
    const struct desk_word *translated;
    int n_translated;
    const struct align_link *link;
    int n_link;
    const struct desk_attention *attention; /* DESK_ATTENTION, of the first text only */
    /* DESK_SCORE: log P(given | text) in best[0].log_prob, best[0].text is `given`, and
     * translated[] has its words; n_piece is how many pieces it has, end mark counted */
    int n_piece;
};

/* Only of a job that is DESK_DONE. i in [0, desk_count). */
int desk_count(const struct desk_job *job);
const struct desk_answer *desk_answer(const struct desk_job *job, int i);

/* What it took: seconds from desk_submit until its first sentence was in work, and until the end;
 * tokens read and written. Only when it has ended. */
struct desk_cost {
    double waited, total;
    uint64_t src_tokens, tgt_tokens, sentences;
};
struct desk_cost desk_cost(const struct desk_job *job);

/* ---- the desk -------------------------------------------------------------------------------- */

struct desk_model {
    const char *source, *target; /* "de", "en" */
    const char *dir;
    const char *glossary;    /* a file of terms for orders without any of their own; NULL: none */
    struct engine_said said; /* what a model of several languages calls these two */
};

struct desk_options {
    const struct desk_model *model; /* [n_model]; the same directory twice is opened once */
    int n_model;
    struct backend_options where; /* of every engine */
    enum precision precision;
    int max_jobs;     /* accepted and not done; 0: 1024 */
    size_t max_bytes; /* of their texts; 0: 64 MiB */
    int seats;        /* sentences in work at a time, per model; 0: as suits the device */
    /* rows of others that make a step together, when they may, beside interactive sentences (see
     * batcher.h). 0: as suits the device */
    int busy_rows;
};

/* All models are open when it returns 0. */
int desk_open(struct desk **desk, const struct desk_options *options, struct err *err);
void desk_close(struct desk *desk);

/* Jobs from now on get these models, opened now by the calling thread (seconds); those under way
 * end with the ones they have, which are closed then. On error nothing changes. Directories are
 * opened anew, since what lies in them may have changed. */
int desk_reload(struct desk *desk, const struct desk_model *model, int n_model, struct err *err);

/* From now on orders are DESK_DRAINING. Returns 1 when no job is left, or 0 after `seconds`; what
 * is left then is the caller's to cancel. */
int desk_drain(struct desk *desk, double seconds);

/* What can be translated: a pair with a model of its own, or through a third language. Sorted by
 * source, then target; strings live until desk_pairs_free. */
struct desk_pair {
    const char *source, *target;
    const char *through; /* NULL: directly */
};
struct desk_pairs {
    struct desk_pair *pair;
    int n;
    struct desk *desk; /* and what holds the strings */
    struct catalog *held;
};
struct desk_pairs desk_pairs(struct desk *desk);
void desk_pairs_free(struct desk_pairs *pairs);

/* Of all models together. Counters only grow; those of models that a reload replaced stay in. */
enum { DESK_BUCKETS = 12 }; /* rows of a step: 1, 2, 3..4, 5..8, ... and more than 1024 */
struct desk_stats {
    int jobs;            /* accepted and not done */
    size_t queued_bytes; /* of their texts */
    int seated;          /* sentences in work */
    int engines;         /* running, those of replaced models that are not done yet included */
    uint64_t ended[DESK_FAILED + 1]; /* jobs by enum desk_status */
    uint64_t turned[DESK_WRONG + 1]; /* orders by enum desk_turn */
    uint64_t sentences, src_tokens, tgt_tokens;
    uint64_t steps, rows, passes;   /* of the decoder; rows in all of them; of the encoder */
    uint64_t rows_of[DESK_BUCKETS]; /* steps by their number of rows */
    double seconds;                 /* engine threads were busy */
};
struct desk_stats desk_stats(struct desk *desk);

#endif

/* engine.h — what a thread needs to run a model: a backend, the model on it, and the tokenizers
 * that belong to it. The only way to open a model directory, or several as an ensemble.
 *
 * The backend comes first, since it decides what becomes of the weights (frozen.h): tiles that are
 * mapped or made in memory, or a copy on the device. What does not change while running (struct
 * ensemble) is opened by the first engine and shared by all that engine_again makes for other
 * threads, each with a backend of its own: on a CPU they share the weights, too.
 *
 * An engine may also be put together by hand, around parts that somebody else owns
 * (train_bleu.c). */
#ifndef SEARCH_ENGINE_H
#define SEARCH_ENGINE_H

#include "backend/backend.h"
#include "data/tokenizer.h"
#include "model/frozen.h"
#include "model/tongues.h"
#include "search/search.h"

struct translator_options;

/* Immutable. */
struct ensemble {
    struct frozen *model[SEARCH_MAX_MODELS];
    int n;
    struct tongues *tongues;             /* NULL if not wanted */
    struct translator_options *defaults; /* defaults.h */
};

struct engine {
    struct backend *be;
    struct model *model[SEARCH_MAX_MODELS];
    int n;
    int max_len;                             /* positions that all of them have */
    const struct tokenizer *source, *target; /* of texts to translate, and of translations */
    const struct tongues *tongues;           /* these and what else there is to say; or NULL */
    struct ensemble *ensemble;
    int owns_ensemble;
    /* Where opening spent its time: the device; files, checksums and tiles; waiting for the
     * tokenizers, which are opened meanwhile; putting the models on the device. */
    double device_seconds, reading_seconds, tokenizer_seconds, placing_seconds;
};

struct engine_options {
    const char *const *dir; /* [n] */
    int n;
    enum precision precision;
    struct backend_options where; /* n_thread also prepares weights that are not stored tiled */
    int ids_only;                 /* do not open the tokenizers */
};

/* HEED_ECONFIG when the models do not share their tokenizers, HEED_EFORMAT when a tokenizer does
 * not belong to its model. */
int engine_open(struct engine **engine, const struct engine_options *options, struct err *err);

/* Another engine for another thread. `first` must outlive it. */
int engine_again(struct engine **engine, const struct engine *first,
                 const struct backend_options *where, struct err *err);
void engine_close(struct engine *engine);

/* What a translation begins and ends with, and what it must not have. */
struct search_marks engine_marks(const struct engine *engine);

/* What stands before a source sentence, and before its translation after the start mark; -1:
 * nothing. */
struct engine_tags {
    int32_t source, target;
};

/* What decides it: a piece to put before source sentences (heed train --tags), or codes of
 * languages (model/tongues.h). NULL: the model's own (defaults.h), or none. */
struct engine_said {
    const char *prefix_token, *source_lang, *target_lang;
};

/* HEED_EINVAL when the tokenizer has no such piece, the model no such language or no languages at
 * all, or when it has several and is not told which. */
int engine_tags(const struct engine *engine, const struct engine_said *said,
                struct engine_tags *tags, struct err *err);

/* Do all models have one embedding for the words of both languages? Then a source may have some of
 * the target's. */
int engine_shares_words(const struct engine *engine);

/* The options for it, of everything that reads source sentences. */
#define SOURCE_LANG_ROW(FIELD, ...)                                                                \
    ROW(STRING, "source_lang", FIELD, NULL,                                                        \
        "language of the text, of a model that is told; heed inspect shows which it has",          \
        .arg = "CODE", ##__VA_ARGS__)
#define TARGET_LANG_ROW(FIELD, ...)                                                                \
    ROW(STRING, "target_lang", FIELD, NULL, "language of the translation, likewise",               \
        .arg = "CODE", ##__VA_ARGS__)
#define PREFIX_TOKEN_ROW(FIELD, ...)                                                               \
    ROW(STRING, "prefix_token", FIELD, NULL,                                                       \
        "a piece of the tokenizer to put before every source sentence, as heed train --tags did",  \
        .arg = "T", ##__VA_ARGS__)

/* How long opening took, as text: "device 210.3 ms (driver 90.1, context 101.0), reading 12.0 ms,
 * ...". Returns text. */
const char *engine_opening(const struct engine *engine, char *text, size_t size);

#endif

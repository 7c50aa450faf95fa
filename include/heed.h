/* heed.h — the public face of libheed, a Transformer for sequence-to-sequence work.
 *
 * The only header a program that embeds heed includes. Handles are opaque, no other library's types
 * appear, nothing here prints or exits, and there is no global state. Functions that can fail
 * return HEED_OK (0) or a negative status, and describe what happened in a heed_error, if they are
 * given one.
 *
 *     heed_model *model;
 *     heed_result *result;
 *     heed_error error;
 *     const char *text[] = {"Where is my book?", "Tom is here."};
 *     if (heed_model_open(&model, "models/en-de", NULL, &error)) return complain(error.message);
 *     if (heed_translate(model, text, 2, NULL, &result, &error)) return complain(error.message);
 *     for (size_t i = 0; i < 2; i++) puts(heed_result_get(result, i, 0)->text);
 *     heed_result_free(result);
 *     heed_model_close(model);
 *
 * Text is UTF-8 both ways, in NUL-terminated strings. Bytes that are not UTF-8 are read as U+FFFD,
 * and the result says so; text that comes out is always valid.
 *
 * Threads: one open model serves any number of threads at once. Results belong to whoever asked for
 * them. An options structure is only read during the call that takes it.
 *
 * Structures that the caller fills grow at their end from version to version. The _init functions
 * take sizeof the structure as the caller was compiled, so that old programs keep working with
 * newer libraries. */
#ifndef HEED_H
#define HEED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0
#define HEED_VERSION       "0.1.0"

#if defined(__GNUC__)
#define HEED_API __attribute__((visibility("default")))
#else
#define HEED_API
#endif

/* Every status the library returns: name, value, one line of text. */
#define HEED_STATUS_MAP(X)                                                                         \
    X(HEED_OK, 0, "success")                                                                       \
    X(HEED_EINVAL, -1, "invalid argument")                                                         \
    X(HEED_ECONFIG, -2, "impossible configuration")                                                \
    X(HEED_ENOMEM, -3, "out of memory")                                                            \
    X(HEED_EIO, -4, "input or output failed")                                                      \
    X(HEED_EFORMAT, -5, "malformed file")                                                          \
    X(HEED_EDEVICE, -6, "device not available or failed")                                          \
    X(HEED_ELIMIT, -7, "limit exceeded")                                                           \
    X(HEED_EINTERNAL, -8, "internal error")                                                        \
    X(HEED_ECANCELLED, -9, "cancelled by the caller")

enum heed_status {
#define HEED_STATUS_ENUM(name, value, text) name = value,
    HEED_STATUS_MAP(HEED_STATUS_ENUM)
#undef HEED_STATUS_ENUM
};

/* Version of the library linked at run time, "major.minor.patch". */
HEED_API const char *heed_version(void);

/* One line of English for a status; never NULL, also for values that are no status. */
HEED_API const char *heed_status_text(int status);

/* What went wrong: one of the statuses above, and a message that names the thing and the value,
 * ready to show. Every function below that takes one accepts NULL. */
typedef struct heed_error {
    int code;
    char message[256];
} heed_error;

/* ---- models ---------------------------------------------------------------------------------- */

/* An open model directory: its weights (memory-mapped where they are stored ready to use, and then
 * shared with every other process that runs them), its tokenizer, and the sessions that translate
 * with it. */
typedef struct heed_model heed_model;

typedef struct heed_model_options {
    size_t size;           /* set by heed_model_options_init */
    const char *precision; /* "f32", "bf16", "int8", or "auto": as the model is stored */
    const char *device;    /* "auto", "cpu", "cuda" */
    const char *isa;       /* of the cpu: NULL or "auto", or a name such as "avx2" */
    /* calls of heed_translate that run at the same time; others wait for their turn. Each session
     * has working memory of its own, made when it is first needed. Default 1. */
    int sessions;
    int threads; /* per session; 0 shares all CPUs among the sessions. Default 0. */
    /* Directories of further models that decide together with the first. They must have the same
     * tokenizer. */
    const char *const *ensemble;
    size_t n_ensemble;
} heed_model_options;

/* The defaults. size is sizeof *options. */
HEED_API void heed_model_options_init(heed_model_options *options, size_t size);

/* Opens a model directory. options may be NULL. On failure *model is NULL. */
HEED_API int heed_model_open(heed_model **model, const char *directory,
                             const heed_model_options *options, heed_error *error);

/* Releases it. No call may be using the model any more; results stay valid. NULL is fine. */
HEED_API void heed_model_close(heed_model *model);

typedef struct heed_model_info {
    size_t size;
    int models;     /* in the ensemble; what follows is of the first */
    int vocabulary; /* pieces of the tokenizer */
    int encoder_layers, decoder_layers;
    int d_model, d_ff, heads;
    int max_tokens;        /* of a sentence, end mark included */
    uint64_t weight_bytes; /* of all models together */
    const char *precision; /* what it runs in: "f32", "bf16" or "int8" */
} heed_model_info;

/* size is sizeof *info. What info points at lives as long as the library. */
HEED_API void heed_model_describe(const heed_model *model, heed_model_info *info, size_t size);

/* ---- translating ----------------------------------------------------------------------------- */

/* Told how far a call is: done of total sentences. Called on the thread that called heed_translate,
 * before every step of a search and while it waits for a session (with total 0). A non-zero return
 * ends the call with HEED_ECANCELLED. It must not use the same model. */
typedef int heed_progress(void *context, size_t done, size_t total);

typedef struct heed_translate_options {
    size_t size; /* set by heed_translate_options_init */
    int beam;    /* hypotheses kept; 1 is greedy. Default 4, at most 64. */
    int n_best;  /* alternatives wanted per text; at most beam, unless sampling. Default 1. */
    /* length penalty: scores are log-probabilities over ((5 + length) / 6)^alpha. 0.6 */
    float alpha;
    int min_length; /* tokens of a translation; 0 */
    int max_length; /* 0: what the model has positions for */
    int max_extra;  /* tokens a translation may have more than its source; 50 */
    /* tokens translated at a time; longer texts are split. 0: what the model has positions for */
    int max_source;
    int refuse_long;     /* non-zero: HEED_ELIMIT instead of splitting; 0 */
    int alignment;       /* non-zero: links between source and target pieces are wanted; 0 */
    int alignment_layer; /* of the decoder, from 0; -1 (default): the last but one */
    int alignment_head;  /* -1 (default): the mean of all */
    int sample;          /* non-zero: draw n_best translations instead of searching the best; 0 */
    float temperature;   /* of sampling; 1 */
    int top_k;           /* sample among the k best tokens; 0: all */
    float top_p;         /* sample among the best tokens that together have this probability; 1 */
    uint64_t seed;       /* of sampling; the same seed and texts give the same translations. 1 */
    int no_repeat;       /* no sequence of that many tokens twice; 0: off */
    float repetition;    /* penalty of tokens already written; 1: off */
    int no_unknown;      /* non-zero: never write the unknown token; 0 */
    /* searched together, at most; 32. Speed and memory depend on it, results do not. */
    int batch_sentences;
    int batch_tokens; /* source tokens searched together, at most; 2048 */
    /* NULL, or [n] what each translation must begin with (NULL or "": anything) */
    const char *const *prefix;
    heed_progress *progress; /* NULL: nobody */
    void *progress_context;
} heed_translate_options;

/* The defaults. size is sizeof *options. */
HEED_API void heed_translate_options_init(heed_translate_options *options, size_t size);

/* Source piece `source` was looked at most when target piece `target` was written. Both count from
 * 0. */
typedef struct heed_link {
    int source, target;
} heed_link;

typedef struct heed_translation {
    const char *text;
    float score;    /* what alternatives are ranked by; higher is better */
    float log_prob; /* natural logarithm of its probability */
    int cut;        /* non-zero: it reached a length limit before the model ended it */
    size_t n_pieces;
    /* [n_pieces] as the tokenizer spells them (U+2581 for a space). NULL unless alignment was asked
     * for, as are the links. */
    const char *const *pieces;
    size_t n_links;
    const heed_link *links;
} heed_translation;

/* What a text met on its way. */
enum heed_note {
    HEED_NOTE_REPLACED = 1, /* it held bytes that are not UTF-8 */
    HEED_NOTE_SPLIT = 2,    /* it was too long for the model, and translated in parts */
    HEED_NOTE_CUT = 4       /* its best translation is cut */
};

typedef struct heed_result heed_result;

/* Translates n texts. A text is what one line would be: a sentence or a few. options may be NULL.
 * On failure *result is NULL. The translation of a text depends on the text and the options alone,
 * not on its neighbours or the number of threads. A text without words gives an empty
 * translation. */
HEED_API int heed_translate(heed_model *model, const char *const *texts, size_t n,
                            const heed_translate_options *options, heed_result **result,
                            heed_error *error);

/* Releases it and everything it pointed at. NULL is fine. */
HEED_API void heed_result_free(heed_result *result);

/* Texts in the result, in the order they were given. */
HEED_API size_t heed_result_size(const heed_result *result);

/* Alternatives there are for a text: at least 1, at most n_best. 0 for a text that is not there. */
HEED_API size_t heed_result_alternatives(const heed_result *result, size_t text);

/* The k-th best translation of a text, k from 0; NULL where there is none. */
HEED_API const heed_translation *heed_result_get(const heed_result *result, size_t text, size_t k);

/* heed_note values of a text, added up. */
HEED_API unsigned heed_result_notes(const heed_result *result, size_t text);

/* The pieces of a source text, which links speak of; NULL unless alignment was asked for. */
HEED_API const char *const *heed_result_source(const heed_result *result, size_t text,
                                               size_t *n_pieces);

#ifdef __cplusplus
}
#endif

#endif

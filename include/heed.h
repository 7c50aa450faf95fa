/* heed.h — the public interface of libheed, a Transformer for sequence-to-sequence work.
 *
 * This is the only header a program needs to embed heed. Handles are opaque, no other library's
 * types appear, nothing here prints or exits, and there is no global state. Functions that can fail
 * return HEED_OK (0) or a negative status, and describe the failure in a heed_error if they are
 * given one.
 *
 *     heed_model *model;
 *     heed_result *result;
 *     heed_error error;
 *     const char *text[] = {"Where is my book?", "Tom is here."};
 *     if (heed_model_open(&model, "en-de", NULL, &error)) return complain(error.message);
 *     if (heed_translate(model, text, 2, NULL, &result, &error)) return complain(error.message);
 *     for (size_t i = 0; i < 2; i++) puts(heed_result_get(result, i, 0)->text);
 *     heed_result_free(result);
 *     heed_model_close(model);
 *
 * Text is UTF-8 in both directions, in NUL-terminated strings. Input bytes that are not UTF-8 are
 * read as U+FFFD, and the result says so; output is always valid.
 *
 * Threads: one open model serves any number of threads at once. A result belongs to whoever asked
 * for it. An options structure is read only during the call that takes it.
 *
 * Structures that the caller fills may gain fields at their end in later versions. The _init
 * functions take the size of the structure that the caller was compiled with, so that old programs
 * keep working with newer libraries. */
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

/* Every status the library returns: name, value, and a short description. */
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

/* A short English description of a status. Never NULL, even for unknown values. */
HEED_API const char *heed_status_text(int status);

/* What went wrong: one of the statuses above, and a message for the user that names the culprit and
 * its value. Every function below that takes a heed_error also accepts NULL. A NULL that a
 * function cannot do without is HEED_EINVAL; functions that cannot fail do nothing, or answer 0 or
 * NULL. */
typedef struct heed_error {
    int code;
    char message[256];
} heed_error;

/* ---- models ---------------------------------------------------------------------------------- */

/* An open model directory: its weights, its tokenizer, and the sessions that translate with it.
 * Weights that are stored ready to use (heed export) are memory-mapped, and so shared with every
 * other process that has the model open. Replace such a file, never write into it: one that is cut
 * short while it is mapped raises SIGBUS in whoever uses it, and the library installs no signal
 * handler. */
typedef struct heed_model heed_model;

typedef struct heed_model_options {
    size_t size;           /* set by heed_model_options_init */
    const char *precision; /* "f32", "bf16", "int8", or "auto": int8 if the model is, on a GPU
                            * bf16 if it is, else f32 */
    const char *device;    /* "auto", "cpu", "cuda" */
    const char *isa;       /* instruction set of the CPU: NULL or "auto", or a name like "avx2" */
    /* How many calls of heed_translate can run at the same time; further calls wait. Each session
     * has working memory of its own, allocated when first needed. Default 1. */
    int sessions;
    int threads; /* per session; 0 shares all CPUs among the sessions. Default 0. */
    /* Names or directories of further models, which decide together with the first. They must all
     * have the same tokenizer. */
    const char *const *ensemble;
    size_t n_ensemble;
} heed_model_options;

/* Fills in the defaults. Pass sizeof *options as size. */
HEED_API void heed_model_options_init(heed_model_options *options, size_t size);

/* Opens a model directory, or the model of that name: if there is no such directory, the name is
 * looked for in the folders of the environment variable HEED_MODELS (separated by colons), in
 * ./models, and in share/heed/models of the installation. options may be NULL. On failure *model is
 * NULL. */
HEED_API int heed_model_open(heed_model **model, const char *name,
                             const heed_model_options *options, heed_error *error);

/* Closes the model. No call may still be using it; results stay valid. NULL does nothing. */
HEED_API void heed_model_close(heed_model *model);

typedef struct heed_model_info {
    size_t size;
    int models;     /* in the ensemble; the fields below describe the first one */
    int vocabulary; /* pieces in the tokenizer */
    int encoder_layers, decoder_layers;
    int d_model, d_ff, heads;
    int max_tokens;        /* in a sentence, including the end mark */
    uint64_t weight_bytes; /* of all models together */
    const char *precision; /* that it runs in: "f32", "bf16" or "int8" */
    /* What the model says about itself (heed describe), or "": languages as BCP 47 tags, such as
     * "en", and its licence. */
    const char *source, *target, *licence;
} heed_model_info;

/* Describes an open model. Pass sizeof *info as size. Strings in info last until the model is
 * closed. */
HEED_API void heed_model_describe(const heed_model *model, heed_model_info *info, size_t size);

/* ---- glossaries ------------------------------------------------------------------------------ */

/* Terms, and how they are to be translated: where a text has a term, its translations have what the
 * glossary says. docs/translate.md tells when a text has a term, and how a file looks. A glossary
 * is of no model in particular; any number of calls and threads may use it at once, as long as
 * nobody adds to it. */
typedef struct heed_glossary heed_glossary;

/* Reads a file; NULL: an empty glossary. Where the first line of the file names the languages of
 * its columns, source and target (as in heed_model_info) choose two of them; NULL or "" if unknown.
 * Otherwise the first column is the source, or, where reverse is not 0, the second. On failure
 * *glossary is NULL. */
HEED_API int heed_glossary_open(heed_glossary **glossary, const char *file, const char *source,
                                const char *target, int reverse, heed_error *error);

/* Adds a term, or gives one that is there another translation. */
HEED_API int heed_glossary_add(heed_glossary *glossary, const char *source, const char *target,
                               heed_error *error);

/* No call may still be using it. NULL does nothing. */
HEED_API void heed_glossary_free(heed_glossary *glossary);

/* ---- translating ----------------------------------------------------------------------------- */

/* A callback that reports progress: `done` of `total` sentences. It runs on the thread that called
 * heed_translate, before every step of the search and while waiting for a session (total is 0
 * then). A non-zero return ends the call with HEED_ECANCELLED. The callback must not use the same
 * model. */
typedef int heed_progress(void *context, size_t done, size_t total);

/* What the links of an alignment are between. */
enum heed_alignment { HEED_ALIGNMENT_PIECES = 1, HEED_ALIGNMENT_WORDS = 2 };

/* What a text is.
 * LINES: one line, translated as a whole.
 * TEXT: text as people write it, translated sentence by sentence, with everything between two
 * sentences (line ends, indentation, marks of lists) kept, and placeholders ({name}, %s, ${x}) in
 * them; but these only where neither alignment is asked for nor a prefix given.
 * HTML: a document or a part of one, and so is its translation. Tags follow the words that they
 * were around; everything that is not text comes out as it was; nothing that was text becomes
 * markup. Results have no pieces, words or links then. */
enum heed_format { HEED_FORMAT_LINES = 0, HEED_FORMAT_TEXT = 1, HEED_FORMAT_HTML = 2 };

/* What a log-probability is divided by: the paper's ((5 + length) / 6)^alpha, or length^alpha. */
enum heed_length_rule { HEED_LENGTH_PAPER = 0, HEED_LENGTH_POWER = 1 };

typedef struct heed_translate_options {
    size_t size; /* set by heed_translate_options_init */
    int beam;    /* hypotheses kept; 1 is greedy search. Default 4, at most 64. */
    int n_best;  /* translations wanted per text; at most beam, unless sampling. Default 1. */
    /* Length penalty: a score is the log-probability over ((5 + length) / 6)^alpha, or as
     * length_rule says. Default 0.6. */
    float alpha;
    int min_length; /* of a translation, in tokens. Default 0. */
    int max_length; /* Default 0: as many tokens as the model has positions for. */
    int max_extra;  /* how many tokens longer than its source a translation may be. Default 50. */
    /* Texts of more tokens than this are split. Default 0: as many as the model has positions
     * for. */
    int max_source;
    int refuse_long;     /* non-zero: fail with HEED_ELIMIT instead of splitting. Default 0. */
    int alignment;       /* an enum heed_alignment: also return links. Default 0: none. */
    int alignment_layer; /* of the decoder, from 0; -1 (default): the model's, or the usual one */
    int alignment_head;  /* from 0; -1 (default): the model's, or the mean of all heads */
    int sample;          /* non-zero: draw n_best random translations instead of searching */
    float temperature;   /* when sampling. Default 1. */
    int top_k;           /* sample from the k most likely tokens. Default 0: from all. */
    float top_p;         /* sample from the fewest tokens with this total probability. Default 1. */
    uint64_t seed;       /* the same seed and texts give the same samples. Default 1. */
    int no_repeat;       /* never write the same sequence of this many tokens twice; 0: off */
    float repetition;    /* penalty on tokens already written. Default 1: none. */
    int no_unknown;      /* non-zero: never write the unknown token. Default 0. */
    /* How many sentences to search together, at most. Default 0: 32 on a CPU, up to 2048 on a GPU.
     * Affects speed and memory, but not results. */
    int batch_sentences;
    /* The same, counted in source tokens. Default 0: 2048 on a CPU, 65536 on a GPU. */
    int batch_tokens;
    /* NULL, or [n] strings that the translations must begin with (NULL or "": anything). */
    const char *const *prefix;
    heed_progress *progress; /* NULL: none */
    void *progress_context;
    /* A piece of the tokenizer to put before every source sentence: the tag of a corpus that the
     * model was trained on (heed train --tags). NULL: the model's own, or none. */
    const char *prefix_token;
    /* An enum heed_format: what texts are. Default 0: each is one line, translated as a whole. HTML
     * goes with neither alignment nor prefix. */
    int format;
    /* The texts' language, such as "de", whose abbreviations HEED_FORMAT_TEXT and HEED_FORMAT_HTML
     * know. NULL: the model's, or that of none. */
    const char *language;
    /* Terms that translations must have; NULL: none. Does not go with sample. */
    const heed_glossary *glossary;
    int length_rule; /* an enum heed_length_rule. Default 0: the paper's. */
    /* The languages of texts and translations, of a model that has several and must be told: codes
     * that it knows (heed inspect). NULL: the model's own choice. */
    const char *source_lang, *target_lang;
} heed_translate_options;

/* Fills in the defaults. Pass sizeof *options as size. */
HEED_API void heed_translate_options_init(heed_translate_options *options, size_t size);

/* The same with the defaults that the model brings along (heed describe --set), such as a beam or a
 * length penalty of its own, where it does. */
HEED_API void heed_model_translate_options(const heed_model *model, heed_translate_options *options,
                                           size_t size);

/* Target piece or word `target` attended most to source piece or word `source`. Both count from
 * 0. */
typedef struct heed_link {
    int source, target;
} heed_link;

/* A word of a text: its bytes [begin, end). docs/translate.md says what counts as a word. */
typedef struct heed_word {
    size_t begin, end;
} heed_word;

typedef struct heed_translation {
    const char *text;
    float score;    /* alternatives are ranked by this; higher is better */
    float log_prob; /* natural logarithm of the probability */
    int cut;        /* non-zero: it hit a length limit before the model ended it */
    size_t n_pieces;
    /* [n_pieces] as the tokenizer spells them (U+2581 for a space). Pieces and links are NULL
     * unless alignment was asked for. */
    const char *const *pieces;
    size_t n_links;
    const heed_link *links;
    size_t n_words;
    const heed_word *words; /* [n_words] of text; NULL unless links are between words */
} heed_translation;

/* What happened to a text on its way. */
enum heed_note {
    HEED_NOTE_REPLACED = 1, /* it contained bytes that are not UTF-8, now U+FFFD */
    HEED_NOTE_SPLIT = 2,    /* it was too long for the model and was translated in parts */
    HEED_NOTE_CUT = 4,      /* its best translation hit a length limit */
    HEED_NOTE_MISSED = 8    /* and lacks a term of the glossary that the text has */
};

/* The translations of one call of heed_translate. */
typedef struct heed_result heed_result;

/* Translates n texts, each about one line, a sentence or a few; or, with HEED_FORMAT_TEXT, any. A
 * text of several sentences has the links, words and scores of all. options may be NULL: then they
 * are those of heed_model_translate_options. On failure *result is NULL. The translation of a text
 * depends only on the text and the options, not on its neighbours or the number of threads. A text
 * without words has an empty translation, or with HEED_FORMAT_TEXT itself. */
HEED_API int heed_translate(heed_model *model, const char *const *texts, size_t n,
                            const heed_translate_options *options, heed_result **result,
                            heed_error *error);

/* Frees the result and everything it points to. NULL does nothing. */
HEED_API void heed_result_free(heed_result *result);

/* Number of texts in the result; they are in the order they were given. */
HEED_API size_t heed_result_size(const heed_result *result);

/* Number of translations of a text: 1 to n_best, or 0 if there is no such text. */
HEED_API size_t heed_result_alternatives(const heed_result *result, size_t text);

/* The k-th best translation of a text, counting from 0; NULL if there is none. */
HEED_API const heed_translation *heed_result_get(const heed_result *result, size_t text, size_t k);

/* The heed_note values of a text, combined with |. */
HEED_API unsigned heed_result_notes(const heed_result *result, size_t text);

/* The pieces of a source text that links refer to; NULL unless alignment was asked for. */
HEED_API const char *const *heed_result_source(const heed_result *result, size_t text,
                                               size_t *n_pieces);

/* The words of a source text, if links are between words; else NULL. Where the text contained
 * bytes that are not UTF-8 (HEED_NOTE_REPLACED), each bad sequence counts as the three bytes of
 * U+FFFD. */
HEED_API const heed_word *heed_result_source_words(const heed_result *result, size_t text,
                                                   size_t *n_words);

#ifdef __cplusplus
}
#endif

#endif

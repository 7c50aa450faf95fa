/* translator.h — texts in, translations out.
 *
 * A translator takes a window of texts, makes batches of sentences of similar length, searches, and
 * gives the results in the order of the texts. Which texts share a window, and how they are
 * batched, affects the speed and nothing else.
 *
 * A text may contain anything. Bytes that are not UTF-8 count as U+FFFD. A text without words gives
 * an empty translation without asking the model. One that is longer than the model can take is
 * split (split.h), its parts are translated and joined by spaces; or it is refused, if so asked; it
 * is never cut. A translation that was ended by the length limit and not by the model says so
 * (`cut`). A newline that the tokenizer produces becomes a space: one line stays one line. With
 * FORMAT_TEXT this is true of every sentence, and what lies between two is copied: a text without
 * words is its own translation.
 *
 * A translator borrows an engine and owns searchers and results. It serves one thread at a time.
 * Searchers are sized by length class when the first text of that class arrives: short sentences,
 * nearly all there are, do not pay for the room that long ones need. On a CPU the first few lines
 * get small ones, and in longer texts that for long sentences serves the short ones as well. */
#ifndef SEARCH_TRANSLATOR_H
#define SEARCH_TRANSLATOR_H

#include "backend/backend.h"
#include "base/pool.h"
#include "data/sentences.h"
#include "search/align.h"
#include "search/engine.h"
#include "search/glossary.h"

/* What a text is: one line, to be translated as a whole, or sentences in lines and paragraphs as
 * people write them, of which everything between sentences is kept (data/passages.h). HTML is for
 * text/pages.h, which hands a document's sentences to the translator one by one: here, lines. */
enum text_format { FORMAT_LINES, FORMAT_TEXT, FORMAT_HTML };

/* What links are between. */
enum alignment { ALIGNMENT_NONE, ALIGNMENT_PIECES, ALIGNMENT_WORDS };

struct translator_options {
    struct search_options search;
    int batch_sentences; /* most sentences searched at a time; 0: as suits the device */
    /* most source tokens of these, unless one sentence alone has more; 0: as suits the device */
    int batch_tokens;
    /* most tokens of a source sentence, end mark included; 0: as many as the models have
     * positions */
    int max_source;
    int refuse_long; /* texts that are too long are an error, not split */
    /* A piece of the tokenizer that every source sentence begins with, as those of a tagged corpus
     * did in training; NULL: none. It counts among the tokens, and is no part of results. */
    const char *prefix_token;
    /* Codes of the languages, of a model that has several and must be told (model/tongues.h): as
     * tags before source or translation, which are no part of results either; NULL: the model's
     * own choice, or none. */
    const char *source_lang, *target_lang;
    /* of the sentences of a text or document: a tag such as "de"; NULL: the model's, or none */
    const char *language;
    /* Terms that translations must have where texts have them; NULL: none. Borrowed from
     * translator_set to the next one. A search, not samples. */
    const struct glossary *glossary;
    int format;    /* enum text_format */
    int alignment; /* enum alignment; other than none costs one more pass of the decoder */
    struct align_options align;
};

extern const struct option translator_rows[]; /* every field but search's and the glossary */

/* search_defaults, and batches as suit the device: they keep two CPUs busy within a few hundred MB,
 * or a GPU within a part of its memory. */
struct translator_options translator_defaults(void);

struct translator_input {
    const char *text; /* needs no NUL at its end */
    size_t size;
    const char *prefix; /* what the translation must begin with, or NULL */
    size_t prefix_size;
    uint64_t key;     /* of the random stream, when sampling */
    const char *name; /* for messages: "line" and */
    uint64_t number;  /* its number, 17 */
};

enum translation_notes {
    TRANSLATION_REPLACED = 1, /* the text or its prefix was not UTF-8 */
    TRANSLATION_SPLIT = 2,    /* it, or a sentence of it, was too long, and split */
    TRANSLATION_CUT = 4,      /* the best candidate is cut */
    TRANSLATION_MISSED = 8,   /* it lacks a term of the glossary that the text has */
};

/* Of several parts: texts and tokens one after another, log_prob and score summed; candidate k is
 * made of the k-th of every part (of its last, where it has fewer). */
struct candidate {
    const char *text; /* NUL-terminated UTF-8 */
    size_t size;
    float score, log_prob; /* as in search.h */
    const int32_t *ids;    /* [n_tok] no end marks */
    int n_tok;
    int cut;                       /* ended by a length limit */
    const struct align_link *link; /* [n_link] piece to piece, or word to word, if asked for */
    int n_link;
    const struct span *word; /* [n_word] of the text, if links are between words (data/words.h) */
    int n_word;
};

struct translation {
    const struct candidate *best; /* [n] best first; n >= 1 */
    int n;
    /* [n_src] the text's tokens, no end marks; none where the text has no words */
    const int32_t *src;
    int n_src;
    /* the text as translated: bad UTF-8 is U+FFFD; where it was good, the caller's memory */
    const char *text;
    size_t size;
    const struct span *word; /* [n_word] of it, if links are between words */
    int n_word;
    int n_part;
    unsigned notes; /* enum translation_notes */
};

/* Since translator_new. Latencies are of batches; translator_latency tells the time that a share of
 * them did not exceed (0.5: the median), to within 2 %. */
enum { LATENCY_BUCKETS = 1024 };
struct translator_stats {
    uint64_t texts, sentences, batches, src_tokens, tgt_tokens;
    double seconds;             /* in searches */
    double preparing, reading;  /* seconds from texts to tokens, and from tokens to texts */
    struct search_stats search; /* of all of them */
    uint64_t latency[LATENCY_BUCKETS];
};
double translator_latency(const struct translator_stats *stats, double share);

struct translator;

/* The engine must have a tokenizer. translator_set must follow. */
struct translator *translator_new(const struct engine *engine);
void translator_free(struct translator *translator);

/* From now on texts are tokenised, and translations read off, by all threads of the pool, which the
 * caller owns. NULL, as at first: by the thread that calls translator_run. */
void translator_share(struct translator *translator, struct pool *pool);

/* The most sentences searched at a time: what the options say, or what suits the device. */
int translator_batch(const struct translator *translator);

/* The options from now on. Setting the same ones again costs nothing. */
int translator_set(struct translator *translator, const struct translator_options *options,
                   struct err *err);

/* Where sentences end in the language of the options, or the model's. */
const struct sentence_rules *translator_rules(const struct translator *translator);

/* Called before every step of a search; a non-zero return ends the work with HEED_ECANCELLED. done
 * of total sentences are translated. */
struct translator_poll {
    int (*call)(void *ctx, int done, int total);
    void *ctx;
};

/* poll may be NULL. Results are valid until the next call. On error, the texts before the one that
 * the message names are still translated; out[i].n is 0 for those that are not. */
int translator_run(struct translator *translator, const struct translator_input *in, int n,
                   struct translation *out, const struct translator_poll *poll, struct err *err);

const struct translator_stats *translator_stats(const struct translator *translator);

#endif

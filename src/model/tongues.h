/* tongues.h — text as a model reads and writes it: a tokenizer for each side, and the ids that mean
 * something of their own.
 *
 * Files of a model directory, each optional but for the first:
 *
 *     tokenizer.model          SentencePiece; of the source, and of the target without the next
 *     tokenizer.target.model   of the target
 *     vocabulary.txt           the ids of tokens, where these are not the SentencePiece file's
 *     vocabulary.target.txt    (data/vocabulary.h); of the target, if they are others there
 *
 * and "tokens" in config.json, where ids are not what these say; every key is optional:
 *
 *     "start"            what a translation begins with; -1: the zero vector in place of a token
 *     "end", "unknown"   of the target, and of the source where both have one vocabulary
 *     "source_end"       of the source; -1: its sentences have no end mark
 *     "source_unknown"
 *     "banned"           [ids] that are never written
 *     "languages"        of a model for several, {"before_source": "source" or "target",
 *                        "before_target": "target", "codes": {"de": ">>deu<<", ...}}: whose token
 *                        stands before each source sentence, and whose the translation begins with
 *                        after "start"; code and token of each language
 *
 * Everything comes from outside and is checked: an id that the vocabulary does not have, or a
 * token, is HEED_EFORMAT with the file and the key. Tongues own their tokenizers, keep the files
 * mapped and never change: any number of threads may use them. */
#ifndef MODEL_TONGUES_H
#define MODEL_TONGUES_H

#include <jansson.h>

#include "data/tokenizer.h"
#include "model/config.h"

enum { TONGUES_MAX_BANNED = 16, TONGUES_MAX_LANGUAGES = 1024, TONGUES_MAX_CODE = 32 };

/* Whose token stands somewhere. */
enum tongues_language { TONGUES_NONE, TONGUES_SOURCE, TONGUES_TARGET };

struct tongues_code {
    const char *code;
    int32_t source, target; /* its token on each side; -1 where that side needs none */
};

struct tongues {
    struct tokenizer *source, *target; /* the same where one serves both */
    int32_t banned[TONGUES_MAX_BANNED];
    int n_banned;
    enum tongues_language before_source, before_target;
    struct tongues_code *code; /* [n_code] in the order of the file */
    int n_code;
    struct tongues_files *files; /* what the tokenizers were read from */
};

/* Opens what DIR has; tokens is config.json's, or NULL. Sizes must be the model's. */
int tongues_open(struct tongues **tongues, const char *dir, const struct config *config,
                 const json_t *tokens, struct err *err);
/* NULL is allowed. */
void tongues_free(struct tongues *tongues);

/* Both sides have the same tokenizers? */
int tongues_equal(const struct tongues *a, const struct tongues *b);

/* Do both sides have the same vocabulary, whatever makes tokens of their texts? */
int tongues_share(const struct tongues *tongues);

#endif

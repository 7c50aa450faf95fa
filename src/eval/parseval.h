/* parseval.h — labelled brackets of parse trees against those of a treebank, equal to what EVALB
 * (Sekine and Collins) prints, to the last digit (docs/eval.md).
 *
 *   precision = brackets found that are in the reference / brackets found
 *   recall    = the same / brackets of the reference
 *   F1        = 2 precision recall / (precision + recall)
 *
 * A bracket is a label and the words it spans; tags of words are no brackets. What is left out
 * first is said by EVALB's parameter files (.prm): words with certain tags (punctuation), brackets
 * with certain labels (the root), and which labels count as equal. Labels lose what follows a - or
 * a =.
 *
 * A pair of trees with different words, and a line that is no tree, is an error: counted, and left
 * out of all scores, as EVALB does. A parse without words is skipped likewise.
 *
 * Used like bleu.h: statistics of a segment add up. The rules are read once and shared by all
 * threads; each has a struct parseval of its own. */
#ifndef EVAL_PARSEVAL_H
#define EVAL_PARSEVAL_H

#include "data/tree.h"
#include "eval/bootstrap.h"
#include "eval/tokens.h"

enum parseval_stat {
    PARSEVAL_MATCH,        /* brackets in both */
    PARSEVAL_REF,          /* brackets of the reference */
    PARSEVAL_HYP,          /* brackets found */
    PARSEVAL_VALID,        /* sentences that are scored */
    PARSEVAL_EXACT,        /* of these: all brackets right */
    PARSEVAL_CROSSING,     /* brackets found that cross one of the reference */
    PARSEVAL_NO_CROSSING,  /* sentences without */
    PARSEVAL_FEW_CROSSING, /* sentences with two at most */
    PARSEVAL_WORDS,
    PARSEVAL_TAGS, /* words with the right tag */
    PARSEVAL_ERRORS,
    PARSEVAL_SKIPPED,
    PARSEVAL_N_STAT
};

enum { PARSEVAL_MAX_RULES = 256, PARSEVAL_MAX_LABEL = 64 };

struct parseval_rules {
    struct parseval_rule {
        enum { RULE_DELETE, RULE_QUOTE, RULE_EQUAL, RULE_EQUAL_WORD } kind;
        char a[PARSEVAL_MAX_LABEL], b[PARSEVAL_MAX_LABEL];
    } rule[PARSEVAL_MAX_RULES];
    int n;
    int unlabelled;
    char name[64]; /* for the signature */
};

/* Those of COLLINS.prm, and the names that other treebanks have for the root and for marks that end
 * a sentence. */
void parseval_default_rules(struct parseval_rules *rules);

/* An EVALB parameter file. What it does not know is HEED_EFORMAT, with the line. */
int parseval_read_rules(struct parseval_rules *rules, const char *path, struct err *err);

struct parseval {
    const struct parseval_rules *rules;
    struct parseval_side {
        struct tree tree;
        char *kept; /* [tree.n] is this leaf a word to be compared? */
        struct parseval_bracket {
            struct tree_text label;
            int begin, end;
            int order; /* as the line has them */
            int matched;
        } * bracket;
        int *word; /* [n_word] those kept, as items of the tree */
        struct parseval_quote {
            int item, index;
        } * quote;
        int n_bracket, n_word, n_quote;
        int room_kept, room_bracket, room_word, room_quote, room_stack;
        int *stack;
    } hyp, ref;
};

void parseval_init(struct parseval *parseval, const struct parseval_rules *rules);
void parseval_release(struct parseval *parseval);

void parseval_count(struct parseval *parseval, uint64_t stat[PARSEVAL_N_STAT], struct segment hyp,
                    const struct segment *ref);

double parseval_value(const uint64_t *sum, const void *rules); /* F1, 0 to 100 */

/* "P = 88.12 R = 87.31 exact = 30.10 crossing = 0.91 (none = 63.10 few = 85.20) tags = 96.02
 * (sentences = 2000 errors = 3 skipped = 0)" */
void parseval_details(char *out, size_t size, const uint64_t *sum);
void parseval_signature(char *out, size_t size, const struct parseval_rules *rules,
                        const struct resampling *resampling);

#endif

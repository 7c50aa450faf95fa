/* task_inside.h — the inside of a task (task.h), for src/serve/task*.c only.
 *
 *     task.c          an order becomes parts, and parts what was found for them
 *     task_answer.c   what was found becomes what is said, and given translations are scored */
#ifndef SERVE_TASK_INSIDE_H
#define SERVE_TASK_INSIDE_H

#include "base/num.h"
#include "data/passages.h"
#include "data/words.h"
#include "search/split.h"
#include "serve/task.h"
#include "text/markup.h"

struct document {
    char *text; /* clean */
    size_t size;
    char *given; /* DESK_SCORE */
    size_t given_size;
    struct markup *markup; /* or NULL: a text that has nothing in it that must be kept */
    int first, n_unit;
    int replaced;
    /* what the first parts say, for those who watch: text of n_told parts, from its first on */
    char *told;
    size_t told_size, told_room;
    int n_told;
};

struct unit {
    int document;
    const char *text;
    size_t size, after; /* from there on nothing is translated */
    int first, n_part;
    struct span *word; /* [n_word] if wanted */
    int n_word;
};

/* Where task_next stands: in a unit, in a sentence of it, in a piece of that. */
struct cursor {
    int unit, in_unit;
    struct passages passages;
    struct passage sentence;
    int in_sentence, first_part; /* of the sentence */
    size_t kept;                 /* the unit's text before is spoken for */
    size_t at;                   /* of the sentence: what is before is in pieces */
    struct split_part *piece;    /* or NULL */
    int n_piece, i_piece;
    size_t piece_at; /* of the unit, that pieces count from */
};

struct task {
    struct keep keep;
    enum desk_format format;
    int n_best;
    unsigned extras;
    const struct sentence_rules *rules;
    const struct glossary *glossary;
    struct document *document;
    int n_document;
    struct engine_tags tags;
    struct unit *unit;
    int n_unit;
    struct part **part;
    int n_part, cap_part, n_found;
    struct cursor cursor;
    struct words words; /* scratch, as the next */
    struct words term_words;
    int32_t *ids;
    struct span *span;
    int room;
    float *of_words;
    size_t cap_of_words;
    const struct desk_attention *attention;
    struct desk_answer *answer;
};

static inline const struct document *task_document_of(const struct task *t, const struct unit *u) {
    return &t->document[u->document];
}

/* Is the unit a text, with passages, and not one sentence? */
static inline int task_is_text(const struct task *t, const struct unit *u) {
    return t->format == DESK_TEXT && !task_document_of(t, u)->markup;
}

static inline int task_is_tagged(const struct task *t) { return t->tags.source >= 0; }

/* Tokens of a part's text, tag and end mark not counted. */
static inline int task_max_tok(const struct task *t, const struct task_facts *f) {
    return f->limit - max_int(f->ended + task_is_tagged(t), 1 + task_leads(t));
}

/* Room for n tokens in the scratch. */
void task_make_room(struct task *t, int n);

/* The words of tokens whose log-probabilities are known; t->words knows which word each is of. */
struct desk_word *task_sure_words(struct task *t, const float *log_prob);

#endif

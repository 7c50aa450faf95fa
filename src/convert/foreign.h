/* foreign.h — a model of another engine, between its reader and the one writer of ours.
 *
 * A reader (one per format: ct2.c, huggingface.c, marian.c) opens what it finds in a bundle and
 * fills in a struct foreign: the shape of the model, its two vocabularies, how it generates, and a
 * function that finds the elementary matrices it consists of, one by one, wherever the file has
 * them and in whatever type. Here they become parameters of ours: stacked (w_qkv, w_kv), turned,
 * missing biases zero, the scale of embeddings folded in, positions as a table; then a model
 * directory, written as a whole or not at all.
 *
 * Numbers are kept where that can be: int8 with one scale for a row or for all is written as
 * int8 with the same q and the same scales, f16 and bf16 as they are.
 *
 * Readers allocate what lives as long as the model from `keep`; mappings and whatever else a reader
 * holds belong to `reader` and go with `close`. Files are hostile: a reader checks that a view lies
 * within the file; shapes against the configuration are checked here. Whatever a model has that
 * ours cannot express is refused by name, never left out. */
#ifndef CONVERT_FOREIGN_H
#define CONVERT_FOREIGN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keep.h"
#include "convert/bundle.h"
#include "model/card.h"
#include "model/config.h"

/* ---- matrices -------------------------------------------------------------------------------- */

/* Where in the model: outside the layers of a stack, or in a sub-layer. */
enum foreign_place { IN_STACK, IN_SELF, IN_CROSS, IN_FF, IN_SSRU };

/* What of it. Matrices are [out, in]. */
enum foreign_what {
    THE_EMBEDDING,  /* of a stack: [vocabulary, d_model] */
    THE_POSITIONS,  /* of a stack: [at least max_len, d_model]; FOREIGN_TABLE only */
    THE_EMBED_NORM, /* of a stack, with config.embed_norm */
    THE_FINAL_NORM, /* of a stack, with pre-norm */
    THE_OUTPUT,     /* of the decoder: [target vocabulary, d_model]; its bias with output_bias */
    THE_QUERY,
    THE_KEY,
    THE_VALUE,
    THE_RESULT, /* of attention: [d_model, n_head * d_v] */
    THE_FIRST,
    THE_SECOND, /* of a feed-forward network: [d_ff, d_model], [d_model, d_ff] */
    THE_CELL,   /* of an SSRU: W of x W, without a bias */
    THE_GATE,   /* and Wf, bf of its forget gate */
    THE_NORM    /* of any sub-layer */
};

/* One matrix or vector. */
struct foreign_role {
    int decoder; /* the stack: 0 the encoder's */
    int layer;   /* from 0; 0 outside the layers */
    enum foreign_place place;
    enum foreign_what what;
    int bias; /* the bias of a matrix, the beta of a norm; otherwise the matrix, the gamma */
};

enum foreign_type { FOREIGN_F32, FOREIGN_F16, FOREIGN_BF16, FOREIGN_I16, FOREIGN_I8 };

/* Where it lies in memory. Data need not be aligned. Element (i, j) of what we want is at
 * data[i * ld + j], or, transposed, at data[j * ld + i]. Integers stand for w = q / scale. */
struct foreign_mat {
    const void *data; /* NULL: there is none */
    int rows, cols;   /* as we want them: [out, in]; a vector is one row */
    int64_t ld;       /* elements; 0: as many as a row (column, if transposed) has */
    int transposed;
    enum foreign_type type;
    const float *scale; /* integers only: [n_scale] */
    int n_scale;        /* 1 or rows */
    float x_scale;      /* I8 only: x_scale of backend/mat.h, or 0 */
};

size_t foreign_type_size(enum foreign_type type);

/* "decoder layer 3, cross-attention: bias of the keys" */
enum { FOREIGN_ROLE_TEXT = 80 };
const char *foreign_role_text(char text[FOREIGN_ROLE_TEXT], const struct foreign_role *role);

/* ---- a model --------------------------------------------------------------------------------- */

/* How positions are encoded. PAPER: ours are interleaved, sin, cos, sin, cos, ...; other engines
 * have all sines, then all cosines. */
enum foreign_positions {
    FOREIGN_TABLE,  /* the model has them: THE_POSITIONS of both stacks */
    FOREIGN_HALVES, /* frequencies 10000^(-2i/d) */
    FOREIGN_MARIAN, /* frequencies 10000^(-i/(d/2 - 1)) */
    FOREIGN_OURS    /* the paper's, from 0 */
};

/* The texts of one language. */
struct foreign_side {
    const void *tokenizer; /* a SentencePiece file; NULL: as the source's */
    size_t tokenizer_size;
    const char *const *token; /* [n_token]: the vocabulary; NULL: that of the tokenizer */
    int n_token;
};

/* Tokens that name languages. */
struct foreign_languages {
    const char *before_source; /* "source", "target": whose token stands there; NULL: nobody's */
    const char *before_target; /* "target" or NULL */
    const char *const *code;   /* [n]: "de" */
    const char *const *token;  /* [n]: "__de__", ">>deu<<" */
    int n;
};

enum { FOREIGN_BANNED = 16, FOREIGN_ZERO = -1 };

struct foreign {
    const char *path;     /* begins messages */
    const char *format;   /* as people call it: "CTranslate2 v6" */
    struct config config; /* checked by foreign_write; positions and max_len: see below */

    /* config.positions is not looked at. THE_POSITIONS may have more rows than max_len, not
     * fewer. */
    enum foreign_positions positions;
    int first_position;    /* of a sentence's first token: 0, 1, 2; of FOREIGN_TABLE the row */
    double embed_scale[2]; /* what embeddings are multiplied by, [encoder, decoder]; ours is
                                 * sqrt(d_model), which 0 stands for */
    struct foreign_side source, target; /* target.token NULL: the same vocabulary */
    int start;                  /* what the decoder is given first: an id, or FOREIGN_ZERO */
    int end, unknown;           /* ids */
    int no_source_end;          /* sources do not end with the end mark */
    int banned[FOREIGN_BANNED]; /* ids that are never written */
    int n_banned;
    struct foreign_languages languages;
    json_t *translate; /* options of heed translate, or NULL: owned */
    struct card card;

    /* Finds a matrix; mat->data stays NULL where the model has none, which only biases may. Called
     * by one thread. */
    int (*find)(const struct foreign *model, const struct foreign_role *role,
                struct foreign_mat *mat, struct err *err);
    void (*close)(struct foreign *model); /* frees reader; NULL: nothing to do */
    void *reader;
    struct keep keep;
};

/* A configuration to begin with: the paper's base model, an output bias of none. */
struct config foreign_config(void);

/* The SentencePiece files that lie in the bundle under one of the usual names, below `prefix`
 * ("model/" or ""): one for both sides, or source.spm and target.spm. None is no error: the user
 * may name one. */
int foreign_tokenizers(struct foreign *model, struct bundle *bundle, const char *prefix,
                       struct err *err);

/* Releases what the reader took; for an empty model ({0}), too. */
void foreign_close(struct foreign *model);

/* One format. `open` fills in an empty model from a bundle, which must outlive it; the caller
 * closes the model, after an error too. `looks` tells whether the bundle has the files of such a
 * model; it reads as little as it can. */
struct foreign_reader {
    const char *name; /* of --format */
    int (*looks)(struct bundle *bundle);
    int (*open)(struct foreign *model, struct bundle *bundle, struct err *err);
};
extern const struct foreign_reader ct2_reader, huggingface_reader, marian_reader;

/* ---- writing --------------------------------------------------------------------------------- */

/* What the numbers become; auto: what they are. */
enum foreign_dtype { DTO_AUTO, DTO_F32, DTO_F16, DTO_BF16, DTO_INT8 };
extern const char *const foreign_dtype_names[]; /* NULL-terminated */

struct foreign_options {
    enum foreign_dtype dtype;
    int n_thread;                                 /* 0: all CPUs */
    void (*progress)(void *ctx, double fraction); /* now and then, by this thread; NULL: nobody */
    void *progress_ctx;
};

/* What came of it. */
struct foreign_report {
    enum foreign_dtype dtype;
    int kept;       /* matrices whose int8 is the source's, bit for bit */
    int matrices;   /* of all */
    size_t n_value; /* parameters */
};

/* Writes the model directory DIR; *report may be NULL. */
int foreign_write(struct foreign *model, const char *dir, const struct foreign_options *options,
                  struct foreign_report *report, struct err *err);

#endif

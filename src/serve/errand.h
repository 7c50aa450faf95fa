/* errand.h — a request for a translation on its way from the fields to the desk and back: what
 * texts (api_translate.c) and files (api_file.c) have in common.
 *
 * An errand is its exchange's own, and freed with it. Everything but what is said otherwise belongs
 * to the server's thread. */
#ifndef SERVE_ERRAND_H
#define SERVE_ERRAND_H

#include "serve/api.h"

enum wake { WAKE_DONE = 1, WAKE_PARTIAL = 2, WAKE_WORKER = 4 };
enum purpose { TRANSLATE, STREAM, ALIGN, ATTENTION, SCORE, WHOLE_FILE };

/* Texts are views of the body, of copies, or of a document. */
struct errand {
    struct api *api;
    enum purpose purpose;
    struct body body;
    struct desk_text *text;
    int n, is_list;
    char **copy; /* [n], where texts are not the body's own */
    enum desk_format format;
    int alternatives;
    json_t *glossary;       /* of a form, or NULL */
    struct desk_term *term; /* [n_term] views of it, or of the body */
    int n_term;
    int words; /* and links are wanted, too */
    char source[LANGUAGES_CODE], target[LANGUAGES_CODE];
    int detected;
    double confidence;
    struct api_caller caller;
    struct desk_job *job;
    void *more; /* of a file */
    void (*free_more)(void *more);
    /* what grew last; of a stream */
    pthread_mutex_t lock;
    char *partial;
    size_t n_partial, settled;
    int partial_of;
};

/* With the request's fields; NULL: it has been refused. */
struct errand *errand_new(struct api *api, struct http_exchange *x, enum purpose purpose);

/* Refuses it for a field; got: what body_string said. Returns the status. */
int errand_missing(struct http_exchange *x, int got, const char *name);

/* The terms of a request: an object in JSON, or its text in a form; 0, or refused. */
int errand_terms(struct errand *e, struct http_exchange *x);

/* The languages, which may have to be detected, as served; 0, or refused. */
int errand_pair(struct errand *e, struct http_exchange *x, struct body_text source,
                struct body_text target);

/* Hands it to the desk, or refuses it. x->woken is called with WAKE_DONE when the job has ended. */
void errand_submit(struct errand *e, struct http_exchange *x);

/* Of a job that has ended: 0, or the status of its failure and a message. */
int errand_failure(const struct errand *e, const char **message);

#endif

/* api_about.c — handlers that translate nothing: what there is, and how the server is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "serve/api.h"
#include "text/document.h"

static const char loading[] = "The models are being loaded";

void api_health(struct api *api, struct http_exchange *x) {
    if (api_desk(api))
        api_answer(x, 200, json_pack("{s:s}", "status", "ok"));
    else
        api_later(x, 503, 2, loading);
}

void api_list_languages(struct api *api, struct http_exchange *x) {
    const struct languages *l = api_languages(api);
    const char *accept = http_header(&x->head, "accept-language");
    if (!api_desk(api)) {
        api_later(x, 503, 2, loading);
        return;
    }
    json_t *all = json_array();
    for (int i = 0; i < l->n; i++) {
        const struct served *s = &l->at[i];
        json_t *targets = json_array();
        for (int k = 0; k < s->n_target; k++)
            json_array_append_new(targets, json_string(s->target[k]));
        json_array_append_new(all, json_pack("{s:s,s:s,s:o}", "code", s->code, "name",
                                             languages_name(s->code, accept), "targets", targets));
    }
    api_answer(x, 200, all);
}

static json_t *language_of(const char *code, const char *accept) {
    int none = strcmp(code, "auto") == 0;
    return json_pack("{s:s,s:s}", "code", code, "name",
                     none ? "Auto Detect" : languages_name(code, accept));
}

void api_settings(struct api *api, struct http_exchange *x) {
    const struct api_options *o = &api->options;
    const struct languages *l = api_languages(api);
    const char *accept = http_header(&x->head, "accept-language");
    const char *source = o->source ? o->source : "auto", *target = o->target;
    json_t *formats = json_array();
    for (int i = 0; document_extensions[i] && o->files; i++)
        json_array_append_new(formats, json_string(document_extensions[i]));
    /* English where it can be had, else the first there is */
    for (int i = 0; i < l->n && !target; i++)
        for (int k = 0; k < l->n && !target; k++)
            if (i != k && languages_pair(&l->at[k], l->at[i].code)) target = l->at[i].code;
    api_answer(x, 200,
               json_pack("{s:i,s:i,s:b,s:b,s:b,s:b,s:o,s:{s:o,s:o},s:s}", "charLimit",
                         o->char_limit ? o->char_limit : -1, "frontendTimeout", 250, "apiKeys",
                         o->keys_file != NULL, "keyRequired", o->require_key, "suggestions",
                         o->suggest_file != NULL, "filesTranslation", o->files,
                         "supportedFilesFormat", formats, "language", "source",
                         language_of(source, accept), "target",
                         language_of(target ? target : "en", accept), "version", HEED_VERSION));
}

void api_detect(struct api *api, struct http_exchange *x) {
    struct body body;
    struct body_text q;
    struct api_caller caller;
    struct languages_guess guess[LANGUAGES_GUESSES];
    if (api_body(&body, x)) return;
    int rc = api_admit(api, x, &body, &caller) ? 1 : 0;
    int got = rc ? 0 : body_string(&body, "q", &q);
    if (!rc && got) {
        rc = 1;
        api_refuse(x, 400,
                   got > 0 ? "Invalid request: missing q parameter"
                           : "Invalid request: q parameter is not a string");
    }
    if (!rc && !api_desk(api)) rc = 1, api_later(x, 503, 2, loading);
    if (!rc) {
        json_t *all = json_array();
        int n = languages_detect(guess, api_languages(api), q.text, q.size, 0);
        for (int i = 0; i < n; i++)
            json_array_append_new(all, json_pack("{s:f,s:s}", "confidence", guess[i].confidence,
                                                 "language", guess[i].code));
        api_answer(x, 200, all);
    }
    body_release(&body);
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* The token of `Authorization: Bearer TOKEN`, compared in time that tells nothing. */
static int may_read(const char *authorization, const char *token) {
    unsigned char given[DIGEST_SIZE], wanted[DIGEST_SIZE];
    if (!authorization || strncmp(authorization, "Bearer ", 7) != 0) return 0;
    digest(given, authorization + 7, strlen(authorization + 7));
    digest(wanted, token, strlen(token));
    return digest_equal(given, wanted);
}

void api_metrics(struct api *api, struct http_exchange *x) {
    const struct api_options *o = &api->options;
    if (!o->metrics) {
        api_refuse(x, 404, "Not Found");
        return;
    }
    if (o->metrics_token && !may_read(http_header(&x->head, "authorization"), o->metrics_token)) {
        api_refuse(x, 401, "Unauthorized");
        return;
    }
    size_t size;
    struct http_stats http = http_stats(api->http);
    char *text = metrics_text(api->metrics, &http, api_desk(api), &size);
    http_answer(x, &(struct http_answer){.status = 200,
                                         .type = "text/plain; version=0.0.4; charset=utf-8",
                                         .body = text,
                                         .size = size,
                                         .owned = text});
}

/* ---- suggestions ----------------------------------------------------------------------------- */

enum { MOST_SUGGESTION = 64 << 10 };

/* One line of JSON more in the file. */
static int append(const char *path, json_t *line) {
    char *text = json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS);
    size_t n = text ? strlen(text) : 0;
    int fd = text ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640) : -1;
    if (n) text[n++] = '\n';
    int ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;
    if (fd >= 0) close(fd);
    free(text);
    return ok;
}

void api_suggest(struct api *api, struct http_exchange *x) {
    static const char *const names[] = {"q", "s", "source", "target"};
    struct body body;
    struct api_caller caller;
    if (!api->options.suggest_file) {
        api_refuse(x, 403, "Suggestions are disabled on this server.");
        return;
    }
    if (api_body(&body, x)) return;
    json_t *line = json_object();
    int rc = api_admit(api, x, &body, &caller);
    for (int i = 0; i < 4 && !rc; i++) {
        struct body_text text;
        if (body_string(&body, names[i], &text) || text.size > MOST_SUGGESTION) {
            api_refuse(x, rc = 400, "Invalid request: missing %s parameter", names[i]);
            break;
        }
        json_object_set_new(line, names[i], api_text(text.text, text.size));
    }
    if (!rc && append(api->options.suggest_file, line))
        api_answer(x, 200, json_pack("{s:b}", "success", 1));
    else if (!rc)
        api_refuse(x, 500, "The suggestion could not be stored");
    json_decref(line);
    body_release(&body);
}

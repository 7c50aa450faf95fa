/* routes.c — see routes.h. */
#include "serve/routes.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "serve/web.h"

/* ---- the table ------------------------------------------------------------------------------- */

#define Q                                                                                          \
    { "q", "texts", 1, "The text to translate, or (in JSON) a list of texts", "Guten Tag!" }
#define ONE                                                                                        \
    { "q", "string", 1, "The text", "Guten Tag!" }
#define SOURCE                                                                                     \
    { "source", "string", 1, "Its language, or auto", "de" }
#define TARGET                                                                                     \
    { "target", "string", 1, "The language to translate into", "en" }
#define KEY                                                                                        \
    { "api_key", "string", 0, "API key", NULL }
#define OTHERS                                                                                     \
    { "alternatives", "integer", 0, "How many other translations are wanted", "3" }
#define TERMS                                                                                      \
    { "glossary", "object", 0, "Terms of the text, each with the translation it must have", NULL }
#define NOTHING                                                                                    \
    { NULL, NULL, 0, NULL, NULL }

static const struct route_field translate_fields[] = {
    Q,      SOURCE, TARGET, {"format", "string", 0, "text or html", "text"},
    OTHERS, TERMS,  KEY,    NOTHING};
static const struct route_field stream_fields[] = {
    ONE, SOURCE, TARGET, OTHERS, TERMS, {"words", "boolean", 0, "Words and links at the end", NULL},
    KEY, NOTHING};
static const struct route_field attention_fields[] = {ONE, SOURCE, TARGET, KEY, NOTHING};
static const struct route_field align_fields[] = {ONE, SOURCE, TARGET, OTHERS, TERMS, KEY, NOTHING};
static const struct route_field score_fields[] = {
    ONE,    {"translation", "string", 1, "A translation of it", "Good day!"}, SOURCE, TARGET, KEY,
    NOTHING};
static const struct route_field detect_fields[] = {ONE, KEY, NOTHING};
static const struct route_field suggest_fields[] = {
    {"q", "string", 1, "The text", "Guten Tag!"},
    {"s", "string", 1, "A better translation", "Good day!"},
    {"source", "string", 1, "Its language", "de"},
    TARGET,
    KEY,
    NOTHING};

static const struct route_field file_fields[] = {
    {"file", "file", 1, "A document: .txt, .srt, .html, .docx, .odt and the like", NULL},
    SOURCE,
    TARGET,
    TERMS,
    KEY,
    NOTHING};

const struct route routes[] = {
    {"POST", "/translate", api_translate, "translate", "Translate text",
     "translatedText, detectedLanguage where source is auto, alternatives where asked for",
     translate_fields},
    {"POST", "/translate_file", api_translate_file, "translate", "Translate a document",
     "translatedFileUrl", file_fields},
    {"GET", "/download_file/{filename}", api_download_file, "translate",
     "Fetch a document that was translated", "the document", NULL},
    {"POST", "/detect", api_detect, "translate", "Tell the language of a text",
     "up to three languages with a confidence from 0 to 100, the best first", detect_fields},
    {"GET", "/languages", api_list_languages, "translate", "The languages there are",
     "code, name and targets of each", NULL},
    {"POST", "/suggest", api_suggest, "feedback", "Suggest a better translation", "success",
     suggest_fields},
    {"GET", "/frontend/settings", api_settings, "frontend", "What the page needs to know",
     "limits, formats and languages", NULL},
    {"POST", "/heed/stream", api_stream, "heed", "Translate, and watch the translation grow",
     "server-sent events: partial (text, settled), then done (as /translate, or with "
     "words as /heed/align) or error",
     stream_fields},
    {"POST", "/heed/align", api_align, "heed", "Translate, and tell which word became which",
     "as /translate, with sourceWords, targetWords with a confidence, and links; positions count "
     "characters",
     align_fields},
    {"POST", "/heed/attention", api_attention, "heed", "The attention of all layers and heads",
     "translatedText, heads, and for encoder, decoder and cross: layers, query, key, probs",
     attention_fields},
    {"POST", "/heed/score", api_score, "heed", "How probable a given translation is",
     "logProbability (natural logarithm), pieces, perPiece, and words with their confidence",
     score_fields},
    {"GET", "/health", api_health, "server", "Is the server ready?", "status", NULL},
    {"GET", "/metrics", api_metrics, "server", "Counters, in the text format of Prometheus", "text",
     NULL},
    {"GET", "/spec", api_spec, "server", "This description", "OpenAPI 3", NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL}};

/* ---- routing --------------------------------------------------------------------------------- */

static int matches(const char *pattern, const char *path) {
    size_t n = strcspn(pattern, "{");
    if (!pattern[n]) return strcmp(pattern, path) == 0;
    return strncmp(pattern, path, n) == 0 && path[n] && !strchr(path + n, '/');
}

static void answer_options(struct http_exchange *x, const char *allow) {
    char headers[96];
    snprintf(headers, sizeof headers, "Allow: %s\r\n", allow);
    http_answer(x, &(struct http_answer){.status = 200, .headers = headers});
}

/* The page and its files. */
static int answer_file(struct http_exchange *x) {
    const struct web_file *f = web_find(x->head.path);
    char headers[512];
    if (!f) return 0;
    x->route = "/";
    int packed = web_takes_gzip(http_header(&x->head, "accept-encoding"));
    struct web_bytes bytes = packed ? f->packed : f->plain;
    int n = snprintf(headers, sizeof headers,
                     "ETag: %s\r\nContent-Security-Policy: %s\r\nCache-Control: no-cache\r\n"
                     "Vary: Accept-Encoding\r\nReferrer-Policy: no-referrer\r\n%s",
                     f->etag, web_csp, packed ? "Content-Encoding: gzip\r\n" : "");
    BUG_ON(n >= (int)sizeof headers);
    if (web_fresh(f, http_header(&x->head, "if-none-match")))
        http_answer(x, &(struct http_answer){.status = 304, .headers = headers});
    else
        http_answer(x, &(struct http_answer){.status = 200,
                                             .type = f->type,
                                             .headers = headers,
                                             .body = bytes.at,
                                             .size = (size_t)(bytes.end - bytes.at)});
    return 1;
}

void api_handle(void *ctx, struct http_exchange *x) {
    struct api *api = ctx;
    const char *method = x->head.method, *path = x->head.path;
    int get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    const struct route *there = NULL;
    for (const struct route *r = routes; r->method; r++) {
        if (!matches(r->path, path)) continue;
        there = r;
        x->route = r->path;
        if (strcmp(r->method, strcmp(method, "HEAD") == 0 ? "GET" : method) != 0) continue;
        r->handle(api, x);
        return;
    }
    int page = !there && api->options.page && web_find(path);
    const char *allow =
        there && strcmp(there->method, "POST") == 0 ? "OPTIONS, POST" : "GET, HEAD, OPTIONS";
    if (strcmp(method, "OPTIONS") == 0 && (there || page || strcmp(path, "*") == 0)) {
        answer_options(x, strcmp(path, "*") == 0 ? "GET, HEAD, OPTIONS, POST" : allow);
    } else if (there || (page && !get)) {
        char headers[64];
        snprintf(headers, sizeof headers, "Allow: %s\r\n", allow);
        static const char body[] = "{\"error\":\"Method Not Allowed\"}\n";
        http_answer(x, &(struct http_answer){.status = 405,
                                             .type = "application/json",
                                             .headers = headers,
                                             .body = body,
                                             .size = sizeof body - 1});
    } else if (!page || !answer_file(x)) {
        api_refuse(x, 404, "Not Found");
    }
}

/* ---- the description ------------------------------------------------------------------------- */

static json_t *schema_of(const struct route_field *f) {
    if (strcmp(f->type, "texts") == 0)
        return json_pack("{s:[{s:s},{s:s,s:{s:s}}],s:s,s:s}", "oneOf", "type", "string", "type",
                         "array", "items", "type", "string", "description", f->about, "example",
                         f->example);
    int file = strcmp(f->type, "file") == 0;
    json_t *s = json_pack("{s:s,s:s}", "type", file ? "string" : f->type, "description", f->about);
    if (file) json_object_set_new(s, "format", json_string("binary"));
    if (f->example && strcmp(f->type, "integer") == 0)
        json_object_set_new(s, "example", json_integer(f->example[0] - '0'));
    else if (f->example)
        json_object_set_new(s, "example", json_string(f->example));
    return s;
}

static json_t *body_of(const struct route_field *f) {
    json_t *properties = json_object(), *required = json_array(), *content = json_object();
    int file = 0;
    for (; f->name; f++) {
        json_object_set_new(properties, f->name, schema_of(f));
        if (f->required) json_array_append_new(required, json_string(f->name));
        file |= strcmp(f->type, "file") == 0;
    }
    json_t *schema = json_pack("{s:s,s:o,s:o}", "type", "object", "properties", properties,
                               "required", required);
    static const char *const types[] = {"application/json", "application/x-www-form-urlencoded",
                                        "multipart/form-data"};
    for (int i = file ? 2 : 0; i < 3; i++)
        json_object_set_new(content, types[i], json_pack("{s:O}", "schema", schema));
    json_decref(schema);
    return json_pack("{s:b,s:o}", "required", 1, "content", content);
}

static json_t *operation_of(const struct route *r) {
    json_t *responses = json_pack("{s:{s:s}}", "200", "description", r->answer);
    if (r->field) {
        static const struct {
            const char *status, *about;
        } refusals[] = {{"400", "The request is not valid; error says why"},
                        {"403", "The API key is not valid, or this is not allowed"},
                        {"429", "Too many requests; come back after Retry-After seconds"},
                        {"503", "The server is busy, or not ready; likewise"}};
        for (int i = 0; i < 4; i++)
            json_object_set_new(responses, refusals[i].status,
                                json_pack("{s:s}", "description", refusals[i].about));
    }
    json_t *op =
        json_pack("{s:[s],s:s,s:o}", "tags", r->tag, "summary", r->summary, "responses", responses);
    const char *brace = strchr(r->path, '{');
    if (brace)
        json_object_set_new(op, "parameters",
                            json_pack("[{s:s#,s:s,s:b,s:{s:s}}]", "name", brace + 1,
                                      (int)strlen(brace) - 2, "in", "path", "required", 1, "schema",
                                      "type", "string"));
    if (r->field) json_object_set_new(op, "requestBody", body_of(r->field));
    return op;
}

json_t *spec_make(void) {
    json_t *paths = json_object();
    for (const struct route *r = routes; r->method; r++) {
        json_t *path = json_object_get(paths, r->path);
        if (!path) json_object_set_new(paths, r->path, path = json_object());
        json_object_set_new(path, strcmp(r->method, "POST") == 0 ? "post" : "get", operation_of(r));
    }
    /* clients know a server of this API by the title */
    return json_pack("{s:s,s:{s:s,s:s,s:s},s:o}", "openapi", "3.0.3", "info", "title",
                     "LibreTranslate", "version", HEED_VERSION, "description",
                     "Served by heed: the API of LibreTranslate, and more under /heed/.", "paths",
                     paths);
}

void api_spec(struct api *api, struct http_exchange *x) {
    (void)api;
    api_answer(x, 200, spec_make());
}

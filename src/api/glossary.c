/* glossary.c — heed_glossary of heed.h. */
#include "api/glossary.h"

#include <string.h>

#include "api/options.h"
#include "base/mem.h"

int heed_glossary_open(heed_glossary **glossary, const char *file, const char *source,
                       const char *target, int reverse, heed_error *error) {
    struct err err = {0};
    struct glossary *terms = NULL;
    struct glossary_file from = {file, source && *source ? source : NULL,
                                 target && *target ? target : NULL, reverse != 0};
    if (!glossary) {
        err_set(&err, HEED_EINVAL, "the pointer to the glossary is NULL");
        return api_error(error, HEED_EINVAL, &err);
    }
    *glossary = NULL;
    int rc = file ? glossary_open(&terms, &from, &err) : 0;
    if (rc) return api_error(error, rc, &err);
    *glossary = xmalloc(sizeof **glossary);
    (*glossary)->terms = terms ? terms : glossary_new();
    return api_error(error, 0, &err);
}

int heed_glossary_add(heed_glossary *glossary, const char *source, const char *target,
                      heed_error *error) {
    struct err err = {0};
    int rc = glossary && source && target ? glossary_add(glossary->terms, source, strlen(source),
                                                         target, strlen(target), &err)
                                          : err_set(&err, HEED_EINVAL, "%s is NULL",
                                                    !glossary ? "the glossary"
                                                    : !source ? "source"
                                                              : "target");
    return api_error(error, rc, &err);
}

void heed_glossary_free(heed_glossary *glossary) {
    if (!glossary) return;
    glossary_free(glossary->terms);
    xfree(glossary);
}

/* card.c — see card.h. */
#include "model/card.h"

#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "io/json.h"

#define OPTIONS_OF card
const struct option card_rows[] = {
    ROW(STRING, "source", source, NULL, "language it translates from, a BCP 47 tag such as en",
        .arg = "TEXT", .max = 35),
    ROW(STRING, "target", target, NULL, "language it translates into", .arg = "TEXT", .max = 35),
    ROW(STRING, "licence", licence, NULL,
        "the terms on which it may be used: an SPDX identifier or a short text", .arg = "TEXT",
        .max = 100),
    ROW(STRING, "description", description, NULL, "one line about it", .arg = "TEXT", .max = 300),
    {.name = NULL},
};

/* In every locale. */
static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Letters, then groups of letters and digits, none longer than 8. */
static int is_language(const char *tag) {
    size_t n = 0;
    while (is_letter(tag[n])) n++;
    if (n < 2 || n > 8) return 0;
    for (tag += n; *tag == '-'; tag += n) {
        tag++;
        for (n = 0; is_letter(tag[n]) || is_digit(tag[n]);) n++;
        if (n < 1 || n > 8) return 0;
    }
    return !*tag;
}

static int check_text(const struct option *o, const char *text, struct err *err) {
    size_t size = strlen(text);
    if (!size) return err_set(err, HEED_EINVAL, "%s: is empty", o->name);
    if (size > (size_t)o->max)
        return err_set(err, HEED_EINVAL, "%s: %zu bytes; at most %.0f are allowed", o->name, size,
                       o->max);
    size_t plain = utf8_plain_prefix(text, size);
    if (plain < size)
        return err_set(err, HEED_EINVAL,
                       "%s: at byte %zu there is a control character, or no UTF-8", o->name,
                       plain + 1);
    int language =
        o->offset == offsetof(struct card, source) || o->offset == offsetof(struct card, target);
    if (language && !is_language(text))
        return err_set(err, HEED_EINVAL,
                       "%s: '%.40s' is not a language tag, such as en, de or pt-BR", o->name, text);
    return 0;
}

int card_check(const struct card *card, struct err *err) {
    int rc = 0;
    for (const struct option *o = card_rows; o->name && !rc; o++) {
        const char *text = option_text(o, card, NULL);
        if (text) rc = check_text(o, text, err);
    }
    return rc;
}

int card_from_json(struct card *card, const json_t *object, const char *where, struct err *err) {
    struct json_in in;
    struct err why = {0};
    const char *key;
    json_t *value;
    *card = (struct card){0};
    if (!object) return 0;
    int rc = json_in_begin(&in, object, where, err);
    if (rc) return rc;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const struct option *o = option_find(card_rows, key, strlen(key));
        if (!o) return err_set(err, HEED_EFORMAT, "%.120s: card: no field '%.60s'", where, key);
        if (!json_is_string(value)) return json_in_expected(&in, key, "a string", err);
        json_in_option(o, card, value, NULL, NULL);
    }
    if (card_check(card, &why))
        return err_set(err, HEED_EFORMAT, "%.100s: card: %.140s", where, why.msg);
    return 0;
}

json_t *card_to_json(const struct card *card) {
    json_t *object = json_object();
    for (const struct option *o = card_rows; o->name; o++) {
        const char *text = option_text(o, card, NULL);
        if (text) json_object_set_new(object, o->name, json_string(text));
    }
    if (json_object_size(object)) return object;
    json_decref(object);
    return NULL;
}

int card_speaks(const char *tag, const char *language) {
    size_t n = language ? strlen(language) : 0;
    if (!language) return 1;
    return tag && strncasecmp(tag, language, n) == 0 && (!tag[n] || tag[n] == '-');
}

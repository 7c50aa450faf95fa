/* sentences.h — where the sentences of a text end.
 *
 * A sentence ends behind one of . ! ? and their like, with the quotation marks and brackets that
 * close after it, where white space or the end of the text follows; marks of scripts that write no
 * spaces need none. A mark does not end a sentence
 *
 *   before a small letter or a comma     "Wirklich?" fragte er.   Yahoo! is
 *   in a number, version, name           3.14   v1.2.3   heed.h   https://example.org/a.html
 *   behind an abbreviation               Dr. Who, z. B. Obst; "No." and "Nr." before a number only
 *   behind an initial                    J. S. Bach
 *   behind an ordinal, in German         am 3. Oktober, Friedrich II. Barbarossa
 *   behind the number of a list's item   1. First
 *
 * A bar (| and its like: "Home | News", "Start › Help") with white space around it is a sentence of
 * its own.
 *
 * Abbreviations that may well stand at the end (etc., U.S., p.m.) end a sentence where the next
 * word is one that sentences begin with (The, Dann) and is capitalised. Words are looked up in
 * tables of the language; a language without one has the abbreviations of all and no ordinals.
 *
 * Nothing is allocated. Work is linear: behind and before a mark only a few words are looked at,
 * and no further than SENTENCE_REACH bytes each. Any bytes will do; bad UTF-8 counts as a letter
 * without case. */
#ifndef DATA_SENTENCES_H
#define DATA_SENTENCES_H

#include <stddef.h>

enum { SENTENCE_REACH = 48 };

struct sentence_rules; /* of a language */

/* Those of a tag such as "de" or "de-AT"; of an unknown language if NULL or not in the table. */
const struct sentence_rules *sentence_rules(const char *language);

/* The end of the sentence that begins at text[from], which is not white space; from < size. In
 * (from, size]; white space behind the sentence belongs to none. */
size_t sentence_end(const struct sentence_rules *rules, const char *text, size_t size, size_t from);

/* The first position at or behind `from` that is not in white space. */
size_t sentence_skip_space(const char *text, size_t size, size_t from);

/* 1 if the text begins with the name of a month, where ordinals are written with a stop. */
int sentence_begins_month(const struct sentence_rules *rules, const char *text, size_t size);

/* 1 if the text is nothing but a bar. */
int sentence_is_bar(const char *text, size_t size);

/* 1 if the text's last character is a mark after which no space is written, as in Chinese. */
int sentence_ends_wide(const char *text, size_t size);

#endif

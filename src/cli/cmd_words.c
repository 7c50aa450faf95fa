/* cmd_words.c — `heed words`: text with spaces between its words (data/words.h), for word aligners:
 * what they number is then what heed counts. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "data/text.h"
#include "data/words.h"

static struct words_args { const char *input; } args;

#define OPTIONS_OF words_args
static const struct option rows[] = {
    ROW(STRING, "input", input, "-", "text file: plain, gzip, xz, or - for standard input",
        .arg = "FILE"),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

static int run(struct err *err) {
    struct text *text;
    struct line line;
    struct words words = {0};
    int rc = text_open(&text, args.input, err);
    if (rc) return rc;
    while ((rc = text_next(text, &line, err)) > 0) {
        words_of_text(&words, WORDS_WORDS, line.text, line.size);
        for (int i = 0; i < words.n; i++) {
            const struct span *w = &words.word[i];
            if (i) putchar(' ');
            fwrite(line.text + w->begin, 1, (size_t)(w->end - w->begin), stdout);
        }
        putchar('\n');
    }
    struct text_counts counts = text_counts(text);
    if (!rc && counts.too_long)
        fprintf(stderr, "heed: warning: lines over %s bytes, written as empty lines: %s\n",
                text_grouped(TEXT_MAX_LINE), text_grouped(counts.too_long));
    if (!rc && counts.replaced)
        fprintf(stderr, "heed: warning: bad UTF-8 sequences replaced: %s\n",
                text_grouped(counts.replaced));
    words_release(&words);
    text_close(text);
    return rc;
}

static const char about[] =
    "Lines stay lines: word 0 of a line is what stands before its first space. A word aligner that "
    "reads this and writes links like 0-0 1-2 makes what train --guided-alignment takes.";

const struct command cmd_words = {.name = "words",
                                  .summary = "put spaces between the words of a text",
                                  .usage = "[--input FILE]",
                                  .about = about,
                                  .groups = groups,
                                  .run = run};

/* fuzz_tree.c — trees and rows of tokens: whatever is read is written the same way again, a repair
 * makes one tree of any row, and scoring takes anything. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "eval/parseval.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok) {
    if (!ok) abort();
}

/* From now on it is read from a. */
static void again(struct tree *t, struct buffer *a, struct buffer *b) {
    struct err err;
    b->size = 0;
    tree_put(a, t);
    buffer_puts(a, "");
    must(tree_read(t, a->text ? a->text : "", a->size, &err) == 0);
    tree_put(b, t);
    must(a->size == b->size && (a->size == 0 || memcmp(a->text, b->text, a->size) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct parseval_rules rules;
    struct tree t = {0};
    struct buffer a = {0}, b = {0}, c = {0}, row = {0};
    struct err err;
    const char *text = (const char *)data;
    if (memchr(data, 0, size)) return 0; /* no line has one */
    if (tree_read(&t, text, size, &err) == 0) {
        again(&t, &a, &b);
        tree_clean(&t);
        again(&t, &c, &b);
    }
    int n_word = size ? data[0] % 8 : 0;
    tree_repair(&t, text, size, n_word);
    must(t.n_root == 1 && t.n_word == n_word);
    must(!n_word || tree_check(&t, &err) == 0);
    if (tree_read_row(&t, text, size, &err) == 0) {
        tree_put_row(&row, &t, 1);
        must(tree_repair(&t, row.text ? row.text : "", row.size, t.n_word) >= 0);
    }
    if (!rules.n) parseval_default_rules(&rules);
    struct parseval p;
    uint64_t stat[PARSEVAL_N_STAT];
    size_t half = size / 2;
    parseval_init(&p, &rules);
    parseval_count(&p, stat, (struct segment){text, half},
                   &(struct segment){text + half, size - half});
    must(stat[PARSEVAL_VALID] + stat[PARSEVAL_ERRORS] + stat[PARSEVAL_SKIPPED] == 1);
    must(stat[PARSEVAL_MATCH] <= stat[PARSEVAL_REF] && stat[PARSEVAL_MATCH] <= stat[PARSEVAL_HYP]);
    parseval_count(&p, stat, (struct segment){text, size}, &(struct segment){text, size});
    must(stat[PARSEVAL_VALID] == 0 || stat[PARSEVAL_EXACT] == 1);
    parseval_release(&p);
    tree_release(&t);
    xfree(a.text);
    xfree(b.text);
    xfree(c.text);
    xfree(row.text);
    return 0;
}

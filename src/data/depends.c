/* depends.c — see depends.h. */
#include "data/depends.h"

#include <string.h>

#include "base/mem.h"

/* Labels in the order in which they are looked for, each from the left or from the right; a label
 * that ends in * is the beginning of one. */
static const struct rule {
    const char *phrase;
    int from_right;
    const char *child;
} rules[] = {
    {"S", 0, "VP S SBAR ADJP NP"},
    {"SINV", 0, "VP S SBAR ADJP NP"},
    {"SQ", 0, "VP SQ V* MD"},
    {"SBAR", 0, "S SQ SINV SBAR FRAG"},
    {"SBARQ", 0, "SQ S SINV SBARQ"},
    {"VP", 0, "VP V* MD TO ADJP NP S"},
    {"PP", 1, "NP NML S SBAR PP ADJP ADVP NN* IN TO"},
    {"WHPP", 1, "WHNP WHADVP NP IN"},
    {"NP", 1, "NN* NX NML NP PRP* CD JJ* DT ADJP QP"},
    {"NX", 1, "NN* NX NML NP CD JJ*"},
    {"NML", 1, "NN* NX NML NP CD JJ*"},
    {"WHNP", 1, "NN* WP* WDT NP WHADJP"},
    {"ADJP", 1, "JJ* V* ADJP NN* RB*"},
    {"ADVP", 1, "RB* ADVP IN JJ* NN*"},
    {"QP", 1, "CD NN* JJ*"},
};

static int matches(struct tree_text label, const char *name, size_t size) {
    if (size && name[size - 1] == '*')
        return (size_t)label.size >= size - 1 && memcmp(label.at, name, size - 1) == 0;
    return (size_t)label.size == size && memcmp(label.at, name, size) == 0;
}

int depends_is_punctuation(struct tree_text tag) {
    static const char *const names[] = {",",  ".",     ":",     "``",   "''",  "-LRB-", "-RRB-",
                                        "\"", "-LSB-", "-RSB-", "HYPH", "NFP", "SYM"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tree_is(tag, names[i])) return 1;
    return 0;
}

/* The next child behind item i: past its closing bracket, if it has one. */
static int after(const struct tree *t, int i) {
    return (t->item[i].kind == TREE_OPEN ? t->item[i].mate : i) + 1;
}

/* The last or first child that matches; -1: none does. */
static int child_of(const struct tree *t, int open, const char *name, size_t size, int from_right) {
    int found = -1;
    for (int i = open + 1; i < t->item[open].mate; i = after(t, i))
        if (matches(t->item[i].name, name, size)) {
            found = i;
            if (!from_right) break;
        }
    return found;
}

static int head_child(const struct tree *t, int open) {
    const struct rule *rule = NULL;
    for (size_t k = 0; k < sizeof rules / sizeof *rules && !rule; k++)
        if (tree_is(t->item[open].name, rules[k].phrase)) rule = &rules[k];
    for (const char *at = rule ? rule->child : ""; *at;) {
        size_t size = strcspn(at, " ");
        int i = child_of(t, open, at, size, rule->from_right);
        if (i >= 0) return i;
        at += size;
        at += *at == ' ';
    }
    int last = -1;
    for (int i = open + 1; i < t->item[open].mate; i = after(t, i))
        if (last < 0 || !depends_is_punctuation(t->item[i].name)) last = i;
    return last;
}

/* Inner brackets close before outer ones: when a phrase closes, all its children have heads. */
void depends_of_tree(int *on, const struct tree *t) {
    int *word = xcalloc((size_t)t->n + 1, sizeof *word); /* of each item: its head; -1: none */
    for (int i = 0, n = 0; i < t->n; i++) {
        word[i] = -1;
        if (t->item[i].kind == TREE_LEAF) {
            on[n] = -1;
            word[i] = n++;
        }
        if (t->item[i].kind != TREE_CLOSE) continue;
        int open = t->item[i].mate, head = head_child(t, open);
        /* a phrase without words has none; then any other child's will do */
        for (int k = open + 1; k < i && (head < 0 || word[head] < 0); k = after(t, k)) head = k;
        word[open] = head < 0 ? -1 : word[head];
        for (int k = open + 1; k < i; k = after(t, k))
            if (k != head && word[k] >= 0) on[word[k]] = word[open];
    }
    xfree(word);
}

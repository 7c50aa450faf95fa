/* test_heads.c — what heads do: measures of matrices with known answers, dependencies of trees, and
 * kinds. */
#include <math.h>

#include "base/mem.h"
#include "data/depends.h"
#include "eval/heads.h"
#include "test.h"

/* ---- dependencies ---------------------------------------------------------------------------- */

static void expect_parents(const char *line, const int *want, int n) {
    struct tree tree = {0};
    struct err err = {0};
    int on[32];
    ASSERT_OK(tree_read(&tree, line, strlen(line), &err), err);
    assert_int_equal(tree.n_word, n);
    depends_of_tree(on, &tree);
    for (int i = 0; i < n; i++)
        if (on[i] != want[i])
            fail_msg("%s: word %d depends on %d, not %d", line, i, on[i], want[i]);
    tree_release(&tree);
}

TEST(dependencies) {
    expect_parents("(ROOT (S (NP (DT The) (NN cat)) (VP (VBD chased) (NP (PRP$ its) (NN tail))) "
                   "(. .)))",
                   (int[]){1, 2, -1, 4, 2, 2}, 6);
    /* auxiliaries and prepositions depend on what has content */
    expect_parents("(S (NP (PRP It)) (VP (VBZ has) (VP (VBN slept) (PP (IN in) (NP (DT the) "
                   "(NN box))))))",
                   (int[]){2, 2, -1, 5, 5, 2}, 6);
    /* a clause's conjunction on its verb; a compound's last noun is its head */
    expect_parents("(S (NP (NN data) (NN base) (NNS files)) (VP (VBP say) (SBAR (IN that) (S "
                   "(NP (PRP he)) (VP (VBD left))))))",
                   (int[]){2, 2, 3, -1, 6, 6, 3}, 7);
    /* an unknown label: the last that is no punctuation; a label whose rules find nothing, too */
    expect_parents("(X (UH well) (, ,) (UH yes) (. .))", (int[]){2, 2, -1, 2}, 4);
    expect_parents("(NP (FW a) (FW priori))", (int[]){1, -1}, 2);
    expect_parents("(S (NP (NN one)))", (int[]){-1}, 1);
    expect_parents("(NP (NN a)) (NP (NN b))", (int[]){-1, -1}, 2); /* a forest */
}

/* ---- measures -------------------------------------------------------------------------------- */

/* "a b , a </s>": four units and a mark. */
static const char units[] = {HEADS_WORD, HEADS_WORD, HEADS_PUNCT, HEADS_WORD, HEADS_MARK};
static const int forms[] = {7, 8, 9, 7, 10};
static const int parents[] = {1, -1, 1, 1, -1};

static struct heads_sentence five(void) {
    return (struct heads_sentence){.self = 1,
                                   .n_query = 5,
                                   .n_key = 5,
                                   .query_unit = units,
                                   .key_unit = units,
                                   .query_form = forms,
                                   .key_form = forms,
                                   .parent = parents};
}

static void near_to(const struct heads_sums *s, enum heads_measure m, double want) {
    double is = heads_value(s, m);
    if (isnan(want) ? !isnan(is) : !(fabs(is - want) < 1e-6))
        fail_msg("%s is %.9g, not %.9g", heads_names[m], is, want);
}

TEST(previous_word) {
    struct heads_sums s = {0};
    struct heads_sentence in = five();
    float a[25];
    heads_fixed(a, &in, -1);
    heads_add(&s, &in, a); /* the first looks at itself */
    near_to(&s, HEADS_ENTROPY, 0);
    near_to(&s, HEADS_DISTANCE, 0.75);
    near_to(&s, HEADS_BACK1, 1);
    near_to(&s, HEADS_HERE, 0.25);
    near_to(&s, HEADS_AHEAD1, 0);
    near_to(&s, HEADS_DIAGONAL, 1 - 0.75 / 4);
    near_to(&s, HEADS_MARKS, 0);
    near_to(&s, HEADS_PUNCTUATION, 0.25);
    near_to(&s, HEADS_SAME, 0);
    near_to(&s, HEADS_PARENT, 0); /* words 0 and 3 have one: 1; 3 looks at 2 */
    near_to(&s, HEADS_CHILD, 1);  /* word 1 looks at its child 0 */
    near_to(&s, HEADS_DISTANT, NAN);
    near_to(&s, HEADS_LINK, NAN);
    double none[HEADS_MEASURES] = {0};
    assert_int_equal(heads_kind(&s, none), HEADS_POSITIONAL);
}

TEST(uniform_and_marks) {
    struct heads_sums s = {0};
    struct heads_sentence in = five();
    float a[25];
    double none[HEADS_MEASURES] = {0};
    for (int i = 0; i < 25; i++) a[i] = 0.2f;
    heads_add(&s, &in, a);
    near_to(&s, HEADS_ENTROPY, log2(5));
    near_to(&s, HEADS_MARKS, 0.2);
    near_to(&s, HEADS_PUNCTUATION, 0.2);
    near_to(&s, HEADS_SAME, 0.2);
    near_to(&s, HEADS_DISTANCE, 1.25); /* the mean of |i - j| over 4 x 4 places */
    near_to(&s, HEADS_BACK3, 0.2);     /* only the last word may look so far */
    near_to(&s, HEADS_PARENT, 0.5);    /* ties go to the lower place: 0 looks at 1, 3 at 0 */
    s = (struct heads_sums){0};
    for (int i = 0; i < 25; i++) a[i] = i % 5 == 4;
    heads_add(&s, &in, a);
    near_to(&s, HEADS_MARKS, 1);
    near_to(&s, HEADS_DISTANCE, NAN); /* nothing went to words */
    near_to(&s, HEADS_PARENT, 0);
    assert_int_equal(heads_kind(&s, none), HEADS_RESTS);
}

/* Later keys do not count as places that could have been looked at. */
TEST(causal) {
    struct heads_sums s = {0};
    struct heads_sentence in = five();
    float a[25] = {0};
    in.causal = 1;
    for (int i = 0; i < 5; i++) a[6 * i] = 1;
    heads_add(&s, &in, a);
    near_to(&s, HEADS_HERE, 1);
    near_to(&s, HEADS_AHEAD1, NAN);
    near_to(&s, HEADS_MARKS, NAN); /* the mark comes last */
    near_to(&s, HEADS_SAME, 0);    /* only the second a has one before it */
    assert_true(s.weight[HEADS_SAME] == 1);
    assert_true(s.weight[HEADS_BACK3] == 1);
    double none[HEADS_MEASURES] = {0};
    assert_int_equal(heads_kind(&s, none), HEADS_ITSELF);
}

/* Links, far words, and the cases that show them best. */
TEST(relations) {
    enum { N = 8 };
    static const char word[N] = {0};
    static const int form[N] = {0, 1, 2, 3, 4, 5, 6, 7}, on[N] = {6, 0, 0, 0, 0, 0, -1, 6};
    struct links links = {0};
    struct heads_sums s = {0};
    float a[N * N] = {0};
    links_add(&links, 7, 2);
    links_sort(&links);
    struct heads_sentence in = {.number = 3,
                                .self = 1,
                                .n_query = N,
                                .n_key = N,
                                .query_unit = word,
                                .key_unit = word,
                                .query_form = form,
                                .key_form = form,
                                .parent = on,
                                .links = &links};
    for (int i = 0; i < N; i++) a[N * i + (i == 7 ? 2 : 0)] = 0.75f, a[N * i + i] += 0.25f;
    a[0] = 0.1f, a[6] = 0.9f; /* word 0 looks at its parent, six words on */
    heads_add(&s, &in, a);
    near_to(&s, HEADS_LINK, 1);
    near_to(&s, HEADS_PARENT, 6.0 / 7); /* all but 7, which looks at 2 */
    /* 0 and 6 look at each other, 0 is the parent of 5, which looks at it */
    near_to(&s, HEADS_DISTANT, 1);
    assert_true(s.weight[HEADS_DISTANT] == 3);
    assert_int_equal(s.best[HEADS_DISTANT].sentence, 3);
    assert_int_equal(s.best[HEADS_DISTANT].query, 0);
    assert_int_equal(s.best[HEADS_DISTANT].key, 6);
    assert_int_equal(s.best[HEADS_LINK].query, 7);
    assert_true(fabs(s.best[HEADS_LINK].value - 0.75) < 1e-6);
    double fixed[HEADS_MEASURES] = {0};
    assert_int_equal(heads_kind(&s, fixed), HEADS_POINTS);
    fixed[HEADS_LINK] = 0.8; /* a fixed offset does nearly as well */
    assert_int_equal(heads_kind(&s, fixed), HEADS_TO_PARENT);
    in.number = -1; /* counts, and is nobody's best case */
    a[0] = 0, a[6] = 1;
    heads_add(&s, &in, a);
    assert_true(s.weight[HEADS_DISTANT] == 6);
    assert_int_equal(s.best[HEADS_DISTANT].sentence, 3);
    links_release(&links);
}

/* Two sentences together are their sums. */
TEST(sums) {
    struct heads_sums one = {0}, two = {0}, both = {0};
    struct heads_sentence in = five();
    float a[25], b[25];
    for (int i = 0; i < 25; i++) a[i] = 0.2f;
    heads_fixed(b, &in, 2);
    heads_add(&one, &in, a);
    heads_add(&two, &in, b);
    heads_add(&both, &in, a);
    heads_add(&both, &in, b);
    for (int m = 0; m < HEADS_MEASURES; m++) {
        assert_true(fabs(one.sum[m] + two.sum[m] - both.sum[m]) < 1e-12);
        assert_true(fabs(one.weight[m] + two.weight[m] - both.weight[m]) < 1e-12);
    }
}

TESTS(T(dependencies), T(previous_word), T(uniform_and_marks), T(causal), T(relations), T(sums))

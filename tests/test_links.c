/* test_links.c — links between words: text, two directions put together, and the error rate. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/links.h"
#include "eval/aer.h"
#include "test.h"

static struct links parse(const char *text) {
    struct links l = {0};
    struct err err = {0};
    ASSERT_OK(links_parse(&l, NULL, text, strlen(text), &err), err);
    return l;
}

static const char *text_of(const struct links *l) {
    static char out[1024];
    int at = 0;
    out[0] = 0;
    for (int i = 0; i < l->n; i++)
        at += snprintf(out + at, sizeof out - (size_t)at, "%s%d-%d", i ? " " : "", l->link[i].src,
                       l->link[i].tgt);
    return out;
}

/* ---- text ------------------------------------------------------------------------------------ */

TEST(lines) {
    struct links sure = {0}, possible = {0};
    struct err err = {0};
    const char *text = " 3-1 0-0\t10?2 0-0  2-11\r";
    ASSERT_OK(links_parse(&sure, &possible, text, strlen(text), &err), err);
    assert_string_equal(text_of(&sure), "0-0 2-11 3-1"); /* in order, each once */
    assert_string_equal(text_of(&possible), "10-2");
    assert_int_equal(links_clip(&sure, 4, 11), 1);
    assert_string_equal(text_of(&sure), "0-0 3-1");
    links_turn(&sure);
    assert_string_equal(text_of(&sure), "0-0 1-3");
    ASSERT_OK(links_parse(&sure, &possible, "", 0, &err), err);
    assert_int_equal(sure.n + possible.n, 0);
    links_release(&sure);
    links_release(&possible);
}

TEST(bad_lines) {
    static const char *const bad[] = {"1",    "1-",  "-1",   "1-2-3",      "a-b", "1?2",
                                      "1- 2", "1_2", "0-0x", "99999999-0", "1--2"};
    struct links sure = {0}, possible = {0};
    struct err err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_ERR(links_parse(&sure, NULL, bad[i], strlen(bad[i]), &err), err, HEED_EFORMAT,
                   "is not a link like 3-4, from 0");
    ASSERT_ERR(links_parse(&sure, &possible, "0-0 1!2", 7, &err), err, HEED_EFORMAT,
               "'1!2' is not a link like 3-4 or 3?4, from 0");
    /* No end of the text is assumed. */
    ASSERT_OK(links_parse(&sure, NULL, "0-12", 3, &err), err);
    assert_string_equal(text_of(&sure), "0-1");
    links_release(&sure);
    links_release(&possible);
}

/* ---- two directions -------------------------------------------------------------------------- */

static void together(const char *a, const char *b, enum links_method method, const char *want) {
    struct links x = parse(a), y = parse(b), out = {0};
    links_symmetrise(&out, method, &x, &y);
    assert_string_equal(text_of(&out), want);
    links_release(&x);
    links_release(&y);
    links_release(&out);
}

TEST(symmetrised) {
    /* Worked out by hand. The intersection is 0-0 2-2; 1-1 touches it and joins two new words;
     * 2-3 touches 2-2 and joins target 3; 1-2 touches but joins nothing new; 5-6 touches nothing,
     * but 5 and 6 have no link; 0-6 would join source 0, which has one, to 6. */
    const char *a = "0-0 1-1 2-2 2-3 5-6", *b = "0-0 0-6 1-2 2-2";
    together(a, b, LINKS_INTERSECTION, "0-0 2-2");
    together(a, b, LINKS_UNION, "0-0 0-6 1-1 1-2 2-2 2-3 5-6");
    together(a, b, LINKS_GROW_DIAG, "0-0 1-1 2-2 2-3");
    together(a, b, LINKS_GROW_DIAG_FINAL_AND, "0-0 1-1 2-2 2-3 5-6");
    together(a, b, LINKS_GROW_DIAG_FINAL, "0-0 1-1 2-2 2-3 5-6");
    together(b, a, LINKS_GROW_DIAG_FINAL, "0-0 0-6 1-1 2-2 2-3 5-6");
    together(b, a, LINKS_GROW_DIAG_FINAL_AND, "0-0 1-1 2-2 2-3 5-6");
    /* Growth goes on from what has grown. */
    together("0-0 1-1 2-2 3-3", "0-0", LINKS_GROW_DIAG, "0-0 1-1 2-2 3-3");
    together("1-1", "3-3", LINKS_GROW_DIAG, "");
    together("1-1", "3-3", LINKS_GROW_DIAG_FINAL, "1-1 3-3");
    for (int m = 0; m < N_LINKS_METHODS; m++) together("", "", (enum links_method)m, "");
}

/* Of any two lists: each method's links are among the union's, hold the intersection, and agree
 * for equal lists. */
TEST(nested) {
    struct rng rng = {.key = 5};
    for (int round = 0; round < 500; round++) {
        struct links x = {0}, y = {0}, all = {0}, both = {0}, out = {0}, last = {0};
        for (uint32_t k = rng_below(&rng, 12); k > 0; k--)
            links_add(&x, (int)rng_below(&rng, 6), (int)rng_below(&rng, 6));
        for (uint32_t k = rng_below(&rng, 12); k > 0; k--)
            links_add(&y, (int)rng_below(&rng, 6), (int)rng_below(&rng, 6));
        links_sort(&x);
        links_sort(&y);
        links_symmetrise(&all, LINKS_UNION, &x, &y);
        links_symmetrise(&both, LINKS_INTERSECTION, &x, &y);
        links_symmetrise(&last, LINKS_GROW_DIAG, &x, &y);
        for (int m = LINKS_GROW_DIAG; m < N_LINKS_METHODS; m++) {
            links_symmetrise(&out, (enum links_method)m, &x, &y);
            for (int i = 0; i < out.n; i++)
                assert_true(links_have(&all, out.link[i].src, out.link[i].tgt));
            for (int i = 0; i < last.n; i++)
                assert_true(links_have(&out, last.link[i].src, last.link[i].tgt));
            for (int i = 1; i < out.n; i++)
                assert_true(links_compare(&out.link[i - 1], &out.link[i]) < 0);
        }
        for (int i = 0; i < both.n; i++)
            assert_true(links_have(&last, both.link[i].src, both.link[i].tgt));
        links_symmetrise(&out, LINKS_GROW_DIAG_FINAL, &x, &x);
        assert_string_equal(text_of(&out), text_of(&x));
        struct links *const list[] = {&x, &y, &all, &both, &out, &last};
        for (int i = 0; i < 6; i++) links_release(list[i]);
    }
}

/* ---- error rate ------------------------------------------------------------------------------ */

TEST(error_rate) {
    struct aer aer = {0};
    struct err err = {0};
    struct links found = parse("0-0 1-1 2-2 3-4"), sure = {0}, possible = {0};
    const char *gold = "0-0 1-1 4-4 2?2 0?0 3?3";
    ASSERT_OK(links_parse(&sure, &possible, gold, strlen(gold), &err), err);
    aer_add(&aer, &found, &sure, &possible);
    /* A n S = {0-0, 1-1}; A n P = these and 2-2; |A| = 4, |S| = 3 */
    ASSERT_NEAR(aer_precision(&aer), 3.0 / 4, 1e-12);
    ASSERT_NEAR(aer_recall(&aer), 2.0 / 3, 1e-12);
    ASSERT_NEAR(aer_rate(&aer), 1 - 5.0 / 7, 1e-12);
    assert_int_equal(aer.possible, 2); /* 0?0 is sure already */
    /* Counts of pairs are summed, not rates. */
    struct links none = {0}, one = parse("0-0");
    aer_add(&aer, &one, &one, &none);
    ASSERT_NEAR(aer_rate(&aer), 1 - 7.0 / 9, 1e-12);
    assert_int_equal(aer.pairs, 2);
    aer = (struct aer){0};
    aer_add(&aer, &none, &none, &none);
    assert_true(isnan(aer_rate(&aer)) && isnan(aer_precision(&aer)) && isnan(aer_recall(&aer)));
    struct links *const list[] = {&found, &sure, &possible, &one};
    for (int i = 0; i < 4; i++) links_release(list[i]);
}

TESTS(T(lines), T(bad_lines), T(symmetrised), T(nested), T(error_rate))

/* test_attention.c — what attention must satisfy beyond the table of test_ops.c. */
#include "base/mem.h"
#include "ops.h"

static struct op_case find(const char *name) {
    for (int i = 0; i < op_case_count; i++)
        if (strcmp(op_cases[i].op, "attention") == 0 && strcmp(op_cases[i].name, name) == 0)
            return op_cases[i];
    fail_msg("no case '%s'", name);
    return op_cases[0];
}

static void run(struct op_test *test, struct op_image *after) {
    op_forward(test);
    op_backward(test);
    op_check_sync(test->be, test->c->name);
    op_save(test, after);
}

/* A window that reaches every position is no window, bit for bit. */
TEST(wide_window_is_full) {
    static const char *const names[] = {"self", "causal", "one long, many short", "300, window"};
    struct ops_backend *list = ops_open(TEST_ARG);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (int i = 0; list[i].be; i++)
            for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
                struct op_case full = find(names[n]), wide;
                full.window = 0;
                wide = full;
                for (int s = 0; s < OPS_MAX_SEQ; s++)
                    if (full.len[s] - 1 > wide.window) wide.window = full.len[s] - 1;
                struct op_test *a = op_open(list[i].be, &full, (enum dtype)type);
                struct op_test *b = op_open(list[i].be, &wide, (enum dtype)type);
                struct op_image x, y;
                run(a, &x);
                run(b, &y);
                op_check_same(b, &y, &x, list[i].text);
                op_image_free(&x);
                op_image_free(&y);
                op_close(a);
                op_close(b);
            }
    ops_cpu_close(list);
}

/* Rows of probs are distributions over what the query sees, and nothing elsewhere. */
static void check_probs(const struct op_test *test, const struct op_image *after,
                        const char *what) {
    int at = op_find(test, "probs"), nq = test->rq.n_tok;
    const struct tensor *probs = &test->t[at];
    for (int s = 0; s < test->n_seq; s++)
        for (int row = test->q_start[s]; row < test->q_start[s + 1]; row++)
            for (int h = 0; h < test->c->n_head; h++) {
                int i = row - test->q_start[s], nk = test->k_start[s + 1] - test->k_start[s];
                double sum = 0;
                for (int j = 0; j < probs->m.cols; j++) {
                    double p = tensor_get(probs, after->t[at], h * nq + row, j);
                    int seen = j < nk && (!test->c->causal || j <= i) &&
                               (!test->c->window || abs(i - j) <= test->c->window);
                    if (seen ? !(p > 0) : p != 0)
                        fail_msg("%s '%s': P[%d,%d] = %g", what, test->c->name, row, j, p);
                    sum += p;
                }
                ASSERT_NEAR(sum, 1, 1e-5);
            }
}

static int check_all_probs(struct backend *be, const char *what) {
    int checked = 0;
    for (int n = 0; n < op_case_count; n++) {
        if (!(op_cases[n].flags & PROBS)) continue;
        struct op_test *test = op_open(be, &op_cases[n], DTYPE_F32);
        struct op_image after;
        run(test, &after);
        check_probs(test, &after, what);
        op_image_free(&after);
        op_close(test);
        checked++;
    }
    return checked;
}

TEST(probs_are_distributions) {
    struct ops_backend *list = ops_open(TEST_ARG);
    struct backend *ref = ops_ref_open();
    assert_true(check_all_probs(ref, "ref") > 0);
    for (int i = 0; list[i].be; i++) check_all_probs(list[i].be, list[i].text);
    backend_close(ref);
    ops_cpu_close(list);
}

/* Asking to see P must not change what is computed. */
TEST(probs_change_nothing) {
    struct ops_backend *list = ops_open(TEST_ARG);
    struct op_case with = find("long cross"), without = with;
    without.flags &= ~(unsigned)PROBS; /* probs is the last tensor: the others keep their places */
    for (int i = 0; list[i].be; i++) {
        struct op_test *a = op_open(list[i].be, &with, DTYPE_F32);
        struct op_test *b = op_open(list[i].be, &without, DTYPE_F32);
        struct op_image x, y;
        run(a, &x);
        run(b, &y);
        assert_int_equal(op_find(a, "probs"), b->n);
        op_check_same(b, &y, &x, list[i].text);
        op_image_free(&x);
        op_image_free(&y);
        op_close(a);
        op_close(b);
    }
    ops_cpu_close(list);
}

TESTS(TP(wide_window_is_full, "cpu"), TP(wide_window_is_full, "cuda"),
      TP(probs_are_distributions, "cpu"), TP(probs_are_distributions, "cuda"),
      TP(probs_change_nothing, "cpu"), TP(probs_change_nothing, "cuda"))

/* clean_numbers.c — do the numbers of two lines contradict each other?
 *
 * Only numbers in digits are seen, and translators are free to write them out ("4 of 6" becomes
 * "vier von sechs"). So a number that only one side has speaks against a pair when it is too odd to
 * be written out; if both sides have one that the other lacks, they contradict each other. */
#include <string.h>

#include "data/clean_line.h"

enum { THOUSAND = 3, ODD_DIGITS = 3 };

static int value_of(const struct clean_number *x) { /* of up to two digits, else -1 */
    if (x->n > 2) return -1;
    return x->n == 0   ? 0
           : x->n == 1 ? x->digits[0] - '0'
                       : 10 * (x->digits[0] - '0') + x->digits[1] - '0';
}

/* Digits without the zeros at the end. */
static int significant(const char *digits, int n) {
    while (n > 0 && digits[n - 1] == '0') n--;
    return n;
}

static int same_but_zeros(const char *a, int na, const char *b, int nb) {
    int n = significant(a, na);
    return n > 0 && n == significant(b, nb) && memcmp(a, b, (size_t)n) == 0;
}

/* 5 (million) and 5000000; 1.5 and 1.50. */
static int same_scaled(const struct clean_number *a, const struct clean_number *b) {
    int zeros = a->n < b->n ? b->n - a->n : a->n - b->n;
    return (zeros >= THOUSAND || (a->decimal && b->decimal)) &&
           same_but_zeros(a->digits, a->n, b->digits, b->n);
}

/* 3 p.m. and 15 o'clock, midnight as 12 and as 0 or 24. */
static int same_clock(const struct clean_number *a, const struct clean_number *b) {
    int x = value_of(a), y = value_of(b);
    return x >= 0 && y >= 0 && x <= 24 && y <= 24 && (x - y == 12 || y - x == 12);
}

/* '68 and 1968. */
static int same_year(const struct clean_number *a, const struct clean_number *b) {
    return a->n == 2 && b->n == 4 && memcmp(a->digits, b->digits + 2, 2) == 0;
}

static int alike(const struct clean_number *a, const struct clean_number *b) {
    return (a->n == b->n && memcmp(a->digits, b->digits, (size_t)a->n) == 0) || same_scaled(a, b) ||
           same_clock(a, b) || same_year(a, b) || same_year(b, a);
}

/* Too long to be written out, as 90, 1000 and the 1960s may be. */
static int is_odd(const struct clean_number *x) {
    int decade = x->n == 4 && x->digits[0] <= '2' && x->digits[3] == '0';
    return !decade && significant(x->digits, x->n) >= ODD_DIGITS;
}

/* The numbers of one line that the other lacks. */
struct left {
    int n, odd;
    char digits[CLEAN_NUMBERS_MAX * CLEAN_DIGITS_MAX]; /* one after another */
    int n_digit;
};

static void find_left(struct left *left, const struct clean_line *a, const struct clean_line *b) {
    left->n = left->odd = left->n_digit = 0;
    for (int i = 0; i < a->n_number; i++) {
        const struct clean_number *x = &a->number[i];
        int found = x->n == 0;
        for (int k = 0; k < b->n_number && !found; k++) found = alike(x, &b->number[k]);
        if (found) continue;
        left->n++;
        left->odd += is_odd(x);
        memcpy(left->digits + left->n_digit, x->digits, (size_t)x->n);
        left->n_digit += x->n;
    }
}

int clean_numbers_disagree(const struct clean_line *a, const struct clean_line *b) {
    if (a->n_number > CLEAN_NUMBERS_MAX || b->n_number > CLEAN_NUMBERS_MAX) return 0;
    struct left x, y;
    find_left(&x, a, b);
    find_left(&y, b, a);
    if (!x.n || !y.n) return x.odd || y.odd;
    /* 1.5 million and 1 500 000: pieces of a number on one side, or on both. */
    return x.n + y.n < 3 || !same_but_zeros(x.digits, x.n_digit, y.digits, y.n_digit);
}

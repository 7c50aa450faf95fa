/* similar.c — see similar.h. */
#include "base/similar.h"

#include <string.h>

enum { MAX_WORD = 40 };

static int least(int a, int b, int c) {
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Characters added, removed, replaced or swapped with their neighbour; '-' is '_'. */
static int distance(const char *a, size_t n, const char *b, size_t m) {
    int d[MAX_WORD + 1][MAX_WORD + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t k = 0; k <= m; k++) d[0][k] = (int)k;
    for (size_t i = 1; i <= n; i++)
        for (size_t k = 1; k <= m; k++) {
            int same = a[i - 1] == b[k - 1] || (a[i - 1] == '-' && b[k - 1] == '_');
            d[i][k] = least(d[i - 1][k] + 1, d[i][k - 1] + 1, d[i - 1][k - 1] + !same);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1, d[i][k]);
        }
    return d[n][m];
}

void similar_try(struct similar *s, const char *known) {
    size_t m = strlen(known);
    if (s->length > MAX_WORD || m > MAX_WORD) return;
    int d = distance(s->word, s->length, known, m), most = (int)(s->length + 1) / 3;
    if (d > (most < 3 ? most : 3) || (s->best && d >= s->distance)) return;
    s->best = known;
    s->distance = d;
}

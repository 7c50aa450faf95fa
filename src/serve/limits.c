/* limits.c — see limits.h. */
#include "serve/limits.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <xxhash.h>

#include "base/mem.h"

enum { SETS = 2048, WAYS = 4, FORGET = 3600 };

struct bucket {
    uint64_t client; /* 0: free */
    double tokens, at;
    int violations;
    double last_violation;
};

struct limits {
    int per_minute, flood;
    uint64_t seed;
    struct bucket bucket[SETS][WAYS];
};

struct limits *limits_new(int per_minute, int flood) {
    struct limits *l = xcalloc(1, sizeof *l);
    l->per_minute = per_minute;
    l->flood = flood;
    if (getrandom(&l->seed, sizeof l->seed, GRND_NONBLOCK) != (ssize_t)sizeof l->seed)
        l->seed = (uint64_t)time(NULL);
    return l;
}

void limits_free(struct limits *l) { xfree(l); }

uint64_t limits_client(const struct limits *l, const char *address, const char *key) {
    struct in6_addr six;
    uint64_t hash;
    if (key)
        hash = XXH3_64bits_withSeed(key, strlen(key), l->seed + 1);
    else if (inet_pton(AF_INET6, address, &six) == 1)
        hash = XXH3_64bits_withSeed(&six, 8, l->seed);
    else
        hash = XXH3_64bits_withSeed(address, strlen(address), l->seed);
    return hash ? hash : 1;
}

/* The client's bucket; a new one is in the place of whoever has been quiet longest. */
static struct bucket *find(struct limits *l, uint64_t client, double per_minute, double now) {
    struct bucket *set = l->bucket[client % SETS], *oldest = set;
    for (int i = 0; i < WAYS; i++) {
        if (set[i].client == client) return &set[i];
        if (set[i].client == 0 || (oldest->client && set[i].at < oldest->at)) oldest = &set[i];
    }
    *oldest = (struct bucket){.client = client, .tokens = per_minute, .at = now};
    return oldest;
}

static int shut_out(const struct limits *l, struct bucket *b, double now) {
    if (b->violations && now - b->last_violation > FORGET) b->violations = 0;
    return l->flood && b->violations >= l->flood;
}

int limits_is_shut_out(struct limits *l, uint64_t client, double now) {
    if (!l->flood) return 0;
    return shut_out(l, find(l, client, l->per_minute, now), now);
}

enum limits_verdict limits_take(struct limits *l, uint64_t client, int cost, int per_minute,
                                double now, int *retry_after) {
    double most = per_minute < 0 ? l->per_minute : per_minute;
    *retry_after = 0;
    if (most <= 0) return LIMITS_OK;
    struct bucket *b = find(l, client, most, now);
    if (shut_out(l, b, now)) return LIMITS_SHUT_OUT;
    b->tokens += (now - b->at) * most / 60;
    if (b->tokens > most) b->tokens = most;
    b->at = now;
    double need = cost < most ? cost : most;
    if (b->tokens + 1e-9 >= need) {
        b->tokens -= cost;
        return LIMITS_OK;
    }
    *retry_after = (int)((need - b->tokens) * 60 / most) + 1;
    b->violations++;
    b->last_violation = now;
    return LIMITS_SLOW;
}

/* limits.h — how much each client may ask for.
 *
 * Every client has a bucket of tokens that fills again within a minute; a request takes one for
 * each text in it, and one that is larger than the bucket may be had when it is full, as a debt.
 * The table has a fixed size: of many clients those are forgotten that have been quiet longest. An
 * IPv6 client is its /64. One thread. */
#ifndef SERVE_LIMITS_H
#define SERVE_LIMITS_H

#include <stdint.h>

struct limits;

/* flood: so many refusals, within an hour of each other, and a client is shut out; 0: never. */
struct limits *limits_new(int per_minute, int flood);
void limits_free(struct limits *limits);

enum limits_verdict { LIMITS_OK, LIMITS_SLOW, LIMITS_SHUT_OUT };

/* A name for a client: its address, or a key it has shown. Another in each process. */
uint64_t limits_client(const struct limits *limits, const char *address, const char *key);

int limits_is_shut_out(struct limits *limits, uint64_t client, double now);

/* per_minute: of this client; 0: no limit, negative: as for all. *retry_after: seconds, where it is
 * SLOW. */
enum limits_verdict limits_take(struct limits *limits, uint64_t client, int cost, int per_minute,
                                double now, int *retry_after);

#endif

/* carousel.h — a search that never ends: sentences get on while it turns, and get off when they are
 * done.
 *
 * A searcher (search.h) takes a batch, and everybody in it waits for the slowest. For a server that
 * is wrong twice: who comes late waits for a whole batch to end, and steps get emptier as sentences
 * finish. A carousel has seats. carousel_add encodes newcomers, several in one pass, and gives each
 * a seat; carousel_step is one step of the decoder for all hypotheses of all seats, whatever
 * position each is at; who is done is asked for by carousel_done, read by carousel_result, and gets
 * off by carousel_leave. Leaving before the end is how to cancel: the next step is without it.
 *
 *     carousel_check     refuse what can never ride, before it waits for a seat
 *     carousel_add       as many of the waiting as fit
 *     carousel_board     the same without encoding them: ... carousel_encode, a layer at a time
 *     carousel_step      one token each
 *     carousel_hold      who is to sit still for a while, so that steps are short
 *     carousel_peek      what a seat has so far, for those who want to watch
 *     carousel_done      ... carousel_result, carousel_leave
 *
 * The result. The same as a searcher's to the last bit where a row's result does not depend on its
 * neighbours, as on ref and cpu: encoder, projections, attention and topk are functions of a row
 * and its own sentence; which hypotheses go which way (ranker.h), ties and random streams depend on
 * nothing else. A step's number of candidates k is that of the widest beam aboard; a narrower one
 * never looks at those beyond its own. Sentences may have options of their own: beam, length
 * penalty, lengths, n-best, prefix, sampling, penalties. Trees are refused.
 *
 * Memory. Reserved by carousel_new, nothing is allocated afterwards. A sentence takes, from getting
 * on to getting off, one seat; as many rows as its beam is wide; its source tokens, where its
 * cross-attention's keys and values lie; and width * longest cells, where a cell is one token of
 * one hypothesis: a row of the self-attention's cache, a node of the trellis, a token of the
 * results. Source tokens and cells of a sentence lie together, at the first gap that is large
 * enough. All that it could ever need is taken when it gets on: a sentence aboard cannot run out of
 * room. Rows of the cache themselves are given to cells when a step needs them, those that were
 * used last first, and are given back when no live hypothesis looks at them any more: what a beam
 * has in common is in the cache once, and memory that was only kept ready is never touched. The
 * price is that sentences end, as a rule, long before their longest length (max_extra
 * is what to lower), and that gaps may be too small though their sum is not. Since every sentence
 * that carousel_check allows fits an empty carousel, whoever waits at the head of a queue, with
 * nobody overtaking, gets on in the end.
 *
 * Who owns what. A carousel owns its activations, steppers and tables; it borrows the models, and
 * nothing of what it is given to search: sources, prefixes and options are copied; terms are not,
 * and must stay until the seat is left. Results are its own, and valid until their seat is left.
 * One thread at a time.
 *
 * Failure. A sentence that cannot ride is refused by carousel_check, which names the reason. One
 * whose scores are not numbers ends with that error as its result; the others do not notice. An
 * error of carousel_add, carousel_encode or carousel_step is the backend's (its memory, its device)
 * and stays: all seats are to be left, and the carousel to be freed.
 *
 * How long a step takes. Everybody aboard waits for the encoder when somebody gets on, and for
 * everybody else's rows. So whoever admits bounds both: n_row is the most rows that a step has, and
 * n_pass the most source tokens of one carousel_add. Between two steps it should add at most once.
 * With cost e of a source token in the encoder and d of a row in a step (a row costs little more
 * when others share it, as weights are read once), no step comes later than e * n_pass + d * n_row
 * after the last. Those that nobody waits for can board instead: they have their seats, and are
 * encoded layer by layer whenever there is time, between two steps or while no step is made, beside
 * others that get on at once; with the last layer they ride. Fairness and priority are the
 * admitter's, too: it decides who is next, may keep seats and rows back for short and urgent ones,
 * and may hold others while these ride.
 *
 * Devices. Everything here goes through ops that every backend has, so it runs on a GPU as it is,
 * with the host in every step, as the searches that are not plain do. To stay resident
 * (resident.h), head, log_prob, node and end of the seats would become a beam_table; its rows
 * already are addressed by seat. beam_step would need three things: the rules by seat and not by
 * search (width, n_best, min_len, penalties at seat * (max_len + 1)); the cell of each new row
 * (first cell + len * width + slot) instead of step * rows + row; and to leave out seats that are
 * empty, so that the host changes a seat by an upload between two replays: getting on writes its
 * head (len 0, one live row, no parent), getting off marks it done. Positions, lengths and sources
 * of rows are device arrays that beam_step writes already. The host stays one step ahead; a
 * sentence gets on, and a cancelled one off, one step later than on the CPU. */
#ifndef SEARCH_CAROUSEL_H
#define SEARCH_CAROUSEL_H

#include "search/search.h"

/* What there is room for at a time. */
struct carousel_caps {
    int n_seat; /* sentences */
    int n_row;  /* hypotheses: the sum of all beams */
    int n_cell; /* the sum of beam times longest translation */
    int n_src;  /* source tokens of all sentences */
    int n_pass; /* of those that get on together */
    /* And of one sentence: source tokens, tokens of its translation (end mark counted), beam; wide
     * beams of long translations need not fit. */
    int max_src, max_len, max_beam;
    int n_board; /* source tokens of those that board together; 0: nobody does */
};

struct carousel;

/* The caps of the setup are not used. */
int carousel_new(struct carousel **carousel, const struct search_setup *setup,
                 const struct carousel_caps *caps, struct err *err);
void carousel_free(struct carousel *carousel);

/* A sentence, and how to search it. `place` of the options means nothing here. */
struct carousel_input {
    struct search_input in;
    const struct search_options *options;
};

/* Could it ride if it were alone? `number` names it in the message. */
int carousel_check(const struct carousel *carousel, const struct carousel_input *in, int number,
                   struct err *err);

/* Seats the first of n sentences that have passed carousel_check, as many as there is room for now,
 * in their order. Returns how many, and seat[i] for each of these; or an error. */
int carousel_add(struct carousel *carousel, const struct carousel_input *in, int n, int *seat,
                 struct err *err);

/* The same, but they do not ride before carousel_encode has encoded them. While some board others
 * cannot: 0. */
int carousel_board(struct carousel *carousel, const struct carousel_input *in, int n, int *seat);

/* One more layer of those that board, if any do. */
int carousel_encode(struct carousel *carousel, struct err *err);

/* Source tokens of those that board that are left to encode: all tokens of half the layers count as
 * half of the tokens. 0: nobody boards. */
int carousel_boarding(const struct carousel *carousel);

/* Does the sentence of a seat ride: is it encoded, and not done? */
int carousel_rides(const struct carousel *carousel, int seat);

/* One more token for every sentence that is not done. Nothing happens where there is none. */
int carousel_step(struct carousel *carousel, struct err *err);

/* Held, a sentence that is not done keeps its place and is left out of steps; let go, it goes on
 * where it was, to the same result. */
void carousel_hold(struct carousel *carousel, int seat, int held);

/* A seat whose sentence is done, in the order of ending; each is told once. -1: no more. */
int carousel_done(struct carousel *carousel);

/* What was found for the sentence of a seat that is done; or its error. */
int carousel_result(struct carousel *carousel, int seat, struct search_result *result,
                    struct err *err);

/* The sentence gets off, done or not; its seat is free. */
void carousel_leave(struct carousel *carousel, int seat);

/* What the best hypothesis of a seat that is not done has written so far. Its first n_settled
 * tokens are those of every hypothesis, live or ended: they will not change any more. Valid until
 * the next call. */
struct carousel_view {
    const int32_t *ids;
    int n, n_settled;
};
struct carousel_view carousel_peek(struct carousel *carousel, int seat);

/* How much is taken: seats, and rows that the coming step has, held ones left out. */
int carousel_seats(const struct carousel *carousel);
int carousel_rows(const struct carousel *carousel);

#endif

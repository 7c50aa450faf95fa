/* deal.c — see deal.h. */
#include "text/deal.h"

#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"

/* A window in one piece: for each line a head, then text, prefix, name and end, each with a NUL. */
struct packed_line {
    struct feed_line line; /* its pointers are another process's: NULL or not is all they say */
    size_t name_size, end_size;
};

struct window {
    struct buffer bytes;
    struct feed_line *line;
    int n, room;
};

/* What a rank answers, followed by notes and bytes. */
struct reply {
    int rc, n_done;
    size_t size;
    struct err err;
};

/* ---- windows --------------------------------------------------------------------------------- */

static void put_text(struct buffer *b, const char *text, size_t size) {
    if (text) buffer_put(b, text, size);
    buffer_put(b, "", 1);
}

static void pack(struct window *w, const struct feed_line *line, int n) {
    w->bytes.size = 0;
    w->n = n;
    for (int i = 0; i < n; i++) {
        struct packed_line head = {line[i], strlen(line[i].name), strlen(line[i].end)};
        buffer_put(&w->bytes, (const char *)&head, sizeof head);
        put_text(&w->bytes, line[i].text, line[i].size);
        put_text(&w->bytes, line[i].prefix, line[i].prefix ? line[i].prefix_size : 0);
        put_text(&w->bytes, line[i].name, head.name_size);
        put_text(&w->bytes, line[i].end, head.end_size);
    }
}

static const char *take_text(const char **at, size_t size) {
    const char *text = *at;
    *at += size + 1;
    return text;
}

static void unpack(struct window *w) {
    const char *at = w->bytes.text;
    if (w->n > w->room) w->line = xrealloc(w->line, (size_t)(w->room = w->n) * sizeof *w->line);
    for (int i = 0; i < w->n; i++) {
        struct packed_line head;
        memcpy(&head, take_text(&at, sizeof head - 1), sizeof head);
        struct feed_line *l = &w->line[i];
        *l = head.line;
        l->text = take_text(&at, l->size);
        const char *prefix = take_text(&at, l->prefix ? l->prefix_size : 0);
        l->prefix = l->prefix ? prefix : NULL;
        l->name = take_text(&at, head.name_size);
        l->end = take_text(&at, head.end_size);
    }
    BUG_ON(at != w->bytes.text + w->bytes.size);
}

static void move_bytes(struct comm *comm, struct buffer *b, int from, int to) {
    size_t size = b->size;
    comm_move(comm, &size, sizeof size, from, to);
    if (comm->err.code) return;
    if (comm->rank == to) {
        b->size = 0;
        buffer_room(b, size);
        b->size = size;
    }
    comm_move(comm, b->text, size, from, to);
}

static void send_window(struct comm *comm, struct window *w, int to) {
    comm_move(comm, &w->n, sizeof w->n, 0, to);
    move_bytes(comm, &w->bytes, 0, to);
}

/* ---- what rank 0 does ------------------------------------------------------------------------ */

/* Reads windows until each rank has one, or the next line has not been written yet: *n of them. An
 * error of reading comes after what was read. */
static int read_round(struct lanes *lanes, struct feed *feed, struct window *w, int most, int *n,
                      struct err *err) {
    int full = 1, got = 1;
    *n = 0;
    while (*n < most && full && (got = lanes_fill(lanes, feed, &full, err)) > 0) {
        pack(&w[*n], feed_lines(feed), got);
        unpack(&w[(*n)++]);
    }
    return got < 0 ? got : 0;
}

/* Writes what rank r made of its window; where ops is NULL, since something before it has failed,
 * it is only taken. */
static int take_reply(struct comm *comm, int r, const struct window *w, struct buffer *body,
                      const struct deal_ops *ops, struct err *err) {
    struct reply reply = {0};
    comm_move(comm, &reply, sizeof reply, r, 0);
    move_bytes(comm, body, r, 0);
    if (!ops || comm_check(comm, err)) return ops ? comm_check(comm, err) : 0;
    struct deal_answer answer = {.note = (const unsigned char *)body->text,
                                 .n_done = reply.n_done,
                                 .bytes = body->text + reply.n_done,
                                 .size = reply.size};
    int rc = ops->write(ops->ctx, w->line, w->n, &answer, err);
    if (!rc && reply.rc) *err = reply.err;
    return rc ? rc : reply.rc;
}

static int lead(struct comm *comm, struct lanes *lanes, struct feed *feed,
                const struct deal_ops *ops, struct err *err) {
    struct window *w = xcalloc((size_t)comm->size, sizeof *w);
    struct buffer body = {0};
    int n = 1, rc = 0;
    while (n > 0 && !comm->err.code) {
        struct err why = {0};
        int read_rc = rc ? 0 : read_round(lanes, feed, w, comm->size, &n, &why);
        if (rc) n = 0;
        comm_bcast(comm, &n, sizeof n, 0);
        for (int r = 1; r < n; r++) send_window(comm, &w[r], r);
        struct deal_answer own = {0};
        if (n > 0) {
            int own_rc = ops->translate(ops->ctx, w[0].line, w[0].n, &own, err);
            rc = ops->write(ops->ctx, w[0].line, w[0].n, &own, err);
            if (own_rc) rc = own_rc;
        }
        for (int r = 1; r < n; r++) {
            int taken = take_reply(comm, r, &w[r], &body, rc ? NULL : ops, err);
            if (!rc) rc = taken;
        }
        if (!rc && read_rc) *err = why;
        if (!rc) rc = read_rc;
    }
    for (int r = 0; r < comm->size; r++) {
        xfree(w[r].bytes.text);
        xfree(w[r].line);
    }
    xfree(w);
    xfree(body.text);
    return rc ? rc : comm_check(comm, err);
}

/* ---- what the others do ---------------------------------------------------------------------- */

static void follow(struct comm *comm, const struct deal_ops *ops) {
    struct window w = {0};
    struct buffer body = {0};
    for (int n = 0;;) {
        comm_bcast(comm, &n, sizeof n, 0);
        if (n == 0 || comm->err.code) break;
        if (comm->rank >= n) continue;
        comm_move(comm, &w.n, sizeof w.n, 0, comm->rank);
        move_bytes(comm, &w.bytes, 0, comm->rank);
        if (comm->err.code) break;
        unpack(&w);
        struct deal_answer answer = {0};
        struct reply reply = {0};
        reply.rc = ops->translate(ops->ctx, w.line, w.n, &answer, &reply.err);
        reply.n_done = answer.n_done;
        reply.size = answer.size;
        body.size = 0;
        buffer_put(&body, (const char *)answer.note, (size_t)answer.n_done);
        buffer_put(&body, answer.bytes, answer.size);
        comm_move(comm, &reply, sizeof reply, comm->rank, 0);
        move_bytes(comm, &body, comm->rank, 0);
    }
    xfree(w.bytes.text);
    xfree(w.line);
    xfree(body.text);
}

int deal_run(struct comm *comm, struct lanes *lanes, struct feed *feed, const struct deal_ops *ops,
             struct err *err) {
    if (comm->rank == 0) {
        int rc = lead(comm, lanes, feed, ops, err);
        if (rc) return rc;
    } else {
        follow(comm, ops);
    }
    return comm_check(comm, err);
}

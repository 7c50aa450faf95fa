/* pickle.c — see pickle.h. One table says what each opcode is called, what is done for it, and how
 * many bytes its number or length takes. */
#include "io/pickle.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

enum { MAX_NAME = 256 };

enum action {
    NOT_READ, /* known to Python, not needed here */
    PROTO,
    FRAME,
    STOP,
    MARK,
    POP,
    DUP,
    NONE,
    BOOL, /* size: its value */
    UNSIGNED,
    SIGNED,
    LONG,
    FLOAT,
    STRING,
    BYTES,
    TUPLE, /* size: items, or 0: all above the mark */
    EMPTY_TUPLE,
    LIST,
    DICT,
    APPEND,
    APPENDS,
    SETITEM,
    SETITEMS,
    GET,
    PUT,
    MEMOIZE,
    GLOBAL,
    STACK_GLOBAL,
    CALL,
    BUILD,
    PERSISTENT
};

static const struct op {
    unsigned char code;
    const char *name;
    enum action action;
    int size;
} ops[] = {
    {0x80, "PROTO", PROTO, 1},
    {0x95, "FRAME", FRAME, 8},
    {'.', "STOP", STOP, 0},
    {'(', "MARK", MARK, 0},
    {'0', "POP", POP, 0},
    {'2', "DUP", DUP, 0},
    {'N', "NONE", NONE, 0},
    {0x88, "NEWTRUE", BOOL, 1},
    {0x89, "NEWFALSE", BOOL, 0},
    {'K', "BININT1", UNSIGNED, 1},
    {'M', "BININT2", UNSIGNED, 2},
    {'J', "BININT", SIGNED, 4},
    {0x8a, "LONG1", LONG, 1},
    {0x8b, "LONG4", LONG, 4},
    {'G', "BINFLOAT", FLOAT, 8},
    {'U', "SHORT_BINSTRING", STRING, 1},
    {'T', "BINSTRING", STRING, 4},
    {0x8c, "SHORT_BINUNICODE", STRING, 1},
    {'X', "BINUNICODE", STRING, 4},
    {0x8d, "BINUNICODE8", STRING, 8},
    {'C', "SHORT_BINBYTES", BYTES, 1},
    {'B', "BINBYTES", BYTES, 4},
    {0x8e, "BINBYTES8", BYTES, 8},
    {')', "EMPTY_TUPLE", EMPTY_TUPLE, 0},
    {0x85, "TUPLE1", TUPLE, 1},
    {0x86, "TUPLE2", TUPLE, 2},
    {0x87, "TUPLE3", TUPLE, 3},
    {'t', "TUPLE", TUPLE, 0},
    {0x91, "FROZENSET", TUPLE, 0},
    {']', "EMPTY_LIST", LIST, 0},
    {0x8f, "EMPTY_SET", LIST, 0},
    {'}', "EMPTY_DICT", DICT, 0},
    {'a', "APPEND", APPEND, 0},
    {'e', "APPENDS", APPENDS, 0},
    {0x90, "ADDITEMS", APPENDS, 0},
    {'s', "SETITEM", SETITEM, 0},
    {'u', "SETITEMS", SETITEMS, 0},
    {'h', "BINGET", GET, 1},
    {'j', "LONG_BINGET", GET, 4},
    {'q', "BINPUT", PUT, 1},
    {'r', "LONG_BINPUT", PUT, 4},
    {0x94, "MEMOIZE", MEMOIZE, 0},
    {'c', "GLOBAL", GLOBAL, 0},
    {0x93, "STACK_GLOBAL", STACK_GLOBAL, 0},
    {'R', "REDUCE", CALL, 0},
    {0x81, "NEWOBJ", CALL, 0},
    {'b', "BUILD", BUILD, 0},
    {'Q', "BINPERSID", PERSISTENT, 0},
    {'1', "POP_MARK", NOT_READ, 0},
    {'I', "INT", NOT_READ, 0},
    {'L', "LONG", NOT_READ, 0},
    {'F', "FLOAT", NOT_READ, 0},
    {'S', "STRING", NOT_READ, 0},
    {'V', "UNICODE", NOT_READ, 0},
    {'l', "LIST", NOT_READ, 0},
    {'d', "DICT", NOT_READ, 0},
    {'g', "GET", NOT_READ, 0},
    {'p', "PUT", NOT_READ, 0},
    {'i', "INST", NOT_READ, 0},
    {'o', "OBJ", NOT_READ, 0},
    {'P', "PERSID", NOT_READ, 0},
    {0x82, "EXT1", NOT_READ, 0},
    {0x83, "EXT2", NOT_READ, 0},
    {0x84, "EXT4", NOT_READ, 0},
    {0x92, "NEWOBJ_EX", NOT_READ, 0},
    {0x96, "BYTEARRAY8", NOT_READ, 0},
    {0x97, "NEXT_BUFFER", NOT_READ, 0},
    {0x98, "READONLY_BUFFER", NOT_READ, 0},
};

/* Marks are NULL on the stack. */
struct machine {
    const char *bytes;
    size_t size, at;
    struct keep *keep;
    const char *where;
    struct err *err;
    const struct op *op; /* in work */
    struct pickle_value **stack, **memo;
    size_t n, stack_room, memo_room, n_memo, pushes;
    int done;
};

/* ---- the machine ----------------------------------------------------------------------------- */

static int fail(const struct machine *m, const char *what) {
    return err_set(m->err, HEED_EFORMAT, "%.120s: pickle: %s at byte %zu: %s", m->where,
                   m->op ? m->op->name : "opcode", m->at, what);
}

static int push(struct machine *m, struct pickle_value *value) {
    if (++m->pushes > PICKLE_MAX_VALUES) return fail(m, "too many values");
    if (m->n == m->stack_room) {
        m->stack_room = 2 * m->stack_room + 64;
        m->stack = xrealloc(m->stack, m->stack_room * sizeof(void *));
    }
    m->stack[m->n++] = value;
    return 0;
}

static struct pickle_value *make(struct machine *m, enum pickle_kind kind) {
    struct pickle_value *v = keep_take(m->keep, sizeof *v);
    *v = (struct pickle_value){.kind = kind};
    return v;
}

/* Are there n values on top of the stack, and no mark among them? */
static int has(const struct machine *m, size_t n) {
    if (m->n < n) return 0;
    for (size_t i = m->n - n; i < m->n; i++)
        if (!m->stack[i]) return 0;
    return 1;
}

/* How many values lie above the last mark; or SIZE_MAX. */
static size_t above_mark(const struct machine *m) {
    for (size_t i = m->n; i-- > 0;)
        if (!m->stack[i]) return m->n - 1 - i;
    return SIZE_MAX;
}

/* The number behind the opcode. */
static int take_number(struct machine *m, int size, uint64_t *number) {
    *number = 0;
    if (m->size - m->at < (size_t)size) return fail(m, "the end of the data");
    for (int i = size; i-- > 0;)
        *number = *number << 8 | (unsigned char)m->bytes[m->at + (size_t)i];
    m->at += (size_t)size;
    return 0;
}

/* The bytes behind their length. */
static int take_bytes(struct machine *m, struct pickle_value *v) {
    uint64_t n;
    int rc = take_number(m, m->op->size, &n);
    if (rc) return rc;
    if (n > m->size - m->at) return fail(m, "longer than the data");
    v->bytes = m->bytes + m->at;
    v->n = (size_t)n;
    m->at += (size_t)n;
    return 0;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static int do_bytes(struct machine *m, enum pickle_kind kind) {
    struct pickle_value *v = make(m, kind);
    int rc = take_bytes(m, v);
    return rc ? rc : push(m, v);
}

static int do_long(struct machine *m) {
    struct pickle_value *v = make(m, PICKLE_LONG);
    int rc = take_bytes(m, v);
    if (rc) return rc;
    if (v->n <= 8) {
        uint64_t x = v->n && v->bytes[v->n - 1] & 0x80 ? UINT64_MAX : 0;
        for (size_t i = v->n; i-- > 0;) x = x << 8 | (unsigned char)v->bytes[i];
        *v = (struct pickle_value){.kind = PICKLE_INT, .integer = (int64_t)x};
    }
    return push(m, v);
}

static int do_number(struct machine *m) {
    struct pickle_value *v = make(m, PICKLE_INT);
    uint64_t x;
    int rc = take_number(m, m->op->size, &x);
    if (rc) return rc;
    v->integer = m->op->action == SIGNED ? (int32_t)(uint32_t)x : (int64_t)x;
    return push(m, v);
}

static int do_float(struct machine *m) {
    struct pickle_value *v = make(m, PICKLE_FLOAT);
    uint64_t x;
    int rc = take_number(m, 8, &x);
    if (rc) return rc;
    x = __builtin_bswap64(x); /* the one big-endian number of pickles */
    memcpy(&v->real, &x, sizeof x);
    return push(m, v);
}

/* The n values on top become items of v. */
static void take_items(struct machine *m, struct pickle_value *v, size_t n) {
    if (v->n + n > v->room) {
        size_t room = 2 * v->n + n;
        const struct pickle_value **item = keep_take(m->keep, room * sizeof(void *));
        if (v->n) memcpy(item, v->item, v->n * sizeof(void *));
        v->item = item;
        v->room = room;
    }
    for (size_t i = 0; i < n; i++) v->item[v->n + i] = m->stack[m->n - n + i];
    v->n += n;
    m->n -= n;
}

static int do_tuple(struct machine *m, size_t n, int with_mark) {
    struct pickle_value *v = make(m, PICKLE_TUPLE);
    if (n == SIZE_MAX || !has(m, n)) return fail(m, "the stack has too little");
    if (n) take_items(m, v, n);
    if (with_mark) m->n--;
    return push(m, v);
}

/* The n values on top, with a mark below them or not, go to the list, dictionary or object
 * below. */
static int do_add(struct machine *m, size_t n, int with_mark, int pairs) {
    if (n == SIZE_MAX || !has(m, n) || m->n < n + (size_t)with_mark + 1)
        return fail(m, "the stack has too little");
    struct pickle_value *v = m->stack[m->n - n - (size_t)with_mark - 1];
    enum pickle_kind kind = pairs ? PICKLE_DICT : PICKLE_LIST;
    if (!v || (v->kind != kind && v->kind != PICKLE_OBJECT))
        return fail(m, "to something that takes no items");
    if (pairs && n % 2) return fail(m, "a key without a value");
    if (v->kind == PICKLE_OBJECT && v->n && v->pairs != pairs)
        return fail(m, "an object with items of two kinds");
    v->pairs = pairs;
    if (n) take_items(m, v, n);
    m->n -= (size_t)with_mark;
    return 0;
}

static int do_get(struct machine *m) {
    uint64_t i;
    int rc = take_number(m, m->op->size, &i);
    if (rc) return rc;
    if (i >= m->memo_room || !m->memo[i]) return fail(m, "nothing was put there");
    return push(m, m->memo[i]);
}

static int put(struct machine *m, uint64_t i) {
    if (!has(m, 1)) return fail(m, "the stack has too little");
    if (i >= PICKLE_MAX_VALUES) return fail(m, "the memo is too large");
    if (i >= m->memo_room) {
        size_t room = (size_t)(i < 2 * m->memo_room ? 2 * m->memo_room : i + 64);
        m->memo = xrealloc(m->memo, room * sizeof(void *));
        memset(m->memo + m->memo_room, 0, (room - m->memo_room) * sizeof(void *));
        m->memo_room = room;
    }
    m->n_memo += !m->memo[i];
    m->memo[i] = m->stack[m->n - 1];
    return 0;
}

static int do_put(struct machine *m) {
    uint64_t i;
    int rc = take_number(m, m->op->size, &i);
    return rc ? rc : put(m, i);
}

static int push_global(struct machine *m, const char *module, size_t n, const char *name,
                       size_t length) {
    if (n > MAX_NAME || length > MAX_NAME) return fail(m, "a name that is too long");
    struct pickle_value *v = make(m, PICKLE_GLOBAL);
    char *text = keep_take(m->keep, n + length + 1);
    memcpy(text, module, n);
    text[n] = ' ';
    memcpy(text + n + 1, name, length);
    v->bytes = text;
    v->n = n + length + 1;
    return push(m, v);
}

/* "module\nname\n" */
static int do_global(struct machine *m) {
    const char *line[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        line[i] = m->bytes + m->at;
        const char *end = memchr(line[i], '\n', m->size - m->at);
        if (!end) return fail(m, "the end of the data");
        n[i] = (size_t)(end - line[i]);
        m->at += n[i] + 1;
    }
    return push_global(m, line[0], n[0], line[1], n[1]);
}

static int do_stack_global(struct machine *m) {
    if (!has(m, 2)) return fail(m, "the stack has too little");
    const struct pickle_value *module = m->stack[m->n - 2], *name = m->stack[m->n - 1];
    if (module->kind != PICKLE_STRING || name->kind != PICKLE_STRING)
        return fail(m, "a name that is no text");
    m->n -= 2;
    return push_global(m, module->bytes, module->n, name->bytes, name->n);
}

/* callable, arguments -> an object that knows both. */
static int do_call(struct machine *m) {
    if (!has(m, 2)) return fail(m, "the stack has too little");
    struct pickle_value *v = make(m, PICKLE_OBJECT);
    v->args = m->stack[--m->n];
    v->callable = m->stack[--m->n];
    if (v->args->kind != PICKLE_TUPLE) return fail(m, "arguments that are no tuple");
    return push(m, v);
}

static int do_build(struct machine *m) {
    if (!has(m, 2)) return fail(m, "the stack has too little");
    if (m->stack[m->n - 2]->kind != PICKLE_OBJECT) return fail(m, "of something that is no object");
    m->n--;
    m->stack[m->n - 1]->state = m->stack[m->n];
    return 0;
}

static int do_persistent(struct machine *m) {
    if (!has(m, 1)) return fail(m, "the stack has too little");
    struct pickle_value *v = make(m, PICKLE_PERSISTENT);
    v->args = m->stack[--m->n];
    return push(m, v);
}

static int do_bool(struct machine *m) {
    struct pickle_value *v = make(m, PICKLE_BOOL);
    v->integer = m->op->size;
    return push(m, v);
}

static int do_stack(struct machine *m) {
    if (!m->n || (m->op->action != POP && !has(m, 1))) return fail(m, "the stack has too little");
    if (m->op->action == DUP) return push(m, m->stack[m->n - 1]);
    if (m->op->action == STOP && m->n != 1) return fail(m, "more than one value on the stack");
    m->n -= m->op->action == POP;
    m->done = m->op->action == STOP;
    return 0;
}

/* Protocol and frame say nothing that is needed. */
static int do_header(struct machine *m) {
    uint64_t x;
    int rc = take_number(m, m->op->size, &x);
    if (!rc && m->op->action == PROTO && x > 5) rc = fail(m, "a protocol that is not known");
    return rc;
}

static int do_op(struct machine *m) {
    switch (m->op->action) {
    case NOT_READ:
        return fail(m, "this opcode is not read here");
    case PROTO:
    case FRAME:
        return do_header(m);
    case STOP:
    case POP:
    case DUP:
        return do_stack(m);
    case MARK:
        return push(m, NULL);
    case NONE:
        return push(m, make(m, PICKLE_NONE));
    case BOOL:
        return do_bool(m);
    case UNSIGNED:
    case SIGNED:
        return do_number(m);
    case LONG:
        return do_long(m);
    case FLOAT:
        return do_float(m);
    case STRING:
        return do_bytes(m, PICKLE_STRING);
    case BYTES:
        return do_bytes(m, PICKLE_BYTES);
    case EMPTY_TUPLE:
        return do_tuple(m, 0, 0);
    case TUPLE:
        return m->op->size ? do_tuple(m, (size_t)m->op->size, 0) : do_tuple(m, above_mark(m), 1);
    case LIST:
        return push(m, make(m, PICKLE_LIST));
    case DICT:
        return push(m, make(m, PICKLE_DICT));
    case APPEND:
        return do_add(m, 1, 0, 0);
    case APPENDS:
        return do_add(m, above_mark(m), 1, 0);
    case SETITEM:
        return do_add(m, 2, 0, 1);
    case SETITEMS:
        return do_add(m, above_mark(m), 1, 1);
    case GET:
        return do_get(m);
    case PUT:
        return do_put(m);
    case MEMOIZE:
        return put(m, m->n_memo);
    case GLOBAL:
        return do_global(m);
    case STACK_GLOBAL:
        return do_stack_global(m);
    case CALL:
        return do_call(m);
    case BUILD:
        return do_build(m);
    case PERSISTENT:
        return do_persistent(m);
    }
    return fail(m, "this opcode is not read here");
}

/* ---- reading --------------------------------------------------------------------------------- */

static int step(struct machine *m) {
    m->op = NULL;
    if (m->at == m->size) return fail(m, "the end of the data");
    unsigned char code = (unsigned char)m->bytes[m->at++];
    for (size_t i = 0; i < sizeof ops / sizeof *ops && !m->op; i++)
        if (ops[i].code == code) m->op = &ops[i];
    if (!m->op)
        return err_set(m->err, HEED_EFORMAT, "%.120s: pickle: byte %zu, 0x%02x, is no opcode",
                       m->where, m->at - 1, code);
    return do_op(m);
}

int pickle_read(const struct pickle_value **value, const struct pickle_input *in, size_t *used,
                struct keep *keep, struct err *err) {
    struct machine m = {.bytes = in->bytes, .keep = keep, .where = in->where, .err = err};
    *value = NULL;
    *used = 0;
    if (in->size < 2 || (unsigned char)in->bytes[0] != 0x80)
        return err_set(err, HEED_EFORMAT, "%.120s: not a pickle of protocol 2 or later", in->where);
    m.size = min_size(in->size, PICKLE_MAX_SIZE); /* tensors may follow */
    int rc = 0;
    while (!rc && !m.done) rc = step(&m);
    if (!rc) {
        *value = m.stack[0];
        *used = m.at;
    }
    xfree(m.stack);
    xfree(m.memo);
    return rc;
}

int pickle_is_text(const struct pickle_value *v, const char *text) {
    return v->kind == PICKLE_STRING && v->n == strlen(text) && memcmp(v->bytes, text, v->n) == 0;
}

int pickle_is_global(const struct pickle_value *v, const char *name) {
    return v->kind == PICKLE_GLOBAL && v->n == strlen(name) && memcmp(v->bytes, name, v->n) == 0;
}

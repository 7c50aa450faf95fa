/* test_torch.c — pickles as values, and PyTorch's checkpoints in both containers; tests/fuzz/corpus
 * has files that Python and PyTorch wrote. */
#include "base/file.h"
#include "base/mem.h"
#include "damage.h"
#include "io/pickle.h"
#include "io/torch.h"
#include "test.h"

/* ---- pickles --------------------------------------------------------------------------------- */

static const struct pickle_value *get(const struct pickle_value *dict, const char *key) {
    for (size_t i = 0; i + 1 < dict->n; i += 2)
        if (pickle_is_text(dict->item[i], key)) return dict->item[i + 1];
    fail_msg("no %s", key);
    return NULL;
}

TEST(protocols) {
    for (int protocol = 2; protocol <= 4; protocol++) {
        char path[100], *bytes;
        size_t size, used;
        struct keep keep = {0};
        struct err err = {0};
        const struct pickle_value *v;
        snprintf(path, sizeof path, "tests/fuzz/corpus/pickle/protocol%d", protocol);
        ASSERT_OK(file_read_all(&bytes, &size, path, 4096, &err), err);
        struct pickle_input in = {bytes, size, path};
        ASSERT_OK(pickle_read(&v, &in, &used, &keep, &err), err);
        assert_int_equal(used, size);
        assert_int_equal(v->kind, PICKLE_DICT);
        assert_ptr_equal(get(v, "self"), v);
        const struct pickle_value *a = get(v, "a");
        static const int64_t whole[] = {1, -2, 300, 70000, (int64_t)1 << 40};
        assert_int_equal(a->n, 11);
        for (int i = 0; i < 5; i++) assert_int_equal(a->item[i]->integer, whole[i]);
        assert_int_equal(a->item[5]->kind, PICKLE_LONG);
        assert_memory_equal(a->item[5]->bytes, "\0\0\0\0\0\0\0\0\0\0\1", 11);
        assert_int_equal(a->item[6]->kind, PICKLE_LONG);
        assert_int_equal(a->item[7]->kind, PICKLE_NONE);
        assert_int_equal(a->item[8]->kind, PICKLE_BOOL);
        assert_int_equal(a->item[8]->integer, 1);
        ASSERT_NEAR(a->item[9]->real, 1.5, 0);
        if (protocol > 2) assert_int_equal(a->item[10]->kind, PICKLE_BYTES);
        assert_int_equal(get(v, "t")->n, 1);
        assert_int_equal(get(v, "e")->n, 0);
        const struct pickle_value *o = get(v, "o");
        assert_int_equal(o->kind, PICKLE_OBJECT);
        assert_true(pickle_is_global(o->callable, "collections OrderedDict"));
        assert_int_equal(get(o, "b")->integer, 1);
        keep_release(&keep);
        xfree(bytes);
    }
}

/* What would be executed is only a value. */
TEST(harmless) {
    char *bytes;
    size_t size, used;
    struct keep keep = {0};
    struct err err = {0};
    const struct pickle_value *v;
    ASSERT_OK(file_read_all(&bytes, &size, "tests/fuzz/corpus/pickle/harm", 4096, &err), err);
    struct pickle_input in = {bytes, size, "x"};
    ASSERT_OK(pickle_read(&v, &in, &used, &keep, &err), err);
    assert_int_equal(v->kind, PICKLE_OBJECT);
    assert_true(pickle_is_global(v->callable, "posix system"));
    assert_true(pickle_is_text(v->args->item[0], "touch harm"));
    assert_false(file_exists("harm"));
    keep_release(&keep);
    xfree(bytes);
}

static void expect_error(const char *bytes, size_t size, const char *part) {
    size_t used;
    struct keep keep = {0};
    struct err err = {0};
    const struct pickle_value *v;
    char *copy = xmalloc(size + !size);
    struct pickle_input in = {copy, size, "x.bin"};
    memcpy(copy, bytes, size);
    ASSERT_ERR(pickle_read(&v, &in, &used, &keep, &err), err, HEED_EFORMAT, part);
    assert_null(v);
    assert_non_null(strstr(err.msg, "x.bin: "));
    keep_release(&keep);
    xfree(copy);
}

#define EXPECT_ERROR(bytes, part) expect_error("\x80\2" bytes, sizeof(bytes) + 1, part)

TEST(refused) {
    expect_error("", 0, "not a pickle");
    expect_error("I1\n.", 4, "not a pickle");
    expect_error("\x80\x06N.", 4, "a protocol that is not known");
    EXPECT_ERROR("", "the end of the data");
    EXPECT_ERROR("\xff.", "byte 2, 0xff, is no opcode");
    EXPECT_ERROR("(ios\nsystem\n.", "INST at byte 4: this opcode is not read here");
    EXPECT_ERROR("\x82\1.", "EXT1");
    EXPECT_ERROR("N\x96.", "BYTEARRAY8");
    EXPECT_ERROR(".", "STOP at byte 3: the stack has too little");
    EXPECT_ERROR("(.", "the stack has too little");
    EXPECT_ERROR("NN.", "more than one value");
    EXPECT_ERROR("h\0.", "nothing was put there");
    EXPECT_ERROR("Nr\xff\xff\xff\xff.", "memo is too large");
    EXPECT_ERROR("q\0.", "the stack has too little");
    EXPECT_ERROR("X\xff\xff\xff\xff.", "longer than the data");
    EXPECT_ERROR("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "longer than the data");
    EXPECT_ERROR("K", "the end of the data");
    EXPECT_ERROR("cos\nsystem", "the end of the data");
    EXPECT_ERROR("NN\x93.", "a name that is no text");
    EXPECT_ERROR("cos\nsystem\nNR.", "arguments that are no tuple");
    EXPECT_ERROR("NNb.", "of something that is no object");
    EXPECT_ERROR("NNa.", "takes no items");
    EXPECT_ERROR("](Ns.", "the stack has too little");
    EXPECT_ERROR("}(Nu.", "a key without a value");
    EXPECT_ERROR("e.", "the stack has too little");
    EXPECT_ERROR("(t(\x85.", "the stack has too little");
    EXPECT_ERROR("ca\nb\n)RNa(NNu.", "items of two kinds");
}

/* n times the same. */
TEST(limits) {
    size_t n = PICKLE_MAX_VALUES + 3;
    char *bytes = xmalloc(n);
    memset(bytes, 'N', n);
    memcpy(bytes, "\x80\2", 2);
    expect_error(bytes, n, "too many values");
    xfree(bytes);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void expect_tensor(const struct torch_file *f, const char *name, const char *dtype, int rank,
                          const int64_t *shape, const int64_t *stride) {
    const struct torch_tensor *t = torch_find(f, name);
    if (!t) fail_msg("no %s", name);
    assert_string_equal(t->dtype, dtype);
    assert_int_equal(t->rank, rank);
    for (int i = 0; i < rank; i++) {
        assert_int_equal(t->shape[i], shape[i]);
        assert_int_equal(t->stride[i], stride[i]);
    }
}

static float value(const struct torch_file *f, const char *name, size_t at) {
    float x;
    memcpy(&x, (const char *)torch_find(f, name)->data + 4 * at, 4);
    return x;
}

TEST(containers) {
    char path[100];
    struct torch_file *f;
    struct err err = {0};
    snprintf(path, sizeof path, "tests/fuzz/corpus/torch/%s", TEST_ARG);
    ASSERT_OK(torch_open(&f, path, &err), err);
    assert_int_equal(torch_count(f), 8);
    assert_string_equal(torch_at(f, 0)->name, "a");
    assert_null(torch_find(f, "note"));
    assert_null(torch_find(f, "args"));
    expect_tensor(f, "a", "F32", 2, (int64_t[]){2, 3}, (int64_t[]){3, 1});
    expect_tensor(f, "turned", "F32", 2, (int64_t[]){3, 2}, (int64_t[]){1, 3});
    expect_tensor(f, "row", "F32", 1, (int64_t[]){3}, (int64_t[]){1});
    expect_tensor(f, "half", "F16", 1, (int64_t[]){2}, (int64_t[]){1});
    expect_tensor(f, "brain", "BF16", 1, (int64_t[]){2}, (int64_t[]){1});
    expect_tensor(f, "parameter", "F32", 2, (int64_t[]){1, 2}, (int64_t[]){2, 1});
    expect_tensor(f, "empty", "F32", 2, (int64_t[]){0, 3}, (int64_t[]){3, 1});
    expect_tensor(f, "ids", "I64", 1, (int64_t[]){3}, (int64_t[]){1});
    assert_ptr_equal(torch_find(f, "a")->data, torch_find(f, "turned")->data);
    assert_string_equal(file_map_at(torch_find(f, "a")->data), path); /* not copied */
    for (size_t i = 0; i < 6; i++) ASSERT_NEAR(value(f, "a", i), (double)i - 2.5, 0);
    ASSERT_NEAR(value(f, "row", 0), 0.5, 0);
    ASSERT_NEAR(value(f, "parameter", 1), 1, 0);
    assert_memory_equal(torch_find(f, "half")->data, "\x00\x3e\x00\xc0", 4);
    assert_memory_equal(torch_find(f, "brain")->data, "\xc0\x3f\x00\xc0", 4);
    torch_close(f);
}

/* Every element can be read. */
static void read_any(const char *bytes, size_t size) {
    struct torch_file *f;
    struct err err = {0};
    if (torch_open_bytes(&f, bytes, size, "x", &err)) {
        assert_non_null(strstr(err.msg, "x: "));
        return;
    }
    for (int i = 0; i < torch_count(f); i++) {
        const struct torch_tensor *t = torch_at(f, i);
        size_t item = strcmp(t->dtype, "F32") == 0 ? 4 : 1, last = 0;
        int empty = 0;
        for (int k = 0; k < t->rank; k++) {
            empty |= !t->shape[k];
            last += (size_t)((t->shape[k] - 1) * t->stride[k]);
        }
        char element[4];
        if (!empty) memcpy(element, (const char *)t->data + item * last, item);
    }
    torch_close(f);
}

TEST(damaged) {
    char path[100];
    snprintf(path, sizeof path, "tests/fuzz/corpus/torch/%s", TEST_ARG);
    damage_file(path, read_any);
}

TEST(other_files) {
    struct torch_file *f;
    struct err err = {0};
    ASSERT_ERR(torch_open_bytes(&f, "\x80\2K\1.", 5, "x", &err), err, HEED_EFORMAT,
               "not a checkpoint of PyTorch");
    ASSERT_ERR(torch_open(&f, "tests/fuzz/corpus/zipfile/deflated", &err), err, HEED_EFORMAT,
               "without a data.pkl");
    ASSERT_ERR(torch_open(&f, "Makefile", &err), err, HEED_EFORMAT, "not a pickle");
}

TESTS(T(protocols), T(harmless), T(refused), T(limits), TP(containers, "zip"),
      TP(containers, "legacy"), TP(damaged, "zip"), TP(damaged, "legacy"), T(other_files))

/* test_safetensors.c — safetensors: round trips, and files that mean harm. */
#include <float.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/half.h"
#include "base/mem.h"
#include "io/safetensors.h"
#include "test.h"

/* ---- files ----------------------------------------------------------------------------------- */

/* A file of the given header text (its length in front, `length` if not 0) and n_data bytes of
 * data. */
static char *make_file(const char *header, uint64_t length, size_t n_data) {
    struct err err = {0};
    size_t n = strlen(header);
    unsigned char *bytes = xcalloc(1, 8 + n + n_data);
    uint64_t claimed = length ? length : n;
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(claimed >> 8 * i);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++) bytes[8 + n + i] = (unsigned char)i;
    char *path = path_join(test_dir(), "x.safetensors");
    ASSERT_OK(file_write_all(path, bytes, 8 + n + n_data, &err), err);
    xfree(bytes);
    return path;
}

static void expect_error(const char *header, size_t n_data, const char *part) {
    struct safetensors st;
    struct err err = {0};
    char *path = make_file(header, 0, n_data);
    ASSERT_ERR(safetensors_open(&st, path, &err), err, HEED_EFORMAT, part);
    assert_non_null(strstr(err.msg, "x.safetensors"));
    xfree(path);
}

static void expect_good(const char *header, size_t n_data, int n_tensor) {
    struct safetensors st;
    struct err err = {0};
    char *path = make_file(header, 0, n_data);
    ASSERT_OK(safetensors_open(&st, path, &err), err);
    assert_int_equal(st.n_tensor, n_tensor);
    safetensors_close(&st);
    xfree(path);
}

/* ---- round trip ------------------------------------------------------------------------------ */

static const float some_f32[6] = {1, -2.5f, 3e-40f, 1e30f, 0, -0.0f};
static const double some_f64[2] = {0.1, -1e300};
static const uint16_t some_bf16[3] = {0x3f80, 0xc020, 0x7fc0}; /* 1, -2.5, NaN */
static const uint16_t some_f16[3] = {0x3c00, 0xc100, 0x7e00};  /* the same */
static const int64_t some_i64[1] = {INT64_MIN};

static void write_sample(const char *path, uint32_t *header_crc) {
    struct tensor_spec spec[] = {{"double", "F64", 1, {2}},    {"long", "I64", 0, {0}},
                                 {"matrix", "F32", 2, {2, 3}}, {"none", "I32", 2, {0, 5}},
                                 {"half", "BF16", 1, {3}},     {"ieee", "F16", 1, {3}},
                                 {"bytes", "U8", 1, {3}}};
    struct metadata metadata[] = {{"format", "heed"}, {"odd", "\"\\\n\u00fc"}, {NULL, NULL}};
    struct safetensors_writer w;
    struct err err = {0};
    ASSERT_OK(safetensors_create(&w, path, spec, 7, metadata, &err), err);
    safetensors_write(&w, some_f64, sizeof some_f64);
    safetensors_write(&w, some_i64, sizeof some_i64);
    safetensors_write(&w, some_f32, 10); /* in any pieces */
    safetensors_write(&w, (const char *)some_f32 + 10, sizeof some_f32 - 10);
    safetensors_write(&w, some_bf16, sizeof some_bf16);
    safetensors_write(&w, some_f16, sizeof some_f16);
    safetensors_write(&w, "abc", 3);
    *header_crc = w.header_crc;
    ASSERT_OK(safetensors_commit(&w, &err), err);
}

/* Every f16 there is: its value by definition, and back to the same bits. */
TEST(half_precision) {
    for (uint32_t h = 0; h < 65536; h++) {
        int sign = h >> 15 ? -1 : 1, exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
        double want = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        float is = f16_load((uint16_t)h);
        if (exponent == 31 && fraction) {
            assert_true(isnan(is) && isnan(f16_load(f16_store(is))));
            continue;
        }
        if (exponent == 31) want = INFINITY;
        assert_true((double)is == sign * want && !signbit(is) == (sign > 0));
        assert_int_equal(f16_store(is), h);
    }
    /* Between two neighbours the nearer one, in the middle the even one. */
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double a = f16_load((uint16_t)h), b = h == 0x7bff ? 65536 : f16_load((uint16_t)(h + 1));
        float middle = (float)((a + b) / 2);
        assert_int_equal(f16_store(middle), h + (h & 1));
        assert_int_equal(f16_store(nextafterf(middle, 0)), h);
        assert_int_equal(f16_store(-nextafterf(middle, INFINITY)), (h + 1) | 0x8000);
    }
    assert_int_equal(f16_store(FLT_MAX), 0x7c00);
    assert_int_equal(f16_store(-1e-40f), 0x8000);
}

TEST(round_trip) {
    char *path = path_join(test_dir(), "a.safetensors");
    struct safetensors st;
    struct err err = {0};
    uint32_t crc;
    write_sample(path, &crc);
    ASSERT_OK(safetensors_open(&st, path, &err), err);
    assert_int_equal(st.n_tensor, 7);
    assert_int_equal(st.header_size % 64, 0);
    assert_int_equal(crc32c(0, st.map.data, st.header_size), crc);
    const struct tensor *t = safetensors_find(&st, "matrix");
    assert_non_null(t);
    assert_string_equal(t->dtype, "F32");
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal((uintptr_t)t->data % 8, 0);
    float values[6];
    tensor_values(t, 0, 6, values);
    assert_memory_equal(values, some_f32, sizeof some_f32);
    tensor_values(t, 4, 2, values);
    assert_memory_equal(values, some_f32 + 4, 8);
    t = safetensors_find(&st, "half");
    tensor_values(t, 0, 3, values);
    assert_true(values[0] == 1 && values[1] == -2.5f && isnan(values[2]));
    tensor_values(safetensors_find(&st, "ieee"), 1, 2, values);
    assert_true(values[0] == -2.5f && isnan(values[1]));
    t = safetensors_find(&st, "double");
    assert_memory_equal(t->data, some_f64, sizeof some_f64);
    assert_false(tensor_is_float(t));
    t = safetensors_find(&st, "long");
    assert_int_equal(t->rank, 0);
    assert_int_equal(tensor_count(t), 1);
    assert_int_equal(tensor_count(safetensors_find(&st, "none")), 0);
    assert_null(safetensors_find(&st, "nobody"));
    assert_string_equal(safetensors_metadata(&st, "odd"), "\"\\\n\u00fc");
    assert_null(safetensors_metadata(&st, "even"));
    safetensors_close(&st);
    xfree(path);
}

/* What others write is read by others: the package itself, where Python has it. */
TEST(python_reads_it) {
    if (system("python3 -c 'import safetensors.numpy' 2>/dev/null")) SKIP("no Python safetensors");
    char *path = path_join(test_dir(), "a.safetensors"), command[4096];
    uint32_t crc;
    write_sample(path, &crc);
    snprintf(command, sizeof command,
             "python3 -c 'import safetensors\n"
             "f = safetensors.safe_open(\"%s\", \"numpy\")\n"
             "assert f.get_tensor(\"matrix\").tolist()[0][:2] == [1, -2.5]\n"
             "assert f.metadata()[\"format\"] == \"heed\"'",
             path);
    assert_int_equal(system(command), 0);
    xfree(path);
}

TEST(abort_leaves_nothing) {
    char *path = path_join(test_dir(), "a.safetensors");
    struct tensor_spec spec = {"t", "F32", 1, {4}};
    struct safetensors_writer w;
    struct err err = {0};
    ASSERT_OK(safetensors_create(&w, path, &spec, 1, NULL, &err), err);
    safetensors_write(&w, some_f32, 8);
    safetensors_abort(&w);
    struct dir_names names;
    ASSERT_OK(dir_read(&names, test_dir(), &err), err);
    assert_int_equal(names.n, 0);
    ASSERT_ERR(safetensors_create(&w, "no/such/dir/x", &spec, 1, NULL, &err), err, HEED_EIO,
               "no/such/dir/x");
    xfree(path);
}

/* ---- harm ------------------------------------------------------------------------------------ */

TEST(truncated_at_every_byte) {
    char *path = path_join(test_dir(), "a.safetensors"), *cut = path_join(test_dir(), "cut"), *data;
    struct safetensors st;
    struct err err = {0};
    size_t size;
    uint32_t crc;
    write_sample(path, &crc);
    ASSERT_OK(file_read_all(&data, &size, path, 1 << 20, &err), err);
    for (size_t n = 0; n <= size + 1; n++) { /* one byte too many is wrong, too */
        FILE *f = fopen(cut, "wb");
        fwrite(data, 1, n, f); /* file_read_all put a NUL behind */
        fclose(f);
        int rc = safetensors_open(&st, cut, &err);
        if (n == size) {
            assert_int_equal(rc, 0);
            safetensors_close(&st);
        } else if (rc != HEED_EFORMAT) {
            fail_msg("%zu of %zu bytes: %d", n, size, rc);
        }
    }
    xfree(data);
    xfree(cut);
    xfree(path);
}

TEST(header_length) {
    static const uint64_t length[] = {1,          3,          1000,       1u << 31,      UINT32_MAX,
                                      1ull << 62, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    struct safetensors st;
    struct err err = {0};
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        char *path = make_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
                               length[i], 4);
        if (safetensors_open(&st, path, &err) != HEED_EFORMAT)
            fail_msg("a length of %llu passes", (unsigned long long)length[i]);
        xfree(path);
    }
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                                                         \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" first                               \
    "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" second "}}"

TEST(offsets) {
    expect_good(TWO("[0,4]", "[4,8]"), 8, 2);
    expect_good(TWO("[4,8]", "[0,4]"), 8, 2);
    expect_error(TWO("[0,4]", "[2,6]"), 6, "hole or overlaps");
    expect_error(TWO("[0,4]", "[0,4]"), 4, "hole or overlaps");
    expect_error(TWO("[0,4]", "[5,9]"), 9, "hole or overlaps");
    expect_error(TWO("[1,5]", "[5,9]"), 9, "hole or overlaps");
    expect_error(TWO("[0,4]", "[4,8]"), 9, "1 bytes after");
    expect_error(TWO("[0,4]", "[4,8]"), 7, "cut off: tensor 'b' is at [4, 8)");
    expect_error(ONE("\"U8\"", "[4]", "[4,0]"), 4, "[4, 0)");
    expect_error(ONE("\"U8\"", "[4]", "[-4,0]"), 4, "[-4, 0)");
    expect_error(ONE("\"U8\"", "[4]", "[0,4,8]"), 4, "'a'");
    expect_error(ONE("\"U8\"", "[4]", "[0]"), 4, "'a'");
    expect_error(ONE("\"U8\"", "[4]", "[0.0,4.0]"), 4, "'a'");
    expect_error(ONE("\"U8\"", "[4]", "\"0,4\""), 4, "'a'");
    expect_error(ONE("\"U8\"", "[4]", "[0,9223372036854775807]"), 4, "'a'");
    expect_error(ONE("\"U8\"", "[4]", "[0,18446744073709551615]"), 4, "too big");
    expect_error(ONE("\"U8\"", "[5]", "[0,4]"), 4, "needs 5 bytes");
    expect_error(ONE("\"F32\"", "[4]", "[0,4]"), 4, "needs 16 bytes");
}

TEST(shapes_and_types) {
    expect_good(ONE("\"U8\"", "[]", "[0,1]"), 1, 1);
    expect_good(ONE("\"F64\"", "[0,9223372036854775807]", "[0,0]"), 0, 1);
    expect_error(ONE("\"U8\"", "[9223372036854775807,4]", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"U8\"", "[4294967296,4294967296,4]", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"U8\"", "[9223372036854775807,4,0]", "[0,0]"), 0, "impossible shape");
    expect_error(ONE("\"U8\"", "[-4]", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"U8\"", "[-2,-2]", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"U8\"", "[4.0]", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"U8\"", "\"4\"", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"U8\"", "[1,1,1,1,1,1,1,1,4]", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"U8\"", "null", "[0,4]"), 4, "impossible shape");
    expect_error(ONE("\"F8\"", "[4]", "[0,4]"), 4, "unknown dtype 'F8'");
    expect_error(ONE("7", "[4]", "[0,4]"), 4, "unknown dtype");
    expect_error(ONE("\"\"", "[4]", "[0,4]"), 4, "unknown dtype");
    expect_error("{\"a\":7}", 0, "'a'");
    expect_error("{\"a\":{}}", 0, "'a'");
}

TEST(headers) {
    expect_good("{}", 0, 0);
    expect_good("{}       ", 0, 0);
    expect_good("{\"__metadata__\":{\"a\":\"b\"}}", 0, 0);
    expect_error("{\"__metadata__\":{\"a\":1}}", 0, "metadata 'a'");
    expect_error("{\"__metadata__\":[]}", 0, "__metadata__");
    expect_error("[]", 0, "not a JSON object");
    expect_error(" {}", 0, "not a JSON object");
    expect_error("{", 0, "x.safetensors:1:");
    expect_error("{} {}", 0, "x.safetensors:1:");
    expect_error("{\"a\":\"\xff\"}", 0, "unable to decode byte");
    expect_error("{\"a\\u0000b\":1}", 0, "x.safetensors:1:");
    expect_error("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                 "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                 1, "duplicate");
}

TEST(deep_and_huge) {
    enum { N = 200000 };
    char *text = xmalloc(N + 20);
    strcpy(text, "{\"a\":");
    memset(text + 5, '[', N);
    text[5 + N] = 0;
    expect_error(text, 0, "nested deeper");
    memset(text + 5, 'x', N); /* a key and a value nobody should print whole */
    text[5] = '"';
    strcpy(text + 5 + N, "\"}");
    expect_error(text, 0, "'a'");
    text[0] = '{';
    text[1] = '"';
    memset(text + 2, 'k', N);
    strcpy(text + 2 + N, "\":1}");
    expect_error(text, 0, "kkkk");
    xfree(text);
}

/* Checksums find a changed byte of any tensor, whatever pieces it was written in. */
TEST(checksums) {
    struct err err = {0};
    struct safetensors st;
    struct safetensors_writer w;
    char *path = path_join(test_dir(), "sums.safetensors"), data[48];
    struct tensor_spec spec[] = {{.name = "a", .dtype = "F32", .rank = 1, .shape = {8}},
                                 {.name = "none", .dtype = "I8", .rank = 1, .shape = {0}},
                                 {.name = "b", .dtype = "I8", .rank = 1, .shape = {16}}};
    struct metadata wanted[] = {{SAFETENSORS_CHECKSUMS, ""}, {NULL, NULL}};
    for (int i = 0; i < 48; i++) data[i] = (char)(3 * i);
    for (int piece = 1; piece <= 48; piece *= 3) {
        ASSERT_OK(safetensors_create(&w, path, spec, 3, wanted, &err), err);
        for (int i = 0; i < 48; i += piece)
            safetensors_write(&w, data + i, (size_t)(48 - i < piece ? 48 - i : piece));
        ASSERT_OK(safetensors_commit(&w, &err), err);
        ASSERT_OK(safetensors_open(&st, path, &err), err);
        ASSERT_OK(safetensors_verify(&st, path, 1, &err), err);
        safetensors_close(&st);
    }
    size_t size;
    char *file;
    ASSERT_OK(file_read_all(&file, &size, path, 1 << 20, &err), err);
    for (size_t at = size - 48; at < size; at++) {
        file[at] ^= 1;
        ASSERT_OK(file_write_all(path, file, size, &err), err);
        file[at] ^= 1;
        ASSERT_OK(safetensors_open(&st, path, &err), err);
        ASSERT_ERR(safetensors_verify(&st, path, 2, &err), err, HEED_EFORMAT,
                   at < size - 16 ? "tensor 'a' is damaged" : "tensor 'b' is damaged");
        safetensors_close(&st);
    }
    xfree(file);
    xfree(path);
}

TESTS(T(checksums), T(half_precision), T(round_trip), T(python_reads_it), T(abort_leaves_nothing),
      T(truncated_at_every_byte), T(header_length), T(offsets), T(shapes_and_types), T(headers),
      T(deep_and_huge))

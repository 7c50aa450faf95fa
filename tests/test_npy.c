/* test_npy.c — arrays of NumPy: what it writes, and headers that it never would. */
#include "base/file.h"
#include "base/mem.h"
#include "damage.h"
#include "io/npy.h"
#include "test.h"

/* An array of version `major`, the header as given and n_data bytes behind it. */
static int read_header(struct tensor *t, int major, const char *header, size_t n_data,
                       struct err *err) {
    static char bytes[4096];
    size_t n = strlen(header), head = major > 1 ? 12 : 10;
    memcpy(bytes, "\x93NUMPY", 6);
    memset(bytes + 6, 0, 6);
    bytes[6] = (char)major;
    bytes[8] = (char)n;
    bytes[9] = (char)(n >> 8);
    memcpy(bytes + head, header, n);
    return npy_read(t, bytes, head + n + n_data, "x.npz", "W", err);
}

TEST(headers) {
    static const struct {
        const char *header;
        const char *dtype;
        int rank;
        size_t size;
    } good[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", "F32", 2, 24},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", "F32", 2, 24},
        {"{\"shape\":(3,),\"descr\":\"|i1\",\"fortran_order\":False,}", "I8", 1, 3},
        {"{'descr': '<i1', 'fortran_order': False, 'shape': (3,), }", "I8", 1, 3},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "F64", 0, 8},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (0, 7), }", "F16", 2, 0},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,2), }", "U64", 8, 16},
    };
    for (int major = 1; major <= 3; major++)
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            struct tensor t;
            struct err err = {0};
            ASSERT_OK(read_header(&t, major, good[i].header, good[i].size, &err), err);
            assert_string_equal(t.dtype, good[i].dtype);
            assert_string_equal(t.name, "W");
            assert_int_equal(t.rank, good[i].rank);
            assert_int_equal(t.size, good[i].size);
        }
}

TEST(bad_headers) {
#define REST "'fortran_order': False, 'shape': (2,), }"
    static const struct {
        const char *header, *part;
    } bad[] = {
        {"", "no dictionary"},
        {"{'descr': '>f4', " REST, "no type of numbers"},
        {"{'descr': '|f4', " REST, "no type of numbers"},
        {"{'descr': '<c8', " REST, "no type of numbers"},
        {"{'descr': '|O', " REST, "no type of numbers"},
        {"{'descr': [('a', '<f4')], " REST, "no type of numbers"},
        {"{'descr': '<f4', 'descr': '<f4', " REST, "twice"},
        {"{'descr': '<f4', 'x': 1, " REST, "not known"},
        {"{'descr': '<f4', " REST " x", "something after"},
        {"{'descr': '<f4', 'shape': (2,), }", "missing"},
        {"{'descr': '<f4' 'shape': (2,), }", "no comma"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "columns come first"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", "not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }", "not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,), }",
         "not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "needs 12 bytes and has 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,99999999999,0), }",
         "needs 1844"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tensor t;
        struct err err = {0};
        ASSERT_ERR(read_header(&t, 1, bad[i].header, 8, &err), err, HEED_EFORMAT, bad[i].part);
        assert_non_null(strstr(err.msg, "x.npz: W: "));
    }
    struct tensor t;
    struct err err = {0};
    ASSERT_ERR(read_header(&t, 4, "{}", 0, &err), err, HEED_EFORMAT, "version 4.0");
    ASSERT_ERR(npy_read(&t, "\x93NUMPX", 7, "x", "W", &err), err, HEED_EFORMAT, "not a .npy");
}

static void read_any(const char *bytes, size_t size) {
    struct tensor t;
    struct err err = {0};
    if (npy_read(&t, bytes, size, "x", "W", &err)) return;
    assert_true((const char *)t.data + t.size == bytes + size);
}

TEST(numpy_wrote_it) {
    char *bytes;
    size_t size;
    struct tensor t;
    struct err err = {0};
    ASSERT_OK(file_read_all(&bytes, &size, "tests/fuzz/corpus/npy/matrix", 4096, &err), err);
    ASSERT_OK(npy_read(&t, bytes, size, "matrix", "m", &err), err);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], 2);
    assert_int_equal(t.shape[1], 3);
    float x[6];
    tensor_values(&t, 0, 6, x);
    for (int i = 0; i < 6; i++) ASSERT_NEAR(x[i], i - 2.5, 0);
    damage_all(bytes, size, read_any);
    xfree(bytes);
}

TESTS(T(headers), T(bad_headers), T(numpy_wrote_it))

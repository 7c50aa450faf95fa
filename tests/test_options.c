/* test_options.c — the option engine: text in and out, ranges, choices, JSON, the API. */
#include "base/mem.h"
#include "base/options.h"
#include "io/json.h"
#include "search/translator.h"
#include "test.h"

static const char *const colours[] = {"", "green", "blue", NULL};

struct all {
    int flag, whole, choice, pair;
    int64_t big;
    uint64_t seed;
    float f;
    double d;
    const char *text;
    struct option_list list;
};

#define OPTIONS_OF all
static const struct option rows[] = {
    ROW(FLAG, "flag", flag, NULL, "a flag"),
    ROW(INT, "whole_number", whole, "7", NULL, .min = -5, .max = 1000000),
    ROW(CHOICE, "choice", choice, "green", NULL, .choices = colours),
    ROW(INT, "both", whole, NULL, NULL, .max = 10, .also = offsetof(struct all, pair)),
    ROW(I64, "big", big, "3000000000", NULL, .max = 1e19),
    ROW(U64, "seed", seed, "1", NULL),
    ROW(F32, "f", f, "1e-12", NULL, .min = 1e-12, .max = 1, .below = 1),
    ROW(F64, "d", d, "0.5", NULL, .min = 1e-9, .max = 1e6),
    ROW(STRING, "text", text, "abc", NULL),
    ROW(LIST, "list", list, NULL, NULL),
    {.name = NULL},
};

static const struct option *row(const char *name) { return option_find(rows, name, strlen(name)); }

static void refused(const char *name, const char *text, const char *message) {
    struct all all = {0}, before;
    struct err err = {0};
    options_default(rows, &all);
    before = all;
    ASSERT_ERR(option_set(row(name), &all, text, &err), err, HEED_EINVAL, message);
    assert_string_equal(err.msg, message);
    assert_memory_equal(&all, &before, sizeof all);
}

TEST(finds_names_with_either_dash) {
    assert_ptr_equal(row("whole-number"), &rows[1]);
    assert_ptr_equal(row("whole_number"), &rows[1]);
    assert_null(row("whole"));
    assert_null(row("whole-numbers"));
}

TEST(reads_and_writes_every_kind) {
    struct all all = {0};
    struct err err = {0};
    options_default(rows, &all);
    assert_int_equal(all.choice, 1);
    assert_true(all.big == 3000000000LL && all.seed == 1 && all.f == 1e-12f && all.d == 0.5);
    assert_string_equal(all.text, "abc");
    assert_int_equal(all.pair, 0);
    ASSERT_OK(options_check(rows, &all, &err), err); /* defaults are within their ranges */
    static const struct {
        const char *name, *text, *back;
    } good[] = {{"flag", "1", "1"},
                {"whole-number", "-5", "-5"},
                {"whole-number", "1e3", "1000"},
                {"choice", "blue", "blue"},
                {"big", "9007199254740993", "9007199254740993"},
                {"seed", "18446744073709551615", "18446744073709551615"},
                {"f", "0.25", "0.25"},
                {"d", "1e-9", "1e-09"},
                {"d", "0.12345678901234568", "0.12345678901234568"},
                {"f", "0.1", "0.1"},
                {"f", "0.10000002", "0.10000002"},
                {"text", "x y", "x y"}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[OPTION_TEXT];
        ASSERT_OK(option_set(row(good[i].name), &all, good[i].text, &err), err);
        assert_string_equal(option_text(row(good[i].name), &all, text), good[i].back);
    }
    ASSERT_OK(option_set(row("both"), &all, "4", &err), err);
    assert_int_equal(all.whole, 4);
    assert_int_equal(all.pair, 4);
    ASSERT_OK(option_set(row("list"), &all, "a", &err), err);
    ASSERT_OK(option_set(row("list"), &all, "b", &err), err);
    assert_int_equal(all.list.n, 2);
    assert_string_equal(all.list.item[1], "b");
    xfree(all.list.item);
}

TEST(says_what_is_wrong_in_one_way) {
    refused("whole-number", "x", "'x' is not a whole number");
    refused("whole-number", "2.5", "'2.5' is not a whole number");
    refused("whole-number", "", "'' is not a whole number");
    refused("whole-number", "1000001", "1,000,001 is not between -5 and 1,000,000");
    refused("whole-number", "1e400", "1e400 is not between -5 and 1,000,000");
    refused("f", "1", "1 is not at least 1e-12 and below 1");
    refused("f", "1e-13", "1e-13 is not at least 1e-12 and below 1");
    refused("d", "nan", "'nan' is not a number");
    refused("d", "0", "0 is not between 1e-9 and 1,000,000");
    refused("seed", "-1", "'-1' is not a whole number");
    refused("seed", "18446744073709551616", "18446744073709551616 is too large");
    refused("choice", "", "'' is not one of green, blue");
    refused("choice", "red", "'red' is not one of green, blue");
}

TEST(checks_however_a_value_came) {
    struct all all = {0};
    struct err err = {0};
    options_default(rows, &all);
    all.whole = 2000000;
    ASSERT_ERR(options_check(rows, &all, &err), err, HEED_EINVAL,
               "whole_number: 2,000,000 is not between -5 and 1,000,000");
    options_default(rows, &all);
    all.choice = 0;
    ASSERT_ERR(options_check(rows, &all, &err), err, HEED_EINVAL, "choice: '0' is not one of");
    all.choice = 99;
    ASSERT_ERR(options_check(rows, &all, &err), err, HEED_EINVAL, "choice: '99' is not one of");
}

TEST(writes_json) {
    struct all all = {0};
    struct err err = {0};
    options_default(rows, &all);
    ASSERT_OK(option_set(row("list"), &all, "a\xff", &err), err);
    all.seed = UINT64_MAX;
    json_t *object = json_out_options(rows, &all);
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    assert_string_equal(
        text, "{\"flag\":false,\"whole_number\":0,\"choice\":\"green\",\"both\":0,"
              "\"big\":3000000000,\"seed\":\"18446744073709551615\",\"f\":1e-12,\"d\":0.5,"
              "\"text\":\"abc\",\"list\":[\"a\xef\xbf\xbd\"]}");
    free(text);
    json_decref(object);
    xfree(all.list.item);
}

TEST(a_file_keeps_every_bit) {
    struct err err = {0};
    char path[600];
    json_t *value = json_pack("{s:f, s:f}", "a", 0.1, "b", 1e-5), *back;
    snprintf(path, sizeof path, "%s/v.json", test_dir());
    ASSERT_OK(json_out_file(path, value, &err), err);
    char *text;
    size_t size;
    ASSERT_OK(file_read_all(&text, &size, path, 1000, &err), err);
    assert_string_equal(text, "{\n  \"a\": 0.1,\n  \"b\": 1e-5\n}\n");
    xfree(text);
    json_object_set_new(value, "b", json_real(0.12345678901234568));
    ASSERT_OK(json_out_file(path, value, &err), err);
    ASSERT_OK(json_in_file(&back, path, &err), err);
    assert_true(json_equal(value, back));
    json_decref(back);
    json_decref(value);
}

/* A field that no row knows would be left out of comparisons and defaults without a word. */
static void covers(const struct option *table, size_t size) {
    size_t sum = 0;
    for (const struct option *o = table; o->name; o++) sum += o->size;
    assert_in_range(size - sum, 0, sizeof(int)); /* padding */
}

TEST(every_field_of_a_search_has_a_row) {
    covers(search_rows, sizeof(struct search_options));
    size_t apart = sizeof(struct search_options) + sizeof(const struct glossary *); /* no row */
    covers(translator_rows, sizeof(struct translator_options) - apart);
}

TEST(reads_json) {
    struct all all = {0};
    struct err err = {0};
    json_t *kept = json_array(), *value;
    options_default(rows, &all);
    static const char text[] = "[true, 12, \"34\", [\"a\", 2.5], null, {}]";
    ASSERT_OK(json_in_text(&value, text, strlen(text), "t", &err), err);
    ASSERT_OK(json_in_option(row("flag"), &all, json_array_get(value, 0), kept, &err), err);
    ASSERT_OK(json_in_option(row("whole_number"), &all, json_array_get(value, 1), kept, &err), err);
    assert_true(all.flag == 1 && all.whole == 12);
    ASSERT_OK(json_in_option(row("whole_number"), &all, json_array_get(value, 2), kept, &err), err);
    ASSERT_OK(json_in_option(row("list"), &all, json_array_get(value, 3), kept, &err), err);
    assert_int_equal(all.whole, 34);
    assert_int_equal(all.list.n, 2);
    assert_string_equal(all.list.item[1], "2.5");
    ASSERT_ERR(json_in_option(row("flag"), &all, json_array_get(value, 1), kept, &err), err,
               HEED_ECONFIG, "neither true nor false");
    ASSERT_ERR(json_in_option(row("text"), &all, json_array_get(value, 5), kept, &err), err,
               HEED_ECONFIG, "neither a string nor a number");
    json_decref(value);
    json_decref(kept);
    xfree(all.list.item);
}

TEST(any_difference_is_seen) {
    const struct search_options a = search_defaults();
    for (const struct option *o = search_rows; o->name; o++) {
        struct search_options b = a;
        ((unsigned char *)&b)[o->offset] ^= 1;
        assert_false(options_equal(search_rows, &a, &b));
        option_copy(o, &b, &a);
        assert_true(options_equal(search_rows, &a, &b));
    }
}

TEST(api_fields_go_both_ways) {
    heed_translate_options o, back;
    heed_translate_options_init(&o, sizeof o);
    back = o;
    struct search_options s = search_defaults();
    for (const struct option *r = search_rows; r->name; r++) {
        if (!r->api || r->kind == OPTION_FLAG) continue;
        ((unsigned char *)&o)[r->api] ^= 1;
        options_from_api(search_rows, &s, &o);
        options_to_api(search_rows, &s, &back);
        assert_memory_equal(&o, &back, sizeof o);
    }
    o.sample = -3; /* any non-zero value is yes */
    options_from_api(search_rows, &s, &o);
    assert_int_equal(s.sample, 1);
}

TESTS(T(finds_names_with_either_dash), T(reads_and_writes_every_kind),
      T(says_what_is_wrong_in_one_way), T(checks_however_a_value_came), T(writes_json),
      T(a_file_keeps_every_bit), T(reads_json), T(every_field_of_a_search_has_a_row),
      T(any_difference_is_seen), T(api_fields_go_both_ways))

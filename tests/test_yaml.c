/* test_yaml.c — YAML as values of JSON: settings as Marian writes them, and what is refused. */
#include "base/mem.h"
#include "damage.h"
#include "io/yaml.h"
#include "test.h"

static const char settings[] = "# Marian\n"
                               "dim-emb: 512\n"
                               "lr: 3e-4\n"
                               "negative: -0.5\n"
                               "tied: true\n"
                               "type: transformer\n"
                               "version: v1.9.0 56e9f5b 2021\n"
                               "quoted: \"512\"\n"
                               "norwegian: no\n"
                               "nothing: ~\n"
                               "empty:\n"
                               "vocabs:\n  - a.spm\n  - \"b\\u00fc.spm\"\n"
                               "dims: [0, 50000, {deep: [[]]}]\n"
                               "block: |\n  two\n  lines\n";

TEST(values) {
    json_t *got, *want;
    struct err err = {0};
    ASSERT_OK(yaml_in_text(&got, settings, strlen(settings), "model.yml", &err), err);
    static const char same[] =
        "{\"dim-emb\": 512, \"lr\": 3e-4, \"negative\": -0.5, \"tied\": true,"
        " \"type\": \"transformer\", \"version\": \"v1.9.0 56e9f5b 2021\", \"quoted\": \"512\","
        " \"norwegian\": \"no\", \"nothing\": null, \"empty\": null,"
        " \"vocabs\": [\"a.spm\", \"b\\u00fc.spm\"], \"dims\": [0, 50000, {\"deep\": [[]]}],"
        " \"block\": \"two\\nlines\\n\"}";
    ASSERT_OK(json_in_text(&want, same, strlen(same), "want", &err), err);
    assert_true(json_equal(got, want));
    json_decref(got);
    json_decref(want);
    ASSERT_OK(yaml_in_text(&got, "", 0, "x", &err), err);
    assert_true(json_is_null(got));
    ASSERT_OK(
        yaml_in_text(&got, "[1, 12345678901234567890, 1e999, 0x10, 1_0, -, .]", 49, "x", &err),
        err);
    assert_true(json_is_integer(json_array_get(got, 0)));
    assert_true(json_is_real(json_array_get(got, 1)));
    for (size_t i = 2; i < 7; i++) assert_true(json_is_string(json_array_get(got, i)));
    json_decref(got);
}

static void expect_error(const char *text, size_t size, enum heed_status status, const char *part) {
    json_t *value;
    struct err err = {0};
    ASSERT_ERR(yaml_in_text(&value, text, size, "x.yml", &err), err, status, part);
    assert_null(value);
    assert_non_null(strstr(err.msg, "x.yml:"));
}

TEST(refused) {
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"a: 1\nb: &x [1]\nc: *x\n", "x.yml:3: aliases"},
        {"a: !!python/object/apply:os.system [ls]\n", "x.yml:1: tags"},
        {"a: !!str 1\n", "tags"},
        {"!x {a: 1}\n", "tags"},
        {"a: 1\na: 2\n", "x.yml:2: the key 'a' comes twice"},
        {"? [1, 2]\n: 3\n", "a key that is a list"},
        {"a: 1\n---\nb: 2\n", "second document"},
        {"a: [1\n", "x.yml:2: "},
        {"a: \"\\0\"\n", "contains a NUL"},
        {"\"\\0\": 1\n", "contains a NUL"},
        {"a: \xff\n", "x.yml:1: "},
        {"\tx: 1\n", "x.yml:1: "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_error(bad[i].text, strlen(bad[i].text), HEED_EFORMAT, bad[i].part);
}

/* n times the same, then `end`. */
static void expect_limit(const char *part, size_t n, enum heed_status status, const char *message) {
    size_t size = strlen(part) * n;
    char *text = xmalloc(size + 1);
    for (size_t i = 0; i < size; i++) text[i] = part[i % strlen(part)];
    expect_error(text, size, status, message);
    xfree(text);
}

TEST(limits) {
    expect_limit("[", 33, HEED_EFORMAT, "nested too deep");
    expect_limit("[", 1 << 20, HEED_EFORMAT, "nested too deep");
    expect_limit("- ", 1 << 19, HEED_EFORMAT, "nested too deep");
    expect_limit("-\n", 1 << 18, HEED_EFORMAT, "too many values");
    expect_limit("a", (1 << 20) + 1, HEED_ELIMIT, "more than 1048576 bytes");
}

static void read_any(const char *bytes, size_t size) {
    json_t *value;
    struct err err = {0};
    int rc = yaml_in_text(&value, bytes, size, "x", &err);
    assert_true(!rc == (value != NULL));
    json_decref(value);
}

TEST(damaged) { damage_all(settings, strlen(settings), read_any); }

TESTS(T(values), T(refused), T(limits), T(damaged))

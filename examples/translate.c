/* translate.c — how to use libheed in your own program: open a model directory, translate some
 * sentences, print the results.
 *
 *     cc translate.c -o translate $(pkg-config --cflags --libs heed)
 *     ./translate DIR "Where is my book?" "Tom is here."
 *
 * Prints the best translation of each argument, then the runners-up with their scores and how the
 * best one aligns. Everything used here is described in heed.h. */
#include <heed.h>

#include <stdio.h>

static void print_word(const char *text, heed_word word) {
    printf("%.*s", (int)(word.end - word.begin), text + word.begin);
}

static void print_links(const heed_result *result, size_t text, const char *source) {
    const heed_translation *best = heed_result_get(result, text, 0);
    const heed_word *word = heed_result_source_words(result, text, NULL);
    for (size_t i = 0; i < best->n_links; i++) {
        printf("    ");
        print_word(source, word[best->links[i].source]);
        printf(" -> ");
        print_word(best->text, best->words[best->links[i].target]);
        printf("\n");
    }
}

static void print_text(const heed_result *result, size_t text, const char *source) {
    const heed_translation *best = heed_result_get(result, text, 0);
    printf("%s\n", best->text);
    for (size_t k = 1; k < heed_result_alternatives(result, text); k++) {
        const heed_translation *other = heed_result_get(result, text, k);
        printf("    %.3f %s\n", (double)other->score, other->text);
    }
    unsigned notes = heed_result_notes(result, text);
    if (!(notes & HEED_NOTE_REPLACED)) print_links(result, text, source);
    if (notes & HEED_NOTE_CUT) printf("    (cut off)\n");
}

int main(int argc, char **argv) {
    heed_model *model;
    heed_result *result;
    heed_error error;
    heed_translate_options options;
    if (argc < 3) {
        fprintf(stderr, "usage: %s DIR TEXT...\n", argv[0]);
        return 2;
    }
    if (heed_model_open(&model, argv[1], NULL, &error)) {
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
        return 1;
    }
    heed_translate_options_init(&options, sizeof options);
    options.n_best = 3;
    options.alignment = HEED_ALIGNMENT_WORDS;
    size_t n = (size_t)argc - 2;
    int status = heed_translate(model, (const char *const *)argv + 2, n, &options, &result, &error);
    if (status) {
        fprintf(stderr, "%s: %s: %s\n", argv[0], heed_status_text(status), error.message);
    } else {
        for (size_t i = 0; i < n; i++) print_text(result, i, argv[i + 2]);
        heed_result_free(result);
    }
    heed_model_close(model);
    return status != 0;
}

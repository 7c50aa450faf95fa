/* cld2.cc — see language.h. Every function is a wall: what C++ throws ends here. */
extern "C" {
#include "base/utf8.h"
#include "data/language.h"
}

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

namespace {

/* Codes that ISO 639 has withdrawn, and what replaced them. */
struct Renamed {
    const char *old, *code;
};
constexpr Renamed kRenamed[] = {{"iw", "he"}, {"jw", "jv"}};

/* What the library's smaller tables tell apart; it has names for many more. */
constexpr const char *kKnown[] = {
    "af", "ar",  "az", "be",  "bg", "bh", "bn", "ca", "ceb", "chr", "cs", "cy", "da",     "de",
    "dv", "el",  "en", "es",  "et", "eu", "fa", "fi", "fr",  "ga",  "gd", "gl", "gu",     "he",
    "hi", "hmn", "hr", "ht",  "hu", "hy", "id", "is", "it",  "iu",  "ja", "jv", "ka",     "km",
    "kn", "ko",  "lg", "lif", "lo", "lt", "lv", "mk", "ml",  "mr",  "ms", "mt", "ne",     "nl",
    "no", "or",  "pa", "pl",  "pt", "ro", "ru", "rw", "si",  "sk",  "sl", "sq", "sr",     "sv",
    "sw", "syr", "ta", "te",  "th", "tl", "tr", "uk", "ur",  "vi",  "yi", "zh", "zh-Hant"};

const char *code_of(CLD2::Language language) {
    const char *code = CLD2::LanguageCode(language);
    for (const Renamed &r : kRenamed)
        if (std::strcmp(code, r.old) == 0) return r.code;
    return code;
}

/* What CLD2 wants to see as a blank: controls, noncharacters, and bytes that are not UTF-8. */
bool is_text(uint32_t code) {
    if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
    return (code < 0x7F || code > 0x9F) && (code & 0xFFFE) != 0xFFFE &&
           (code < 0xFDD0 || code > 0xFDEF);
}

std::string scrubbed(const char *text, size_t size) {
    std::string clean(text, size);
    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        int n = utf8_decode(&code, text + at, size - at);
        size_t length = n < 0 ? -n : n;
        if (n < 0 || !is_text(code)) clean.replace(at, length, length, ' ');
        at += length;
    }
    return clean;
}

/* CLD2's answer, or false where the text is not what it accepts. `any`: rather a guess than
 * none. */
bool ask(struct language_guess *guess, const char *text, size_t size, const char *likely,
         bool any) {
    CLD2::CLDHints hints = {likely, nullptr, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
    CLD2::Language language[LANGUAGE_MAX];
    int percent[LANGUAGE_MAX], letters = 0, valid = 0;
    double score[LANGUAGE_MAX];
    bool sure = false;
    CLD2::ExtDetectLanguageSummaryCheckUTF8(text, static_cast<int>(size), true, &hints,
                                            any ? CLD2::kCLDFlagBestEffort : 0, language, percent,
                                            score, nullptr, &letters, &sure, &valid);
    if (static_cast<size_t>(valid) < size) return false;
    for (int i = 0; i < LANGUAGE_MAX; i++) {
        const char *code = code_of(language[i]);
        if (!language_known(code) || percent[i] <= 0) continue;
        struct language *l = &guess->best[guess->n++];
        std::snprintf(l->code, sizeof l->code, "%s", code);
        l->share = percent[i] / 100.0;
        l->confidence = sure && !any ? l->share : l->share / 2;
    }
    std::stable_sort(
        guess->best, guess->best + guess->n,
        [](const struct language &a, const struct language &b) { return a.share > b.share; });
    guess->reliable = sure && !any && guess->n > 0;
    guess->letters = letters;
    return guess->n > 0 || any || ask(guess, text, size, likely, true);
}

} // namespace

void language_detect(struct language_guess *guess, const char *text, size_t size,
                     const char *likely) {
    *guess = {};
    try {
        if (size > LANGUAGE_MAX_TEXT) size = LANGUAGE_MAX_TEXT;
        if (ask(guess, text, size, likely, false)) return;
        std::string clean = scrubbed(text, size);
        ask(guess, clean.data(), clean.size(), likely, false);
    } catch (...) {
        *guess = {};
    }
}

int language_known(const char *code) {
    for (const char *known : kKnown)
        if (std::strcmp(known, code) == 0) return 1;
    return 0;
}

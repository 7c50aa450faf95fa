/* sentencepiece.cc — see sentencepiece.h.
 *
 * Every function is a wall: what C++ throws ends here as a status. */
extern "C" {
#include "data/sentencepiece.h"
#include "base/mem.h"
}

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include <sentencepiece_trainer.h>

namespace sentencepiece::logging {
/* Exported by the library, though no installed header declares it. */
void SetMinLogLevel(int level);
} // namespace sentencepiece::logging

namespace {

constexpr int kOnlyFatal = 3; /* the library's log goes to standard error, which is not ours */

/* SentencePiece names the source line first, "src/x.cc(12) [(a) == (b)] words". Only the words are
 * worth showing; where there are none, the condition that failed. */
std::string message(const sentencepiece::util::Status &status) {
    std::string all = status.error_message();
    size_t place = all.find(".cc("), begin = all.find(") ", place), end = all.rfind("] ");
    if (place == std::string::npos || begin == std::string::npos) return all;
    if (end != std::string::npos && end + 2 < all.size()) return all.substr(end + 2);
    return "SentencePiece requires " + all.substr(begin + 2);
}

/* Runs body, which returns a status, and turns what it throws into one. */
template <typename Body> int guarded(struct err *err, const Body &body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return err_set(err, HEED_ENOMEM, "tokenizer: out of memory");
    } catch (const std::exception &e) {
        return err_set(err, HEED_EINTERNAL, "tokenizer: %s", e.what());
    } catch (...) {
        return err_set(err, HEED_EINTERNAL, "tokenizer: unknown failure");
    }
}

class Sentences final : public sentencepiece::SentenceIterator {
  public:
    Sentences(sp_next_fn *next, void *ctx) : next_(next), ctx_(ctx) { Next(); }
    bool done() const override { return done_; }
    const std::string &value() const override { return value_; }
    sentencepiece::util::Status status() const override { return {}; }
    void Next() override {
        size_t size = 0;
        const char *text = next_(ctx_, &size);
        done_ = !text;
        if (text) value_.assign(text, size);
    }

  private:
    sp_next_fn *next_;
    void *ctx_;
    std::string value_;
    bool done_ = false;
};

} // namespace

/* ---- files ----------------------------------------------------------------------------------- */

int sp_test(const void *model, size_t size, struct err *err) {
    return guarded(err, [&]() -> int {
        sentencepiece::logging::SetMinLogLevel(kOnlyFatal);
        sentencepiece::SentencePieceProcessor processor;
        auto status = processor.LoadFromSerializedProto(
            std::string_view(static_cast<const char *>(model), size));
        if (!status.ok()) return err_set(err, HEED_EFORMAT, "%s", message(status).c_str());
        return 0;
    });
}

/* ---- learning -------------------------------------------------------------------------------- */

int sp_train(void **model, size_t *size, const struct sp_training *training, struct err *err) {
    *model = nullptr;
    return guarded(err, [&]() -> int {
        std::unordered_map<std::string, std::string> args;
        for (int i = 0; i < training->n_setting; i++)
            if (training->setting[i].value)
                args[training->setting[i].key] = training->setting[i].value;
        args["minloglevel"] = std::to_string(kOnlyFatal);
        Sentences sentences(training->next, training->ctx);
        std::string made;
        auto status = sentencepiece::SentencePieceTrainer::Train(args, &sentences, &made);
        if (!status.ok()) return err_set(err, HEED_EINVAL, "%s", message(status).c_str());
        *size = made.size();
        *model = std::memcpy(xmalloc(made.size()), made.data(), made.size());
        return 0;
    });
}

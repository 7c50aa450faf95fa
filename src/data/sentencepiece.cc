/* sentencepiece.cc — see sentencepiece.h.
 *
 * Every function is a wall: what C++ throws ends here as a status. */
extern "C" {
#include "data/sentencepiece.h"
#include "base/mem.h"
#include "data/tokenizer.h"
}

#include <climits>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <sentencepiece_trainer.h>

namespace sentencepiece::logging {
/* Exported by the library, though no installed header declares it. */
void SetMinLogLevel(int level);
} // namespace sentencepiece::logging

using sentencepiece::ImmutableSentencePieceText;
using sentencepiece::SentencePieceProcessor;

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

struct sp {
    SentencePieceProcessor processor;
};

/* ---- opening --------------------------------------------------------------------------------- */

int sp_open(struct sp **sp, const void *model, size_t size, struct err *err) {
    *sp = nullptr;
    return guarded(err, [&]() -> int {
        sentencepiece::logging::SetMinLogLevel(kOnlyFatal);
        auto made = std::make_unique<struct sp>();
        auto status = made->processor.LoadFromSerializedProto(
            std::string_view(static_cast<const char *>(model), size));
        if (!status.ok()) return err_set(err, HEED_EFORMAT, "%s", message(status).c_str());
        *sp = made.release();
        return 0;
    });
}

void sp_free(struct sp *sp) { delete sp; }

int sp_size(const struct sp *sp) { return sp->processor.GetPieceSize(); }
int sp_bos(const struct sp *sp) { return sp->processor.bos_id(); }
int sp_eos(const struct sp *sp) { return sp->processor.eos_id(); }
const char *sp_piece(const struct sp *sp, int id) { return sp->processor.IdToPiece(id).c_str(); }

int sp_is_control(const struct sp *sp, int id) { return sp->processor.IsControl(id); }

int sp_find(const struct sp *sp, const char *piece) {
    int id = sp->processor.PieceToId(piece); /* of one that is not there: the unknown one's */
    return id >= 0 && id < sp_size(sp) && sp->processor.IdToPiece(id) == piece ? id : -1;
}

/* By its kind, for files may call it anything; a model that opened has exactly one. */
int sp_unk(const struct sp *sp) {
    int id = 0;
    while (id < sp_size(sp) && !sp->processor.IsUnknown(id)) id++;
    return id < sp_size(sp) ? id : -1;
}

/* ---- using ----------------------------------------------------------------------------------- */

namespace {
struct span span_of(const ImmutableSentencePieceText &pieces, int i) {
    return {static_cast<int>(pieces.pieces(i).begin()), static_cast<int>(pieces.pieces(i).end())};
}

/* The text if it fits; its size. */
int put_text(const std::string &text, char *out, size_t cap) {
    if (text.size() > INT_MAX) return HEED_ELIMIT;
    if (text.size() < cap) std::memcpy(out, text.c_str(), text.size() + 1);
    return static_cast<int>(text.size());
}
} // namespace

int sp_encode(const struct sp *sp, const char *text, size_t size, int32_t *ids, int cap) {
    struct sp_out out = {ids, nullptr, cap, nullptr};
    return sp_encode_spans(sp, text, size, &out);
}

/* The library fills a message of pieces; kept per thread, its strings are allocated once. */
int sp_encode_spans(const struct sp *sp, const char *text, size_t size, const struct sp_out *out) {
    const struct sp_finder *finder = out->finder;
    return guarded(nullptr, [&]() -> int {
        thread_local ImmutableSentencePieceText pieces;
        auto status = sp->processor.Encode(std::string_view(text, size), pieces.mutable_proto());
        if (!status.ok()) return HEED_EINTERNAL;
        size_t n = pieces.pieces_size();
        if (n > INT_MAX) return HEED_ELIMIT;
        for (int i = 0; i < static_cast<int>(n) && i < out->cap; i++) {
            out->ids[i] = static_cast<int32_t>(pieces.pieces(i).id());
            if (finder && sp->processor.IsUnknown(out->ids[i])) {
                const std::string &piece = pieces.pieces(i).piece();
                int found = finder->find(finder->ctx, piece.data(), piece.size());
                if (found >= 0) out->ids[i] = -2 - found;
            }
            if (out->span) out->span[i] = span_of(pieces, i);
        }
        return static_cast<int>(n);
    });
}

int sp_sample(const struct sp *sp, const char *text, size_t size, float amount, int32_t *ids,
              int cap) {
    return guarded(nullptr, [&]() -> int {
        std::vector<int> list;
        std::string_view view(text, size);
        if (!sp->processor.SampleEncode(view, -1, amount, &list).ok()) return HEED_EINTERNAL;
        for (size_t i = 0; i < list.size() && i < static_cast<size_t>(cap); i++) ids[i] = list[i];
        return static_cast<int>(list.size());
    });
}

void sp_seed(unsigned seed) { sentencepiece::SetRandomGeneratorSeed(seed); }

int sp_decode(const struct sp *sp, const int32_t *ids, int n, char *out, size_t cap) {
    return guarded(nullptr, [&]() -> int {
        thread_local std::vector<int> list;
        thread_local std::string text;
        list.assign(ids, ids + n);
        if (!sp->processor.Decode(list, &text).ok()) return HEED_EINTERNAL;
        return put_text(text, out, cap);
    });
}

int sp_decode_spans(const struct sp *sp, const int32_t *ids, int n, char *out, size_t cap,
                    struct span *span) {
    return guarded(nullptr, [&]() -> int {
        thread_local std::vector<int> list;
        thread_local ImmutableSentencePieceText pieces;
        list.assign(ids, ids + n);
        if (!sp->processor.Decode(list, pieces.mutable_proto()).ok()) return HEED_EINTERNAL;
        if (pieces.pieces_size() != list.size()) return HEED_EINTERNAL;
        for (int i = 0; i < n; i++) span[i] = span_of(pieces, i);
        return put_text(pieces.text(), out, cap);
    });
}

/* The library leaves pieces that it does not know as they are, with U+2581 for spaces. */
int sp_decode_pieces(const struct sp *sp, const char *const *piece, int n, char *out, size_t cap,
                     struct span *span) {
    static constexpr std::string_view space = "\xE2\x96\x81";
    return guarded(nullptr, [&]() -> int {
        std::vector<std::string_view> list(piece, piece + n);
        ImmutableSentencePieceText pieces;
        if (!sp->processor.Decode(list, pieces.mutable_proto()).ok()) return HEED_EINTERNAL;
        if (pieces.pieces_size() != list.size()) return HEED_EINTERNAL;
        const std::string &was = pieces.text();
        std::string now;
        std::vector<int> place(was.size() + 1); /* where each byte has gone */
        for (size_t i = 0; i < was.size();) {
            size_t length = was.compare(i, space.size(), space) == 0 ? space.size() : 1;
            for (size_t k = 0; k < length; k++) place[i + k] = static_cast<int>(now.size());
            if (length == 1)
                now += was[i];
            else if (
                !now.empty()) /* one before the first word belongs to the piece, not the text */
                now += ' ';
            i += length;
        }
        place[was.size()] = static_cast<int>(now.size());
        for (int i = 0; i < n && span; i++) {
            struct span s = span_of(pieces, i);
            span[i] = {place[static_cast<size_t>(s.begin)], place[static_cast<size_t>(s.end)]};
        }
        return put_text(now, out, cap);
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

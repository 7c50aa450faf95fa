/* library.cc — see library.h. Every function is a wall: what C++ throws ends here as a status. */
extern "C" {
#include "library.h"
}

#include <climits>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sentencepiece_processor.h>

namespace sentencepiece::logging {
/* Exported by the library, though no installed header declares it. */
void SetMinLogLevel(int level);
} // namespace sentencepiece::logging

using sentencepiece::ImmutableSentencePieceText;
using sentencepiece::SentencePieceProcessor;

namespace {

constexpr int kOnlyFatal = 3;

template <typename Body> int guarded(const Body &body) noexcept {
    try {
        return body();
    } catch (const std::exception &) {
        return HEED_EINTERNAL;
    }
}

void put_spans(const ImmutableSentencePieceText &pieces, struct span *span, int cap) {
    for (int i = 0; i < static_cast<int>(pieces.pieces_size()) && i < cap; i++)
        span[i] = {static_cast<int>(pieces.pieces(i).begin()),
                   static_cast<int>(pieces.pieces(i).end())};
}

int put_text(const ImmutableSentencePieceText &pieces, int n, char *out, size_t cap,
             struct span *span) {
    const std::string &text = pieces.text();
    if (pieces.pieces_size() != static_cast<size_t>(n)) return HEED_EINTERNAL;
    put_spans(pieces, span, n);
    if (text.size() < cap) std::memcpy(out, text.c_str(), text.size() + 1);
    return static_cast<int>(text.size());
}

} // namespace

struct sp {
    SentencePieceProcessor processor;
};

int sp_open(struct sp **sp, const void *model, size_t size) {
    *sp = nullptr;
    sentencepiece::logging::SetMinLogLevel(kOnlyFatal);
    int rc = guarded([&]() -> int {
        auto made = std::make_unique<struct sp>();
        std::string_view bytes(static_cast<const char *>(model), size);
        if (!made->processor.LoadFromSerializedProto(bytes).ok()) return HEED_EFORMAT;
        *sp = made.release();
        return 0;
    });
    return rc ? HEED_EFORMAT : 0;
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

int sp_encode(const struct sp *sp, const char *text, size_t size, int32_t *ids, struct span *span,
              int cap) {
    return guarded([&]() -> int {
        ImmutableSentencePieceText pieces;
        std::string_view view(text, size);
        if (!sp->processor.Encode(view, pieces.mutable_proto()).ok()) return HEED_EINTERNAL;
        int n = static_cast<int>(pieces.pieces_size());
        for (int i = 0; i < n && i < cap; i++) ids[i] = static_cast<int32_t>(pieces.pieces(i).id());
        put_spans(pieces, span, cap);
        return n;
    });
}

int sp_decode(const struct sp *sp, const int32_t *ids, int n, char *out, size_t cap,
              struct span *span) {
    return guarded([&]() -> int {
        ImmutableSentencePieceText pieces;
        std::vector<int> list(ids, ids + n);
        if (!sp->processor.Decode(list, pieces.mutable_proto()).ok()) return HEED_EINTERNAL;
        return put_text(pieces, n, out, cap, span);
    });
}

int sp_decode_pieces(const struct sp *sp, const char *const *piece, int n, char *out, size_t cap,
                     struct span *span) {
    return guarded([&]() -> int {
        ImmutableSentencePieceText pieces;
        std::vector<std::string_view> list(piece, piece + n);
        if (!sp->processor.Decode(list, pieces.mutable_proto()).ok()) return HEED_EINTERNAL;
        return put_text(pieces, n, out, cap, span);
    });
}

int sp_sample(const struct sp *sp, const char *text, size_t size, float amount, int32_t *ids,
              int cap) {
    return guarded([&]() -> int {
        std::vector<int> list;
        std::string_view view(text, size);
        if (!sp->processor.SampleEncode(view, -1, amount, &list).ok()) return HEED_EINTERNAL;
        for (size_t i = 0; i < list.size() && i < static_cast<size_t>(cap); i++) ids[i] = list[i];
        return static_cast<int>(list.size());
    });
}

void sp_seed(unsigned seed) { sentencepiece::SetRandomGeneratorSeed(seed); }

#!/usr/bin/env python3
"""Small random models of other engines, and what they answer: tests/data/import.

    tools/import_models.py [CASE...]        writes all cases, or those named

Each case is a model as its engine keeps it, NAME or NAME.EXTENSION, and NAME.tsv: what it must
compute, from the engine itself or, where that cannot be asked, from the formulas in double
precision below. tests/test_import_models.sh imports each and compares.

    # options     options of heed that every sentence is scored and translated with
    # run DTYPE TOLERANCE     import as DTYPE; tokens' log-probabilities are this near
    source TAB target TAB log-probabilities of the target's tokens and its end TAB translation

Models are random, but chosen so that no choice of a greedy translation is close: the same words
come out wherever the sums are rounded. Translations are cut at LONGEST tokens, since random models
seldom stop. Same script, same bytes.

Needs numpy and sentencepiece, for some cases the engine as well.
"""
import io
import json
import math
import os
import struct
import sys
import zipfile

import numpy as np
import sentencepiece

OUT = os.path.join(os.path.dirname(__file__), "..", "tests", "data", "import")
CASES = {}
LONGEST = 8  # tokens of a greedy translation, the end mark not counted


def case(f):
    """Registers f(folder): it writes folder/NAME..., and returns what expect takes."""
    CASES[f.__name__.replace("_", "-")] = f
    return f


# ---- what all cases share ------------------------------------------------------------------------

def words(seed, n, letters, most):
    """Made-up words."""
    rng = np.random.default_rng(seed)
    return sorted({"".join(rng.choice(list(letters), rng.integers(2, most))) for _ in range(n)})


def sentences(seed, n, letters):
    rng = np.random.default_rng(seed + 1)
    vocabulary = words(seed, 40, letters, 6)
    return [" ".join(rng.choice(vocabulary, rng.integers(2, 7))) for _ in range(n)]


def tokenizer(seed, letters, size, eos=0, unk=1, bos=-1, **more):
    """The bytes of a small SentencePiece model. No normalisation: its table is large."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(seed, 400, letters)), model_writer=out, vocab_size=size,
        model_type="unigram", eos_id=eos, unk_id=unk, bos_id=bos, pad_id=-1, num_threads=1,
        normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2, **more)
    return out.getvalue()


def open_tokenizer(data):
    return sentencepiece.SentencePieceProcessor(model_proto=data)


def put(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def expect(path, rows, runs=(("f32", 1e-4),), options=""):
    """rows: (source, target, log-probabilities, greedy translation)."""
    with open(path, "w") as f:
        if options:
            f.write(f"# options {options}\n")
        for dtype, tolerance in runs:
            f.write(f"# run {dtype} {tolerance:g}\n")
        for source, target, log_probs, greedy in rows:
            f.write(f"{source}\t{target}\t{' '.join('%.6f' % x for x in log_probs)}\t{greedy}\n")


def ask(model, encode, decode, end, sources, targets, banned=(), most=6):
    """What the model says of these pairs: rows for expect, `most` of them, each with another
    translation of several different tokens and none with a choice that was close; or None if there
    are not so many. model(source ids, target ids so far) are log-probabilities after each."""
    rows = []
    for source, target in zip(sources, targets):
        if len(rows) == most:
            break
        src, tgt = encode[0](source) + [end], encode[1](target)
        given = model(src, tgt)
        scores = [given[i][t] for i, t in enumerate(tgt + [end])]
        written = []
        while len(written) < LONGEST:
            last = model(src, written)[-1].copy()
            last[list(banned)] = -np.inf
            best = np.argsort(last)[::-1][:2]
            close = last[best[0]] - last[best[1]] < 0.02
            if close or best[0] == end:
                break
            written.append(int(best[0]))
        text = decode(written)
        if not close and len(set(written)) > 2 and text == " ".join(text.split()) and \
                text not in [r[3] for r in rows]:
            rows.append((source, target, scores, text))
    return rows if len(rows) == most else None


# ---- the formulas --------------------------------------------------------------------------------

def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def norm(x, scale, bias, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * scale + bias


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}


class Marian:
    """A model of Marian in double precision: tensors by Marian's names, settings of model.yml."""

    def __init__(self, tensors, settings):
        self.t = {k: np.asarray(v, np.float64) for k, v in tensors.items()}
        self.s = settings
        self.pre = settings["transformer-preprocess"] == "n"
        self.shared = settings["tied-embeddings-all"] or settings["tied-embeddings-src"]

    def norm(self, x, name, suffix=""):
        return norm(x, self.t[f"{name}_ln_scale{suffix}"], self.t[f"{name}_ln_bias{suffix}"], 1e-6)

    def affine(self, x, name, which):
        return x @ self.t[f"{name}_W{which}"] + self.t[f"{name}_b{which}"]

    def around(self, x, f, name, before=None):
        """A sub-layer with its residual connection and norm."""
        if self.pre:
            return x + f(self.norm(x, before or name, "_pre"))
        return self.norm(x + f(x), name)

    def attention(self, x, name, memory=None, causal=False):
        def run(y):
            h = self.s["transformer-heads"]
            kv = y if memory is None else memory
            q, k, v = (self.affine(*at) for at in ((y, name, "q"), (kv, name, "k"), (kv, name, "v")))
            d = q.shape[1] // h
            out = np.empty_like(q)
            for i in range(h):
                at = slice(i * d, (i + 1) * d)
                z = q[:, at] @ k[:, at].T / math.sqrt(d)
                if causal:
                    z = np.where(np.tril(np.ones(z.shape)) > 0, z, -np.inf)
                out[:, at] = np.exp(log_softmax(z)) @ v[:, at]
            return self.affine(out, name, "o")
        return self.around(x, run, name + "_Wo")

    def ff(self, x, name):
        act = ACTIVATIONS[self.s["transformer-ffn-activation"]]
        return self.around(x, lambda y: self.affine(act(self.affine(y, name, "1")), name, "2"),
                           name + "_ffn")

    def ssru(self, x, name):
        def run(y):
            f = 1 / (1 + np.exp(-self.affine(y, name, "f")))
            new, c, out = y @ self.t[name + "_W"], 0, np.empty_like(y)
            for i in range(len(y)):
                c = f[i] * c + (1 - f[i]) * new[i]
                out[i] = np.maximum(c, 0)
            return out
        return self.around(x, run, name + "_ffn", name)

    def embed(self, rows, stack):
        n, d = rows.shape
        if self.s["transformer-train-position-embeddings"]:
            x = rows + self.t["Wpos"][:n]
        else:
            i = np.arange(d // 2)
            angle = np.arange(n)[:, None] * np.exp(-i * math.log(1e4) / (d // 2 - 1))
            x = rows * math.sqrt(d) + np.concatenate([np.sin(angle), np.cos(angle)], 1)
        if "n" in self.s["transformer-postprocess-emb"]:
            x = self.norm(x, stack + "_emb", "_pre")
        return x

    def table(self, stack):
        return self.t["Wemb" if self.shared else stack + "_Wemb"]

    def __call__(self, src, tgt):
        x = self.embed(self.table("encoder")[src], "encoder")
        for i in range(self.s["enc-depth"]):
            x = self.attention(x, f"encoder_l{i + 1}_self")
            x = self.ff(x, f"encoder_l{i + 1}_ffn")
        if self.pre:
            x = self.norm(x, "encoder_top")
        memory, table = x, self.table("decoder")
        y = self.embed(np.concatenate([np.zeros((1, table.shape[1])), table[tgt]]), "decoder")
        layers = self.s["transformer-tied-layers"] or range(1, self.s["dec-depth"] + 1)
        for i in layers:
            if self.s["transformer-decoder-autoreg"] == "rnn":
                y = self.ssru(y, f"decoder_l{i}_rnn")
            else:
                y = self.attention(y, f"decoder_l{i}_self", causal=True)
            y = self.attention(y, f"decoder_l{i}_context", memory)
            y = self.ff(y, f"decoder_l{i}_ffn")
        if self.pre:
            y = self.norm(y, "decoder_top")
        out = "decoder_ff_logit_out_"
        if self.s["tied-embeddings-all"] or self.s["tied-embeddings"]:
            y = y @ table.T
        else:
            y = y @ self.t[out + "Wt"].T if out + "Wt" in self.t else y @ self.t[out + "W"]
        return log_softmax(y + self.t.get(out + "b", 0))


# ---- Marian --------------------------------------------------------------------------------------

def marian_settings(**more):
    """model.yml as Marian writes it; what we do not look at is left out."""
    settings = {
        "bert-type-vocab-size": 2, "dec-cell": "gru", "dec-depth": 2, "dim-emb": 16, "enc-depth": 2,
        "input-types": [], "layer-normalization": False, "lemma-dim-emb": 0,
        "output-omit-bias": False, "right-left": False, "tied-embeddings": False,
        "tied-embeddings-all": False, "tied-embeddings-src": False,
        "transformer-decoder-autoreg": "self-attention", "transformer-dim-ffn": 32,
        "transformer-ffn-activation": "swish", "transformer-ffn-depth": 2, "transformer-heads": 2,
        "transformer-no-projection": False, "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d", "transformer-postprocess-top": "",
        "transformer-preprocess": "", "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False, "type": "transformer", "ulr": False,
        "version": "v1.12.1 00000000 2023-06-01 00:00:00 +0000",
    }
    for key, value in more.items():
        settings[key.replace("_", "-")] = value
    return settings


def yml(settings):
    def text(value):
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return "".join(f"\n  - {v}" for v in value) if value else "[]"
        return '""' if value == "" else str(value)
    return "".join(f"{k}: {text(v)}".replace(": \n", ":\n") + "\n" for k, v in settings.items())


def marian_tensors(seed, s):
    """Random tensors of the shapes and names that the settings ask for."""
    rng = np.random.default_rng(seed)
    d, t = s["dim-emb"], {}

    def matrix(name, rows, cols, size=1.0):
        t[name] = (rng.normal(size=(rows, cols)) * size / math.sqrt(rows)).astype(np.float32)

    def vector(name, n, middle=0.0, size=0.2):
        t[name] = (middle + size * rng.normal(size=(1, n))).astype(np.float32)

    def layer_norm(name, suffix=""):
        vector(name + "_ln_scale" + suffix, d, 1)
        vector(name + "_ln_bias" + suffix, d)

    pre = "_pre" if s["transformer-preprocess"] == "n" else ""
    for stack in ("encoder", "decoder"):
        if "n" in s["transformer-postprocess-emb"]:
            layer_norm(stack + "_emb", "_pre")
        if pre:
            layer_norm(stack + "_top")
        depth = s["enc-depth"] if stack == "encoder" else s["dec-depth"]
        ff = stack == "decoder" and s.get("transformer-decoder-dim-ffn") or s["transformer-dim-ffn"]
        numbers = stack == "decoder" and s["transformer-tied-layers"] or range(1, depth + 1)
        for i in sorted(set(numbers)):
            at = f"{stack}_l{i}_"
            blocks = ["self", "context"] if stack == "decoder" else ["self"]
            if stack == "decoder" and s["transformer-decoder-autoreg"] == "rnn":
                blocks = ["context"]
                matrix(at + "rnn_W", d, d, 2)
                matrix(at + "rnn_Wf", d, d)
                vector(at + "rnn_bf", d)
                layer_norm(at + ("rnn" if pre else "rnn_ffn"), pre)
            for block in blocks:
                for w in "qkvo":
                    matrix(f"{at}{block}_W{w}", d, d, 2)
                    vector(f"{at}{block}_b{w}", d)
                layer_norm(f"{at}{block}_Wo", pre)
            matrix(at + "ffn_W1", d, ff, 1.5)
            vector(at + "ffn_b1", ff)
            matrix(at + "ffn_W2", ff, d, 3)
            vector(at + "ffn_b2", d)
            layer_norm(at + "ffn_ffn", pre)
    src, tgt = s["dim-vocabs"]
    if s["tied-embeddings-all"] or s["tied-embeddings-src"]:
        matrix("Wemb", tgt, d, 0.4 * math.sqrt(tgt))
    else:
        matrix("encoder_Wemb", src, d, 0.4 * math.sqrt(src))
        matrix("decoder_Wemb", tgt, d, 0.4 * math.sqrt(tgt))
    if s["transformer-train-position-embeddings"]:
        matrix("Wpos", 64, d, 4)
    if not (s["tied-embeddings-all"] or s["tied-embeddings"]):
        matrix("decoder_ff_logit_out_Wt", tgt, d, math.sqrt(tgt))
    if not s["output-omit-bias"]:
        vector("decoder_ff_logit_out_b", tgt, size=0.5)
        t["decoder_ff_logit_out_b"][0, 0] = 1  # so that some translations end
    return t


def npz(tensors, settings):
    """Stored, as Marian does, and the same bytes each time."""
    out = io.BytesIO()
    tensors = dict(tensors)
    tensors["special:model.yml"] = np.frombuffer(yml(settings).encode() + b"\0", np.int8)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for name in sorted(tensors):
            data = io.BytesIO()
            np.save(data, tensors[name])
            z.writestr(zipfile.ZipInfo(name + ".npy"), data.getvalue())
    return out.getvalue()


def marian_bin(items):
    """items: name -> (type, shape, bytes)."""
    names = sorted(items)
    out = struct.pack("<QQ", 1, len(names))
    for name in names:
        kind, shape, data = items[name]
        out += struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(data))
    out += b"".join(n.encode() + b"\0" for n in names)
    out += b"".join(struct.pack(f"<{len(items[n][1])}i", *items[n][1]) for n in names)
    pad = ((len(out) + 8) // 256 + 1) * 256 - len(out) - 8
    return out + struct.pack("<Q", pad) + bytes(pad) + b"".join(items[n][2] for n in names)


def padded(data):
    """Marian's are multiples of 256; ours are small."""
    return data + bytes(-len(data) % 16)


def bin_items(tensors, settings, kind=0x404):
    items = {name: (kind, t.shape, padded(t.astype({0x404: "<f4", 0x402: "<f2"}[kind]).tobytes()))
             for name, t in tensors.items()}
    text = yml(settings).encode() + b"\0"
    items["special:model.yml"] = (0x101, (len(text),), text)
    return items


def intgemm(tensors, settings, kind, with_embeddings):
    """Quantised as marian-conv does it; the items, and the tensors that they stand for."""
    items, meant = bin_items(tensors, settings), dict(tensors)
    for name, t in tensors.items():
        last = name.rsplit("_", 1)[-1]
        if not (last.startswith("W") and len(last) <= 2 or with_embeddings and name == "Wemb"):
            continue
        scale = np.float32(127) / np.abs(t).max()
        q = np.clip(np.rint(t * scale), -127, 127).astype(np.int8)
        meant[name] = q.astype(np.float64) / np.float64(scale)
        stored = q if "Wemb" in name else np.ascontiguousarray(q.T)
        items[name] = (kind, t.shape, padded(stored.tobytes() + struct.pack("<f", scale)))
        items[name + "_QuantMultA"] = (kind if name == "Wemb" else 0x404, (1, 1),
                                       padded(struct.pack("<f", 20)))
    items["none_QuantMultA"] = (0x404, (1, 1), padded(struct.pack("<f", 20)))
    return items, meant


def decoder_yml(models, vocabs, **more):
    return yml({"relative-paths": True, "models": models, "vocabs": vocabs,
                **{k.replace("_", "-"): v for k, v in more.items()}})


def search(make, settings, spm, pairs, end=0, unk=1):
    """The first seed whose model gives a fair test. make(tensors) are the tensors as they will be
    read."""
    for seed in range(1, 100):
        tensors = marian_tensors(seed, settings)
        rows = ask(Marian(make(tensors), settings), [s.encode for s in spm], spm[1].decode, end,
                   *pairs, banned=(unk,))
        if rows:
            return tensors, rows
    raise SystemExit("no seed gives a fair test")


def pairs(n=40):
    return sentences(11, n, "abdeiknorst"), sentences(12, n, "abdeiknorst")


@case
def marian_npz(folder):
    """Post-norm, swish, everything tied, one SentencePiece file, decoder.yml."""
    data = tokenizer(5, "abdeiknorst", 56)
    spm = open_tokenizer(data)
    n = spm.get_piece_size()
    s = marian_settings(tied_embeddings_all=True, dim_vocabs=[n, n], enc_depth=1)
    tensors, rows = search(lambda t: t, s, [spm, spm], pairs())
    put(folder, "marian-npz/model.npz", npz(tensors, s))
    put(folder, "marian-npz/vocab.spm", data)
    put(folder, "marian-npz/decoder.yml",
        decoder_yml(["/other/machine/model.npz"], ["vocab.spm", "vocab.spm"], beam_size=1,
                    normalize=1.0, word_penalty=0, mini_batch=64))
    expect(os.path.join(folder, "marian-npz.tsv"), rows, [("auto", 1e-4), ("int8", 0.5)])


@case
def marian_bin_pre(folder):
    """Pre-norm, relu, nothing tied, two SentencePiece files, no configuration beside it."""
    data = [tokenizer(6, "abdeiknorst", 48), tokenizer(7, "abdeiknorst", 40)]
    spm = [open_tokenizer(d) for d in data]
    s = marian_settings(dim_vocabs=[x.get_piece_size() for x in spm], dec_depth=1,
                        enc_depth=1, transformer_preprocess="n",
                        transformer_postprocess="da", transformer_postprocess_top="n",
                        transformer_ffn_activation="relu")
    tensors, rows = search(lambda t: t, s, spm, pairs())
    put(folder, "marian-bin-pre/model.bin", marian_bin(bin_items(tensors, s)))
    put(folder, "marian-bin-pre/srcvocab.spm", data[0])
    put(folder, "marian-bin-pre/trgvocab.spm", data[1])
    expect(os.path.join(folder, "marian-bin-pre.tsv"), rows)


@case
def marian_bin_f16(folder):
    """float16, gelu, tied layers, learnt positions, a norm of embeddings, another width of the
    decoder's networks."""
    data = tokenizer(8, "abdeiknorst", 40)
    spm = open_tokenizer(data)
    n = spm.get_piece_size()
    s = marian_settings(tied_embeddings=True, dim_vocabs=[n, n], transformer_ffn_activation="gelu",
                        transformer_tied_layers=[1, 1], transformer_postprocess_emb="nd",
                        transformer_train_position_embeddings=True, transformer_decoder_dim_ffn=24,
                        enc_depth=1)

    def half(tensors):
        return {k: v.astype(np.float16).astype(np.float32) for k, v in tensors.items()}
    tensors, rows = search(half, s, [spm, spm], pairs())
    put(folder, "marian-bin-f16/model.bin", marian_bin(bin_items(tensors, s, 0x402)))
    put(folder, "marian-bin-f16/vocab.spm", data)
    expect(os.path.join(folder, "marian-bin-f16.tsv"), rows, [("auto", 1e-4), ("f32", 1e-4)])


@case
def bergamot(folder):
    """A student: SSRU, intgemm8 with embeddings and alphas, as Bergamot and Firefox ship it."""
    data = tokenizer(9, "abdeiknorst", 56)
    spm = open_tokenizer(data)
    n = spm.get_piece_size()
    s = marian_settings(tied_embeddings_all=True, dim_vocabs=[n, n], dec_cell="ssru",
                        transformer_decoder_autoreg="rnn", transformer_ffn_activation="relu")
    tensors, rows = search(lambda t: intgemm(t, s, 0x4101, True)[1], s, [spm, spm], pairs())
    put(folder, "bergamot/model.deen.intgemm.alphas.bin",
        marian_bin(intgemm(tensors, s, 0x4101, True)[0]))
    put(folder, "bergamot/vocab.deen.spm", data)
    put(folder, "bergamot/config.intgemm8bitalpha.yml",
        decoder_yml(["model.deen.intgemm.alphas.bin"], ["vocab.deen.spm", "vocab.deen.spm"],
                    beam_size=1, normalize=1.0, word_penalty=0, max_length_factor=2.5,
                    gemm_precision="int8shiftAlphaAll"))
    expect(os.path.join(folder, "bergamot.tsv"), rows, [("f32", 1e-4), ("auto", 0.5)])


@case
def marian_intgemm(folder):
    """intgemm8 of upstream, embeddings as floats, output projection of its own."""
    data = tokenizer(10, "abdeiknorst", 40)
    spm = open_tokenizer(data)
    n = spm.get_piece_size()
    s = marian_settings(tied_embeddings_src=True, dim_vocabs=[n, n], output_omit_bias=True,
                        enc_depth=1)
    tensors, rows = search(lambda t: intgemm(t, s, 0x10001, False)[1], s, [spm, spm], pairs())
    put(folder, "marian-intgemm/model.bin", marian_bin(intgemm(tensors, s, 0x10001, False)[0]))
    put(folder, "marian-intgemm/vocab.spm", data)
    expect(os.path.join(folder, "marian-intgemm.tsv"), rows, [("f32", 1e-4), ("auto", 0.5)])


def vocab_yml(tokens):
    """As marian-vocab writes it: quoted where YAML wants it."""
    lines = []
    for i, token in enumerate(tokens):
        if "\\" in token or not token.isprintable():
            text = "".join(c if c.isprintable() else "\\x%02x" % ord(c)
                           for c in token.replace("\\", "\\\\").replace('"', '\\"'))
            lines.append(f'"{text}": {i}')
        elif token[0] in "'\"-?:,[]{}#&*!|>%@` " or ": " in token:
            lines.append("'" + token.replace("'", "''") + f"': {i}")
        elif i % 7 == 3:
            lines.append(f"? {token}\n: {i}")
        else:
            lines.append(f"{token}: {i}")
    return "\n".join(lines) + "\n"


@case
def opus_mt(folder):
    """A zip as OPUS-MT publishes them: two SentencePiece files, one vocabulary with tokens of
    languages and with pieces missing."""
    data = [tokenizer(21, "abdeiknorst", 48), tokenizer(22, "abdeiknorst", 48)]
    spm = [open_tokenizer(d) for d in data]
    pieces = [{x.id_to_piece(i) for i in range(2, x.get_piece_size())} for x in spm]
    odd = ["null", "~", "1.0", "a: b", "it's", '"', "\\", "\x84", "'"]
    tokens = ["</s>", "<unk>"] + sorted(pieces[0] | pieces[1]) + odd + [">>xxa<<", ">>xxb<<"]
    missing = [t for t in sorted(pieces[0]) if len(t) == 3][:2]
    tokens = [t for t in tokens if t not in missing]
    ids = {t: i for i, t in enumerate(tokens)}
    s = marian_settings(tied_embeddings_all=True, dim_vocabs=[len(tokens)] * 2, enc_depth=1)

    def encoder(side, first):
        return lambda text: first + [ids.get(p, 1) for p in spm[side].encode(text, out_type=str)]

    def decode(written):
        return spm[1].decode([tokens[i] for i in written if spm[1].piece_to_id(tokens[i]) != 1])
    sources, targets = pairs()
    for seed in range(1, 100):
        tensors = marian_tensors(seed, s)
        bias = tensors["decoder_ff_logit_out_b"][0]
        for token in tokens:  # only what the target's SentencePiece knows
            if token not in pieces[1] and token != "</s>":
                bias[ids[token]] = -40
        rows = ask(Marian(tensors, s), [encoder(0, [ids[">>xxb<<"]]), encoder(1, [])], decode, 0,
                   sources, targets, banned=(1,))
        if rows:
            break
    else:
        raise SystemExit("no seed gives a fair test")
    out = io.BytesIO()
    files = {"opus.npz": npz(tensors, s), "opus.vocab.yml": vocab_yml(tokens).encode(),
             "source.spm": data[0], "target.spm": data[1], "README.md": b"A small random model.\n",
             "decoder.yml": decoder_yml(["opus.npz"], ["opus.vocab.yml", "opus.vocab.yml"],
                                        beam_size=6, normalize=1, word_penalty=0).encode()}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in files.items():
            z.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    put(folder, "opus-mt.zip", out.getvalue())
    expect(os.path.join(folder, "opus-mt.tsv"), rows, [("auto", 1e-4)], "--target-lang xxb")


# --------------------------------------------------------------------------------------------------

def main():
    chosen = sys.argv[1:] or list(CASES)
    for name in chosen:
        if name not in CASES:
            raise SystemExit(f"no case {name}; there are: {' '.join(CASES)}")
        os.makedirs(OUT, exist_ok=True)
        CASES[name](OUT)
        print(name)


if __name__ == "__main__":
    main()

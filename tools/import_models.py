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
import tempfile
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


def expect(path, rows, runs=(("f32", 1e-4),), options="", rounded=None):
    """rows: (source, target, log-probabilities, greedy translation); rounded: the same of the same
    sentences, as it comes out of integers, which runs of a third element are compared with."""
    with open(path, "w") as f:
        if options:
            f.write(f"# options {options}\n")
        for dtype, tolerance, *which in runs:
            f.write(f"# run {dtype} {tolerance:g}{' rounded' if which else ''}\n")
        for i, (source, target, *answer) in enumerate(rows):
            answers = [answer] + ([rounded[i][2:]] if rounded else [])
            f.write("\t".join([source, target] + [
                f"{' '.join('%.6f' % x for x in log_probs)}\t{greedy}"
                for log_probs, greedy in answers]) + "\n")


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
    """A model of Marian in double precision: tensors by Marian's names, settings of model.yml. With
    alphas, by the names of matrices, what these are multiplied with is rounded by them."""

    def __init__(self, tensors, settings, alphas=None):
        self.alphas, self.seen = alphas or {}, {}  # and the largest that each was multiplied with
        self.t = {k: np.asarray(v, np.float64) for k, v in tensors.items()}
        self.s = settings
        self.pre = settings["transformer-preprocess"] == "n"
        self.shared = settings["tied-embeddings-all"] or settings["tied-embeddings-src"]

    def norm(self, x, name, suffix=""):
        return norm(x, self.t[f"{name}_ln_scale{suffix}"], self.t[f"{name}_ln_bias{suffix}"], 1e-6)

    def times(self, x, name, turned=False):
        """x by a matrix."""
        w = self.t[name].T if turned else self.t[name]
        self.seen[name] = max(self.seen.get(name, 0), np.abs(x).max())
        alpha = self.alphas.get(name)
        if alpha is None:
            return x @ w
        u = np.clip(np.rint(x.astype(np.float32) * np.float32(alpha)), -127, 127)
        return u.astype(np.float64) @ w / alpha

    def affine(self, x, name, which):
        return self.times(x, f"{name}_W{which}") + self.t[f"{name}_b{which}"]

    def around(self, x, f, name, before=None):
        """A sub-layer with its residual connection and norm."""
        if self.pre:
            return x + f(self.norm(x, before or name, "_pre"))
        return self.norm(x + f(x), name)

    def attention(self, x, name, memory=None, causal=False):
        def run(y):
            h = self.s["transformer-heads"]
            kv = y if memory is None else memory
            q = self.affine(y, name, "q")
            k, v = self.affine(kv, name, "k"), self.affine(kv, name, "v")
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
            new, c, out = self.times(y, name + "_W"), 0, np.empty_like(y)
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
            y = self.times(y, "Wemb" if self.shared else "decoder_Wemb", True)
        else:
            turned = out + "Wt" in self.t
            y = self.times(y, out + ("Wt" if turned else "W"), turned)
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
        matrix("decoder_ff_logit_out_Wt", tgt, d, 0.4 * math.sqrt(tgt))
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


def intgemm(tensors, settings, kind, with_embeddings, alphas=None):
    """Quantised as marian-conv does it; the items, and the tensors that they stand for. Alphas of
    Wemb are quantised too."""
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
    for name, alpha in (alphas or {}).items():
        items[name + "_QuantMultA"] = (kind, (1, 1), padded(
            struct.pack("<bf", 127, np.float32(127) / alpha))) if name == "Wemb" else (
            0x404, (1, 1), padded(struct.pack("<f", alpha)))
    items["none_QuantMultA"] = (0x404, (1, 1), padded(struct.pack("<f", 20)))
    return items, meant


def find_alphas(tensors, settings, quantised, spm, sources, targets):
    """One for each quantised matrix, such that a few of the values exceed what it can express."""
    model = Marian(tensors, settings)
    for source, target in zip(sources, targets):
        model(spm.encode(source) + [0], spm.encode(target))
    alphas = {name: np.float32(150 / seen) for name, seen in model.seen.items()
              if name in quantised}
    if "Wemb" in alphas:  # as it comes out of an int8
        alphas["Wemb"] = np.float32(127) * (1 / (np.float32(127) / alphas["Wemb"]))
    return alphas


def decoder_yml(models, vocabs, **more):
    return yml({"relative-paths": True, "models": models, "vocabs": vocabs,
                **{k.replace("_", "-"): v for k, v in more.items()}})


def search(make, settings, spm, pairs, end=0, unk=1, also=None):
    """The first seed whose model gives a fair test. make(tensors) are the tensors as they will be
    read. also(tensors, rows) must come to something, too, and is returned."""
    for seed in range(1, 100):
        tensors = marian_tensors(seed, settings)
        rows = ask(Marian(make(tensors), settings), [s.encode for s in spm], spm[1].decode, end,
                   *pairs, banned=(unk,))
        more = also(tensors, rows) if rows and also else None
        if rows and (more or not also):
            return (tensors, rows, more) if also else (tensors, rows)
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
    expect(os.path.join(folder, "marian-npz.tsv"), rows, [("auto", 1e-4)])


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

    def rounded(tensors, rows):
        items, meant = intgemm(tensors, s, 0x4101, True)
        names = [name for name in meant if items[name][0] == 0x4101]
        alphas = find_alphas(meant, s, names, spm, *pairs())
        rows = ask(Marian(meant, s, alphas), [spm.encode] * 2, spm.decode, 0,
                   [r[0] for r in rows], [r[1] for r in rows], banned=(1,))
        return rows and (alphas, rows)

    tensors, rows, (alphas, integers) = search(lambda t: intgemm(t, s, 0x4101, True)[1], s,
                                               [spm, spm], pairs(), also=rounded)
    put(folder, "bergamot/model.deen.intgemm.alphas.bin",
        marian_bin(intgemm(tensors, s, 0x4101, True, alphas)[0]))
    put(folder, "bergamot/vocab.deen.spm", data)
    put(folder, "bergamot/config.intgemm8bitalpha.yml",
        decoder_yml(["model.deen.intgemm.alphas.bin"], ["vocab.deen.spm", "vocab.deen.spm"],
                    beam_size=1, normalize=1.0, word_penalty=0, max_length_factor=2.5,
                    gemm_precision="int8shiftAlphaAll"))
    expect(os.path.join(folder, "bergamot.tsv"), rows,
           [("f32", 1e-4), ("auto", 0.02, "rounded")], rounded=integers)


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
    expect(os.path.join(folder, "marian-intgemm.tsv"), rows, [("f32", 1e-4), ("auto", 1)])


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


# ---- Hugging Face --------------------------------------------------------------------------------

def hf_model(kind, seed, **settings):
    """A random model of transformers, its choices far from even."""
    import torch
    import transformers
    torch.manual_seed(seed)
    config, model = {
        "marian": (transformers.MarianConfig, transformers.MarianMTModel),
        "m2m": (transformers.M2M100Config, transformers.M2M100ForConditionalGeneration),
        "mbart": (transformers.MBartConfig, transformers.MBartForConditionalGeneration)}[kind]
    base = dict(d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
                max_position_embeddings=64, scale_embedding=True, dropout=0.0,
                activation_function="relu", num_beams=1)
    model = model(config(**{**base, **settings})).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_positions" in name and kind != "mbart":
                continue
            x = torch.randn(p.shape)
            if "embed_positions" in name:
                x *= 0.5
            elif "embed" in name and p.dim() == 2 or "shared" in name or "lm_head" in name:
                x *= 1.6 / math.sqrt(p.shape[1])
                x[model.config.pad_token_id] = 0
            elif p.dim() == 2:
                x *= 2 / math.sqrt(p.shape[1])
            else:
                x = 0.2 * x + (1 if "norm" in name and "weight" in name else 0)
            p.copy_(x)
        if kind == "marian":
            model.final_logits_bias.copy_(0.5 * torch.randn(model.final_logits_bias.shape))
    return model


def hf_answers(model, start):
    """model(source, target) of ask: what transformers says after start + target."""
    import torch

    def run(src, tgt):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([src]),
                           decoder_input_ids=torch.tensor([start + tgt])).logits[0]
        return torch.log_softmax(logits.double(), -1).numpy()[len(start) - 1:]
    return run


def hf_save(folder, name, model, how, dtype=None):
    """config.json, generation_config.json and weights: safetensors, zip or legacy; shards of
    how[1] tensors."""
    import safetensors.torch
    import torch
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    model.config.save_pretrained(path)
    model.generation_config.save_pretrained(path)
    seen, tensors = set(), {}
    for key, t in model.state_dict().items():
        if dtype == torch.float16 and "embed_positions" in key:
            continue  # sinusoids, which newer files do not have
        if t.data_ptr() not in seen:  # a shared matrix is kept once
            seen.add(t.data_ptr())
            tensors[key] = t.contiguous() if dtype is None else t.to(dtype).contiguous()
    how, shards = how if isinstance(how, tuple) else (how, 1)
    stem, ext = ("model", "safetensors") if how == "safetensors" else ("pytorch_model", "bin")
    keys, where = sorted(tensors), {}
    for i in range(shards):
        part = {k: tensors[k] for k in keys[i::shards]}
        file = f"{stem}.{ext}" if shards == 1 else f"{stem}-{i + 1:05}-of-{shards:05}.{ext}"
        where.update({k: file for k in part})
        to = os.path.join(path, file)
        if how == "safetensors":
            safetensors.torch.save_file(part, to, metadata={"format": "pt"})
        else:
            torch.save(part, to, _use_new_zipfile_serialization=how == "zip")
    if shards > 1:
        put(path, f"{stem}.{ext}.index.json",
            json.dumps({"metadata": {}, "weight_map": where}, indent=1))


def hf_search(make, rows_of):
    """The first seed whose model gives a fair test."""
    for seed in range(1, 200):
        model = make(seed)
        rows = rows_of(model)
        if rows:
            return model, rows
    raise SystemExit("no seed gives a fair test")


def hf_vocabulary(spm, extra=(), last="<pad>", drop=2):
    """Tokens of a vocab.json: eos and unk first, `drop` pieces missing, pad last."""
    pieces = set()
    for x in spm:
        pieces |= {x.id_to_piece(i) for i in range(2, x.get_piece_size())}
    missing = [t for t in sorted(pieces) if len(t) == 3][:drop]
    return ["</s>", "<unk>"] + sorted(pieces - set(missing)) + list(extra) + [last]


def hf_marian_case(folder, name, how, spm_data, tokens, lang=None, dtype=None, options="",
                   **settings):
    """tokens: of the source and of the target, the same list if they share it."""
    import torch
    spm = [open_tokenizer(d) for d in spm_data]
    ids = [{t: i for i, t in enumerate(side)} for side in tokens]
    end, unk, pad = (ids[1][t] for t in ("</s>", "<unk>", "<pad>"))
    shared = tokens[0] is tokens[1]
    first = [ids[0][f">>{lang}<<"]] if lang else []
    known = {spm[1].id_to_piece(i) for i in range(2, spm[1].get_piece_size())} | {"</s>"}

    def encode(side, before):
        def run(text):
            pieces = spm[side].encode(text, out_type=str)
            return before + [ids[side].get(p, ids[side]["<unk>"]) for p in pieces]
        return run

    def make(seed):
        model = hf_model("marian", seed, vocab_size=len(tokens[0]),
                         decoder_vocab_size=len(tokens[1]), pad_token_id=pad, eos_token_id=end,
                         bos_token_id=None, forced_eos_token_id=end, decoder_start_token_id=pad,
                         share_encoder_decoder_embeddings=shared, **settings)
        model.generation_config.bad_words_ids = [[pad]]
        model.generation_config.num_beams = 1
        model.generation_config.max_length = 64
        for i, token in enumerate(tokens[1]):  # only what the target's SentencePiece knows
            if token not in known:
                model.final_logits_bias[0, i] = -40
        if dtype:  # as it will be stored; sinusoids are not
            with torch.no_grad():
                for name, t in model.state_dict().items():
                    if dtype != torch.float16 or "embed_positions" not in name:
                        t.copy_(t.to(dtype).float())
        return model

    def decode(written):
        return spm[1].decode([tokens[1][i] for i in written])
    model, rows = hf_search(make, lambda m: ask(
        hf_answers(m, [pad]), [encode(0, first), encode(1, [])], decode, end, *pairs(),
        banned=(pad,)))
    hf_save(folder, name, model, how, dtype)
    for file, data in zip(("source.spm", "target.spm"), spm_data):
        put(folder, f"{name}/{file}", data)
    put(folder, name + "/vocab.json", json.dumps(ids[0], ensure_ascii=False, indent=1))
    if not shared:
        put(folder, name + "/target_vocab.json", json.dumps(ids[1], ensure_ascii=False, indent=1))
    put(folder, name + "/tokenizer_config.json",
        json.dumps({"source_lang": "en", "target_lang": "de", "separate_vocabs": not shared,
                    "tokenizer_class": "MarianTokenizer"}))
    expect(os.path.join(folder, name + ".tsv"), rows, [("auto", 1e-4)], options)


@case
def hf_marian(folder):
    """Safetensors, f32, swish, one vocabulary with tokens of languages and with pieces missing."""
    data = [tokenizer(31, "abdeiknorst", 48), tokenizer(32, "abdeiknorst", 48)]
    tokens = hf_vocabulary([open_tokenizer(d) for d in data], [">>xxa<<", ">>xxb<<"])
    hf_marian_case(folder, "hf-marian", "safetensors", data, [tokens, tokens], "xxa",
                   options="--target-lang xxa", activation_function="swish")


@case
def hf_marian_zip(folder):
    """pytorch_model.bin as a zip, f16, a vocabulary for each side, no sinusoids."""
    import torch
    data = [tokenizer(33, "abdeiknorst", 48), tokenizer(34, "abdeiknorst", 40)]
    tokens = [hf_vocabulary([open_tokenizer(d)]) for d in data]
    hf_marian_case(folder, "hf-marian-zip", "zip", data, tokens, dtype=torch.float16,
                   encoder_ffn_dim=24)


@case
def hf_marian_legacy(folder):
    """pytorch_model.bin in the older container, in two parts, bf16; marks elsewhere, as in
    tc-big."""
    import torch
    data = [tokenizer(35, "abdeiknorst", 48), tokenizer(36, "abdeiknorst", 48)]
    tokens = hf_vocabulary([open_tokenizer(d) for d in data], drop=0)
    tokens = tokens[2:20] + ["</s>"] + tokens[20:-1] + ["<unk>", "<pad>"]
    hf_marian_case(folder, "hf-marian-legacy", ("legacy", 2), data, [tokens, tokens],
                   dtype=torch.bfloat16, decoder_ffn_dim=24)


def hf_multilingual_case(folder, name, kind, how, tokens, data, languages, files, **settings):
    """languages: tokens of the source and the target one."""
    spm = open_tokenizer(data)
    ids = {t: i for i, t in enumerate(tokens)}
    first = [ids[t] for t in languages]
    known = {spm.id_to_piece(i) for i in range(3, spm.get_piece_size())}
    banned = [i for i, t in enumerate(tokens) if t not in known and t != "</s>"]

    def encode(before):
        return lambda text: before + [ids.get(p, 3) for p in spm.encode(text, out_type=str)]

    def make(seed):
        model = hf_model(kind, seed, vocab_size=len(tokens), pad_token_id=1, bos_token_id=0,
                         eos_token_id=2, decoder_start_token_id=2, **settings)
        model.generation_config.num_beams = 1
        model.generation_config.suppress_tokens = banned
        return model
    model, rows = hf_search(make, lambda m: ask(
        hf_answers(m, [2, first[1]]), [encode(first[:1]), encode([])],
        lambda w: spm.decode([tokens[i] for i in w]), 2, *pairs(), banned=banned))
    hf_save(folder, name, model, how)
    put(folder, name + "/sentencepiece.bpe.model", data)
    for file, content in files.items():
        put(folder, f"{name}/{file}", json.dumps(content, ensure_ascii=False, indent=1))
    codes = [t.strip("_") for t in languages]
    expect(os.path.join(folder, name + ".tsv"), rows, [("auto", 1e-4)],
           f"--source-lang {codes[0]} --target-lang {codes[1]}")


def fairseq_tokens(spm):
    return ["<s>", "<pad>", "</s>", "<unk>"] + [spm.id_to_piece(i)
                                                for i in range(3, spm.get_piece_size())]


@case
def hf_m2m(folder):
    """M2M100: vocab.json, languages behind it, a row to spare; safetensors in two parts."""
    data = tokenizer(41, "abdeiknorst", 48, eos=2, unk=0, bos=1)
    tokens = sorted(fairseq_tokens(open_tokenizer(data))[4:])
    tokens = ["<s>", "<pad>", "</s>", "<unk>"] + tokens[1:]  # one piece is missing
    vocab, languages = {t: i for i, t in enumerate(tokens)}, ["__xa__", "__xb__", "__xc__"]
    hf_multilingual_case(
        folder, "hf-m2m", "m2m", ("safetensors", 2), tokens + languages + ["<unused>"], data,
        ["__xc__", "__xa__"],
        {"vocab.json": vocab, "special_tokens_map.json": {"additional_special_tokens": languages},
         "tokenizer_config.json": {"tokenizer_class": "M2M100Tokenizer"}})


@case
def hf_nllb(folder):
    """NLLB: ids are SentencePiece's and one more."""
    data = tokenizer(42, "abdeiknorst", 48, eos=2, unk=0, bos=1)
    tokens = fairseq_tokens(open_tokenizer(data))
    languages = ["xaa_Latn", "xbb_Cyrl"]
    added = {str(len(tokens) + i): {"content": t, "special": True}
             for i, t in enumerate(languages + ["<mask>"])}
    hf_multilingual_case(
        folder, "hf-nllb", "m2m", "safetensors", tokens + languages + ["<mask>"], data, languages,
        {"tokenizer_config.json": {"tokenizer_class": "NllbTokenizer",
                                   "added_tokens_decoder": added}})


@case
def hf_mbart(folder):
    """mBART-50: learnt positions, a norm of embeddings, gelu."""
    data = tokenizer(43, "abdeiknorst", 48, eos=2, unk=0, bos=1)
    tokens = fairseq_tokens(open_tokenizer(data))
    languages = ["xa_XA", "xb_XB"]
    added = [{"id": len(tokens) + i, "content": t} for i, t in enumerate(languages + ["<mask>"])]
    hf_multilingual_case(
        folder, "hf-mbart", "mbart", "safetensors", tokens + languages + ["<mask>"], data,
        languages, {"tokenizer_config.json": {"tokenizer_class": "MBart50Tokenizer"},
                    "tokenizer.json": {"version": "1.0", "added_tokens": added}},
        activation_function="gelu", max_position_embeddings=40)


# ---- CTranslate2 ---------------------------------------------------------------------------------

class Ct2(Marian):
    """The same in CTranslate2: another epsilon; positions stored, or computed from 1 on; a start
    token in place of the zero vector; sources without an end mark; embeddings that are not
    scaled."""

    def __init__(self, tensors, settings, encodings=None, start=None, source_end=True, scale=None):
        super().__init__(tensors, settings)
        self.encodings, self.start, self.source_end = encodings, start, source_end
        self.scale = scale or math.sqrt(settings["dim-emb"])

    def norm(self, x, name, suffix=""):
        return norm(x, self.t[f"{name}_ln_scale{suffix}"], self.t[f"{name}_ln_bias{suffix}"], 1e-5)

    def embed(self, rows, stack):
        n, d = rows.shape
        if stack == "decoder" and self.start is not None:
            rows = np.concatenate([self.table(stack)[[self.start]], rows[1:]])
        if self.encodings is None:
            i = np.arange(d // 2)
            angle = np.arange(1, n + 1)[:, None] * np.exp(-i * math.log(1e4) / (d // 2 - 1))
            positions = np.concatenate([np.sin(angle), np.cos(angle)], 1)
        else:
            positions = self.encodings[:n]
        x = rows * self.scale + positions
        if "n" in self.s["transformer-postprocess-emb"]:
            x = self.norm(x, stack + "_emb", "_pre")
        return x

    def __call__(self, src, tgt):
        return super().__call__(src if self.source_end else src[:-1], tgt)


def ct2_quantise(w, kind):
    """w [out, in] as CTranslate2 stores it: variables by suffix, and what they stand for."""
    if kind == "int8":
        scale = (np.float32(127) / np.abs(w).max(1)).astype(np.float32)
        q = np.rint(w * scale[:, None]).astype(np.int8)
        return {"": q, "_scale": scale}, q / scale[:, None].astype(np.float64)
    if kind == "int16":
        scale = np.float32(1000)
        q = np.rint(w * scale).astype(np.int16)
        return {"": q, "_scale": scale}, q / np.float64(scale)
    if kind == "bf16":
        bits = w.astype(np.float32).view(np.uint32)
        bits = bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000
        return {"": (bits >> 16).astype(np.uint16)}, bits.view(np.float32).astype(np.float64)
    w = w.astype(np.float16 if kind == "f16" else np.float32)
    return {"": w}, w.astype(np.float64)


def ct2_names(s):
    """(name there, names here that are stacked in it); what ends in weight is a matrix."""
    pre = "_pre" if s["transformer-preprocess"] == "n" else ""
    for stack, depth in (("encoder", s["enc-depth"]), ("decoder", s["dec-depth"])):
        if "n" in s["transformer-postprocess-emb"]:
            yield from ct2_norm(f"{stack}/layernorm_embedding", stack + "_emb", "_pre")
        if pre:
            yield from ct2_norm(f"{stack}/layer_norm", stack + "_top", "")
        for i in range(depth):
            to, at = f"{stack}/layer_{i}/", f"{stack}_l{i + 1}_"
            parts = [("self_attention/linear_0", "self", "qkv"),
                     ("self_attention/linear_1", "self", "o"),
                     ("ffn/linear_0", "ffn", "1"), ("ffn/linear_1", "ffn", "2")]
            norms = [("self_attention", "self_Wo"), ("ffn", "ffn_ffn")]
            if stack == "decoder":
                parts += [("attention/linear_0", "context", "q"),
                          ("attention/linear_1", "context", "kv"),
                          ("attention/linear_2", "context", "o")]
                norms += [("attention", "context_Wo")]
            for name, block, which in parts:
                yield to + name + "/weight", [f"{at}{block}_W{w}" for w in which]
                yield to + name + "/bias", [f"{at}{block}_b{w}" for w in which]
            for name, block in norms:
                yield from ct2_norm(to + name + "/layer_norm", at + block, pre)
    yield "decoder/projection/bias", ["decoder_ff_logit_out_b"]


def ct2_norm(there, here, suffix):
    yield there + "/gamma", [here + "_ln_scale" + suffix]
    yield there + "/beta", [here + "_ln_bias" + suffix]


def ct2_variables(tensors, s, kind):
    """Variables by name, and the tensors that they stand for."""
    out, meant = {}, {k: v.astype(np.float64) for k, v in tensors.items()}
    for name, parts in ct2_names(s):
        if not all(p in tensors for p in parts):
            continue
        if not name.endswith("weight"):
            v = np.concatenate([tensors[p][0] for p in parts])
            stored, value = ct2_quantise(v, kind if kind.endswith("f16") else "f32")
            out[name], at = stored[""], 0
            for p in parts:
                meant[p] = value[None, at:at + tensors[p].shape[1]]
                at += tensors[p].shape[1]
            continue
        stored, w = ct2_quantise(np.concatenate([tensors[p].T for p in parts]), kind)
        out.update({name + suffix: v for suffix, v in stored.items()})
        at = 0
        for p in parts:
            meant[p] = w[at:at + tensors[p].shape[1]].T
            at += tensors[p].shape[1]
    tables = {"decoder/embeddings/weight": "Wemb" if "Wemb" in tensors else "decoder_Wemb"}
    if "encoder_Wemb" in tensors:
        tables["encoder/embeddings_0/weight"] = "encoder_Wemb"
    if "decoder_ff_logit_out_Wt" in tensors:
        tables["decoder/projection/weight"] = "decoder_ff_logit_out_Wt"
    for name, table in tables.items():
        stored, meant[table] = ct2_quantise(tensors[table], kind)
        out.update({name + suffix: v for suffix, v in stored.items()})
    return out, meant


def ct2_bin(version, spec, revision, variables, aliases=()):
    def string(text):
        return struct.pack("<H", len(text.encode()) + 1) + text.encode() + b"\0"
    types = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4,
             "uint16": 5}  # the last stands for bf16
    out = struct.pack("<I", version)
    if version > 1:
        out += string(spec) + struct.pack("<I", revision)
    out += struct.pack("<I", len(variables))
    for name in sorted(variables):
        v = np.asarray(variables[name])
        out += string(name) + struct.pack(f"<B{v.ndim}I", v.ndim, *v.shape)
        out += struct.pack("<BI", types[v.dtype.name], v.nbytes) if version > 3 else \
            struct.pack("<BI", v.itemsize, v.size)
        out += v.tobytes()
    if version > 2:
        out += struct.pack("<I", len(aliases))
        out += b"".join(string(a) + string(b) for a, b in aliases)
    return out


TIED = [("decoder/projection/weight", "decoder/embeddings/weight"),
        ("encoder/embeddings_0/weight", "decoder/embeddings/weight")]


def ct2_flags(s, **more):
    activation = {"relu": 0, "swish": 2, "gelu": 3}[s["transformer-ffn-activation"]]
    flags = {"num_heads": np.int16(s["transformer-heads"]), "activation": np.int8(activation),
             "pre_norm": np.int8(s["transformer-preprocess"] == "n")}
    out = {f"{stack}/{k}": v for stack in ("encoder", "decoder") for k, v in flags.items()}
    return {**out, "decoder/alignment_layer": np.int16(-1), "decoder/alibi": np.int8(0), **more}


def ct2_config(start, add_source_eos=True):
    return json.dumps({"add_source_bos": False, "add_source_eos": add_source_eos,
                       "bos_token": "<s>", "decoder_start_token": start, "eos_token": "</s>",
                       "layer_norm_epsilon": None, "unk_token": "<unk>"}, indent=2)


def ct2_confirm(folder, source, target, rows, end):
    """Where CTranslate2 is installed, it must agree with the formulas."""
    try:
        import ctranslate2
    except ImportError:
        print("CTranslate2 is not installed: nobody has confirmed the formulas")
        return
    translator = ctranslate2.Translator(folder, compute_type="float32")
    for src, tgt, log_probs, _ in rows:
        got = translator.score_batch([source(src) + end], [target(tgt)])[0].log_probs
        error = np.abs(np.array(got) - log_probs).max()
        if error > 1e-4:
            raise SystemExit(f"{folder}: CTranslate2 differs by {error}")


def ct2_search(settings, kind, spm, tokens, banned=(), **how):
    """As search. tokens: the vocabularies; what is not in them is <unk>."""
    ids = [{t: i for i, t in enumerate(v)} for v in tokens]
    end, unk = ids[1]["</s>"], ids[1]["<unk>"]

    def encoder(side):
        return lambda text: [ids[side].get(p, ids[side]["<unk>"])
                             for p in spm[side].encode(text, out_type=str)]

    def decode(written):
        return spm[1].decode([tokens[1][i] for i in written])
    if ids[0]["</s>"] != end:
        raise SystemExit("both sides end alike here")
    for seed in range(1, 200):
        tensors = marian_tensors(seed, settings)
        bias = tensors["decoder_ff_logit_out_b"][0]
        for i, token in enumerate(tokens[1]):  # marks are not for translations
            if token.startswith("<") and i != end:
                bias[i] = -40
        variables, meant = ct2_variables(tensors, settings, kind)
        rows = ask(Ct2(meant, settings, **how), [encoder(0), encoder(1)], decode, end, *pairs(),
                   banned=(unk, *banned))
        if rows:
            return variables, rows
    raise SystemExit("no seed gives a fair test")


def pieces_of(spm, side=0):
    return lambda text: spm[side].encode(text, out_type=str)


@case
def ct2_f32(folder):
    """Version 6 as the OPUS-MT converter makes it: zero start, output bias, stored positions, a
    vocabulary in another order than the pieces, of which some are missing."""
    data = tokenizer(31, "abdeiknorst", 48)
    spm = [open_tokenizer(data)] * 2
    pieces = [spm[0].id_to_piece(i) for i in range(2, spm[0].get_piece_size())]
    tokens = ["</s>", "<unk>"] + sorted(pieces)[:-2]
    s = marian_settings(tied_embeddings_all=True, dim_vocabs=[len(tokens)] * 2, enc_depth=1)
    rng = np.random.default_rng(3)
    encodings = rng.normal(size=(64, s["dim-emb"])).astype(np.float32)
    variables, rows = ct2_search(s, "f32", spm, [tokens] * 2, encodings=encodings)
    flags = ct2_flags(s, **{"decoder/start_from_zero_embedding": np.int8(1),
                            "decoder/scale_embeddings": np.int8(1),
                            "encoder/scale_embeddings": np.int8(1),
                            "decoder/position_encodings/encodings": encodings})
    aliases = TIED + [("encoder/position_encodings/encodings",
                       "decoder/position_encodings/encodings")]
    put(folder, "ct2-f32/model.bin",
        ct2_bin(6, "TransformerSpec", 7, {**variables, **flags}, aliases))
    put(folder, "ct2-f32/config.json", ct2_config("</s>"))
    put(folder, "ct2-f32/shared_vocabulary.json", json.dumps(tokens, indent=0))
    put(folder, "ct2-f32/sentencepiece.model", data)
    ct2_confirm(os.path.join(folder, "ct2-f32"), pieces_of(spm), pieces_of(spm), rows, [])
    expect(os.path.join(folder, "ct2-f32.tsv"), rows, [("auto", 1e-4), ("int8", 1)])


@case
def argos(folder):
    """A package of Argos Translate, int8, from OpenNMT-py: pre-norm, relu, positions computed,
    <s> first, no end mark on sources."""
    data = tokenizer(32, "abdeiknorst", 48, eos=2, unk=0, bos=1)
    spm = [open_tokenizer(data)] * 2
    tokens = ["<blank>", "<s>", "</s>"] + \
        [spm[0].id_to_piece(i) for i in range(3, spm[0].get_piece_size())] + ["<unk>"]
    s = marian_settings(tied_embeddings_src=True, dim_vocabs=[len(tokens)] * 2, dec_depth=1,
                        transformer_preprocess="n", transformer_postprocess="da",
                        transformer_postprocess_top="n", transformer_ffn_activation="relu")
    variables, rows = ct2_search(s, "int8", spm, [tokens] * 2, start=1, source_end=False,
                                 banned=(0, 1))
    model = {"model.bin": ct2_bin(6, "TransformerSpec", 7, {**variables, **ct2_flags(s)}, TIED[1:]),
             "config.json": ct2_config("<s>", add_source_eos=False).encode(),
             "shared_vocabulary.txt": "".join(t + "\n" for t in tokens).encode()}
    files = {f"translate-de_en-1_0/model/{k}": v for k, v in model.items()}
    files["translate-de_en-1_0/sentencepiece.model"] = data
    files["translate-de_en-1_0/metadata.json"] = json.dumps(
        {"package_version": "1.0", "argos_version": "1.9.0", "from_code": "de",
         "from_name": "German", "to_code": "en", "to_name": "English"}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in files.items():
            z.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    put(folder, "argos.argosmodel", out.getvalue())
    with tempfile.TemporaryDirectory() as temporary:
        for name, content in model.items():
            put(temporary, name, content)
        ct2_confirm(temporary, pieces_of(spm), pieces_of(spm), rows, [])
    expect(os.path.join(folder, "argos.tsv"), rows, [("f32", 1e-4), ("auto", 0.5)])


@case
def ct2_int16(folder):
    """Version 2, int16, a vocabulary for each side without <unk>, which is then the last token;
    settings of the whole model as variables."""
    data = [tokenizer(33, "abdeiknorst", 44, eos=2, unk=0, bos=1),
            tokenizer(34, "abdeiknorst", 40, eos=2, unk=0, bos=1)]
    spm = [open_tokenizer(d) for d in data]
    tokens = [["<blank>", "<s>", "</s>"] + [x.id_to_piece(i) for i in range(3, x.get_piece_size())]
              for x in spm]
    whole = [t + ["<unk>"] for t in tokens]
    s = marian_settings(dim_vocabs=[len(t) for t in whole], enc_depth=1, dec_depth=1,
                        transformer_heads=8, transformer_preprocess="n",
                        transformer_postprocess="da", transformer_postprocess_top="n",
                        transformer_ffn_activation="relu")
    variables, rows = ct2_search(s, "int16", spm, whole, start=1, banned=(0, 1))
    variables = {k.replace("embeddings_0", "embeddings"): v for k, v in variables.items()}
    put(folder, "ct2-int16/model.bin",
        ct2_bin(2, "TransformerBase", 2, {**variables, "with_source_eos": np.int8(1)}))
    for side, part in zip(("source", "target"), tokens):
        put(folder, f"ct2-int16/{side}_vocabulary.txt", "".join(t + "\n" for t in part))
    put(folder, "ct2-int16/source.spm", data[0])
    put(folder, "ct2-int16/target.spm", data[1])
    ct2_confirm(os.path.join(folder, "ct2-int16"), pieces_of(spm), pieces_of(spm, 1), rows, [])
    expect(os.path.join(folder, "ct2-int16.tsv"), rows, [("auto", 1e-4), ("f16", 0.05)])


@case
def ct2_f16(folder):
    """Version 5, float16, a norm of embeddings, which are not scaled: tied matrices come apart."""
    data = tokenizer(35, "abdeiknorst", 40, eos=2, unk=3, bos=1)
    spm = [open_tokenizer(data)] * 2
    tokens = [spm[0].id_to_piece(i) for i in range(spm[0].get_piece_size())]
    s = marian_settings(tied_embeddings_all=True, dim_vocabs=[len(tokens)] * 2, enc_depth=1,
                        dec_depth=1, transformer_ffn_activation="gelu",
                        transformer_postprocess_emb="nd")
    variables, rows = ct2_search(s, "f16", spm, [tokens] * 2, start=2, scale=1.0, banned=(1,))
    flags = ct2_flags(s, **{"decoder/scale_embeddings": np.float32(1),
                            "encoder/scale_embeddings": np.float32(1),
                            "with_target_bos": np.int8(0)})
    put(folder, "ct2-f16/model.bin",
        ct2_bin(5, "TransformerSpec", 5, {**variables, **flags}, TIED))
    put(folder, "ct2-f16/shared_vocabulary.txt", "".join(t + "\n" for t in tokens))
    put(folder, "ct2-f16/tokenizer.model", data)
    ct2_confirm(os.path.join(folder, "ct2-f16"), pieces_of(spm), pieces_of(spm), rows, ["</s>"])
    expect(os.path.join(folder, "ct2-f16.tsv"), rows, [("auto", 1e-4), ("bf16", 0.5)])


@case
def ct2_bf16(folder):
    """Version 6, bfloat16 throughout, the paper's post-norm layers, a start mark."""
    data = tokenizer(36, "abdeiknorst", 40, eos=2, unk=3, bos=1)
    spm = [open_tokenizer(data)] * 2
    tokens = [spm[0].id_to_piece(i) for i in range(spm[0].get_piece_size())]
    s = marian_settings(tied_embeddings_all=True, dim_vocabs=[len(tokens)] * 2, enc_depth=1,
                        dec_depth=1, transformer_ffn_activation="relu")
    variables, rows = ct2_search(s, "bf16", spm, [tokens] * 2, start=2, banned=(1,))
    flags = ct2_flags(s, **{"decoder/scale_embeddings": np.int8(1),
                            "encoder/scale_embeddings": np.int8(1)})
    put(folder, "ct2-bf16/model.bin",
        ct2_bin(6, "TransformerSpec", 7, {**variables, **flags}, TIED))
    put(folder, "ct2-bf16/config.json", ct2_config("</s>", False))
    put(folder, "ct2-bf16/shared_vocabulary.json", json.dumps(tokens, indent=0))
    put(folder, "ct2-bf16/tokenizer.model", data)
    ct2_confirm(os.path.join(folder, "ct2-bf16"), pieces_of(spm), pieces_of(spm), rows, ["</s>"])
    expect(os.path.join(folder, "ct2-bf16.tsv"), rows, [("auto", 1e-4), ("f16", 0.02)])


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

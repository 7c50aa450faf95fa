#!/usr/bin/env python3
"""Other engines, asked the same questions as heed. Sentences come in, a line each, answers go out.

    peers.py bergamot MODEL-DIR [KEY=VALUE...]    bergamot's translations, sent one by one, without
                                                  its list of likely words
    peers.py floats MODEL-DIR OUT-DIR             the same model with its weights as floats (.npz)
    peers.py marian MODEL-DIR TARGET              log-probabilities of the lines of TARGET, in
                                                  double precision (tools/import_models.py)
    peers.py ct2 PACKAGE-DIR                      CTranslate2's greedy translations in float32, the
                                                  sum of their log-probabilities, their tokens
    peers.py ct2-scores PACKAGE-DIR TARGET        its log-probabilities of the lines of TARGET
    peers.py ct2-tokens MODEL-DIR                 its greedy translations of tokens, not of text

The first wants Python 3.10 and bergamot, the ct2 ones ctranslate2, all but the first and the last
sentencepiece and numpy.
"""
import glob
import importlib.util
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))


def lines(path=None):
    with open(path or 0, encoding="utf-8") as f:
        return [line.rstrip("\n") for line in f]


def one(pattern):
    found = sorted(glob.glob(pattern))
    if not found:
        raise SystemExit(f"no {pattern}")
    return found[0]


# ---- Bergamot ------------------------------------------------------------------------------------

def load_bergamot():
    """The package without its __init__, which asks a server for its list of models."""
    for folder in sys.path:
        for path in glob.glob(os.path.join(folder, "bergamot", "_bergamot*.so")):
            spec = importlib.util.spec_from_file_location("_bergamot", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise SystemExit("no bergamot here")


def bergamot_config(folder, settings, shortlist):
    """Its own configuration with whole paths, a line being a sentence."""
    with open(one(folder + "/config*.yml")) as f:
        text = f.read().replace("relative-paths: true\n", "")
    if not shortlist:
        text = re.sub(r"shortlist:\n( +- .*\n)+", "", text)
    text = re.sub(r"- (model|vocab|lex)", rf"- {os.path.abspath(folder)}/\1", text)
    usual = {"max-length-break": 128, "mini-batch-words": 1024, "ssplit-mode": "sentence"}
    for key, value in {**usual, **settings}.items():
        text = re.sub(rf"(?m)^{key}:.*\n", "", text).rstrip("\n") + f"\n{key}: {value}\n"
    return text


def open_bergamot(folder, settings, workers=1, shortlist=False):
    b = load_bergamot()
    service = b.Service(b.ServiceConfig(workers, 0, "off"))
    model = service.modelFromConfig(bergamot_config(folder, settings, shortlist))

    def translate(texts):
        return [r.target.text for r in service.translate(model, b.VectorString(texts),
                                                         b.ResponseOptions(qualityScores=False))]
    return translate


def bergamot(folder, *settings):
    translate = open_bergamot(folder, dict(s.split("=") for s in settings))
    for line in lines():
        print(translate([line])[0])


def read_bin(path):
    """name -> (type, shape, bytes)"""
    with open(path, "rb") as f:
        data = f.read()
    _, n = struct.unpack_from("<QQ", data)
    headers = [struct.unpack_from("<QQQQ", data, 16 + 32 * i) for i in range(n)]
    at, names, shapes = 16 + 32 * n, [], []
    for size, _, _, _ in headers:
        names.append(data[at:at + size - 1].decode())
        at += size
    for _, _, rank, _ in headers:
        shapes.append(struct.unpack_from(f"<{rank}i", data, at))
        at += 4 * rank
    at += 8 + struct.unpack_from("<Q", data, at)[0]
    out = {}
    for (_, kind, _, size), name, shape in zip(headers, names, shapes):
        out[name] = kind, shape, data[at:at + size]
        at += size
    return out


def load_student(folder):
    """The tensors as they are meant, and the settings."""
    import numpy as np
    tensors, settings = {}, {}
    for name, (kind, shape, data) in read_bin(one(folder + "/model*.bin")).items():
        n = int(np.prod(shape))
        if name == "special:model.yml":
            settings = read_settings(data.rstrip(b"\0").decode())
        elif name.endswith("_QuantMultA"):
            continue
        elif kind == 0x404:
            tensors[name] = np.frombuffer(data, "<f4", n).reshape(shape)
        else:
            q = np.frombuffer(data, np.int8, n)
            q = q.reshape(shape) if "Wemb" in name else q.reshape(shape[::-1]).T
            scale = np.frombuffer(data, "<f4", 1, n)[0]
            tensors[name] = np.ascontiguousarray(q.astype(np.float32) / scale)
    return tensors, settings


def read_settings(text):
    """The little of YAML that Marian writes: numbers, words, lists."""
    def value(word):
        word = word.strip().strip('"')
        return {"true": True, "false": False, "[]": []}.get(
            word, int(word) if re.fullmatch(r"\d+", word) else word)
    settings, key = {}, None
    for line in text.splitlines():
        if line.startswith("  - "):
            settings[key] = (settings[key] or []) + [value(line[4:])]
        elif ":" in line:
            key, word = line.split(":", 1)
            settings[key] = value(word) if word.strip() else []
    return settings


def floats(folder, out):
    import import_models
    tensors, settings = load_student(folder)
    vocab = os.path.basename(one(folder + "/vocab*.spm"))
    with open(one(folder + "/vocab*.spm"), "rb") as f:
        import_models.put(out, vocab, f.read())
    import_models.put(out, "model.npz", import_models.npz(tensors, settings))
    import_models.put(out, "config.yml", import_models.decoder_yml(
        ["model.npz"], [vocab, vocab], beam_size=1, normalize=1.0, word_penalty=0,
        max_length_factor=2.5, gemm_precision="float32"))


def marian(folder, target):
    import import_models
    import sentencepiece
    spm = sentencepiece.SentencePieceProcessor(model_file=one(folder + "/vocab*.spm"))
    end = spm.eos_id()
    model = import_models.Marian(*load_student(folder))
    for source, translation in zip(lines(), lines(target)):
        ids = spm.encode(translation)
        rows = model(spm.encode(source) + [end], ids)
        print(" ".join("%.6f" % rows[i][t] for i, t in enumerate(ids + [end])))


# ---- CTranslate2 ---------------------------------------------------------------------------------

def open_ct2(folder, compute="float32", threads=0):
    import ctranslate2
    import sentencepiece
    model = ctranslate2.Translator(one(folder + "/model"), compute_type=compute,
                                   intra_threads=threads)
    return model, sentencepiece.SentencePieceProcessor(
        model_file=one(folder + "/sentencepiece.model"))


def ct2(folder):
    model, spm = open_ct2(folder)
    source = [spm.encode(line, out_type=str) for line in lines()]
    out = [r.hypotheses[0] for r in model.translate_batch(source, beam_size=1, max_batch_size=32)]
    for tokens, r in zip(out, model.score_batch(source, out, max_batch_size=32)):
        # As Argos does it: not all tokens are pieces of its SentencePiece model.
        text = "".join(tokens).replace("\u2581", " ").strip()
        print(text, "%.6f" % sum(r.log_probs), len(r.log_probs), sep="\t")


def ct2_scores(folder, target):
    model, spm = open_ct2(folder)
    source = [spm.encode(line, out_type=str) for line in lines()]
    target = [spm.encode(line, out_type=str) for line in lines(target)]
    for r in model.score_batch(source, target, max_batch_size=32):
        print(" ".join("%.6f" % x for x in r.log_probs))


def ct2_tokens(folder):
    import ctranslate2
    model = ctranslate2.Translator(folder, compute_type="float32")
    for r in model.translate_batch([line.split() for line in lines()], beam_size=1):
        print(" ".join(r.hypotheses[0]))


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])

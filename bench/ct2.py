#!/usr/bin/env python3
"""CTranslate2 beside heed: translates sentences given as ids, prints one JSON line like `heed bench
translate --json`.

    python3 bench/ct2.py --model DIR --input ids.txt --compute int8 --inter 1 --intra 2 --batch 32
    --beam 4 [--force-length 32]

DIR is what `heed export --format ctranslate2` wrote; ids are turned into its tokens by position in
the vocabulary, and the end mark CTranslate2 adds itself is taken off. Both engines sort by length
and translate batches of --batch sentences. """

import argparse, json, os, resource, time


def own_mb():
    """Memory of this process that is not mapped from files."""
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:")) / 1024


began = time.perf_counter()
import ctranslate2  # noqa: E402  (importing is part of starting, but is reported apart)

imported = time.perf_counter()
base_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Python itself and the library
base_own_mb = own_mb()


def vocabulary(model):
    for name in ("shared_vocabulary.json", "source_vocabulary.json"):
        path = os.path.join(model, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                return json.load(f)
    raise SystemExit(f"{model}: no vocabulary")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", required=True)
    ap.add_argument("--input", required=True)
    ap.add_argument("--compute", default="float32")
    ap.add_argument("--inter", type=int, default=1)
    ap.add_argument("--intra", type=int, default=1)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--beam", type=int, default=4)
    ap.add_argument("--alpha", type=float, default=0.6)
    ap.add_argument("--sentences", type=int, default=0)
    ap.add_argument("--force-length", type=int, default=0)
    ap.add_argument(
        "--max-length",
        type=int,
        default=60,
        help="longest translation; CTranslate2 has no positions beyond the model's",
    )
    ap.add_argument("--output", help="write the translations as ids, in the order of the input")
    a = ap.parse_args()

    vocab = vocabulary(a.model)
    eos = vocab.index("</s>")
    with open(a.input, encoding="ascii") as f:
        ids = [[int(x) for x in line.split()] for line in f if line.strip()]
    if a.sentences:
        ids = ids[: a.sentences]
    src = [[vocab[i] for i in s[:-1]] if s[-1] == eos else [vocab[i] for i in s] for s in ids]

    t0 = time.perf_counter()
    tr = ctranslate2.Translator(
        a.model, device="cpu", compute_type=a.compute, inter_threads=a.inter, intra_threads=a.intra
    )
    opened = time.perf_counter() - t0
    kw = dict(
        beam_size=a.beam,
        length_penalty=a.alpha,
        max_batch_size=a.batch,
        batch_type="examples",
        max_decoding_length=a.max_length,
        return_scores=True,
    )
    if a.force_length:
        kw.update(min_decoding_length=a.force_length, max_decoding_length=a.force_length)
    order = sorted(range(len(src)), key=lambda i: -len(src[i]))
    tr.translate_batch([src[i] for i in order[: a.batch]], **kw)
    first = time.perf_counter() - t0

    took, out = [], [None] * len(src)
    start = time.perf_counter()
    if a.inter > 1:  # batches run beside each other: one call, the engine cuts it up
        for i, r in zip(order, tr.translate_batch([src[i] for i in order], **kw)):
            out[i] = r.hypotheses[0]
        took.append(time.perf_counter() - start)
    else:
        for k in range(0, len(order), a.batch):
            t = time.perf_counter()
            part = order[k : k + a.batch]
            for i, r in zip(part, tr.translate_batch([src[i] for i in part], **kw)):
                out[i] = r.hypotheses[0]
            took.append(time.perf_counter() - t)
    seconds = time.perf_counter() - start
    tokens = sum(len(x) for x in out)
    took.sort()
    if a.output:
        where = {t: i for i, t in enumerate(vocab)}
        with open(a.output, "w", encoding="ascii") as f:
            for x in out:
                f.write(" ".join(str(where[t]) for t in x) + "\n")
    print(
        json.dumps(
            {
                "bench": "translate",
                "engine": "ctranslate2 " + ctranslate2.__version__,
                "precision": a.compute,
                "inter": a.inter,
                "intra": a.intra,
                "batch": a.batch,
                "beam": a.beam,
                "sentences": len(src),
                "tokens": tokens,
                "tokens_per_s": round(tokens / seconds, 1),
                "p50_ms": round(1e3 * took[len(took) // 2], 3),
                "p99_ms": round(1e3 * took[-(-len(took) * 99 // 100) - 1], 3),
                "open_ms": round(1e3 * opened, 2),
                "first_ms": round(1e3 * first, 2),
                "import_ms": round(1e3 * (imported - began), 2),
                "base_mb": round(base_mb, 1),
                "own_mb": round(own_mb() - base_own_mb, 1),
                "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            }
        )
    )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The figures of one call of bench/gpu.sh as a table, heed and its peers, with ratios.

    python3 bench/gpu_table.py [--json] FOLDER

--json prints every figure with its case instead, a line each: what bench/tables.py keeps.
"""

import glob
import json
import os
import sys


def lines_of(path):
    """The JSON objects in a file; whatever else was printed is passed over."""
    out = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                try:
                    out.append(json.loads(line))
                except ValueError:
                    pass
    return out


def cases(folder, prefix=""):
    names = glob.glob(os.path.join(folder, prefix + "*.heed.json"))
    names += glob.glob(os.path.join(folder, prefix + "*.torch.json"))
    return sorted({os.path.basename(n).rsplit(".", 2)[0] for n in names})


def print_case(folder, name, key, columns):
    """One line per engine; the last column says how many times the peer's speed heed's is."""
    heed = lines_of(os.path.join(folder, name + ".heed.json"))
    ours = next((r for r in heed if key in r), None)
    peer = lines_of(os.path.join(folder, name + ".torch.json"))
    for i, r in enumerate(heed + peer):
        engine = " ".join(filter(None, [r.get("engine", "PyTorch"), r.get("mode")]))
        if i < len(heed):
            engine = "heed"
        if key not in r:
            print(f"{name:16s} {engine:44s} failed: {r}")
            continue
        cells = "".join(text(r) for text in columns)
        beside = f" {ours[key] / r[key]:9.2f} x" if ours and r is not ours else ""
        print(f"{name:16s} {engine:44s}{cells}{beside}")


def number(key, width, digits, scale=1.0):
    return lambda r: f" {r[key] * scale:{width},.{digits}f}" if r.get(key) else " " * width + "-"


def print_json(folder):
    for name in cases(folder):
        for side in ("heed", "torch"):
            for r in lines_of(os.path.join(folder, f"{name}.{side}.json")):
                if "error" in r:
                    print(f"{name}: {side} failed: {r['error']}", file=sys.stderr)
                    continue
                engine = "heed" if side == "heed" else r.get("engine", "PyTorch")
                print(json.dumps({"case": name} | r | {"engine": engine}))


def main():
    folder = sys.argv[-1]
    if "--json" in sys.argv[1:-1]:
        return print_json(folder)
    decode = cases(folder, "decode-")
    quality = cases(folder, "quality")
    train = [c for c in cases(folder) if c not in decode + quality]
    if train:
        print(f"\n{'training':61s}   ms/step   tgt tok/s  TFLOP/s      GiB       heed is")
        columns = [number("ms_per_step", 9, 2), number("tgt_tokens_per_s", 11, 0)]
        columns += [number("tflops", 8, 1), number("peak_mb", 8, 2, 1 / 1024)]
        for name in train:
            print_case(folder, name, "tgt_tokens_per_s", columns)
    if decode:
        print(
            f"\n{'decoding, base, beam 4, 32 tokens in and out':61s}"
            "     tok/s  ms a batch       heed is"
        )
        columns = [number("tokens_per_s", 9, 0), number("p50_ms", 11, 2)]
        for name in decode:
            print_case(folder, name, "tokens_per_s", columns)
    if quality:
        print(f"\n{'quality':61s} seconds     BLEU")
        for name in quality:
            for side in ("heed", "torch"):
                for r in lines_of(os.path.join(folder, f"{name}.{side}.json")):
                    took, bleu = r.get("train_s", 0), r.get("bleu", 0)
                    print(f"{name:16s} {r.get('engine', '?'):44s} {took:7.1f} {bleu:8.2f}")
    for kind in ("test", "sanitize"):
        path = os.path.join(folder, kind + ".txt")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                said = f.read().splitlines() or ["nothing"]
            if kind == "sanitize":
                ok = sum(line.startswith("ok ") for line in said)
                bad = sum(line.startswith("FAILED  ") for line in said)
                said = [f"{ok} ok, {bad} failed under compute-sanitizer"]
            print(f"{kind:16s} {said[-1]}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""table2.py — what table2.sh does not leave to heed, and the section of the report.

    table2.py result ROW ...      a row's result as JSON, from what table2.sh left
    table2.py rate                of `heed bench train --json`: what products sustain, in TFLOP/s
    table2.py chosen FILE         beam and alpha of a row's result
    table2.py plain FILE          what is in a file of xz
    table2.py spoken LOG          of torch_quality.py's log: parameters and seconds

What training costs is said in two ways. The paper multiplies the time by the number of GPUs and by
what each sustains in single precision: the operations that the machine could have done. `flops`
counts the operations that the model needs.
"""
import argparse
import json
import lzma
import pathlib
import re
import shutil
import sys

# PAPER: section 5.2 and Table 2. Hours, GPUs and the TFLOP/s that the paper gives a P100.
PAPER = {
    "base": {"hours": 12, "updates": 100000, "en-de": 27.3, "en-fr": 38.1},
    "big": {"hours": 84, "updates": 300000, "en-de": 28.4, "en-fr": 41.8},
}
GPUS, P100 = 8, 9.5
SHAPES = {"base": {"n_layer_enc": 6, "n_layer_dec": 6, "d_model": 512, "d_ff": 2048, "n_head": 8,
                   "d_k": 64, "d_v": 64, "n_vocab_tgt": 37000},
          "big": {"n_layer_enc": 6, "n_layer_dec": 6, "d_model": 1024, "d_ff": 4096, "n_head": 16,
                  "d_k": 64, "d_v": 64, "n_vocab_tgt": 37000}}
TEXTS = {
    "multi30k.en-de": "Multi30k, English to German: 29,000 captions",
    "multi30k.en-fr": "Multi30k, English to French: 29,000 captions",
    "all.en-de": "Europarl, MS Docs and Tatoeba, English to German: 2.2 million pairs",
    "tatoeba.en-fr": "Tatoeba, English to French: 152,000 pairs",
}
NAMES = {"newstest": "newstest2014", "europarl": "Europarl", "tatoeba": "Tatoeba",
         "msdocs": "MS Docs", "multi30k": "Multi30k"}
MODELS = ("tiny", "base", "big")
PROGRAMS = {"heed": "heed", "peer": "PyTorch"}


def flops(c, src, tgt, src_len, tgt_len):
    """Operations of training on so many tokens, multiplications and additions counted apart: every
    product forward, and twice backward. Sentences count as if all had the mean length, which
    matters to attention alone."""
    d, qk, vv = c["d_model"], c["n_head"] * c["d_k"], c["n_head"] * c["d_v"]
    own, cross, ff = 2 * d * (qk + vv), d * (qk + vv), 2 * d * c["d_ff"]
    enc, dec = c["n_layer_enc"], c["n_layer_dec"]
    products = src * (enc * (own + ff) + dec * cross)
    products += tgt * (dec * (own + cross + ff) + d * c["n_vocab_tgt"])
    # the decoder sees half of itself
    pairs = src * enc * src_len + tgt * dec * (tgt_len / 2 + src_len)
    return 6 * (products + pairs * (qk + vv))


def lines(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def number(text):
    return int(text.replace(",", ""))


def of_heed(row):
    """Parameters, tokens and seconds of a run of heed."""
    log = [json.loads(x) for x in lines(f"{row}.run/log.jsonl")]
    last = [x for x in log if "tokens" in x][-1]
    found = re.search(r"an epoch: ([0-9,]+) pairs, ([0-9,]+) source and ([0-9,]+) target",
                      "\n".join(lines(f"{row}.log")))
    pairs, src, tgt = map(number, found.groups())
    said = re.search(r"([0-9,]+) parameters", "\n".join(lines(f"{row}.log")))
    valid = [x["valid_ppl"] for x in log if "valid_ppl" in x]
    return {"parameters": number(said[1]), "seconds": round(last["time"], 1),
            "src_tokens": round(last["tokens"] * src / tgt), "tgt_tokens": round(last["tokens"]),
            "src_len": round(src / pairs, 2), "tgt_len": round(tgt / pairs, 2),
            "valid_ppl": round(valid[-1], 4) if valid else None}


def result(a):
    entry = {"command": a.command, "program": a.of, "texts": a.texts, "model": a.model,
             "device": a.device, "updates": a.steps, "tokens": a.tokens}
    run = of_heed(a.row)
    stem = a.row
    if a.of == "peer":
        stem += ".peer"
        peer = json.loads(pathlib.Path(f"{stem}.json").read_text(encoding="utf-8"))
        run.update(parameters=peer["parameters"], seconds=peer["train_seconds"], valid_ppl=None)
    entry.update(run)
    config = json.loads(pathlib.Path(f"{a.row}.run/config.json").read_text("utf-8"))["model"]
    entry["flops"] = flops(config, run["src_tokens"], run["tgt_tokens"], run["src_len"],
                           run["tgt_len"])
    entry["rate_tflops"] = a.rate
    entry["flops_paper"] = run["seconds"] * a.rate * 1e12
    entry["chosen"] = {"beam": int(a.chosen[0]), "alpha": float(a.chosen[1])}
    if a.of == "heed":
        entry["grid"] = [[float(x) for x in line.split()] for line in lines(f"{a.row}.grid")]
        entry["alone"] = json.loads(lines(f"{a.row}.alone.json")[0])["score"]
    entry["scores"] = {}
    for test in a.tests:
        found = [json.loads(x) for x in lines(f"{stem}.{test}.json")]
        entry["scores"][test] = {x["name"]: x["score"] for x in found}
    json.dump(entry, sys.stdout, indent=1)
    print()


def rate(_):
    print(json.loads(sys.stdin.readline())["gemm_tflops"])


def plain(a):
    with lzma.open(a.file) as f:
        shutil.copyfileobj(f, sys.stdout.buffer)


def spoken(a):
    text = "\n".join(lines(a.log))
    size = float(re.search(r"([0-9.]+) M parameters", text)[1])
    took = float(re.search(r"trained [0-9]+ steps in ([0-9.]+) s", text)[1])
    print(json.dumps({"parameters": round(size * 1e6), "train_seconds": took}))


# ---- the section --------------------------------------------------------------------------------


def big(x):
    """3.3·10¹⁸"""
    mantissa, exponent = f"{x:.1e}".split("e")
    return mantissa + "·10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(x)] for x in str(int(exponent)))


def clock(seconds):
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def paper_table():
    out = ["| model | BLEU en-de | en-fr | training | the paper's estimate | counted | of it |",
           "|---|---:|---:|---|---:|---:|---:|"]
    for name, p in PAPER.items():
        mean = 25  # tokens of a sentence, more or less
        work = flops(SHAPES[name], 25000 * p["updates"], 25000 * p["updates"], mean, mean)
        estimate = p["hours"] * 3600 * GPUS * P100 * 1e12
        out.append(f"| {name} | {p['en-de']} | {p['en-fr']} | {p['updates']:,} updates, "
                   f"{p['hours']} h on {GPUS} GPUs | {big(estimate)} | {big(work)} | "
                   f"{100 * work / estimate:.0f} % |")
    return "\n".join(out)


def table(rows):
    tests = list(rows[0]["scores"])
    out = ["| model | program | parameters | updates × tokens | " +
           " | ".join(f"BLEU, {NAMES[t]}" for t in tests) +
           " | beam, α | time | the paper's estimate | counted |",
           "|---|---|---:|---:|" + "---:|" * len(tests) + "---|---:|---:|---:|"]
    for r in rows:
        scores = " | ".join(f"{r['scores'][t]['BLEU']:.1f}" for t in tests)
        search = f"{r['chosen']['beam']}, {r['chosen']['alpha']}"
        out.append(f"| {r['model']} | {PROGRAMS[r['program']]}, {r['device']} | "
                   f"{r['parameters'] / 1e6:.1f} M | {r['updates']:,} × {r['tokens']:,} | "
                   f"{scores} | {search} | {clock(r['seconds'])} | "
                   f"{big(r['flops_paper'])} | {big(r['flops'])} |")
    return "\n".join(out)


def choice(r):
    grid = ", ".join(f"{b:.0f}/{alpha:g}: {bleu:.1f}" if b > 1 else f"greedy: {bleu:.1f}"
                     for b, alpha, bleu in r["grid"])
    plain = next((bleu for b, alpha, bleu in r["grid"] if (b, alpha) == (4, 0.6)), None)
    text = f"{r['model']}, {r['updates']:,} updates: {grid}."
    if plain is not None:
        text += (f" The last checkpoint without averaging has {r['alone']:.1f} at 4/0.6, "
                 f"{plain - r['alone']:+.1f} by averaging.")
    return "- " + text


def section(files):
    rows = sorted(files.values(), key=lambda r: (MODELS.index(r["model"]), r["updates"],
                                                 r["program"]))
    rates = ", ".join(f"{rate:.3g} TFLOP/s ({device})" for device, rate in
                      sorted({r["device"]: r["rate_tflops"] for r in rows}.items()))
    out = [f"""What the paper has, on WMT 2014. Its estimate of the cost is time × number of GPUs
× {P100} TFLOP/s, which it takes a P100 to sustain in single precision: what the machines could have
done meanwhile. Counted are the operations that the model needs for so many updates of 25,000 source
and 25,000 target tokens: matrix products and attention, forward, and twice as many backward. The
rest is time in which the machines waited for memory or each other, or did something else.""",
           paper_table(),
           f"""Ours, in the same two ways, with {rates} as the rate. Weights are the mean of the
last five checkpoints; beam and α are those with the best BLEU on validation text, as the paper
chose its own. BLEU is `heed eval`'s (sacreBLEU's, cased, 13a); the paper's is tokenised, which
gives a little more. Rows of PyTorch are the same model on the same texts, pieces and updates
(`recipes/paper/peer.py`), with heed's beam and α. Texts and updates are fewer than the paper's:
compare rows with each other."""]
    if any(r["flops"] > r["flops_paper"] for r in rows):
        out.append("""Where more was counted than estimated, products ran in bf16 on tensor units,
of which the rate in single precision knows nothing: the paper's way has aged.""")
    missing = []
    for texts, title in TEXTS.items():
        found = [r for r in rows if r["texts"] == texts]
        left = [m for m in MODELS if m not in {r["model"] for r in found}]
        if left:
            missing.append(f"{texts} {', '.join(left)}")
        if not found:
            continue
        out.append(f"### {title}\n\n{table(found)}")
        grids = [choice(r) for r in found if "grid" in r]
        if grids:
            out.append("BLEU of validation text by beam/α:\n\n" + "\n".join(grids))
        out += [r["note"] for r in found if "note" in r]
    if missing:
        out.append(f"Not run yet: {'; '.join(missing)}.")
    if not any(r["program"] == "peer" for r in rows):
        out.append("No row of PyTorch has been run yet.")
    return "\n\n".join(out)


def chosen(args):
    found = json.loads(pathlib.Path(args.file).read_text(encoding="utf-8"))["chosen"]
    print(found["beam"], found["alpha"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("result")
    one.add_argument("row")
    for name in ("of", "texts", "model", "device", "command"):
        one.add_argument("--" + name, required=True)
    for name in ("steps", "tokens"):
        one.add_argument("--" + name, type=int, required=True)
    one.add_argument("--rate", type=float, required=True)
    one.add_argument("--chosen", nargs=2, required=True)
    one.add_argument("--tests", nargs="+", required=True)
    one.set_defaults(run=result)
    commands.add_parser("rate").set_defaults(run=rate)
    for name, argument, run in (("spoken", "log", spoken), ("plain", "file", plain),
                                ("chosen", "file", chosen)):
        two = commands.add_parser(name)
        two.add_argument(argument)
        two.set_defaults(run=run)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""questions_run.py — experiments on questions that readers of the paper ask: tables for `heed
sweep`, what a sweep cannot measure, and the results of all in one file. questions.sh calls it,
questions.py makes the page.

    questions_run.py data --out DIR [--data DIR] [--smoke]       texts, vocabulary, parts of them
    questions_run.py names                                       the questions
    questions_run.py plan NAME --work DIR [--size S] > NAME.json    the table of one question
    questions_run.py extra --work DIR                            measures that need trained models
    questions_run.py collect --work DIR [--size S] > questions.json

--size small (the default) is what a CPU does in a minute or two a row, on the short sentences in
demo/; full is what a GPU does on the texts of data.sh; smoke is to see that everything works.
"""
import argparse
import array
import json
import lzma
import math
import pathlib
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]

SIZES = {
    "smoke": {"steps": 12, "tokens": 300, "warmup": 10, "n_layer": 1, "d_model": 16, "d_ff": 32,
              "n_head": 2, "dropout": 0.1, "max_len": 64, "max_length": 64},
    "small": {"steps": 1000, "tokens": 1024, "warmup": 400, "n_layer": 2, "d_model": 64,
              "d_ff": 256, "n_head": 4, "dropout": 0.1, "max_len": 64, "max_length": 64},
    "full": {"steps": 20000, "tokens": 8000, "warmup": 4000, "n_layer": 6, "d_model": 512,
             "d_ff": 2048, "n_head": 8, "dropout": 0.1, "max_len": 256, "max_length": 128},
}
PARTS = (1, 2, 4, 8, 16)  # the text, half of it, ...


def text(path):
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def find(folder, name):
    for suffix in ("", ".xz"):
        if (folder / (name + suffix)).exists():
            return folder / (name + suffix)
    sys.exit(f"questions_run.py: {folder}/{name} is not there, nor is it with .xz")


def data(args):
    """Texts under --out: train and its parts, valid, test, long; bpe.model."""
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    demo = TREE / "demo"
    source = {"train": (demo, "train"), "valid": (demo, "valid"), "test": (demo, "heldout"),
              "long": (demo, "tatoeba")}
    if args.data:
        folder = pathlib.Path(args.data)
        source = {name: (folder, "test" if name == "long" else name) for name in source}
    for name, (folder, stem) in source.items():
        for side in ("en", "de"):
            lines = text(find(folder, f"{stem}.{side}"))
            if args.smoke:
                lines = lines[:1600 if name == "train" else 20]
            parts = PARTS if name == "train" else (1,)
            for part in parts:
                to = out / (f"{name}.{side}" if part == 1 else f"{name}-{part}.{side}")
                to.write_text("\n".join(lines[::part]) + "\n", encoding="utf-8")
    model = out / "bpe.model"
    if args.data and find(pathlib.Path(args.data), "bpe.model"):
        model.write_bytes(find(pathlib.Path(args.data), "bpe.model").read_bytes())
    elif not model.exists():
        subprocess.run([args.heed, "vocab", "--input", str(out / "train.en"),
                        str(out / "train.de"), "--size", "300" if args.smoke else "2000", "--out",
                        str(model), "--quiet"], check=True)


def shortest(base):
    """The longest sentence of those who see only short ones."""
    return base["max_length"] // (8 if base["steps"] > 100 else 2)


def rows_of(name, base):
    """The rows of a question's table: name, and what differs from base. The row that is base itself
    is left out: it is base.1 of the table "base"."""
    d, steps, head = base["d_model"], base["steps"], base["d_model"] // base["n_head"]
    if name == "base":
        return [("base", {}, [1, 2, 3] if steps > 100 else [1])]
    if name == "mask":
        return [("none", {"mask": "none"})]
    if name == "scale":
        # one head, so that its width can grow without other products growing along
        return [(f"dk{k}-{scale}", {"n_head": 1, "d_k": k, "d_v": head, "score_scale": scale})
                for k in (d // 8, d, 8 * d) for scale in ("sqrt", "one")]
    if name == "positions":
        # trained on short sentences only, or on all; tested on sentences of every length
        short = shortest(base)
        return [("sinusoidal-short", {"max_length": short}),
                ("learned-short", {"positions": "learned", "max_length": short}),
                ("learned-all", {"positions": "learned"})]
    if name == "warmup":
        scale = base["warmup"] / 4000  # the paper's, in a run of its length
        # no warm-up, and the highest rate that the paper's warm-up reaches
        low = ("w0-low", {"warmup": 0, "lr_scale": round(
            base.get("lr_scale", 1) * base["warmup"] ** -0.5, 6)})
        return [(f"w{paper}", {"warmup": round(paper * scale)})
                for paper in (0, 500, 16000)] + [low]
    if name == "smoothing":
        return [(f"eps{eps}", {"label_smoothing": eps}) for eps in (0.0, 0.2, 0.4)]
    if name == "heads":
        return [(f"h{h}", {"n_head": h}) for h in (1, 2, 4, 8, 16, 32)
                if d % h == 0 and h != base["n_head"]]
    if name == "data":
        sizes = [("narrow", {"d_model": d // 2, "d_ff": base["d_ff"] // 2}), ("base", {}),
                 ("wide", {"d_model": 2 * d, "d_ff": 2 * base["d_ff"]})]
        return [(f"{label}-{part}", dict(change, part=part)) for label, change in sizes
                for part in PARTS if change or part > 1]
    if name == "norm":
        depths = (1, 2) if steps < 100 else (2, 6, 12)
        low = {"norm": "post", "lr_scale": base.get("lr_scale", 1) / 4}  # does a lower rate help?
        return [(f"{norm}-{depth}", {"norm": norm, "n_layer": depth}) for depth in depths
                for norm in ("post", "pre") if norm == "pre" or depth != base["n_layer"]] + \
            [(f"low-{depth}", dict(low, n_layer=depth)) for depth in depths]
    if name == "dropout":
        return [(f"drop{p}", {"dropout": p}) for p in (0.0, 0.3)]
    sys.exit(f"questions_run.py: there is no question '{name}'")


# those first whose models are looked into afterwards (extra)
NAMES = ("base", "mask", "positions", "dropout", "warmup", "smoothing", "heads", "scale", "norm",
         "data")


def size_of(args):
    base = dict(SIZES[args.size])
    if args.steps:  # the paper's learning rates over fewer updates: as high, not as long
        base.update(steps=args.steps, warmup=args.steps // 5,
                    lr_scale=round((args.steps / 20000) ** 0.5, 6))
    return base


def plan(args):
    base = size_of(args)
    folder = pathlib.Path(args.work) / "data"
    steps = base["steps"]
    common = dict(
        base, preset="tiny", label_smoothing=0.1, valid_src=str(folder / "valid.en"),
        valid_tgt=str(folder / "valid.de"), tokenizer=str(folder / "bpe.model"),
        cache=str(pathlib.Path(args.work) / "cache"), log_every=max(1, steps // 100),
        valid_every=max(1, steps // 20), save_every=max(1, steps // 2), keep=1)
    if args.size != "full":
        common["threads"] = 1
    rows = []
    wanted = rows_of(args.name, base)
    for label, change, *seeds in wanted[:2] if args.size == "smoke" else wanted:
        part = change.pop("part", 1)
        suffix = "" if part == 1 else f"-{part}"
        train = dict(change, src=[str(folder / f"train{suffix}.en")],
                     tgt=[str(folder / f"train{suffix}.de")])
        row = {"name": label, "train": train}
        if seeds:
            row["seeds"] = seeds[0]
        rows.append(row)
    table = {"out": str(pathlib.Path(args.work) / args.name), "train": common, "average": 0,
             "tidy": args.name != "base", "rows": rows}  # step_extra goes on with base
    if args.name != "mask":  # a model that was trained to look ahead cannot write
        table["translate"] = {"beam": 4, "threads": 1} if args.size != "full" else {"beam": 4}
        table["tests"] = [{"name": "test", "src": str(folder / "test.en"),
                           "ref": str(folder / "test.de")}]
    json.dump(table, sys.stdout, indent=1)
    print()


# ---- what a sweep does not measure --------------------------------------------------------------

CAT = "The cat chased its tail."


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True,
                          text=True).stdout


def mask_extra(args, work):
    """The model that was trained without the mask, asked to write: a copy of it that has one."""
    copy = work / "mask" / "masked"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for name in ("model.safetensors", "tokenizer.model", "config.json"):
        shutil.copy(work / "mask" / "none" / name, copy)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config.get("model", config)["mask"] = "causal"
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    out = work / "mask" / "masked.txt"
    run(args.heed, "translate", "--model", copy, "--output", out, "--quiet", "--threads", 1,
        work / "data" / "test.en")
    scores = [json.loads(x) for x in run(args.heed, "eval", "--ref", work / "data" / "test.de",
                                         "--hyp", out, "--json").splitlines()]
    return {"bleu": next(x["score"] for x in scores if x["name"] == "BLEU"),
            "examples": list(zip(text(work / "data" / "test.en"), text(out)))[:3]}


LENGTHS = (4, 6, 8, 10, 12, 16, 24)


def positions_extra(args, work):
    """Nats per target token by the target's length, of each model, on test and long together."""
    src, tgt = work / "positions" / "all.en", work / "positions" / "all.de"
    for path, side in ((src, "en"), (tgt, "de")):
        path.write_text("".join("\n".join(text(work / "data" / f"{name}.{side}")) + "\n"
                                for name in ("test", "long")), encoding="utf-8")
    out = {}
    for name, run_of in (("sinusoidal-all", work / "base" / "base.1"),
                         *((p.name, p) for p in sorted((work / "positions").iterdir())
                           if (p / "model.safetensors").exists())):
        sums = {}
        for line in run(args.heed, "score", "--model", run_of, "--src", src, "--tgt", tgt,
                        "--token-scores", "--skip-long", "--quiet", "--threads", 1).splitlines():
            if "\t" not in line:
                continue
            tokens = [float(x) for x in line.split("\t")[1].split()]
            if not tokens or any(math.isnan(x) for x in tokens):
                continue
            at = next((n for n in LENGTHS if len(tokens) <= n), 99)
            s = sums.setdefault(at, [0, 0])
            s[0] -= sum(tokens)
            s[1] += len(tokens)
        out[name] = {str(n): [s[0] / s[1], s[1]] for n, s in sorted(sums.items())}
    return out


def cat_extra(args, work):
    """What "its" looks at in each encoder layer, the mean of the heads, in words; and the head that
    looks most at "cat"."""
    models = {"dropout 0.1": work / "base" / "base.1"}
    for seed in (2, 3):
        if (work / "base" / f"base.{seed}" / "model.safetensors").exists():
            models[f"the same, seed {seed}"] = work / "base" / f"base.{seed}"
    for name in ("drop0.0", "drop0.3"):
        if (work / "dropout" / name / "model.safetensors").exists():
            models[f"dropout {name[4:]}"] = work / "dropout" / name
    if args.model:
        models[pathlib.Path(args.model).name] = args.model
    out = {}
    for name, model in models.items():
        to = work / "cat.json"
        run(args.heed, "attend", "--model", model, "--src", CAT, "--kind", "enc", "--out", to,
            "--quiet", "--threads", 1)
        kind = json.loads(to.read_text(encoding="utf-8"))["kinds"][0]
        word, words = [], []
        for piece in kind["key"]:
            if piece.startswith("\u2581") or not words or piece in (".", "</s>"):
                words.append("")
            words[-1] += piece.lstrip("\u2581")
            word.append(len(words) - 1)
        rows = [i for i, w in enumerate(word) if words[w] == "its"]
        heads = {}
        for layer, found in enumerate(kind["probs"]):
            for head, p in enumerate(found):
                row = heads[layer, head] = [0.0] * len(words)
                for i in rows:
                    for j, x in enumerate(p[i]):
                        row[word[j]] += x / len(rows)
        n_head = len(kind["probs"][0])
        layers = [[sum(heads[layer, head][j] for head in range(n_head)) / n_head
                   for j in range(len(words))] for layer in range(len(kind["probs"]))]
        best = max(heads, key=lambda at: heads[at][words.index("cat")])
        out[name] = {"words": words, "layers": layers,
                     "sharpest": {"layer": best[0] + 1, "head": best[1] + 1,
                                  "cat": heads[best][words.index("cat")]}}
    return out


def tensors(path):
    """{name: array of f32} of a safetensors file."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    out = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            out[name] = array.array("f", raw[8 + size + begin:8 + size + end])
    return out


def change(before, after):
    out = {}
    for name, a in before.items():
        b = after[name]
        norm = math.sqrt(sum(x * x for x in a))
        moves = [abs(y - x) for x, y in zip(a, b)]
        size = math.sqrt(sum(m * m for m in moves))
        out[name] = {"n": len(a), "norm": norm, "change": size,
                     "moved": sum(m > 0 for m in moves) / len(a), "most": max(moves)}
    return out


def rate(log):
    return [json.loads(line) for line in open(log, encoding="utf-8") if '"lr"' in line][-1]["lr"]


def step_extra(args, work):
    """One update at the beginning and one at the end of base's training, tensor by tensor."""
    config, base = work / "base" / "base.1.json", work / "base" / "base.1"
    steps = json.loads(config.read_text(encoding="utf-8"))["steps"]
    folder = work / "step"
    common = (args.heed, "train", "--config", config, "--quiet", "--log-every", 1)
    for name, extra in (("start", ("--steps", 1, "--lr-scale", 1e-9)), ("first", ("--steps", 1))):
        run(*common, "--overwrite", "--out", folder / name, *extra)
    shutil.rmtree(folder / "late", ignore_errors=True)
    shutil.copytree(base, folder / "late")
    run(*common, "--out", folder / "late", "--steps", steps + 1)
    read = {name: tensors(max(path.glob("ckpt-*")) / "model.safetensors") for name, path in
            (("start", folder / "start"), ("first", folder / "first"), ("base", base),
             ("late", folder / "late"))}
    return {"first": {"step": 1, "lr": rate(folder / "first" / "log.jsonl"),
                      "tensors": change(read["start"], read["first"])},
            "late": {"step": steps + 1, "lr": rate(folder / "late" / "log.jsonl"),
                     "tensors": change(read["base"], read["late"])}}


def extra(args):
    work = pathlib.Path(args.work)
    for name, measure in (("mask", mask_extra), ("positions", positions_extra),
                          ("cat", cat_extra), ("step", step_extra)):
        # where only what came of a run was brought along, what was measured then stays
        needs = work / ("mask/none" if name == "mask" else "base/base.1") / "model.safetensors"
        if not needs.exists() or name == "positions" and not (work / name).exists():
            continue
        (work / f"{name}-extra.json").write_text(json.dumps(measure(args, work)), encoding="utf-8")


# ---- results ------------------------------------------------------------------------------------


def short(value):
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: short(v) for k, v in value.items()}
    return [short(v) for v in value] if isinstance(value, list) else value


def row_of(folder, result):
    """A row's figures, and its curves at some 20 points."""
    log = [json.loads(x) for x in open(folder / result["name"] / "log.jsonl", encoding="utf-8")]
    train = [x for x in log if "grad_norm" in x]
    every = max(1, len(train) // 20)
    valid = [x for x in log if "valid_nll" in x]
    out = {"ppl": result["valid_ppl"], "parameters": result["parameters"],
           "seconds": result["seconds"], "steps": result["steps"],
           "valid": [[x["step"] for x in valid], [x["valid_nll"] for x in valid]],
           "train": [[x["step"] for x in train[::every]], [x["nll"] for x in train[::every]],
                     [x["grad_norm"] for x in train[::every]]]}
    if result.get("scores"):
        out["bleu"] = result["scores"]["test"]["BLEU"]
    return out


def collect(args):
    work = pathlib.Path(args.work)
    found = {}
    for name in NAMES:
        path = work / name / "results.json"
        if not path.exists():
            continue
        kept = {r["name"] for r in json.loads((work / f"{name}.json").read_text())["rows"]}
        results = json.loads(path.read_text(encoding="utf-8"))
        rows = {r["name"]: row_of(work / name, r) for r in results
                if r["name"] in kept or name == "base"}
        if rows:
            found[name] = {"rows": rows}
    for name in ("mask", "positions", "cat", "step"):
        path = work / f"{name}-extra.json"
        if path.exists():
            found.setdefault(name, {})["extra"] = json.loads(path.read_text(encoding="utf-8"))
    size = size_of(args)
    base = dict(size, short=shortest(size))
    json.dump(short({"command": args.command, "size": args.size, "base": base,
                     "questions": found}), sys.stdout, ensure_ascii=False)
    print()


def names(_):
    print("\n".join(NAMES))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--work", required=True)
    common.add_argument("--size", choices=SIZES, default="small")
    common.add_argument("--steps", type=int, default=0)
    common.add_argument("--heed", default="build/heed")
    one = commands.add_parser("data")
    one.add_argument("--out", required=True)
    one.add_argument("--data", default="")
    one.add_argument("--heed", default="build/heed")
    one.add_argument("--smoke", action="store_true")
    one.set_defaults(run=data)
    two = commands.add_parser("plan", parents=[common])
    two.add_argument("name", choices=NAMES)
    two.set_defaults(run=plan)
    commands.add_parser("names").set_defaults(run=names)
    three = commands.add_parser("extra", parents=[common])
    three.add_argument("--model", default="")
    three.set_defaults(run=extra)
    four = commands.add_parser("collect", parents=[common])
    four.add_argument("--command", default="recipes/paper/questions.sh")
    four.set_defaults(run=collect)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

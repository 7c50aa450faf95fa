#!/usr/bin/env python3
"""questions.py — experiments on questions that readers of the paper ask: their tables for `heed
sweep`, and the page of what came out.

    questions.py data --out DIR [--data DIR] [--smoke]          texts, vocabulary, parts of the text
    questions.py plan NAME --work DIR [--size S] > NAME.json    the table of one question
    questions.py names [--size S]                               the questions, cheapest first

--size small (the default) is what a CPU does in a minute or two a row, on the short sentences in
demo/; full is what a GPU does on the texts of data.sh; smoke is to see that everything works.
"""
import argparse
import json
import lzma
import pathlib
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
    sys.exit(f"questions.py: {folder}/{name} is not there, nor is it with .xz")


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


def rows_of(name, base):
    """The rows of a question's table: name, and what differs from base. The row that is base itself
    is left out: it is base.1 of the table "base"."""
    d, steps, head = base["d_model"], base["steps"], base["d_model"] // base["n_head"]
    if name == "base":
        return [("base", {}, [1, 2, 3])]
    if name == "mask":
        return [("none", {"mask": "none"})]
    if name == "scale":
        # one head, so that its width can grow without other products growing along
        return [(f"dk{k}-{scale}", {"n_head": 1, "d_k": k, "d_v": head, "score_scale": scale})
                for k in (d // 8, d, 8 * d) for scale in ("sqrt", "one")]
    if name == "positions":
        # trained on short sentences only, or on all; tested on sentences of every length
        short = base["max_length"] // 8
        return [("sinusoidal-short", {"max_length": short}),
                ("learned-short", {"positions": "learned", "max_length": short}),
                ("learned-all", {"positions": "learned"})]
    if name == "warmup":
        scale = base["warmup"] / 4000  # the paper's, in a run of its length
        return [(f"w{paper}", {"warmup": round(paper * scale)}) for paper in (0, 500, 16000)]
    if name == "smoothing":
        return [(f"eps{eps}", {"label_smoothing": eps}) for eps in (0.0, 0.2, 0.4)]
    if name == "heads":
        return [(f"h{h}", {"n_head": h}) for h in (1, 2, 4, 8, 16, 32)
                if d % h == 0 and h != base["n_head"]]
    if name == "data":
        sizes = [("narrow", {"d_model": d // 2, "d_ff": base["d_ff"] // 2}), ("base", {}),
                 ("wide", {"d_model": 2 * d, "d_ff": 2 * base["d_ff"]})]
        return [(f"{label}-{part}", dict(change, part=part)) for label, change in sizes
                for part in (PARTS if steps > 10000 else PARTS[::2]) if change or part > 1]
    if name == "norm":
        depths = (1, 2) if steps < 100 else (2, 6, 12)
        return [(f"{norm}-{depth}", {"norm": norm, "n_layer": depth}) for depth in depths
                for norm in ("post", "pre") if norm == "pre" or depth != base["n_layer"]]
    if name == "dropout":
        return [(f"drop{p}", {"dropout": p}) for p in (0.0, 0.3)]
    sys.exit(f"questions.py: there is no question '{name}'")


NAMES = ("base", "mask", "warmup", "smoothing", "dropout", "positions", "heads", "scale", "norm",
         "data")


def plan(args):
    base = SIZES[args.size]
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
    for label, change, *seeds in rows_of(args.name, base):
        part = change.pop("part", 1)
        suffix = "" if part == 1 else f"-{part}"
        train = dict(change, src=[str(folder / f"train{suffix}.en")],
                     tgt=[str(folder / f"train{suffix}.de")])
        row = {"name": label, "train": train}
        if seeds:
            row["seeds"] = seeds[0]
        rows.append(row)
    table = {"out": str(pathlib.Path(args.work) / args.name), "train": common, "average": 0,
             "rows": rows}
    if args.name != "mask":  # a model that was trained to look ahead cannot write
        table["translate"] = {"beam": 4, "threads": 1} if args.size != "full" else {"beam": 4}
        table["tests"] = [{"name": "test", "src": str(folder / "test.en"),
                           "ref": str(folder / "test.de")}]
    json.dump(table, sys.stdout, indent=1)
    print()


def names(_):
    print("\n".join(NAMES))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("data")
    one.add_argument("--out", required=True)
    one.add_argument("--data", default="")
    one.add_argument("--heed", default="build/heed")
    one.add_argument("--smoke", action="store_true")
    one.set_defaults(run=data)
    two = commands.add_parser("plan")
    two.add_argument("name", choices=NAMES)
    two.add_argument("--work", required=True)
    two.add_argument("--size", choices=SIZES, default="small")
    two.set_defaults(run=plan)
    three = commands.add_parser("names")
    three.set_defaults(run=names)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

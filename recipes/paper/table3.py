#!/usr/bin/env python3
"""table3.py — the paper's Table 3 as a table for `heed sweep`, and its section of the report.

    table3.py plan --data DIR --out DIR [--size SIZE] [--steps N] [--tokens N]  > table3.json
    table3.py result table3.json RESULTS --size SIZE --command TEXT [--heed PROGRAM]
    table3.py chart FILE          for `heed plot`: validation perplexity of a result's rows while
                                  they were trained; nothing where it is not known

The plan has a row for each of the paper's, with its numbers; base has several seeds, which show how
much of a difference is chance. DIR has train.{en,de}, valid.{en,de} and test.{en,de}, plain or
compressed, and bpe.model (recipes/paper/data.sh makes it). All rows see the same text in the same
number of updates. Sizes: `paper` is the paper's; `small` has a quarter of its widths and half of
its layers, for a CPU; `smoke` an eighth and half, and two seeds, to see that everything works, not
what comes out.

The result has what `heed sweep` found and, where the program is given, the time of an update by
`heed bench train`: that of a run says little where a machine does something else besides.

The section (see report.py) sets our figures beside the paper's. Absolute figures cannot be
compared, since the data are others: it compares differences from base, and their order within each
group (Spearman's rank correlation).
"""
import argparse
import json
import pathlib
import subprocess
import sys

# name, group, what differs from base, and the paper's perplexity and BLEU on its development set
# (newstest2013) and millions of parameters.
BASE = {"n_layer": 6, "d_model": 512, "d_ff": 2048, "n_head": 8, "d_k": 64, "d_v": 64,
        "dropout": 0.1, "label_smoothing": 0.1}
ROWS = [
    ("base", "", {}, 4.92, 25.8, 65),
    ("A-h1", "A", {"n_head": 1, "d_k": 512, "d_v": 512}, 5.29, 24.9, 65),
    ("A-h4", "A", {"n_head": 4, "d_k": 128, "d_v": 128}, 5.00, 25.5, 65),
    ("A-h16", "A", {"n_head": 16, "d_k": 32, "d_v": 32}, 4.91, 25.8, 65),
    ("A-h32", "A", {"n_head": 32, "d_k": 16, "d_v": 16}, 5.01, 25.4, 65),
    ("B-dk16", "B", {"d_k": 16}, 5.16, 25.1, 58),
    ("B-dk32", "B", {"d_k": 32}, 5.01, 25.4, 60),
    ("C-N2", "C", {"n_layer": 2}, 6.11, 23.7, 36),
    ("C-N4", "C", {"n_layer": 4}, 5.19, 25.3, 50),
    ("C-N8", "C", {"n_layer": 8}, 4.88, 25.5, 80),
    ("C-d256", "C", {"d_model": 256, "d_k": 32, "d_v": 32}, 5.75, 24.5, 28),
    ("C-d1024", "C", {"d_model": 1024, "d_k": 128, "d_v": 128}, 4.66, 26.0, 168),
    ("C-ff1024", "C", {"d_ff": 1024}, 5.12, 25.4, 53),
    ("C-ff4096", "C", {"d_ff": 4096}, 4.75, 26.2, 90),
    ("D-drop0", "D", {"dropout": 0.0}, 5.77, 24.6, 65),
    ("D-drop0.2", "D", {"dropout": 0.2}, 4.95, 25.5, 65),
    ("D-eps0", "D", {"label_smoothing": 0.0}, 4.67, 25.3, 65),
    ("D-eps0.2", "D", {"label_smoothing": 0.2}, 5.47, 25.7, 65),
    ("E-learned", "E", {"positions": "learned"}, 4.92, 25.7, 65),
    ("big", "", {"d_model": 1024, "d_ff": 4096, "n_head": 16, "d_k": 64, "d_v": 64,
                 "dropout": 0.3}, 4.33, 26.4, 213),
]
WIDTHS = ("d_model", "d_ff", "d_k", "d_v")
PART = {"paper": 1, "small": 4, "smoke": 8}  # of the paper's widths


def find(folder, name):
    for suffix in ("", ".xz", ".gz"):
        if (folder / (name + suffix)).exists():
            return str(folder / (name + suffix))
    sys.exit(f"table3.py: {folder}/{name} is not there, nor is it with .xz or .gz")


def plan(args):
    data = pathlib.Path(args.data)
    # The paper's learning rates over fewer updates: as high, not as long.
    warmup = args.warmup or max(200, args.steps // 5)
    common = {
        "src": [find(data, "train.en")], "tgt": [find(data, "train.de")],
        "valid_src": find(data, "valid.en"), "valid_tgt": find(data, "valid.de"),
        "tokenizer": find(data, "bpe.model"), "cache": str(pathlib.Path(args.out) / "cache"),
        "steps": args.steps, "tokens": args.tokens, "warmup": warmup,
        "lr_scale": round((warmup / 4000) ** 0.5, 6),
        "valid_every": max(1, args.steps // 10), "save_every": max(1, args.steps // 20),
        "log_every": max(1, args.steps // 100), "keep": 5, "max_length": 128, "max_len": 256,
    }
    common.update((name, json.loads(value)) for name, _, value in
                  (text.partition("=") for text in args.set))
    rows = []
    for name, group, change, *_ in ROWS:
        train = dict(BASE, **change)
        kept = ("d_k", "d_v") if args.head_width == "paper" else ()
        train.update({key: max(2, train[key] // PART[args.size]) for key in WIDTHS
                      if key not in kept})
        if args.size != "paper":
            train["n_layer"] //= 2
        row = {"name": name, "train": train}
        if group:
            row["group"] = group
        seeds = max(args.seeds, 2 if args.size == "smoke" else 3) if name == "base" else args.seeds
        if seeds > 1:
            row["seeds"] = list(range(1, seeds + 1))
        rows.append(row)
    json.dump({"out": args.out, "train": common, "average": 5, "tidy": True,
               "translate": {"beam": 4},
               "tests": [{"name": "test", "src": find(data, "test.en"),
                          "ref": find(data, "test.de")}], "rows": rows}, sys.stdout, indent=1)
    print()


def ranks(values):
    order = sorted(values)
    return [sum(i for i, v in enumerate(order) if v == x) / order.count(x) for x in values]


def spearman(a, b):
    """Of two rows of figures; None where one of them does not vary."""
    x, y = ranks(a), ranks(b)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    top = sum((p - mx) * (q - my) for p, q in zip(x, y))
    below = sum((p - mx) ** 2 for p in x) * sum((q - my) ** 2 for q in y)
    return top / below ** 0.5 if below else None


def mean(values):
    return sum(values) / len(values)


def measured(args, train, pieces):
    """Milliseconds of an update on sentences of twelve pieces: of processor time on a CPU."""
    shape = ("n_layer", "d_model", "d_ff", "n_head", "d_k", "d_v", "dropout", "label_smoothing",
             "positions", "dtype", "threads", "tokens")
    on_cpu = args.device.startswith("cpu")
    command = [args.heed, "bench", "train", "--json", "--length", "12", "--n-vocab", str(pieces),
               "--device", args.device, "--seconds", "2" if on_cpu else "0.5"]
    if not on_cpu and "dtype" not in train:
        command += ["--dtype", "bf16"]
    for key in shape:
        if key in train:
            command += ["--" + key.replace("_", "-"), str(train[key])]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    key = "cpu_ms_per_step" if on_cpu else "ms_per_step"
    return [x[key] for x in map(json.loads, lines) if key in x][0]


def curve(log):
    """[[updates, perplexity], ...] of the validations in a run's log."""
    if not log.exists():
        return []
    lines = [json.loads(x) for x in log.read_text(encoding="utf-8").splitlines()]
    return [[x["step"], round(x["valid_ppl"], 3)] for x in lines if "valid_ppl" in x]


def result(args):
    table = json.loads(pathlib.Path(args.table).read_text(encoding="utf-8"))
    rows = json.loads(pathlib.Path(args.results).read_text(encoding="utf-8"))
    for row in rows:
        run = pathlib.Path(table["out"]) / row["name"]
        row["curve"] = curve(run / "log.jsonl")
        if args.heed:
            model = json.loads((run / "config.json").read_text(encoding="utf-8"))["model"]
            row["ms"] = measured(args, row["train"], model["n_vocab_tgt"])
    json.dump({"command": args.command, "size": args.size, "average": table["average"],
               "device": args.device,
               "rows": rows}, sys.stdout, indent=1)
    print()


def chart(args):
    f = json.loads(pathlib.Path(args.file).read_text(encoding="utf-8"))
    runs, panels = {}, []
    for run in f["rows"]:
        if run.get("curve"):
            runs.setdefault(row_of(run), run["curve"])
    for letter in "ABCDE":
        names = [name for name, group, *_ in ROWS if name in runs and group in ("", letter)]
        if "base" in names and any(name[0] == letter for name in names):
            panels.append({"title": f"{letter}: perplexity", "scale": "log", "height": 240,
                           "curves": [dict(zip("xy", zip(*runs[name])), name=name)
                                      for name in names if letter == "C" or name != "big"]})
    if panels:
        json.dump({"title": f"Table 3: {TITLES[f['size']].lower()}", "x": "updates",
                   "panels": panels}, sys.stdout, indent=1)
        print()


def row_of(run):
    """The paper's row of a run: one with seeds is called ROW.SEED."""
    return run["name"].removesuffix(f".{run['train'].get('seed', '')}")


def rows_of(f):
    """The rows of a file by name, each with the mean of its seeds."""
    runs = {}
    for run in f["rows"]:
        runs.setdefault(row_of(run), []).append(run)
    return {name: dict(found[0], seeds=len(found),
                       ppls=(ppls := [r["valid_ppl"] for r in found]), ppl=mean(ppls),
                       bleus=(bleus := [r["scores"]["test"]["BLEU"] for r in found]),
                       bleu=mean(bleus)) for name, found in runs.items()}


def deviation(rows, key):
    """Standard deviation of the seeds of a row, of all rows that have several; None where none
    has."""
    squares = [(x - mean(r[key])) ** 2 for r in rows.values() for x in r[key]]
    free = sum(r["seeds"] - 1 for r in rows.values())
    return (sum(squares) / free) ** 0.5 if free else None


def noise(rows, key, name):
    """What a row differs from base by chance: twice the standard error of the difference."""
    found = deviation(rows, key)
    if found is None:
        return 0
    return 2 * found * (1 / rows[name]["seeds"] + 1 / rows["base"]["seeds"]) ** 0.5


def on_gpu(f):
    return not f.get("device", "cpu").startswith("cpu")


def time_of(row):
    if "ms" not in row:
        return f"{row['seconds']:.0f} s"
    if row["ms"] is None:
        return "–"
    return f"{row['ms']:.1f} ms" if row["ms"] < 20 else f"{row['ms']:.0f} ms"


def against(rows):
    """Rows that differ from base the other way than the paper's, by more than chance."""
    found = []
    for name, _, _, ppl, bleu, _ in ROWS:
        if name == "base" or name not in rows:
            continue
        for what, key, theirs, form in (("perplexity", "ppl", ppl - 4.92, "+.3f"),
                                        ("BLEU", "bleu", bleu - 25.8, "+.2f")):
            ours = rows[name][key] - rows["base"][key]
            if ours * theirs < 0 and abs(ours) > noise(rows, key + "s", name):
                found.append(f"{name} ({what} {ours:{form}}, the paper's {theirs:+.2f})")
    return found


WHAT = {
    "paper": "Widths, layers and heads are the paper's.",
    "small": "Widths are a quarter of the paper's and layers half as many (A-h32 has heads 4 wide, "
             "C-N2 a single layer), so that a CPU can train all of it in an afternoon; names are "
             "the paper's.",
    "smoke": "Widths are an eighth of the paper's: this shows that the recipe works.",
}


def correlations(f):
    """(group, rows, rank correlation of perplexity, of BLEU) with the paper's, of each group that
    has rows, then of all."""
    rows, groups = rows_of(f), {}
    for name, group, _, ppl, bleu, _ in ROWS:
        if name != "base" and name in rows:
            groups.setdefault(group, []).append((rows[name]["ppl"], ppl, rows[name]["bleu"], bleu))
    every = [x for found in groups.values() for x in found]
    base = (rows["base"]["ppl"], 4.92, rows["base"]["bleu"], 25.8)
    for group, found in [*((g, r) for g, r in groups.items() if g), ("all", every)]:
        table = list(zip(base, *found))
        yield group, len(table[0]), spearman(table[0], table[1]), spearman(table[2], table[3])


def ranked(x):
    return "-" if x is None else f"{x:.2f}"


def seeds_of(rows):
    """How many seeds rows have and how far these are apart, in words."""
    base, others = rows["base"], {r["seeds"] for name, r in rows.items() if name != "base"}
    if others == {base["seeds"]}:
        said = f"Every row is the mean of {base['seeds']} seeds"
    else:
        said = f"Base is the mean of {base['seeds']} seeds"
        for name, r in rows.items():
            if name != "base" and r["seeds"] > 1:
                said += f", {name} of {r['seeds']}"
    if deviation(rows, "ppls") is None:
        return said + "."
    name = min((n for n in rows if n != "base"), key=lambda n: rows[n]["seeds"], default="base")
    return (f"{said}. The standard deviation of seeds is {deviation(rows, 'ppls'):.3f} in "
            f"perplexity and {deviation(rows, 'bleus'):.2f} BLEU; differences from base of less "
            f"than two standard errors, {noise(rows, 'ppls', name):.3f} and "
            f"{noise(rows, 'bleus', name):.2f}, say nothing.")


def one_size(f):
    rows = rows_of(f)
    if "base" not in rows:
        sys.exit("table3.py: no row of base is finished")
    lines = []
    say = lines.append
    base = rows["base"]
    one = base["train"]
    drawn = ""
    if setting(f) == "each":
        drawn = " First weights of attention are drawn as `--attention-init each` says."
    say(f"{WHAT[f['size']]}{drawn} Every row is {one['steps']:,} updates of at most "
        f"{one['tokens']:,} tokens on the same text; perplexity is of the validation text, per "
        f"piece, and BLEU of the test text, by the mean of the last {f['average']} checkpoints. "
        "The data are not the paper's, so compare the differences from base (in brackets), not the "
        "figures themselves.\n")
    say(f"{seeds_of(rows)} Time is "
        + (f"{'that' if on_gpu(f) else 'the processor time'} of an update, measured afterwards.\n"
           if "ms" in base else
           "of the whole training.\n"))
    say("| row | parameters | perplexity | paper | BLEU | paper | time |")
    say("|---|---:|---:|---:|---:|---:|---:|")
    for name, _, _, ppl, bleu, _ in ROWS:
        r = rows.get(name)
        if name == "base":
            say(f"| base | {r['parameters'] / 1e6:.1f} M | {r['ppl']:.3f} | {ppl} | "
                f"{r['bleu']:.2f} | {bleu} | {time_of(r)} |")
        elif not r:
            say(f"| {name} | | not run | {ppl} | | {bleu} | |")
        else:
            say(f"| {name} | {r['parameters'] / 1e6:.1f} M | {r['ppl']:.3f} "
                f"({r['ppl'] - base['ppl']:+.3f}) | {ppl} ({ppl - 4.92:+.2f}) | {r['bleu']:.2f} "
                f"({r['bleu'] - base['bleu']:+.2f}) | {bleu} ({bleu - 25.8:+.1f}) | {time_of(r)} |")
    say("\nThe paper's figures are of newstest2013. Rank correlation of ours with the paper's, "
        "base among the rows of each group:\n")
    say("| group | rows | perplexity | BLEU |")
    say("|---|---:|---:|---:|")
    for group, n, *found in correlations(f):
        say(f"| {group} | {n} | {ranked(found[0])} | {ranked(found[1])} |")
    found = against(rows)
    if found:
        say("\nThe other way than in the paper, by more than that: " + "; ".join(found) + ".")
    return "\n".join(lines)


TITLES = {"small": "A quarter of the paper's width", "paper": "The paper's size",
          "smoke": "Toy size"}


def whole(f):
    return set(rows_of(f)) == {name for name, *_ in ROWS}


def setting(f):
    """How first weights of queries, keys and values were drawn: heed train --attention-init."""
    return f["rows"][0]["train"].get("attention_init", "joint")


def wide_heads(f):
    """Whether heads are as wide as the paper's in a model that is not (plan --head-width paper)."""
    one = f["rows"][0]["train"]
    return one["n_head"] * one["d_k"] > one["d_model"]


def steps_of(f):
    return f["rows"][0]["train"]["steps"]


def beside(a, b, heads):
    """Rows that two files have, one beside the other."""
    paper = {name: (ppl, bleu) for name, _, _, ppl, bleu, _ in ROWS}
    lines = [f"| row | perplexity, {heads[0]} | {heads[1]} | BLEU, {heads[0]} | {heads[1]} | "
             "the paper's |", "|---|---:|---:|---:|---:|---:|"]
    for name, (ppl, bleu) in paper.items():
        if name in a and name in b:
            lines.append(f"| {name} | {a[name]['ppl']:.3f} | {b[name]['ppl']:.3f} | "
                         f"{a[name]['bleu']:.2f} | {b[name]['bleu']:.2f} | {ppl}, {bleu} |")
    return lines


def same_way(f, name):
    """Whether a row's perplexity differs from base's as it does in the paper."""
    rows = rows_of(f)
    paper = {n: ppl for n, _, _, ppl, _, _ in ROWS}
    return (rows[name]["ppl"] - rows["base"]["ppl"]) * (paper[name] - 4.92) > 0


def turned(f, g):
    """Rows that differ from base as in the paper in g, and did not in f."""
    common = [n for n, *_ in ROWS if n != "base" and n in rows_of(f) and n in rows_of(g)]
    return ", ".join(n for n in common if same_way(g, n) and not same_way(f, n)) or "none"


def groups_beside(f, g, only="ABCDE"):
    """Rank correlations of perplexity in two files, in words."""
    a, b = ({group: found for group, _, found, _ in correlations(x)} for x in (f, g))
    return ", ".join(f"{group} {ranked(a[group])} and {ranked(b[group])}" for group in b
                     if group in a and group in only and b[group] is not None)


def first_weights(joint, each):
    """The table with the other kind of first weights."""
    a, b = rows_of(each), rows_of(joint)
    base = [x["base"]["ppl"] for x in (a, b)]
    return "\n".join([
        "### The same with other first weights", "",
        "heed used to draw first weights of queries, keys and values as those of three matrices "
        "(`--attention-init each`); the table above has the bound of one matrix of all three, the "
        "default since [parsing](#does-pytorch-learn-faster) showed that the others are too "
        "large. The first run of the table had the old ones:", "",
        *beside(a, b, ("each", "joint")), "",
        f"Base's perplexity is {100 * (1 - base[1] / base[0]):.0f} % lower with the new ones, "
        "after the same updates. Rows that differed from base the other way than in the paper and "
        f"no longer do: {turned(each, joint)}. Rank correlations of perplexity, each and joint: "
        f"{groups_beside(each, joint)}."])


def barely_begun(f):
    """Why depth may rank the other way; None where it does not."""
    rows = rows_of(f)
    names = ("C-N2", "base", "C-N8")
    if not set(names) <= set(rows):
        return None
    shallow, base, deep = (rows[n]["ppl"] for n in names)
    if not shallow < base < deep:
        return None
    one = rows["base"]["train"]
    share = round(100000 * 25000 / (one["steps"] * one["tokens"]), -1)
    return ("Why so much is the other way: this table has who began to learn first, not who ends "
            "best. Perplexity of such models stays in the hundreds for the first thousand updates "
            "and more, and the longer the deeper they are, the more heads they have, the narrower "
            f"their keys are and the more is dropped (2 layers: {shallow:.1f} at the end, 8: "
            f"{deep:.1f}). All of it is {one['steps']:,} updates of {one['tokens']:,} tokens, a "
            f"{share:.0f}th of what the paper's models saw. Smaller models get over that sooner: a "
            "quarter as wide (above) most of the order is the paper's.")


def narrow_heads(f):
    """Why group A may rank otherwise where all is narrow; None where it does not."""
    found = {group: x for group, _, x, _ in correlations(f)}
    rows = rows_of(f)
    if found.get("A", 1) >= 0.7 or not {"A-h32", "B-dk16"} <= set(rows) or f["size"] == "paper":
        return None
    base = rows["base"]["ppl"]
    less = [n for n, group, *_ in ROWS if group == "A" and n in rows and
            abs(rows[n]["ppl"] - base) <= noise(rows, "ppls", n)]
    width = rows["A-h32"]["train"]["d_k"]
    chance = (f"of {', '.join(less)} and base, the order is chance, since they differ by less than "
              "seeds do; and the heads" if len(less) > 1 else "the heads")
    return (f"Why group A ranks otherwise: {chance} of A-h32 are {width} wide here, 16 in the "
            f"paper. B-dk16 has keys of that width in 8 heads, and its perplexity is "
            f"{rows['B-dk16']['ppl'] - base:+.3f} (A-h32: "
            f"{rows['A-h32']['ppl'] - base:+.3f}), which suggests that keys so narrow are "
            "what costs, as the paper says of B, more than the number of heads.")


def heads_of_the_paper(narrow, wide):
    """Group A again with heads as wide as the paper's."""
    a, b = rows_of(narrow), rows_of(wide)
    names = [name for name, group, *_ in ROWS if group == "A" and name in a and name in b]
    paper = {name: (ppl - 4.92, bleu - 25.8) for name, _, _, ppl, bleu, _ in ROWS}
    lines = ["| row | heads | perplexity, narrow heads | the paper's width | the paper | "
             "BLEU, narrow heads | the paper's width | the paper |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name in names:
        one = b[name]["train"]
        cells = []
        for k, (key, form) in enumerate((("ppl", "+.3f"), ("bleu", "+.2f"))):
            cells += [f"{f[name][key] - f['base'][key]:{form}}" for f in (a, b)]
            cells.append(f"{paper[name][k]:{'+.2f' if k == 0 else '+.1f'}}")
        lines.append(f"| {name} | {one['n_head']} x {one['d_k']} | " + " | ".join(cells) + " |")
    base = [f["base"] for f in (a, b)]
    found = {group: x for group, _, *x in correlations(wide)}["A"]
    before = {group: x for group, _, *x in correlations(narrow)}["A"]
    seeds = b[names[0]]["seeds"]
    apart = [deviation(b if seeds > 1 else a, key) for key in ("ppls", "bleus")]
    chance = "" if None in apart else ", of which {:.2f} and {:.2f} may be chance".format(
        *(2 * x * (2 / seeds) ** 0.5 for x in apart))
    return "\n".join([
        "### Heads as wide as the paper's", "",
        "Group A once more, all else as in the first table, but with heads as many and as wide as "
        f"in the paper: {base[1]['train']['n_head']} of {base[1]['train']['d_k']} in base, where "
        f"the model is {base[1]['train']['d_model']} wide. So none of them is narrower than 16. "
        f"Every row is {'one run' if seeds == 1 else f'the mean of {seeds} seeds'}; base comes to "
        f"a perplexity of {base[1]['ppl']:.3f} and {base[1]['bleu']:.2f} BLEU "
        f"({base[0]['ppl']:.3f} and {base[0]['bleu']:.2f} with narrow heads). By how much rows "
        f"differ from their base{chance}:", "",
        *lines, "",
        f"Rank correlation with the paper's, base among them: perplexity {ranked(found[0])} "
        f"({ranked(before[0])} with narrow heads), BLEU {ranked(found[1])} ({ranked(before[1])})."
        + (" So group A is as in the paper once heads are as wide as there: what ranked it "
           "otherwise is how narrow they get in a small model, and one head alone is too few."
           if (found[0] or 0) >= 0.7 > (before[0] or 0) else "")])


def trained_longer(short, more):
    """Rows that were also trained for more updates."""
    ends = [f"{steps_of(f):,}" for f in (short, more)]
    a, b = rows_of(short), rows_of(more)
    lines = [f"| row | perplexity, {ends[0]} | {ends[1]} | the paper's | BLEU, {ends[0]} | "
             f"{ends[1]} | the paper's |", "|---|---:|---:|---:|---:|---:|---:|"]
    for name, _, _, ppl, bleu, _ in ROWS:
        if name == "base" or name not in a or name not in b:
            continue
        cells = [f"{f[name][key] - f['base'][key]:{form}}" for key, form in
                 (("ppl", "+.3f"), ("bleu", "+.2f")) for f in (a, b)]
        cells[2:2], cells[5:] = [f"{ppl - 4.92:+.2f}"], [f"{bleu - 25.8:+.1f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    base = [f"{f['base']['ppl']:.3f} and {f['base']['bleu']:.2f} BLEU" for f in (a, b)]
    said, ppl = [], {name: row["ppl"] for name, row in b.items()}
    if "C-N8" in b and ppl["C-N8"] < ppl["base"] and a["C-N8"]["ppl"] > a["base"]["ppl"]:
        said.append("Depth needs time: the deepest row is behind base at first and not in the end, "
                    "as in the paper.")
    if {"A-h1", "A-h16"} <= set(b) and ppl["A-h1"] < ppl["base"] < ppl["A-h16"]:
        width = [f"{b[n]['train']['d_k']}" for n in ("A-h1", "base", "A-h16")]
        said.append(f"Heads are another matter: one of them, {width[0]} wide, ends ahead of base, "
                    f"whose are {width[1]} wide, and {width[2]} wide ones end behind it. At this "
                    "width group A measures how narrow heads may be; whether one is too few it "
                    "does not show.")
    return "\n".join([
        "### Is the training too short?", "",
        f"Some rows again, with {ends[1]} updates in place of {ends[0]} (the learning rate's "
        "schedule stretched along, one seed each): by how much they differ from base, which comes "
        f"to a perplexity of {base[0]} after {ends[0]} and {base[1]} after {ends[1]}.", "", *lines,
        "",
        " ".join(said + ["Dropout and label smoothing pay once a model has seen its sentences "
                         "often, and how often decides how much of them is best: group D's rank "
                         f"correlation of perplexity: {groups_beside(short, more, 'D')}."])])


def section(files):
    parts = []
    for size in TITLES:
        names = {id(f): name for name, f in files.items() if f["size"] == size}
        found = [f for f in files.values() if id(f) in names]
        if not found:
            continue
        wide = [f for f in found if wide_heads(f)]
        found = [f for f in found if f not in wide]
        best = [f for f in found if whole(f) and setting(f) == "joint"] or \
            [f for f in found if whole(f)] or found or wide
        main_one = best[0]
        parts.append(f"### {TITLES[size]}\n\n{one_size(main_one)}")
        parts += [text for text in (main_one.get("note"), barely_begun(main_one),
                                    narrow_heads(main_one)) if text]
        if any(row.get("curve") for row in main_one["rows"]):
            parts.append(f"![perplexity of validation text while rows are trained]"
                         f"({names[id(main_one)]}.svg)")
        for f in found:
            more = steps_of(f) - steps_of(main_one)
            if f is main_one or "base" not in rows_of(f):
                continue
            if more == 0 and (setting(main_one), setting(f)) == ("joint", "each"):
                parts.append(first_weights(main_one, f))
            elif more > 0:
                parts.append(trained_longer(main_one, f))
        parts += [heads_of_the_paper(main_one, f) for f in wide
                  if steps_of(f) == steps_of(main_one) and "A-h1" in rows_of(main_one)]
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("plan")
    one.add_argument("--data", required=True)
    one.add_argument("--out", required=True)
    one.add_argument("--steps", type=int, default=8000)
    one.add_argument("--tokens", type=int, default=8000)
    one.add_argument("--warmup", type=int, help="updates of rising learning rate")
    one.add_argument("--size", choices=PART, default="paper")
    one.add_argument("--head-width", choices=("part", "paper"), default="part",
                     help="heads are as small a part of the paper's as the model, or as wide as "
                     "in the paper")
    one.add_argument("--seeds", type=int, default=1, help="of each row; base has three at least")
    one.add_argument("--set", action="append", default=[], metavar="NAME=JSON",
                     help="another option of heed train, for all rows")
    one.set_defaults(run=plan)
    two = commands.add_parser("result")
    two.add_argument("table")
    two.add_argument("results")
    two.add_argument("--size", choices=PART, default="paper")
    two.add_argument("--command", required=True)
    two.add_argument("--heed")
    two.add_argument("--device", default="cpu", help="for --heed, and what the rows ran on")
    two.set_defaults(run=result)
    three = commands.add_parser("chart")
    three.add_argument("file")
    three.set_defaults(run=chart)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""questions.py — the page of the readers' questions, from the results of questions.sh.

    questions.py charts RESULTS.json --out DIR      charts for `heed plot`, one or more a question

Numbers in the text come from the results, and so do words such as "lowest": where another run comes
out differently, the page says something else. report.py calls section().
"""
import argparse
import json
import math
import pathlib

GROUPS = (("embeddings", ("embed",)), ("attention", ("self.w", "cross.w")), ("ff", ("ff.w",)),
          ("biases", (".b_",)), ("norms", ("gamma", "beta")))


def ppl(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def best(rows):
    return min(rows, key=lambda name: rows[name]["ppl"])


def with_base(found, name, as_name):
    """The rows of a question and base among them, under the name that it would have there."""
    rows = dict(found.get(name, {}).get("rows", {}))
    if "base" in found:
        rows[as_name] = found["base"]["rows"]["base.1"]
    return rows


def table(rows, order, label, skip):
    """skip: characters of a row's name that say what all have in common."""
    lines = [f"| {label} | perplexity | BLEU |", "|---|---:|---:|"]
    for name in order:
        if name in rows:
            r = rows[name]
            bleu = f"{r['bleu']:.1f}" if "bleu" in r else "–"
            lines.append(f"| {name[skip:]} | {ppl(r['ppl'])} | {bleu} |")
    return lines


def noise(found):
    rows = found["base"]["rows"].values()
    ppl, bleu = [r["ppl"] for r in rows], [r["bleu"] for r in rows]
    return max(ppl) - min(ppl), max(bleu) - min(bleu)


def curves(rows, names, which=0):
    """Validation (0) or the gradient's norm (2) over updates, of each row that there is."""
    out = []
    for name in names:
        if name in rows:
            x, y = ((rows[name]["valid"][0], rows[name]["valid"][1]) if which == 0 else
                    (rows[name]["train"][0], rows[name]["train"][which]))
            out.append({"name": name, "x": x, "y": y})
    return out


def chart(title, x, *panels, x_scale="linear"):
    return {"title": title, "x": x, "x_scale": x_scale, "panels": list(panels)}


def panel(title, lines, scale="linear", height=230):
    return {"title": title, "scale": scale, "height": height, "curves": lines}


def points(name, xy):
    return {"name": name, "x": [x for x, _ in xy], "y": [y for _, y in xy], "marked": True}


# ---- one question each: (heading, text, charts) -------------------------------------------------


def mask(found, base):
    rows = with_base(found, "mask", "causal")
    none, causal = rows["none"], rows["causal"]
    extra = found["mask"].get("extra")
    text = [f"It keeps a word from being copied. Without the mask the decoder sees the word it has "
            f"to predict one place further on: after {none['steps']:,} updates it finds held-out "
            f"translations almost certain (perplexity {none['ppl']:.2f}, with the mask "
            f"{causal['ppl']:.2f}). The curve shows when it learnt to look."]
    if extra:
        source, written = extra["examples"][0]
        written = f'"{written}"' if written else "an empty line"
        text += ["", f"Asked to write, when there is nothing to copy yet, it scores "
                 f"{extra['bleu']:.1f} BLEU (with the mask {causal['bleu']:.1f}). \"{source}\" "
                 f"becomes {written}. `heed translate` refuses such a model; a copy of it with "
                 "`\"mask\": \"causal\"` in its config.json was asked here."]
    return ("What does the decoder's mask prevent?", text,
            {"mask": chart("Training with and without the decoder's mask", "updates",
                           panel("validation, nats a token", curves(rows, ("causal", "none"))))})


def scale(found, base):
    rows = found["scale"]["rows"]
    widths = sorted({int(n[2:].split("-")[0]) for n in rows})
    lines = ["| d_k | perplexity, divided | not divided | gradient's norm, divided | not |",
             "|---:|---:|---:|---:|---:|"]
    for k in widths:
        pair = [rows.get(f"dk{k}-{s}") for s in ("sqrt", "one")]
        if all(pair):
            norms = [sum(r["train"][2]) / len(r["train"][2]) for r in pair]
            lines.append(f"| {k} | {pair[0]['ppl']:.3g} | {pair[1]['ppl']:.3g} | {norms[0]:.2f} | "
                         f"{norms[1]:.2f} |")
    done = [k for k in widths if f"dk{k}-sqrt" in rows and f"dk{k}-one" in rows]
    text = ["One head in each attention, whose width d_k grows while nothing else does. The paper "
            "suspects that long keys make large products, which push softmax to where its gradient "
            "vanishes.", "", *lines]
    if done:
        loss = {k: math.log(rows[f"dk{k}-one"]["ppl"] / rows[f"dk{k}-sqrt"]["ppl"]) for k in done}
        worst = max(done, key=lambda k: loss[k])
        wide = f"At d_k = {done[-1]} leaving the division out costs {loss[done[-1]]:+.2f} nats a " \
               f"token, at d_k = {done[0]} {loss[done[0]]:+.2f}."
        text += ["", wide + (" The cost grows with d_k, as the paper has it." if
                             len(done) > 1 and worst == done[-1] and loss[worst] > 0.05 else
                             " **That the cost grows with d_k is not what this shows.**")]
    sides = [{"name": s, "x": done, "y": [math.log(rows[f"dk{k}-{t}"]["ppl"]) for k in done],
              "marked": True} for s, t in (("divided", "sqrt"), ("not divided", "one"))]
    return ("What if scores are not divided by √d_k?", text,
            {"scale": chart("Scores divided by the root of d_k or not", "d_k",
                            panel("validation, nats a token", sides), x_scale="log2")})


def positions(found, base):
    extra = found["positions"]["extra"]
    lengths = [n for n in extra["sinusoidal-all"] if extra["sinusoidal-all"][n][1] >= 100]
    short = base["short"]
    lines = ["| tokens of the translation | " + " | ".join(extra) + " |",
             "|---|" + "---:|" * len(extra)]
    for n in lengths:
        cells = [f"{extra[m][n][0]:.2f}" if n in extra[m] else "–" for m in extra]
        lines.append(f"| {'more' if n == '99' else 'up to ' + n} | " + " | ".join(cells) + " |")
    text = [f"Nats a token by length, of models that were trained on all lengths and of models "
            f"that saw at most {short} tokens in a sentence.", "", *lines]
    pair = [extra.get("sinusoidal-short"), extra.get("learned-short")]
    if all(pair):
        beyond = [n for n in lengths if int(n) > short]
        gap = {n: pair[1][n][0] - pair[0][n][0] for n in beyond}
        text += ["", "Within the training lengths the two kinds are as good as each other, as the "
                 "paper found. Beyond them learned positions are rows that were never trained: "
                 "their loss minus that of sinusoids is "
                 + ", ".join(f"{gap[n]:+.2f} ({'more' if n == '99' else 'up to ' + n})"
                             for n in beyond) + ". "
                 + ("So sinusoids extrapolate a little better just beyond what was seen, but "
                    "**neither extrapolates well**: both are far from the models that saw such "
                    "lengths." if any(g > 0.05 for g in gap.values()) else
                    "**Sinusoids do not extrapolate better here**: both are far from the models "
                    "that saw such lengths.")]
    name = {n: 30 if n == "99" else int(n) for n in lengths}
    lines = [points(m, [(name[n], extra[m][n][0]) for n in lengths if n in extra[m]])
             for m in extra]
    return ("Why are learned positions no better than sinusoids, and what beyond the training "
            "length?", text,
            {"positions": chart("Positions and length", "tokens of the translation (30: more)",
                                panel("nats a token", lines))})


def warmup(found, base):
    scale_of = base["warmup"] / 4000
    order = ("w0", "w500", "w4000", "w16000")
    rows = with_base(found, "warmup", "w4000")
    rate = base.get("lr_scale", 1) * base["d_model"] ** -0.5
    top = {n: rate * max(1, round(int(n[1:]) * scale_of)) ** -0.5 for n in order if n in rows}
    lines = ["| warm-up | here | highest learning rate | perplexity | BLEU |",
             "|---|---:|---:|---:|---:|"]
    for n in top:
        lines.append(f"| {int(n[1:]):,} | {round(int(n[1:]) * scale_of):,} | {top[n]:.4f} | "
                     f"{rows[n]['ppl']:.3g} | {rows[n]['bleu']:.1f} |")
    text = [f"Runs here are shorter than the paper's, and its warm-ups are scaled along "
            f"({base['warmup']:,} updates stand for 4,000).", "", *lines, "",
            f"Best: {int(best({n: rows[n] for n in top})[1:]):,}. A run without warm-up, or with "
            "little, goes wrong in its first updates and does not recover; a long warm-up learns "
            "well, and is merely not finished. But warm-up also sets the highest learning rate of "
            "the paper's schedule, so that two things change at once."]
    low = rows.get("w0-low")
    if low:
        text[-1] += (f" A run without warm-up whose rate begins at {top['w4000']:.4f}, the highest "
                     f"of 4,000, tells them apart: perplexity {low['ppl']:.3g}, BLEU "
                     f"{low['bleu']:.1f}. " +
                     ("So it is mostly the height of the rate, not the slope before it, that "
                      "matters at this size." if low["ppl"] < 1.5 * rows["w4000"]["ppl"] else
                      "So it is the slope that matters, not only the height of the rate."))
    named = {f"{int(n[1:]):,}": rows[n] for n in top}
    named.update({"0, low rate": low} if low else {})
    return ("What does warm-up do?", text,
            {"warmup": chart("Warm-up", "updates",
                             panel("validation, nats a token", curves(named, named)),
                             panel("norm of the gradient", curves(named, named, 2), "log"))})


def smoothing(found, base):
    rows = with_base(found, "smoothing", "eps0.1")
    order = sorted(rows, key=lambda n: float(n[3:]))
    spread, wide = noise(found)
    eps0, eps1 = rows.get("eps0.0"), rows["eps0.1"]
    text = table(rows, order, "ε", 3)
    if eps0:
        gain = eps1["bleu"] - eps0["bleu"]
        text += ["", f"ε = 0.1 costs {eps1['ppl'] - eps0['ppl']:+.2f} in perplexity: the paper "
                 f"says so, too. BLEU changes by {gain:+.1f}, seeds of one model differ by up to "
                 f"{wide:.1f}. " + ("That agrees with the paper's gain." if gain > wide else
                                    "**The paper's gain in BLEU cannot be seen here.** It needs "
                                    "models that are trained long enough to become too sure of "
                                    "themselves, and these see their text four times: where it is "
                                    "seen thirty times, [Table 3](README.md#is-the-training-too-"
                                    "short) has it.")]
    xs = [float(n[3:]) for n in order]
    return ("What does label smoothing do to perplexity and to BLEU?", text,
            {"smoothing": chart(
                "Label smoothing", "ε",
                panel("perplexity", [points("perplexity", list(zip(xs, (rows[n]["ppl"]
                                                                        for n in order))))]),
                panel("BLEU", [points("BLEU", list(zip(xs, (rows[n]["bleu"] for n in order))))]))})


def heads(found, base):
    rows = with_base(found, "heads", f"h{base['n_head']}")
    order = sorted(rows, key=lambda n: int(n[1:]))
    spread, _ = noise(found)
    top, most = best(rows), order[-1]
    text = [*table(rows, order, "heads", 1), "",
            f"Best: {top[1:]}. One head is {rows[order[0]]['ppl'] - rows[top]['ppl']:+.2f} in "
            f"perplexity, {most[1:]} heads of width {base['d_model'] // int(most[1:])} "
            f"{rows[most]['ppl'] - rows[top]['ppl']:+.2f}; seeds differ by up to {spread:.2f}. "
            + ("Too few and too many are both worse, as in the paper's Table 3 (A)."
               if min(rows[n]["ppl"] for n in (order[0], most)) - rows[top]["ppl"] > spread else
               "**That both too few and too many are worse, as in the paper's Table 3 (A), is not "
               "what this shows**: where an end is no further from the best than seeds are from "
               "each other, it says nothing.")]
    xs = [int(n[1:]) for n in order]
    return ("How many heads are too many?", text,
            {"heads": chart("Heads at constant cost", "heads",
                            panel("validation perplexity",
                                  [points("perplexity", [(x, rows[n]["ppl"])
                                                         for x, n in zip(xs, order)])], "log"),
                            x_scale="log2")})


def amounts(found, base):
    rows = with_base(found, "data", "base-1")
    sizes = [s for s in ("narrow", "base", "wide") if f"{s}-1" in rows]
    parts = sorted({int(n.split("-")[1]) for n in rows}, reverse=True)
    lines = ["| text | " + " | ".join(sizes) + " |", "|---|" + "---:|" * len(sizes)]
    for part in parts:
        cells = [f"{rows[f'{s}-{part}']['ppl']:.3g}" if f"{s}-{part}" in rows else "–"
                 for s in sizes]
        lines.append(f"| {'all' if part == 1 else f'1/{part}'} | " + " | ".join(cells) + " |")
    text = ["The same number of updates for all, on a part of the text; perplexity of held-out "
            "text. narrow has half the width of base, wide twice.", "", *lines, ""]
    def gain(s, few, many):
        if f"{s}-{few}" in rows and f"{s}-{many}" in rows:
            return rows[f"{s}-{few}"]["ppl"] / rows[f"{s}-{many}"]["ppl"]
        return None
    first, last = ({s: gain(s, *pair) for s in sizes if gain(s, *pair)}
                   for pair in ((16, 4), (4, 1)))
    if first and last:
        text += ["Perplexity falls by a factor of "
                 + ", ".join(f"{f:.2f} ({s})" for s, f in first.items())
                 + " from a sixteenth of the text to a quarter, and of "
                 + ", ".join(f"{f:.2f} ({s})" for s, f in last.items())
                 + " from there to all. "
                 + ("The wider a model, the more of the text it can use; in so few updates"
                    if len(last) > 1 and sorted(last.values()) == list(last.values()) else
                    "**That wider models can use more of the text is not what this shows**; in so "
                    "few updates")
                 + " the last three quarters are worth little to any of them."]
    lines = [points(s, [(1 / p, math.log(rows[f"{s}-{p}"]["ppl"])) for p in parts
                        if f"{s}-{p}" in rows]) for s in sizes]
    return ("How much data saturates a model?", text,
            {"data": chart("Held-out loss and amount of text", "share of the text",
                           panel("validation, nats a token", lines), x_scale="log2")})


def norm(found, base):
    kinds = {"post": "post-norm", "low": "post-norm, a quarter of the learning rate",
             "pre": "pre-norm"}
    rows = with_base(found, "norm", f"post-{base['n_layer']}")
    depths = sorted({int(n.split("-")[1]) for n in rows})
    lines = ["| layers | " + " | ".join(kinds.values()) + " |", "|---:|" + "---:|" * len(kinds)]
    for d in depths:
        cells = [ppl(rows[f"{n}-{d}"]["ppl"]) if f"{n}-{d}" in rows else "–" for n in kinds]
        lines.append(f"| {d} | " + " | ".join(cells) + " |")
    text = ["Perplexity of held-out text after the same updates with the same warm-up.", "", *lines]
    deep = [d for d in depths if f"post-{d}" in rows and f"pre-{d}" in rows]
    failed = [d for d in deep if rows[f"post-{d}"]["ppl"] > 2 * rows[f"pre-{d}"]["ppl"]]
    if len(deep) > 1 and not failed:
        text += ["", f"At {deep[-1]} layers both still learn; the known failure of deep post-norm "
                 "models is not reached at this depth."]
    elif failed:
        post, low, pre = ([rows[f"{n}-{d}"]["ppl"] for d in failed if f"{n}-{d}" in rows]
                          for n in kinds)
        text += ["", f"From {failed[0]} layers on post-norm fails ({' and '.join(map(ppl, post))}) "
                 f"where pre-norm learns ({' and '.join(map(ppl, pre))}), with a warm-up that is "
                 "long enough for fewer layers. The usual explanation: gradients that pass through "
                 "every normalisation are badly scaled at first, which is what longer warm-ups and "
                 "lower rates are for."]
        if low:
            helps = low[0] < post[0] / 2
            text[-1] += (f" With a quarter of the learning rate perplexity is "
                         f"{' and '.join(map(ppl, low))}: "
                         + ("it helps, and is not enough by itself." if helps and
                            low[-1] > 2 * pre[-1] else "it helps." if helps else
                            "that alone does not help."))
    if base["d_model"] > 16 and 12 not in depths:
        text[-1] += " The recipe's rows of 12 layers have not been run yet."
    kinds["low"] = "post-norm, rate / 4"  # a legend has less room
    lines = [points(kinds[n], [(d, math.log(rows[f"{n}-{d}"]["ppl"])) for d in depths
                               if f"{n}-{d}" in rows]) for n in kinds
             if any(row.startswith(n) for row in rows)]
    return ("Post-norm or pre-norm as depth grows?", text,
            {"norm": chart("Where layers are normalised, and depth", "layers",
                           panel("validation, nats a token", lines))})


def cat(found, base):
    extra = found["cat"]["extra"]
    text = ["Attention of *its*, the mean of an encoder layer's heads, by word.", ""]
    for model, e in extra.items():
        text += [f"| {model}, layer | " + " | ".join(e["words"]) + " |",
                 "|---|" + "---:|" * len(e["words"])]
        text += [f"| {i + 1} | " + " | ".join(f"{100 * x:.0f} %" for x in layer) + " |"
                 for i, layer in enumerate(e["layers"])] + [""]
    cats = {m: [layer[e["words"].index("cat")] for layer in e["layers"]] for m, e in extra.items()}
    most = max(cats, key=lambda m: max(cats[m]))
    text += [f"The *cat* never gets most of it: at most {100 * max(cats[most]):.0f} % ({most}). "
             "*its* looks at its neighbours *chased* and *tail* and at itself. "
             "Models with other dropout differ no more from each other than seeds of one model do, "
             "so that one sentence says nothing certain about dropout. The paper's sharp heads for "
             "*its* are single heads, which a mean hides."]
    sharp = {m: e["sharpest"] for m, e in extra.items() if "sharpest" in e}
    if sharp:
        text[-1] += (" The one head that looks most at *cat*: "
                     + "; ".join(f"{m}, head {s['head']} of layer {s['layer']}, "
                                 f"{100 * s['cat']:.0f} %" for m, s in sharp.items()) + ".")
    text[-1] += " [Figure 4](README.md#figures-3-to-5-what-heads-attend-to) looks for such heads."
    lines = [points(m, [(i + 1, v) for i, v in enumerate(c)]) for m, c in cats.items()]
    return ("\"The cat chased its tail\": what does *its* attend to, layer by layer?", text,
            {"cat": chart("From its to cat", "encoder layer",
                          panel("share of attention, mean of the heads", lines))})


def group_of(name):
    return next((g for g, parts in GROUPS if any(p in name for p in parts)), "other")


def step(found, base):
    extra = found["step"]["extra"]
    text = ["How far each kind of tensor moves in one update: the root mean square of the change "
            "in units of the learning rate, and the change as a share of the tensor's norm.", "",
            "| tensors | update | root mean square / rate | largest / rate | of the norm | moved |",
            "|---|---:|---:|---:|---:|---:|"]
    bars = {}
    for when in ("first", "late"):
        e, sums = extra[when], {}
        for name, t in e["tensors"].items():
            s = sums.setdefault(group_of(name), {"n": 0, "sq": 0, "norm": 0, "most": 0, "moved": 0})
            s["n"] += t["n"]
            s["sq"] += t["change"] ** 2
            s["norm"] += t["norm"] ** 2
            s["most"] = max(s["most"], t["most"])
            s["moved"] += t["moved"] * t["n"]
        for g, _ in GROUPS:
            if g in sums:
                s = sums[g]
                rms = math.sqrt(s["sq"] / s["n"]) / e["lr"]
                share = math.sqrt(s["sq"] / s["norm"]) if s["norm"] > 1e-6 else None
                bars.setdefault(when, []).append(rms)
                text.append(f"| {g} | {e['step']:,} | {rms:.2f} | {s['most'] / e['lr']:.2f} | "
                            + ("–" if share is None else f"{100 * share:.3f} %")
                            + f" | {100 * s['moved'] / s['n']:.1f} % |")
    text += ["", "The first step of Adam knows one gradient, and divides it by its own size: every "
             "weight moves by the learning rate, up or down, whatever its gradient was. Embeddings "
             "of words that the batch does not have move as well, since the same matrix is the "
             "output's, where every word is a wrong answer. Later steps divide a mean over ten "
             "updates by the size of a mean over fifty: most weights move by a fraction of the "
             "rate, as their gradients no longer agree in sign."]
    names = [g for g, _ in GROUPS]
    lines = [points(f"update {extra[w]['step']:,}", list(enumerate(bars[w], 1))) for w in bars]
    return ("What does one training step do to each tensor?", text,
            {"step": chart("One update", ", ".join(f"{i}: {g}" for i, g in enumerate(names, 1)),
                           panel("root mean square of the change / learning rate", lines))})


ALL = (("mask", mask, "rows"), ("scale", scale, "rows"), ("positions", positions, "extra"),
       ("warmup", warmup, "rows"), ("smoothing", smoothing, "rows"), ("heads", heads, "rows"),
       ("data", amounts, "rows"), ("norm", norm, "rows"), ("cat", cat, "extra"),
       ("step", step, "extra"))


def answers(results):
    found = results["questions"]
    for name, answer, needs in ALL:
        enough = needs == "extra" or name == "mask" or len(found.get(name, {}).get("rows", {})) > 1
        if needs in found.get(name, {}) and enough:
            yield name, answer(found, results["base"])
        else:
            yield name, None


def section(files):
    results = files["questions"]
    base, found = results["base"], results["questions"]
    spread, wide = noise(found)
    lines = [f"Models of {base['n_layer']} + {base['n_layer']} layers, d_model {base['d_model']}, "
             f"{base['n_head']} heads, {base['steps']:,} updates of at most {base['tokens']:,} "
             "tokens"
             + (", on 30,000 short sentences ([demo](../../demo)): minutes of one core each, small "
                "enough for anyone, and too small to settle anything about large models"
                if results["size"] == "small" else "")
             + f". Perplexity is of held-out text, per piece. Seeds of base differ by up to "
             f"{spread:.2f} in perplexity and {wide:.1f} BLEU; smaller differences say nothing."]
    for name, answer in answers(results):
        if answer is None:
            lines += ["", f"## {name}", "", "Not run yet."]
            continue
        heading, text, charts = answer
        lines += ["", f"## {heading}", "", *text]
        for key in charts:
            lines += ["", f"![{heading}](question-{key}.svg)"]
        part = {"cat": " dropout", "step": ""}.get(name, " " + name)
        lines += ["", f"    SIZE={results['size']} EXTRA=1 recipes/paper/questions.sh base{part}"]
    return "\n".join(lines)


def write_charts(args):
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    results = json.load(open(args.results, encoding="utf-8"))
    for _, answer in answers(results):
        for key, value in (answer[2] if answer else {}).items():
            (out / f"{key}.json").write_text(json.dumps(value), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("charts")
    one.add_argument("results")
    one.add_argument("--out", required=True)
    one.set_defaults(run=write_charts)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

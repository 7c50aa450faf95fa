#!/usr/bin/env python3
"""table1.py — the paper's Table 1 from what `heed bench layers` measured: charts for `heed plot`,
and the section of the report.

    table1.py add RESULTS.json --command TEXT      the results, with the command and the machine
    table1.py chart RESULTS.json --against n|d     a chart
"""
import argparse
import json
import os
import platform
import subprocess

PAPER = [  # layer, complexity, sequential operations, longest path
    ("self-attention", "n² · d", "1", "1"),
    ("recurrent", "n · d²", "n", "n"),
    ("convolutional", "k · n · d²", "1", "log_k n"),
    ("separable", "k · n · d + n · d²", "1", "log_k n"),
    ("restricted", "r · n · d", "1", "n / r"),
]
BAR = 0.15
SUPERSCRIPT = str.maketrans("0123456789.-", "⁰¹²³⁴⁵⁶⁷⁸⁹·⁻")


def machine(device):
    """In words: the GPU, where it was that, and the processors."""
    gpus = ""
    if device.startswith("cuda"):
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        try:
            found = subprocess.run(query, check=True, capture_output=True, text=True).stdout
            gpus = found.splitlines()[0] + ", "
        except (OSError, IndexError, subprocess.CalledProcessError):
            gpus = "a GPU, "
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    except OSError:
        names = []
    return f"{gpus}{names[0] if names else platform.machine()}, {os.cpu_count()} processors"


def add(args):
    results = json.load(open(args.results, encoding="utf-8"))
    print(json.dumps({"command": args.command, "machine": machine(results["device"]),
                      **results}, indent=1))


# ---- charts


def fit_of(results, layer, what, against):
    for f in results["fits"]:
        if (f["layer"], f["what"], f["against"]) == (layer, what, against):
            return f
    return None


def series_of(results, against):
    return {s["layer"]: s for s in results["series"] if s["against"] == against}


def leading(series):
    """The part that the paper counts: the first, but the last of a separable convolution."""
    names = list(series["points"][0]["parts"])
    return names[-1 if series["layer"] == "separable" else 0]


def curves(results, against, value, label=None):
    found = []
    for layer, s in series_of(results, against).items():
        name = layer + (label(layer, s) if label else "")
        found.append({"name": name, "x": [p[against] for p in s["points"]],
                      "y": [value(s, p) for p in s["points"]], "marked": True})
    return found


def chart(args):
    results = json.load(open(args.results, encoding="utf-8"))
    against = args.against

    def power(layer, s):
        fit = fit_of(results, layer, leading(s), against)
        if not fit or "exponent" not in fit:
            return ""
        return f" {against}" + f"{fit['exponent']:.2f}".translate(SUPERSCRIPT)

    panels = [
        {"title": "time of a layer, ms", "scale": "log", "height": 280,
         "curves": curves(results, against, lambda s, p: 1e3 * p["seconds"])},
        {"title": "of the part that the paper counts, ms", "scale": "log", "height": 280,
         "curves": curves(results, against, lambda s, p: 1e3 * p["parts"][leading(s)], power)},
        {"title": "activations, MiB", "scale": "log", "height": 180,
         "curves": curves(results, against, lambda s, p: p["bytes"] / 2**20)}]
    if against == "n":
        panels.append({"title": "sequential operations", "scale": "log", "height": 180,
                       "curves": curves(results, "n", lambda s, p: p["sequential"])})
    first = next(iter(series_of(results, against).values()))["points"][0]
    fixed = f"d = {first['d']}" if against == "n" else f"{first['n'] * first['batch']:,} tokens"
    what = "length n, tokens" if against == "n" else "width d"
    print(json.dumps({"title": f"Table 1 on {results['device']}: {fixed}", "x": what,
                      "x_scale": "log2", "panels": panels}, indent=1))


# ---- the section


def close(fit):
    return abs(fit["exponent"] - fit["theory"]) <= BAR


def exponent(fit, digits=2):
    if not fit or "exponent" not in fit:
        return "-"
    text = f"{fit['exponent'] + 0.0:.{digits}f}".replace("-0.00", "0.00")
    return text if close(fit) else f"**{text}**"


def fits_table(results):
    rows = ["| layer | part | order | exponent of | fitted | theory | over |",
            "|---|---|---|---|---:|---:|---|"]
    for f in results["fits"]:
        if f["what"] in ("memory", "sequential", "path"):
            continue
        span = f"{f['from']:,.0f} to {f['to']:,.0f}" if "exponent" in f else \
            "mostly fixed cost: does not apply"
        rows.append(f"| {f['layer']} | {f['what']} | O({f['order']}) | {f['against']} | "
                    f"{exponent(f)} | {f['theory']} | {span} |")
    return rows


def counts_table(results):
    paths = {p["layer"]: p for p in results["paths"]}
    lengths = [x["n"] for x in results["paths"][0]["lengths"]]
    rows = ["| layer | complexity (paper) | sequential (paper) | at n = "
            f"{series_of(results, 'n')['self-attention']['points'][0]['n']} | ∝ n^ | "
            "longest path (paper) | at n = " + ", ".join(map(str, lengths)) + " |",
            "|---|---|---|---:|---:|---|---:|"]
    for layer, order, sequential, path in PAPER:
        first = series_of(results, "n")[layer]["points"][0]
        fit = fit_of(results, layer, "sequential", "n")
        row = [layer, f"O({order})", f"O({sequential})", str(first["sequential"]), exponent(fit),
               f"O({path})", ", ".join(str(x["length"]) for x in paths[layer]["lengths"])]
        if layer == "convolutional":
            row[-1] += "; dilated: " + \
                ", ".join(str(x["length"]) for x in paths["dilated"]["lengths"])
        rows.append("| " + " | ".join(row) + " |")
    return rows


def verdict(results):
    fits = [f for f in results["fits"] if "exponent" in f]
    off = [f for f in fits if not close(f)]
    text = f"{len(fits) - len(off)} of {len(fits)} fitted exponents are within {BAR} of theory"
    if off:
        text += "; not so are " + ", ".join(
            f"{f['layer']} {f['what']} in {f['against']} ({f['exponent']:.2f})" for f in off)
    rest = [f for f in results["fits"] if "exponent" not in f]
    if rest:
        text += ". Not fitted, because calling ops takes most of the time at all sizes measured: " \
            + ", ".join(f"{f['layer']} {f['what']} in {f['against']}" for f in rest)
    return text + "."


def taps_in_width(results):
    """What to say of convolutional taps whose time does not grow as the square of the width."""
    fit = fit_of(results, "convolutional", "taps", "d")
    if not fit or "exponent" not in fit or close(fit):
        return ""
    rate = {p["d"]: 2 * results["kernel"] * p["n"] * p["batch"] * p["d"] ** 2 / p["seconds"] / 1e12
            for p in series_of(results, "d")["convolutional"]["points"]}
    low, high = int(fit["from"]), int(fit["to"])
    return (f" Each tap is a product of its own that adds to the same rows, O(n d) more to read "
            f"and write: that weighs less the wider the layer is, so that taps run at "
            f"{rate[low]:.0f} TFLOP/s with d = {low:,} and at {rate[high]:.0f} with {high:,}.")


def device(name, results):
    clock = "processor time of one thread" if results["clock"] == "processor" else "wall time"
    cut = [f"{s['layer']} in {s['against']} up to {s['points'][-1][s['against']]:,}"
           for s in results["series"] if s["cut"]]
    steps = series_of(results, "d")["recurrent"]["points"][0]
    lines = [f"### On {results['device']}", "",
             f"{results['dtype']}, {clock}, on {results['machine']}. Against n there is one "
             f"sequence; against d there are {steps['n'] * steps['batch']:,} tokens, which the "
             f"recurrent layer reads as {steps['batch']} sequences, or the time to fetch its "
             f"matrix for one row would hide the operations. {verdict(results)}"
             f"{taps_in_width(results)}"
             + (" Cut short by the time allowed: " + ", ".join(cut) + "." if cut else ""), ""]
    lines += fits_table(results)
    for against in ("n", "d"):
        lines += ["", f"![time, memory and sequential operations against {against}]"
                  f"({name}-{against}.svg)"]
    return lines


def section(files):
    one = next(iter(files.values()))
    lines = [
        "One layer of each kind, forward, made of heed's own operations (`src/bench/layer.h` has "
        "the formulas): the recurrent one is a gated unit without reset gate, kernels have "
        f"k = {one['kernel']} taps. Sequential operations are the longest chain of operations "
        "each of which reads what the one before wrote, counted while the layer runs. Paths are "
        "measured by changing positions one after another and looking whose bits change: the "
        "number of layers on top of each other, or steps of a recurrence, until the last position "
        f"has heard of the first (restricted: r = {one['path_reach']}). The paper's log_k n needs "
        "dilated kernels; others need O(n / k) layers, as it says in the text.", ""]
    lines += counts_table(one)
    lines += ["", "Exponents are slopes of least squares through logarithms, from where a size "
              "takes ten times as long as the smallest one (four times, against r): below that, "
              "most of the time is the fixed cost of calling operations, about which O() says "
              "nothing. In bold what is further than "
              f"{BAR} from theory. The paper does not count the projections around attention; "
              "they are what most of the time goes to while n < 2 d. Memory is O(n d) for all: "
              "the n × n weights are never stored.", ""]
    for name, results in files.items():
        lines += device(name, results) + [""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("add")
    one.add_argument("results")
    one.add_argument("--command", required=True)
    one.set_defaults(run=add)
    two = commands.add_parser("chart")
    two.add_argument("results")
    two.add_argument("--against", choices=("n", "d"), required=True)
    two.set_defaults(run=chart)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

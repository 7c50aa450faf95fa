#!/usr/bin/env python3
"""tables.py — the tables of README.md and docs/benchmarks.md from the figures in bench/results.

    bench/tables.py                          writes them into both pages
    bench/tables.py --check                  writes nothing, fails where a page has other figures
    bench/tables.py --run MACHINE [KIND...]  measures here: runs the commands of that machine's
                                             tables, keeps what they print, writes the pages
    COMMAND | bench/tables.py --record MACHINE KIND    keeps what was measured elsewhere

A file of bench/results is a machine: {"machine": in words, "tables": {KIND: {"command", "date",
"rows"}}}. Rows are the JSON lines that the command prints; what else it prints is passed over. A
table may have a "note" and name another "machine", both until it is measured again. A page has a
table between <!-- table MACHINE KIND --> and <!-- end -->: the function KIND below draws it, from
another kind's rows where FROM says so. README.md has those of the kind "summary".
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FROM = {"length": "scale", "decode": "gpu", "quality": "gpu"}  # one command, several tables
PLACE = re.compile(r"(<!-- table (\S+) (\S+) -->\n).*?(<!-- end -->\n)", re.S)


# ---- cells ---------------------------------------------------------------------------------------


def number(x, digits=0):
    return "" if x is None else f"{x:,.{digits}f}"


def short(x):
    return number(x, 0 if x is None or x >= 100 else 1)


def percent(x):
    return "" if x is None else f"{100 * x:.0f} %"


def several(cells):
    """a / b / c, and those at the end that are not known left out; one % is enough."""
    text = " / ".join(c for c in cells if c)
    return re.sub(r" %(?= /)", "", text)


def named(engine):
    """torch 2.11.0+cu130 as people call it."""
    return re.sub(r"^(?:torch )?(\d+\.\d+).*", r"PyTorch \1", engine)


def pick(rows, **wanted):
    """The rows with these values."""
    return [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]


def one(rows, **wanted):
    found = pick(rows, **wanted)
    if len(found) != 1:
        sys.exit(f"tables.py: {len(found)} rows with {wanted}, where 1 was expected")
    return found[0]


def distinct(rows, *keys):
    return list(dict.fromkeys(tuple(r.get(k) for k in keys) for r in rows))


# ---- kinds: rows to [heads, cells, cells, ...] ---------------------------------------------------


def shares(r):
    """What y, dx and dw reach of the registers' peak; dx and dw where that is known."""
    peak = r.get("gflops_peak")
    back = [r[k] / peak if peak and k in r else None for k in ("gflops_dx", "gflops_dw")]
    return [r["ratio"], r.get("ratio_dx", back[0]), r.get("ratio_dw", back[1])]


def gemm(rows):
    ways = distinct(rows, "isa", "dtype", "way", "threads")
    several_threads = len(distinct(rows, "threads")) > 1
    rates = any("gflops" in r for r in rows)
    table = [["m", "n x k"]]
    for isa, dtype, way, threads in ways:
        what = way or f"{isa} {dtype}"
        if several_threads:
            what += f", {threads} thread" + "s" * (threads > 1)
        table[0] += [f"{what}: y / dx / dw", "of peak"] if rates else [f"{what}: y / dx / dw"]
    for m, n, k in sorted(distinct(rows, "m", "n", "k"), key=lambda s: s[0]):
        cells = [number(m), f"{number(n)} x {number(k)}"]
        for isa, dtype, way, threads in ways:
            r = one(rows, m=m, n=n, k=k, isa=isa, dtype=dtype, way=way, threads=threads)
            if rates:
                cells.append(several(number(r[f]) for f in ("gflops", "gflops_dx", "gflops_dw")))
            cells.append(several(map(percent, shares(r))))
        table.append(cells)
    return table


def train(rows):
    table = [["dtype", "ms per step", "target tokens/s", "model TFLOP/s", "products alone"]]
    table[0] += ["share", "peak memory"]
    for r in rows:
        cells = [r["dtype"], number(r["ms_per_step"]), number(r["tgt_tokens_per_s"])]
        cells += [f"{r['tflops']:.3f}", f"{r['gemm_tflops']:.3f}", percent(r["gemm_share"])]
        table.append(cells + [f"{number(r['peak_mb'])} MiB"])
    return table


BARS_OF_TORCH = {("base", "f32"): 1.55, ("base", "bf16"): 2.2}


def torch(rows):
    table = [["preset", "dtype", "PyTorch", "heed", "ratio", "of processor time", "bar", ""]]
    for r in rows:
        peer = number(r["torch_tgt_tokens_per_s"])
        peer += f" ({r['torch_mode']})" if "torch_mode" in r else ""
        cells = [r["preset"], r["dtype"], peer, number(r["heed_tgt_tokens_per_s"])]
        cells += [number(r["ratio"], 2), number(r.get("cpu_ratio"), 2)]
        bar = BARS_OF_TORCH.get((r["preset"], r["dtype"]))
        table.append(cells + [str(bar or ""), r.get("note", "")])
    return table


def scale(rows):
    """Time per token of more and more sentences."""
    table = [["sentences of 32 tokens", "ms per update", "us per token"]]
    for r in pick(rows, what="sentences"):
        table.append([number(r["n"]), number(r["ms"], 1), number(r["us_per_token"], 1)])
    return table


def length(rows):
    """Attention over one sentence of more and more tokens."""
    table = [["tokens", "forward, ms", "backward, ms", "forward, ns per pair"]]
    table[0] += ["backward, ns per pair", "KiB per token"]
    for r in pick(rows, what="length"):
        cells = [number(r["n"]), number(r["fwd_ms"], 2), number(r["bwd_ms"], 2)]
        cells += [number(r[k], 1) for k in ("fwd_ns_per_pair", "bwd_ns_per_pair", "kb_per_token")]
        table.append(cells)
    return table


def translate(rows):
    table = [["", "heed tokens/s", "CTranslate2", "ratio", "latency, ms", "ratio", "memory, MB"]]
    table[0] += ["ratio", "not of files, MB", "open, ms", "floor"]
    for r in rows:
        speed, wait, mem = r["tokens_per_s"], r["p50_ms"], r["memory_mb"]
        batch = "one text" if r["batch"] == 1 else f"batch {r['batch']}"
        threads = f"{r['threads']} thread" + "s" * (r["threads"] > 1)
        cells = [f"{r['precision']}, {batch}, {r['length']} tokens, beam {r['beam']}, {threads}"]
        cells += [number(speed[0]), number(speed[1]), number(speed[0] / speed[1], 2)]
        cells += [several(map(short, wait)), number(wait[0] / wait[1], 2)]
        cells += [several(map(number, mem)), number(mem[0] / mem[1], 2)]
        cells += [several(map(number, r.get("own_mb", []))), several(map(number, r["open_ms"]))]
        table.append(cells + [number(r["over_floor"], 2)])
    return table


def sets(rows):
    """Instruction sets that took turns in translating the same."""
    table = [["instruction set", "runs", "tokens/s, median", "least to most", "ratio of medians"]]
    speeds = {isa: sorted(r["tokens_per_s"] for r in pick(rows, isa=isa))
              for (isa,) in distinct(rows, "isa")}
    first = None
    for isa, found in speeds.items():
        first = first or statistics.median(found)
        ends = f"{number(found[0])} to {number(found[-1])}"
        cells = [isa, str(len(found)), number(statistics.median(found)), ends]
        table.append(cells + [number(statistics.median(found) / first, 2)])
    return table


def data(rows):
    table = [["corpus", "pairs", "pieces", "learning, s of a processor", "tokens"]]
    table[0] += ["tokenising, tokens/s of a core", "batching, tokens/s of a core"]
    for r in rows:
        pieces = f"{number(r['size'])} {r['type']}"
        pieces += ", all lines" if r["learnt_from"] == "all lines" else ""
        cells = [r["corpus"], number(r["pairs"]), pieces, number(r["learn_cpu_s"], 1)]
        cells += [number(r["tokens"]), number(r["tokenise_tokens_per_s_per_core"])]
        table.append(cells + [number(r["batch_tokens_per_s_per_core"])])
    return table


CASES = {
    "base-32": "base, all sentences 32 long",
    "base-bucketed": "base, bucketed lengths",
    "base-mixed": "base, mixed lengths",
    "big-bucketed": "big, bucketed lengths",
    "tiny-mixed": "tiny, 8,192 tokens, mixed lengths",
}


def beside(rows, case):
    """heed's row of a case, and its peers' by mode."""
    ours = one(rows, case=case, engine="heed")
    return ours, {r.get("mode", "eager"): r for r in pick(rows, case=case) if r is not ours}


def cases(rows, *prefixes):
    return [c for (c,) in distinct(rows, "case") if c.startswith(prefixes)]


def gpu(rows):
    """Training steps."""
    table = [["", "heed, ms", "target tokens/s", "GiB"]]
    for mode in ("compiled", "eager"):
        table[0] += [f"PyTorch {mode}, ms", "ratio", "GiB", "ratio"]
    for case in cases(rows, *CASES):
        ours, peers = beside(rows, case)
        mine = ours["ms_per_step"], ours.get("peak_mb")
        cells = [CASES[case], number(mine[0], 2), number(ours["tgt_tokens_per_s"])]
        cells.append(number(mine[1] / 1024, 1) if mine[1] else "")
        for mode in ("compiled", "eager"):
            r = peers.get(mode, {})
            ms, mb = r.get("ms_per_step"), r.get("peak_mb")
            cells += [number(ms, 1), number(ms / mine[0], 2) if ms else ""]
            cells += [number(mb / 1024, 1), number(mine[1] / mb, 2)] if mb and mine[1] else ["", ""]
        table.append(cells)
    return table


def decode(rows):
    table = [["batch", "heed, tokens/s", "peer, tokens/s", "ratio"]]
    for case in cases(rows, "decode-"):
        ours, peers = beside(rows, case)
        best = max((r["tokens_per_s"] for r in peers.values()), default=None)
        cells = [case.removeprefix("decode-"), number(ours["tokens_per_s"]), number(best)]
        table.append(cells + [number(ours["tokens_per_s"] / best, 1) if best else ""])
    return table


def quality(rows):
    table = [["", "wall time with validation and checkpoints", "BLEU"]]
    for r in pick(rows, case="quality"):
        table.append([named(r["engine"]), f"{number(r['train_s'], 1)} s", number(r["bleu"], 1)])
    return table


KINDS = {f.__name__: f for f in (gemm, train, torch, scale, length, translate, sets, data,
                                    gpu)}
KINDS |= {"decode": decode, "quality": quality}


# ---- README.md: what a machine comes to ----------------------------------------------------------


def spread(rows, key, show):
    found = [r[key] for r in rows]
    low, high = show(min(found)), show(max(found))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def summary_cpu(of):
    table = [["", "measured", "beside"]]

    def products(what, **wanted):
        rows = pick(of("gemm"), m=4096, **wanted)
        rate, share = spread(rows, "gflops", number), spread(rows, "ratio", percent)
        table.append([what, f"{rate} GFLOP/s", f"{share} of the registers' peak"])

    what = "forward products of 4,096 rows as training runs them, AVX-512, f32"
    products(what, isa="avx512", dtype="f32")
    products("the same, AVX-512 BF16, bf16", isa="avx512bf16", dtype="bf16")
    for dtype in ("f32", "bf16"):
        r = one(of("train"), preset="base", dtype=dtype)
        rate = f"{number(r['tgt_tokens_per_s'])} target tokens/s"
        share = f"{percent(r['gemm_share'])} of its products' rate"
        peer = one(of("torch"), preset="base", dtype=dtype)
        share += f"; {peer['ratio']} x {named(peer['torch'])} with 2,048 + 2,048"
        table.append([f"training, {dtype}", rate, share])
    r = one(of("scale"), what="length", n=8192)
    before = one(of("scale"), what="length", n=1024)
    rate = f"{number(r['kb_per_token'], 1)} KiB per token"
    kib = number(before["kb_per_token"], 1)
    table.append(["attention over 8,192 tokens", rate, f"{kib} over 1,024"])
    for precision in ("int8", "f32"):
        case = {"batch": 32, "length": 32, "beam": 4, "threads": 2}
        ours, theirs = one(of("translate"), precision=precision, **case)["tokens_per_s"]
        what = f"translation, {precision}, beam 4, batches of 32"
        ratio = f"{number(ours / theirs, 2)} x CTranslate2 on the same weights and cores"
        table.append([what, f"{number(ours)} tokens/s", ratio])
    case = {"precision": "int8", "batch": 1, "length": 32, "beam": 4, "threads": 2}
    r = one(of("translate"), **case)
    ours, theirs = r["p50_ms"]
    what = "one sentence of 32 tokens, int8, beam 4"
    table.append([what, f"{short(ours)} ms", f"CTranslate2 {short(theirs)} ms"])
    ours, theirs = r["open_ms"]
    table.append(["opening an int8 base model", f"{short(ours)} ms", f"{short(theirs)} ms"])
    return table


def summary_gpu(of):
    table = [["", "measured", "beside"]]
    for case in ("base-32", "big-bucketed"):
        ours, peers = beside(of("gpu"), case)
        peer = peers["compiled"]
        faster = number(peer["ms_per_step"] / ours["ms_per_step"], 2)
        rate = f"{number(ours['ms_per_step'], 1)} ms per step, "
        rate += f"{number(ours['tgt_tokens_per_s'])} target tokens/s"
        than = f"{faster} x compiled {named(peer['engine'])}"
        if "peak_mb" in ours and "peak_mb" in peer:
            than += f", {number(ours['peak_mb'] / peer['peak_mb'], 2)} x its memory"
        table.append([f"training, {CASES[case]}, 25,000 + 25,000 tokens", rate, than])
    ours, peers = beside(of("gpu"), "quality")
    [theirs] = peers.values()
    said = [f"{number(r['train_s'])} s, {number(r['bleu'], 1)} BLEU" for r in (ours, theirs)]
    what = "`tiny` on Multi30k, 4,000 updates, validated and saved every 250"
    table.append([what, said[0], f"{named(theirs['engine'])}, the same recipe: {said[1]}"])
    ours, peers = beside(of("gpu"), "decode-256")
    [peer] = peers.values()
    ratio = f"{number(ours['tokens_per_s'] / peer['tokens_per_s'], 1)} x {peer['engine']}"
    what = "translation, `base`, beam 4, batches of 256"
    table.append([what, f"{number(ours['tokens_per_s'])} tokens/s", ratio])
    return table


# ---- pages ---------------------------------------------------------------------------------------


def load(folder):
    return {p.stem: json.loads(p.read_text("utf-8")) for p in sorted(folder.glob("*.json"))}


def markdown(table):
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    lines.insert(1, "|" + "---|" * len(table[0]))
    return "".join(re.sub(r"  +", " ", line) + "\n" for line in lines)


def drawn(machines, name, kind):
    """The text of one place in a page."""
    machine = machines.get(name) or sys.exit(f"tables.py: no machine {name} in bench/results")
    tables = machine["tables"]
    if kind == "summary":
        make = summary_gpu if "gpu" in tables else summary_cpu
        return markdown(make(lambda wanted: tables[wanted]["rows"]))
    table = tables.get(FROM.get(kind, kind)) or sys.exit(f"tables.py: {name} has no table {kind}")
    made = markdown(KINDS[kind](table["rows"]))
    where = table.get("machine", machine["machine"])
    note = f" {table['note']}" if "note" in table else ""
    return f"`{table['command']}`, {table['date']}, {where}.{note}\n\n{made}"


def page(machines, text):
    return PLACE.sub(lambda m: m[1] + drawn(machines, m[2], m[3]) + m[4], text)


def write(path, text):
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def keep(root, name, kind, lines):
    """The rows of a table, of today."""
    path = root / "bench/results" / f"{name}.json"
    machine = json.loads(path.read_text("utf-8"))
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    if not rows:
        sys.exit(f"tables.py: no JSON lines to make {name}'s table {kind} of")
    table = machine["tables"][kind]
    table.update(date=str(datetime.date.today()), rows=rows)
    table.pop("note", None)  # it was of the figures before
    table.pop("machine", None)
    write(path, dump(machine))


def dump(machine):
    """As JSON, a row a line, so that a new figure is one line of a diff."""
    text = lambda value: json.dumps(value, ensure_ascii=False)
    tables = []
    for kind, table in machine["tables"].items():
        fields = [f"   {text(k)}: {text(v)}" for k, v in table.items() if k != "rows"]
        rows = ",\n".join("    " + text(r) for r in table["rows"])
        fields.append(f'   "rows": [\n{rows}\n   ]')
        tables.append(f"  {text(kind)}: {{\n" + ",\n".join(fields) + "\n  }")
    head = f'{{\n "machine": {text(machine["machine"])},\n "tables": {{\n'
    return head + ",\n".join(tables) + "\n }\n}\n"


def run(root, name, kinds):
    tables = load(root / "bench/results")[name]["tables"]
    path = f"{root / 'build'}:{os.environ['PATH']}"
    for kind in kinds or tables:
        print(f"{name} {kind}: {tables[kind]['command']}", flush=True)
        command = ["bash", "-ec", tables[kind]["command"]]
        done = subprocess.run(
            command, cwd=root, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            sys.exit(f"tables.py: {name} {kind}: exit {done.returncode}")
        keep(root, name, kind, done.stdout.splitlines())


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--check", action="store_true")
    ap.add_argument("--run", nargs="+", metavar=("MACHINE", "KIND"))
    ap.add_argument("--record", nargs=2, metavar=("MACHINE", "KIND"))
    ap.add_argument("--root", type=pathlib.Path, default=ROOT, help="of another tree")
    a = ap.parse_args()
    if a.run:
        run(a.root, a.run[0], a.run[1:])
    if a.record:
        keep(a.root, *a.record, sys.stdin)
    machines = load(a.root / "bench/results")
    for name in ("README.md", "docs/benchmarks.md"):
        path = a.root / name
        before = path.read_text("utf-8")
        after = page(machines, before)
        if a.check and after != before:
            sys.exit(f"tables.py: {name} is not what bench/results gives: run bench/tables.py")
        if not a.check and after != before:
            write(path, after)


if __name__ == "__main__":
    main()

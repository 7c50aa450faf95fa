#!/usr/bin/env python3
"""The table of bench/translate.sh: for every case the best run of each engine, and their ratio.

    translate_table.py [--json] RESULTS LENGTH TITLE

--json prints a line per case instead, with [heed's, CTranslate2's] figures: what bench/tables.py
keeps.

Speed and latency: the best of all runs (and, for CTranslate2, of all settings with that many
threads). Memory: the least peak of the setting that is fastest, beyond what the process had before
a model was opened (CTranslate2's: Python and the library). Own: what of it is there at the end and
not mapped from files, whose pages all processes share and the system takes back when it needs them.
"""

import json, sys


def merged(runs):
    """A row per case, from the runs of both engines."""
    cases = {}
    for r in runs:
        ours = r["engine"] == "heed"
        precision = {"float32": "f32"}.get(r["precision"], r["precision"])
        threads = r["threads"] if ours else r["inter"] * r["intra"]
        case = cases.setdefault((precision, r["batch"], r["beam"], threads), ([], []))
        r["memory_mb"] = r["peak_mb"] - r["base_mb"]
        case[0 if ours else 1].append(r)
    for key in sorted(cases, key=lambda k: (k[1] == 1, k[0] != "int8", -k[3], -k[2])):
        ours, theirs = cases[key]
        if not ours or not theirs:
            continue
        a = max(ours, key=lambda r: r["tokens_per_s"])
        b = max(theirs, key=lambda r: r["tokens_per_s"])
        alike = [r for r in theirs if (r["inter"], r["intra"]) == (b["inter"], b["intra"])]
        single = [r for r in theirs if r["inter"] == 1]
        row = dict(zip(("precision", "batch", "beam", "threads"), key))
        row["tokens_per_s"] = [a["tokens_per_s"], b["tokens_per_s"]]
        peers = {"p50_ms": single, "p99_ms": single, "memory_mb": alike, "own_mb": alike}
        for name, theirs in (peers | {"open_ms": theirs}).items():
            row[name] = [round(min(r[name] for r in rs), 2) for rs in (ours, theirs)]
        yield row | {"over_floor": a["over_floor"]}


def main():
    as_json = sys.argv[1] == "--json"
    path, length, title = sys.argv[1 + as_json :]
    rows = merged([json.loads(line) for line in open(path)])
    if as_json:
        for row in rows:
            print(json.dumps({"bench": "translate", "length": int(length)} | row))
        return
    print(f"\n{title}")
    print(
        f"{'':24}{'tokens/s':>21} {'ratio':>6}{'p50 ms':>17} {'ratio':>6}{'p99 ms':>17}"
        f"{'memory MB':>14} {'ratio':>6}{'own MB':>14} {'ratio':>6}{'open ms':>14} {'ratio':>6}"
        "  floor"
    )
    for r in rows:
        speed, p50, p99 = r["tokens_per_s"], r["p50_ms"], r["p99_ms"]
        mem, own, load = r["memory_mb"], r["own_mb"], r["open_ms"]
        print(
            f"{r['precision']:5} batch {r['batch']:<3}beam {r['beam']} {r['threads']}T "
            f"{speed[0]:10.0f} {speed[1]:9.0f} {speed[0] / speed[1]:5.2f}x"
            f"{p50[0]:9.1f}{p50[1]:8.1f} {p50[0] / p50[1]:5.2f}x{p99[0]:9.1f}{p99[1]:8.1f}"
            f"{mem[0]:8.0f}{mem[1]:6.0f} {mem[0] / mem[1]:5.2f}x"
            f"{own[0]:8.0f}{own[1]:6.0f} {own[0] / own[1]:5.2f}x"
            f"{load[0]:8.1f}{load[1]:6.0f} {load[0] / load[1]:5.2f}x {r['over_floor']:5.2f}x"
        )


if __name__ == "__main__":
    main()

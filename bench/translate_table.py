#!/usr/bin/env python3
"""The table of bench/translate.sh: for every case the best run of each engine, and their ratio.

Speed and latency: the best of all runs (and, for CTranslate2, of all settings with that many
threads). Memory: the least peak of the setting that is fastest; Python and the library, before a
model is loaded, are taken off CTranslate2's. Own: what of it is there at the end and not mapped
from files, whose pages all processes share and the system takes back when it needs them. """

import json, sys


def main():
    runs = [json.loads(line) for line in open(sys.argv[1])]
    cases = {}
    for r in runs:
        ours = r["engine"] == "heed"
        precision = {"float32": "f32"}.get(r["precision"], r["precision"])
        threads = r["threads"] if ours else r["inter"] * r["intra"]
        case = cases.setdefault((precision, r["batch"], r["beam"], threads), ([], []))
        r["memory"] = r["peak_mb"] - (0 if ours else r["base_mb"])
        case[0 if ours else 1].append(r)
    print(f"\n{sys.argv[2]}")
    print(
        f"{'':24}{'tokens/s':>21} {'ratio':>6}{'p50 ms':>17} {'ratio':>6}{'p99 ms':>17}"
        f"{'memory MB':>14} {'ratio':>6}{'own MB':>14} {'ratio':>6}{'open ms':>14} {'ratio':>6}"
        "  floor"
    )
    for key in sorted(cases, key=lambda k: (k[1] == 1, k[0], -k[3], -k[2])):
        ours, theirs = cases[key]
        if not ours or not theirs:
            continue
        precision, batch, beam, threads = key
        a = max(ours, key=lambda r: r["tokens_per_s"])
        b = max(theirs, key=lambda r: r["tokens_per_s"])
        least = lambda rs, name: min(r[name] for r in rs)
        alike = [r for r in theirs if (r["inter"], r["intra"]) == (b["inter"], b["intra"])]
        single = [r for r in theirs if r["inter"] == 1]
        p50 = least(ours, "p50_ms"), least(single, "p50_ms")
        p99 = least(ours, "p99_ms"), least(single, "p99_ms")
        mem = least(ours, "memory"), least(alike, "memory")
        own = least(ours, "own_mb"), least(alike, "own_mb")
        load = least(ours, "open_ms"), least(theirs, "open_ms")
        print(
            f"{precision:5} batch {batch:<3}beam {beam} {threads}T "
            f"{a['tokens_per_s']:10.0f} {b['tokens_per_s']:9.0f} "
            f"{a['tokens_per_s'] / b['tokens_per_s']:5.2f}x"
            f"{p50[0]:9.1f}{p50[1]:8.1f} {p50[0] / p50[1]:5.2f}x{p99[0]:9.1f}{p99[1]:8.1f}"
            f"{mem[0]:8.0f}{mem[1]:6.0f} {mem[0] / mem[1]:5.2f}x"
            f"{own[0]:8.0f}{own[1]:6.0f} {own[0] / own[1]:5.2f}x"
            f"{load[0]:8.1f}{load[1]:6.0f} {load[0] / load[1]:5.2f}x {a['over_floor']:5.2f}x"
        )


if __name__ == "__main__":
    main()

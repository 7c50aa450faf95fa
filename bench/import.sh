#!/usr/bin/env bash
# import.sh — imported models beside the engines they were made for: the same machine, the same
# cores, the same sentences, text in and text out, one engine after the other.
#
#     bench/import.sh [BUILD [WORK-DIR]]
#
# Argos zh-en (int8, beam 4, batches of 32) beside CTranslate2, Bergamot's en-pt and pt-en beside
# bergamot, both as it ships them (with a list of likely words for each sentence, and alphas) and
# without that list. Engines run in turn, ROUNDS times, and the best of each counts: other people's
# load can only slow a run down. Every sensible setting of threads is tried for the other engine.
# On a machine that others use, too, look at the ratios of processor time, in parentheses: they do
# not count what the others had.
#
# Models and engines come from PyPI (bergamot wants Python 3.10) and stay in IMPORT_CACHE, or in
# WORK-DIR. ROUNDS=3  REPEAT=3  SENTENCES=192  THREADS=2
set -euo pipefail
tree=$(realpath "$(dirname "$0")/..")
build=$(realpath "${1:-build}") work=${2:-build/bench-import}
rounds=${ROUNDS:-3} sentences=${SENTENCES:-192} threads=${THREADS:-2}
mkdir -p "$work" && cd "$work"
# shellcheck source=tests/import/fetch.sh
. "$tree/tests/import/fetch.sh"
fetch_models || { echo "PyPI cannot be reached: $(tail -n 1 pip.log)" >&2; exit 1; }
with_bergamot=1
fetch_bergamot || { with_bergamot= && echo "no bergamot: $(tail -n 1 pip.log)" >&2; }
package=$(echo "$cache"/argos/unpacked/*)

: >results
race() { # CASE PYTHON ARGUMENT...
    local line
    line=$(PYTHONPATH=${library:-} OMP_NUM_THREADS=${omp:-$threads} REPEAT=${REPEAT:-3} \
        "$2" "$tree/bench/import_race.py" "${@:3}")
    printf '%s\t%s\n' "$1" "$line" >>results
}
for language in en pt zh; do
    python3 "$tree/tests/import/sentences.py" $language "$sentences" >$language.txt
done
for _ in $(seq "$rounds"); do
    rm -rf zhen
    begin=$(date +%s%N)
    "$build/heed" import "$cache/argos/zh_en.argosmodel" --out zhen --quiet
    printf 'import\t{"engine": "heed", "s": %s}\n' \
        "$(awk -v a="$begin" -v b="$(date +%s%N)" 'BEGIN { print (b - a) / 1e9 }')" >>results
    race zhen python3 heed "$build/libheed.so" zhen zh.txt "$threads"
    library=$cache/engine race zhen python3 ct2 "$package" zh.txt 1 "$threads"
    library=$cache/engine omp=1 race zhen python3 ct2 "$package" zh.txt "$threads" 1
    for pair in en:enpt pt:pten; do
        name=${pair#*:} from=${pair%:*}
        rm -rf "$name"
        "$build/heed" import "$cache/students/$name" --out "$name" --quiet
        race "$name" python3 heed "$build/libheed.so" "$name" "$from.txt" "$threads"
        [ -n "$with_bergamot" ] || continue
        for workers in 1 "$threads"; do
            for list in '' shortlist; do
                omp=1 race "$name$list" "$cache/bergamot/bin/python" bergamot \
                    "$cache/students/$name" "$from.txt" "$workers" $list
            done
        done
    done
done
python3 - <<'PY'
import collections, json

runs = collections.defaultdict(list)
for line in open("results"):
    case, text = line.rstrip("\n").split("\t")
    run = json.loads(text)
    runs[case, run["engine"]].append(run)


def best(case, engine, key):
    found = [r[key] for r in runs[case, engine]]
    return (max if key.startswith("per") else min)(found) if found else None


def row(what, case, other, key, unit, bar):
    more = key.startswith("per") or unit.endswith("/s")
    cpu = {"per_s": "per_cpu_s", "single_ms": "single_cpu_ms"}.get(key)
    pairs = [(best(case, "heed", k), best(*other, k)) for k in (key, cpu) if k]
    if not pairs[0][1]:
        return
    if key == "single_ms" and more:
        pairs = [(1e3 / a, 1e3 / b) for a, b in pairs]
    ours, theirs = pairs[0]
    ratio, aside = ours / theirs, f"({pairs[1][0] / pairs[1][1]:.2f}x)" if cpu else ""
    met = ratio >= bar if more else ratio <= bar
    print(f"{what:42} {ours:9.2f} {theirs:9.2f} {unit:11} {ratio:6.2f}x {aside:8} "
          f"{'at least' if more else 'at most'} {bar:g}x: {'met' if met else 'MISSED'}")


print(f"{'':42} {'heed':>9} {'other':>9}")
ct2 = "zhen", "ct2"
row("Argos zh-en, beam 4, many sentences", "zhen", ct2, "per_s", "sentences/s", 1.5)
row("Argos zh-en, one sentence", "zhen", ct2, "single_ms", "ms", 0.3)
row("Argos zh-en, opening", "zhen", ct2, "open_ms", "ms", 0.1)
row("Argos zh-en, peak memory", "zhen", ct2, "memory_mb", "MB", 0.7)
for name in ("enpt", "pten"):
    for case, how in ((name + "shortlist", "with shortlist"), (name, "without it")):
        other = case, "bergamot"
        row(f"{name} many, bergamot {how}", name, other, "per_s", "sentences/s", 1.2)
        row(f"{name} single, bergamot {how}", name, other, "single_ms", "sentences/s", 1.2)
took = best("import", "heed", "s")
print(f"{'heed import of Argos zh-en':42} {took:9.2f} {'':9} {'s':11} {'':16} at most 2 s: "
      f"{'met' if took <= 2 else 'MISSED'}")
PY

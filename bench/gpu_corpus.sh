#!/usr/bin/env bash
# gpu_corpus.sh — translating a corpus on a GPU: how fast, and where does the time go?
#
#     bench/gpu_corpus.sh MODEL TEXT [FOLDER]
#
# MODEL: a model directory in bf16 or f32; TEXT: one sentence per line, 16,000 or more. FOLDER:
# where heed, libheed-cuda.so and lib/ are (local/gpu, as `bench/gpu.sh pack` leaves it; a build
# folder will do). The text is translated several times, with one cause of slowness less each time,
# beside forced lengths of 32 tokens, which is as fast as the device goes. The causes:
#
#     f32      what a model stored in bf16 ran in, batches of 128, one thread for the text
#     bf16     the same in bf16
#     large    batches of up to 2048 sentences as well
#     threads  text on all threads as well
#     default  two windows at a time as well: what `heed translate` does when told nothing
#     again    the same with the text four times over: what is done once counts less
#
# ns/row should be that of the forced lengths for as many rows in a step; where it is not, look at
# the steps that were not replayed, and at the share of the search that the host waited for the
# device (the rest it was busy itself; two lanes may wait for 200 %). Logs and translations are kept
# in OUT (FOLDER/corpus).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
if [ $# -lt 2 ]; then echo "usage: bench/gpu_corpus.sh MODEL TEXT [FOLDER]" >&2 && exit 2; fi
model=$1 text=$2 home=${3:-local/gpu}
device=${DEVICE:-cuda}
. bench/gpu_home.sh
out=${OUT:-$home/corpus}
mkdir -p "$out"
rm -f "$out"/*.json "$out"/*.log

forced() { # BATCH
    "$heed" bench translate --device "$device" --model "$model" --precision bf16 --batch "$1" \
        --sentences $((4 * $1)) --length 32 --force-length 32 --json \
        >"$out/forced-$1.json" 2>"$out/forced-$1.log" || tail -n 2 "$out/forced-$1.log" >&2
}

translate() { # NAME TEXT ARGUMENTS...
    local name=$1 from=$2
    shift 2
    "$heed" translate --device "$device" --model "$model" --stats --quiet "$@" "$from" \
        >"$out/$name.txt" 2>"$out/$name.log" || tail -n 2 "$out/$name.log" >&2
}

for batch in ${BATCHES:-128 512 2048}; do forced "$batch"; done
small=(--batch-sentences 128 --batch-tokens 8192 --look-ahead 1024)
large=(--batch-sentences 2048 --batch-tokens 65536 --look-ahead 65536)
cat "$text" "$text" "$text" "$text" >"$out/four"
translate f32 "$text" --precision f32 "${small[@]}" --lanes 1 --threads 1
translate bf16 "$text" --precision bf16 "${small[@]}" --lanes 1 --threads 1
translate large "$text" --precision bf16 "${large[@]}" --lanes 1 --threads 1
translate threads "$text" --precision bf16 "${large[@]}" --lanes 1
translate default "$text"
translate again "$out/four"

python3 - "$out" <<'END'
import glob
import json
import re
import sys

folder = sys.argv[1]


def figures(name):
    with open(f"{folder}/{name}.json", encoding="utf-8") as f:
        return json.loads(f.readline() or "{}")


NUMBERS = re.compile(
    r"(?P<lines>\S+) lines, \S+ sentences in (?P<batches>\S+) batches, \S+ source and "
    r"(?P<target>\S+) target tokens\n.*ran for (?P<seconds>\S+) s, searching for (?P<search>\S+) s"
    r".*\n.*\n(?P<steps>\S+) steps of (?P<rows>\S+) rows, computed as (?P<computed>\S+) rows, "
    r"(?P<anew>\S+) steps not.*\n.*device for (?P<waited>\S+) s; to tokens in (?P<prepare>\S+) s, "
    r"to text in (?P<read>\S+) s")


def stats(name):
    """What --stats said of a run; JSON would cost time to write."""
    with open(f"{folder}/{name}.log", encoding="utf-8") as f:
        found = NUMBERS.search(f.read())
    return {k: float(v.replace(",", "")) for k, v in found.groupdict().items()} if found else {}


def texts(name):
    with open(f"{folder}/{name}.txt", encoding="utf-8") as f:
        return f.read().split("\n")[:-1]


print(f"{'forced to 32':12} {'tokens/s':>9} {'rows/step':>9} {'ms/step':>8} {'ns/row':>7}")
for path in sorted(glob.glob(f"{folder}/forced-*.json"), key=lambda p: int(p.split("-")[-1][:-5])):
    name = path.split("/")[-1][:-5]
    s = figures(name)
    if not s:
        continue
    rows, step = s["batch"] * s["beam"], s["p50_ms"] / 32
    print(f"{name:12} {s['tokens_per_s']:9.0f} {rows:9} {step:8.3f} {1e6 * step / rows:7.0f}")

print(f"\n{'natural text':12} {'tokens/s':>9} {'searching':>9} {'batches':>7} {'steps':>6} "
      f"{'anew':>5} {'rows/step':>9} {'computed':>8} {'ms/step':>8} {'ns/row':>7} {'waited':>6} "
      f"{'search':>7} {'tokens':>7} {'text':>6} {'rest':>6}")
for name in ["f32", "bf16", "large", "threads", "default", "again"]:
    s = stats(name)
    if not s or not s["steps"]:
        print(f"{name:12} no figures: see {folder}/{name}.log")
        continue
    search, steps = s["search"], s["steps"]
    # of two lanes the parts are added up, while they pass at the same time
    rest = max(s["seconds"] - search - s["prepare"] - s["read"], 0)
    print(f"{name:12} {s['target'] / s['seconds']:9.0f} {s['target'] / search:9.0f} "
          f"{s['batches']:7.0f} {steps:6.0f} {s['anew']:5.0f} {s['rows'] / steps:9.0f} "
          f"{s['computed'] / s['rows']:8.3f} {1e3 * search / steps:8.3f} "
          f"{1e9 * search / s['computed']:7.0f} {100 * s['waited'] / search:5.0f}% "
          f"{search:6.2f}s {s['prepare']:6.2f}s {s['read']:5.2f}s {rest:5.2f}s")

want = texts("default")
for name in ["f32", "bf16", "large", "threads", "again"]:
    got = texts(name)[:len(want)]
    if got:
        same = sum(a == b for a, b in zip(want, got))
        print(f"{same} of {len(want)} lines of {name} are those of default")
END

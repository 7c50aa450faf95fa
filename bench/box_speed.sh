#!/usr/bin/env bash
# box_speed.sh — how fast a model of the shipped shape translates on two cores, beside CTranslate2
# with the same weights: one sentence of 20 words at a time, and batches.
#
#     bench/box_speed.sh [HEED [WORK-DIR [MODEL TEXT]]]
#
# Without a model it makes one with random weights; its sentences are 26 random pieces, which is
# what 20 words of English are in a vocabulary of 12,288, and translations of 27 are forced. With a
# model and a text, a line per sentence, translations have their natural lengths; single sentences
# are then those of 18 to 22 words. A model that is int8 already cannot be exported to CTranslate2,
# and is measured alone. Every case runs REPEAT times, the engines in turn, and the best
# of each counts: other people's load can only slow a run down.
#
# Needs: pip install ctranslate2, and sentencepiece for a text.
#
# REPEAT=3  SENTENCES=256  THREADS=2  BEAMS='1 4'
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=bench/box_student.sh
. "$here/box_student.sh"
heed=${1:-build/heed} work=${2:-build/bench-box}
repeat=${REPEAT:-3} sentences=${SENTENCES:-256} threads=${THREADS:-2}
read -ra beams <<<"${BEAMS:-1 4}"
python3 -c 'import ctranslate2' ||
    { echo 'python3 has no ctranslate2: pip install ctranslate2' >&2; exit 1; }
mkdir -p "$work"
force=()
if [ $# -ge 4 ]; then
    ours=$3 theirs=$work/given-ct2
    if "$heed" export --model "$3" --out "$theirs" --format ctranslate2 --force >/dev/null; then
        ours=$work/given-int8
        "$heed" export --model "$3" --out "$ours" --format int8 --force >/dev/null
    else
        theirs=
    fi
    head -n "$sentences" "$4" >"$work/text.all"
    awk 'NF >= 18 && NF <= 22' "$4" | head -n 64 >"$work/text.single"
    for which in all single; do # the engine's own pieces as ids
        "$heed" translate --model "$ours" --quiet --beam 1 --json --alignment pieces \
            "$work/text.$which" | python3 -c '
import json, sys
import sentencepiece
known = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
for line in sys.stdin:
    pieces = json.loads(line)["source_pieces"]
    print(*(known.piece_to_id(p) for p in pieces), known.eos_id())' "$ours/tokenizer.model" \
            >"$work/ids.$which"
    done
    words=$(wc -w <"$work/text.all")
else
    random_student "$heed" "$work"
    ours=$work/int8 theirs=$work/ct2 force=(--force-length 27)
    python3 -c '
import random, sys
random.seed(1)
for _ in range(int(sys.argv[1])):
    print(*[random.randrange(4, 12288) for _ in range(26)], 2)' "$sentences" >"$work/ids.all"
    head -n 64 "$work/ids.all" >"$work/ids.single"
    words=$((20 * sentences))
fi

: >"$work/results"
for _ in $(seq "$repeat"); do
    for beam in "${beams[@]}"; do
        for which in all single; do
            batch=32
            [ $which = all ] || batch=1
            n=$(wc -l <"$work/ids.$which")
            "$heed" bench translate --json --model "$ours" --input "$work/ids.$which" \
                --threads "$threads" --batch $batch --beam "$beam" --sentences "$n" \
                "${force[@]}" >>"$work/results"
            [ -n "$theirs" ] || continue
            for inter in 1 "$threads"; do
                [ "$inter" = 1 ] || [ $which = all ] || continue
                python3 "$here/ct2.py" --model "$theirs" --input "$work/ids.$which" \
                    --compute int8 --inter "$inter" --intra $((threads / inter)) --batch $batch \
                    --beam "$beam" --max-length 200 "${force[@]}" >>"$work/results"
            done
        done
    done
done
python3 - "$work/results" "$words" "$threads" <<'PY'
import json, sys

runs = [json.loads(line) for line in open(sys.argv[1])]
words, threads = int(sys.argv[2]), sys.argv[3]
print(f"int8, {threads} threads{'':20}heed   CTranslate2   ratio")
for beam in sorted({r["beam"] for r in runs}):
    def of(ours, single):
        return [r for r in runs if r["beam"] == beam and (r["engine"] == "heed") == ours
                and (r["batch"] == 1) == single]  # fmt: skip

    p50 = [min((r["p50_ms"] for r in of(ours, True)), default=float("nan"))
           for ours in (True, False)]  # fmt: skip
    rate = [max((words * r["tokens_per_s"] / r["tokens"] for r in of(ours, False)),
                default=float("nan")) for ours in (True, False)]  # fmt: skip
    print(f"beam {beam}: 20 words, p50, ms   {p50[0]:12.1f}{p50[1]:14.1f}{p50[1] / p50[0]:7.1f}x")
    faster = rate[0] / rate[1]
    print(f"beam {beam}: batches, words/s    {rate[0]:12.0f}{rate[1]:14.0f}{faster:7.1f}x")
PY

#!/usr/bin/env bash
# translate.sh — heed beside CTranslate2: the same weights, the same sentences, the same cores, one
# after the other.
#
#     bench/translate.sh [HEED [WORK-DIR [TRAINED-MODEL IDS]]]
#
# Makes a model of preset base with a vocabulary of 32,000 (one update of training: the weights do
# not matter where lengths are forced), exports it for both engines, and measures f32 and int8:
# sentences of 32 tokens, singly and in batches of 32, with 1 and 2 threads and beam 1 and 4; on 2
# threads also beam 8, and texts of 500 tokens, singly and in batches of 4. With a trained model and
# sentences as ids (a line each) it also measures those at their natural lengths. CTranslate2 gets
# every sensible setting and its best one counts. Every case runs REPEAT times, the engines in turn,
# and the best of each counts: other people's load can only slow a run down. Texts of 500 tokens run
# once, since CTranslate2 takes minutes for them.
#
# Needs: pip install ctranslate2.  REPEAT=3  SENTENCES=64  JSON=1 (lines for bench/tables.py)
# THREADS='2 1' (the first also has beam 8 and long texts)  LONG=500 (0: no long texts)
set -euo pipefail
here=$(dirname "$0")
heed=${1:-build/heed} work=${2:-build/bench-translate}
repeat=${REPEAT:-3} sentences=${SENTENCES:-64} length=32 long=${LONG:-500}
read -ra counts <<<"${THREADS:-2 1}"
most=${counts[0]}
python3 -c 'import ctranslate2' ||
    { echo 'python3 has no ctranslate2: pip install ctranslate2' >&2; exit 1; }
mkdir -p "$work"

if [ ! -e "$work/ct2/model.bin" ] || [ ! -e "$work/long" ]; then
    # 32,000 pieces: the marks, the space, and words that are their own pieces.
    python3 - "$work" <<'PY'
import random, sys
random.seed(1)
words = ["w%05d" % i for i in range(31997)]
with open(sys.argv[1] + "/text", "w") as f:
    for i in range(0, len(words), 8):
        f.write(" ".join(words[i:i + 8]) + "\n")
for name, lines, length in ("ids", 4096, 32), ("long", 16, 500):
    with open(f"{sys.argv[1]}/{name}", "w") as f:
        for _ in range(lines):
            f.write(" ".join(str(random.randrange(3, 32000)) for _ in range(length - 1)) + " 2\n")
PY
    "$heed" vocab --input "$work/text" --out "$work/spm.model" --type word --size 32000 --quiet
    "$heed" train --preset base --tokenizer "$work/spm.model" --src "$work/text" \
        --tgt "$work/text" \
        --out "$work/model" --steps 1 --tokens 256 2>"$work/train.log"
    for format in f32 int8 ctranslate2; do
        out=$work/$format
        [ $format = ctranslate2 ] && out=$work/ct2
        "$heed" export --model "$work/model" --out "$out" --format $format --force >/dev/null
    done
fi

results=$work/results
: >"$results"
: >"$work/results-long"
heed_run() { # model ids threads batch beam sentences [options]
    "$heed" bench translate --json --model "$1" --input "$2" --threads "$3" --batch "$4" \
        --beam "$5" --sentences "$6" \
        "${@:7}" >>"$results"
}
ct2_run() { # model ids compute inter intra batch beam sentences [options]
    python3 "$here/ct2.py" --model "$1" --input "$2" --compute "$3" --inter "$4" --intra "$5" \
        --batch "$6" --beam "$7" \
        --sentences "$8" "${@:9}" >>"$results"
}

both() { # precision ids length threads batch beam sentences
    local compute=$1
    [ "$1" = f32 ] && compute=float32
    heed_run "$work/$1" "$2" "$4" "$5" "$6" "$7" --force-length "$3"
    ct2_run "$work/ct2" "$2" $compute 1 "$4" "$5" "$6" "$7" --force-length "$3"
    [ "$4" = 1 ] || [ "$5" = 1 ] ||
        ct2_run "$work/ct2" "$2" $compute "$4" 1 "$5" "$6" "$7" --force-length "$3"
}

for _ in $(seq "$repeat"); do
    for precision in int8 f32; do
        for beam in 4 1; do
            for threads in "${counts[@]}"; do
                both $precision "$work/ids" $length $threads 32 $beam "$sentences"
                both $precision "$work/ids" $length $threads 1 $beam 8
            done
        done
        both $precision "$work/ids" $length "$most" 32 8 "$sentences"
        both $precision "$work/ids" $length "$most" 1 8 8
    done
done
short=$results results=$work/results-long
for precision in int8 f32; do
    [ "$long" -gt 0 ] || break
    both $precision "$work/long" "$long" "$most" 4 4 8 # two batches: one per worker of CTranslate2
    both $precision "$work/long" "$long" "$most" 1 4 1
done
results=$short
table() { python3 "$here/translate_table.py" ${JSON:+--json} "$@"; } # runs length title
table "$results" $length "base, random weights, $length tokens in and out"
[ ! -s "$work/results-long" ] ||
    table "$work/results-long" "$long" "base, random weights, $long tokens in and out"

if [ $# -ge 4 ]; then
    : >"$results"
    for format in f32 int8 ctranslate2; do
        "$heed" export --model "$3" --out "$work/trained-$format" --format $format \
            --force >/dev/null
    done
    n=$(wc -l <"$4")
    for _ in $(seq "$repeat"); do
        for precision in int8 f32; do
            compute=$precision
            [ $precision = f32 ] && compute=float32
            heed_run "$work/trained-$precision" "$4" 2 32 4 "$n"
            ct2_run "$work/trained-ctranslate2" "$4" $compute 1 2 32 4 "$n"
            ct2_run "$work/trained-ctranslate2" "$4" $compute 2 1 32 4 "$n"
        done
    done
    table "$results" 0 "$3, natural lengths"
fi

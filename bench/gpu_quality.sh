#!/usr/bin/env bash
# gpu_quality.sh — the paper's recipe with a tiny model on a small corpus: how good, how fast,
# beside PyTorch?
#
#     bench/gpu_quality.sh DATA [HOME [OUT]]
#
# DATA: a folder with train, valid and test, each as .en and .de, plain or .xz (Multi30k en-de is
# what the figures in docs/benchmarks.md are of). HOME: where heed is (a build, or local/gpu).
# Vocabulary of 8,000, 4,000 updates, validated and saved every 250, the last 5 averaged, beam 4.
# STEPS, EVERY, SIZE and DEVICE make it smaller for a try. Leaves OUT/quality.heed.json and
# OUT/quality.torch.json.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 1 ]; then echo "usage: bench/gpu_quality.sh DATA [HOME [OUT]]" >&2 && exit 2; fi
data=$1 home=${2:-local/gpu} out=${3:-${2:-local/gpu}/quality}
device=${DEVICE:-cuda} steps=${STEPS:-4000} every=${EVERY:-250}
. bench/gpu_home.sh
LIMIT=600
rm -rf "$out"
mkdir -p "$out"

text() { # SPLIT LANGUAGE — its path
    local path
    for path in "$data/$1.$2" "$data/$1.$2.xz"; do
        if [ -e "$path" ]; then echo "$path" && return; fi
    done
    echo "$data: neither $1.$2 nor $1.$2.xz" >&2 && exit 1
}
now() { date +%s.%N; }
bleu() { "$heed" eval --hyp "$1" --ref "$(text test de)" --metric bleu --score-only --width 2; }

"$heed" vocab --input "$(text train en)" "$(text train de)" --size "${SIZE:-8000}" --quiet \
    --out "$out/spm.model"
begin=$(now)
"$heed" train --device "$device" --preset tiny --tokenizer "$out/spm.model" --warmup 1500 \
    --tokens 7350 \
    --dropout 0.3 --steps "$steps" --valid-every "$every" --save-every "$every" --keep 5 \
    --out "$out/run" \
    --src "$(text train en)" --tgt "$(text train de)" \
    --valid-src "$(text valid en)" --valid-tgt "$(text valid de)"
trained=$(now)
"$heed" average --last 5 --out "$out/average" "$out/run"
"$heed" translate --device "$device" --model "$out/average" --quiet \
    --output "$out/hyp.heed" "$(text test en)"
awk -v a="$begin" -v b="$trained" -v bleu="$(bleu "$out/hyp.heed")" -v steps="$steps" 'BEGIN {
    printf "{\"bench\":\"quality\",\"engine\":\"heed\",\"steps\":%d,", steps
    printf "\"train_s\":%.1f,\"bleu\":%s}\n", b - a, bleu }' | tee "$out/quality.heed.json"

# The peer trains on the very same pieces.
for split in train valid test; do
    for language in en de; do
        file=$(text $split $language)
        "$heed" score --device "$device" --model "$out/average" --src "$file" --tgt "$file" --json \
            --token-scores --quiet --tokens 16384 >"$out/$split.$language.json"
    done
done
python bench/torch_gpu_quality.py --train "$out"/train.{en,de}.json \
    --valid "$out"/valid.{en,de}.json \
    --test "$out/test.en.json" --out "$out/hyp.torch" --steps "$steps" --every "$every" \
    --device "$device" |
    tee "$out/torch.txt"
rm "$out"/{train,valid,test}.{en,de}.json
tail -n 1 "$out/torch.txt" | sed "s/}\$/,\"bleu\":$(bleu "$out/hyp.torch")}/" |
    tee "$out/quality.torch.json"

#!/usr/bin/env bash
# 8-links.sh PAIR — for a student whose head has learnt its links badly (heed align --gold, one
# model alone): it learns those that the student of the other direction has, on its own
# translations, so that nothing else changes, its weights rounded as by int8. The mean of the
# weights before and after, $WORK/links.PAIR/mean, has most of the links and all of the BLEU;
# 7-pack.sh PAIR, run again, ships it. Needs both models packed; half an hour of one core, no GPU.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/8-links.sh en-de|de-en [OPTIONS of heed train]}
shift
read -r from to <<<"$(both "$pair")"
models=${MODELS:-models} out=$WORK/links.$pair
declare -A lines=([tatoeba]=20000 [msdocs]=20000 [europarl]=25000)

some() { # CORPUS FILE
    local text=$WORK/clean/$1.$from
    shuf -n "${lines[$1]}" --random-source="$text" "$text" >"$2"
}
translate() { # CORPUS FILE
    "$HEED" translate --device cpu --model "$models/$pair" --output "$2" "$out/$1.$from"
}
align() { # CORPUS FILE: the links of the other model, turned round
    "$HEED" align --device cpu --model "$models/$(opposite "$pair")" --alignment-threshold 0.4 \
        --src "$out/$1.$to" --tgt "$out/$1.$from" --output "$out/turned"
    sed -E 's/([0-9]+)-([0-9]+)/\2-\1/g' "$out/turned" >"$2"
}
src=() tgt=() links=()
for corpus in "${CORPORA[@]}"; do
    make_file "$out/$corpus.$from" some "$corpus"
    make_file "$out/$corpus.$to" translate "$corpus"
    make_file "$out/$corpus.align" align "$corpus"
    make_file "$out/noise.$corpus.$from" noisy "$out/$corpus" --seed 11 --copies 0.4
    src+=("$out"/{,noise.}"$corpus.$from") tgt+=("$out"/{,noise.}"$corpus.$to")
    links+=("$out/$corpus.align" -)
done
make_file "$out/copy.$from" noisy "$out/tatoeba" --seed 11 --copies 1 \
    --kinds names,insert,numbers,sample

"$HEED" train --device cpu --dtype bf16 --rounding int8 --init "$models/$pair" \
    --src "${src[@]}" "$out/copy.$from" --tgt "${tgt[@]}" "$out/copy.$to" \
    --guided-alignment "${links[@]}" - --guided-layer 2 --guided-weight 1 \
    --valid-src "$WORK/valid.$from" --valid-tgt "$WORK/valid.$to" \
    --dropout 0.05 --label-smoothing 0.1 --bpe-dropout 0.03 --sample-side src \
    --tokens "${TOKENS:-4000}" --max-length 192 --steps "${STEPS:-500}" --warmup 50 \
    --lr-scale 0.012 --cooldown "${COOLDOWN:-450}" --ema 0.99 --keep 1 \
    --out "$out/run" --overwrite "$@"
"$HEED" average --last 1 --out "$out/after" --overwrite "$out/run"
"$HEED" average --out "$out/mean" --overwrite "$WORK/student.$pair.f32" "$out/after"

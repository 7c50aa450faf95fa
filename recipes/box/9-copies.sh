#!/usr/bin/env bash
# 9-copies.sh PAIR — for a student that translates names and addresses which it should copy (make
# scores): half an hour of one core on sentences that have such things, two fifths of all, and on
# others, so that nothing is forgotten, its weights rounded as by int8. The mean of the weights
# before, once, and after, three times, $WORK/copies.PAIR/mean, copies as well and has most of the
# BLEU; 7-pack.sh PAIR, run again, ships it. Needs 4-translate.sh PAIR and the model packed; no GPU.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/9-copies.sh en-de|de-en [OPTIONS of heed train]}
shift
read -r from to <<<"$(both "$pair")"
models=${MODELS:-models} out=$WORK/copies.$pair
declare -A lines=([tatoeba]=157434 [msdocs]=80000 [europarl]=80000)
linked=25000 # of each

some() { # CORPUS FILE: source and translation of some lines that are not long
    local text=$WORK/clean/$1.$from
    unpack "$WORK/translated.$pair/$1.$to.xz" | paste "$text" - | awk 'length($0) < 420' |
        shuf -n "${lines[$1]}" --random-source="$text" >"$2"
}
column() { cut -f"$1" "$2" >"$3"; }             # NUMBER PAIRS FILE
first() { head -n $linked "$1" >"$2"; }         # TEXT FILE
rest() { tail -n +$((linked + 1)) "$1" >"$2"; } # TEXT FILE
align() { # CORPUS FILE
    "$HEED" align --device cpu --model "$models/$pair" --alignment-threshold 0.4 \
        --src "$out/$1.$from" --tgt "$out/$1.$to" --output "$2"
}
src=() tgt=() links=()
add() { src+=("$out/$1.$from") tgt+=("$out/$1.$to") links+=("${2:--}"); } # NAME [LINKS]
seed=11
for corpus in "${CORPORA[@]}"; do
    make_file "$out/$corpus.pairs" some "$corpus"
    number=1
    for language in "$from" "$to"; do
        make_file "$out/$corpus.all.$language" column $((number++)) "$out/$corpus.pairs"
        make_file "$out/$corpus.$language" first "$out/$corpus.all.$language"
        make_file "$out/$corpus.rest.$language" rest "$out/$corpus.all.$language"
    done
    make_file "$out/$corpus.align" align "$corpus"
    add "$corpus" "$out/$corpus.align"
    if [ "$corpus" = tatoeba ]; then # short, so they cost little, and there can be many
        copies=(--copies 2 --kinds 'names,insert,numbers,sample')
    else
        copies=(--copies 0.5 --kinds 'names,insert')
        if [ -s "$out/$corpus.rest.$from" ]; then add "$corpus.rest"; fi
    fi
    make_file "$out/copy.$corpus.$from" noisy "$out/$corpus.all" --seed $seed "${copies[@]}"
    make_file "$out/noise.$corpus.$from" noisy "$out/$corpus.all" --seed $((seed++ + 3)) \
        --copies 0.3
    add "copy.$corpus"
    add "noise.$corpus"
done

"$HEED" train --device cpu --dtype bf16 --rounding int8 --init "$WORK/student.$pair.f32" \
    --src "${src[@]}" --tgt "${tgt[@]}" \
    --guided-alignment "${links[@]}" --guided-layer 2 --guided-weight 0.5 \
    --valid-src "$WORK/valid.$from" --valid-tgt "$WORK/valid.$to" \
    --dropout 0.05 --label-smoothing 0.1 --bpe-dropout 0.03 --sample-side src \
    --tokens "${TOKENS:-4000}" --max-length 192 --steps "${STEPS:-1600}" --warmup 100 \
    --lr-scale 0.04 --cooldown "${COOLDOWN:-1400}" --ema 0.99 --keep 1 \
    --out "$out/run" --overwrite "$@"
"$HEED" average --last 1 --out "$out/after" --overwrite "$out/run"
"$HEED" average --out "$out/mean" --overwrite "$WORK/student.$pair.f32" "$out/after"{,,}

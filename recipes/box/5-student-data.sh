#!/usr/bin/env bash
# 5-student-data.sh PAIR — what a student learns from besides the teacher's translations, in
# $WORK/student.PAIR: noisy copies of them (noise.{en,de}, on a CPU, minutes), everyday sentences
# with made-up names, numbers and addresses (copy.{en,de}), and which words of each clean pair
# belong together (CORPUS.align, by the attention of both teachers; a minute of a GPU), which one of
# the student's heads is taught. Needs 4-translate.sh PAIR and both teachers, or other models to
# link by: LINKERS, options of heed align, --model models/de-en for instance.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/5-student-data.sh en-de|de-en}
read -r from to <<<"$(both "$pair")"
out=$WORK/student.$pair
mkdir -p "$out"

noisy() { # FILE: of the source; the target's is beside it
    local corpus seed=1
    : >"$1"
    : >"$out/noise.$to"
    for corpus in "${CORPORA[@]}"; do
        recipes/box/noise.py --langs "$from,$to" --copies 1 --seed $((seed++)) \
            "$WORK/clean/$corpus.$from" "$WORK/translated.$pair/$corpus.$to.xz" \
            "$out/one.$from" "$out/one.$to"
        cat "$out/one.$from" >>"$1"
        cat "$out/one.$to" >>"$out/noise.$to"
    done
    rm "$out"/one.*
}
# Short, so they cost little, and there are many: what is copied must not be learnt by heart.
copied() { # FILE: of the source
    recipes/box/noise.py --langs "$from,$to" --copies 2 --seed 11 \
        --kinds names,insert,numbers,sample \
        "$WORK/clean/tatoeba.$from" "$WORK/translated.$pair/tatoeba.$to.xz" "$1" "$out/copy.$to"
}
{ # the processor makes noise while the GPU aligns
    make_file "$out/noise.$from" noisy
    make_file "$out/copy.$from" copied
} &
noise=$!

teachers="--model $WORK/teacher.$pair --reverse $WORK/teacher.$(opposite "$pair")"
read -ra linkers <<<"${LINKERS:-$teachers}"
align() { # CORPUS FILE
    "$HEED" align --device "$DEVICE" "${linkers[@]}" --src "$WORK/clean/$1.$from" \
        --tgt "$WORK/translated.$pair/$1.$to.xz" --output "$2"
}
for corpus in "${CORPORA[@]}"; do make_file "$out/$corpus.align" align "$corpus"; done
wait $noise

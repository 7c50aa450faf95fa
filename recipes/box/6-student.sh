#!/usr/bin/env bash
# 6-student.sh PAIR — trains the student on the teacher's translations and their noisy copies:
# $WORK/run.student.PAIR. A deep encoder, which runs once per sentence, and a shallow decoder, which
# runs once per word. About 6 minutes of one H200; stop and start it as you like.
#
# Label smoothing stays as for a teacher, dropout is half of it. With neither it learns its text by
# heart, small as it is, made-up names and addresses included, which it is to copy; with all of the
# dropout it learns too little in the time (docs/notes/box.md).
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/6-student.sh en-de|de-en [OPTIONS of heed train]}
shift
read -r from to <<<"$(both "$pair")"
data=$WORK/student.$pair

src=() tgt=() weights=() links=()
declare -A weight=([tatoeba]=4 [msdocs]=2 [europarl]=1) # half of all words are europarl's
for corpus in "${CORPORA[@]}"; do
    src+=("$WORK/clean/$corpus.$from") tgt+=("$WORK/translated.$pair/$corpus.$to.xz")
    weights+=("${weight[$corpus]}") links+=("$data/$corpus.align")
done
# Everyday sentences have many good translations: those that people wrote count as well.
src+=("$WORK/clean/tatoeba.$from") tgt+=("$WORK/clean/tatoeba.$to") weights+=(2) links+=(-)
again=$WORK/translated.$pair/again
if [ -e "$again.$to.xz" ]; then
    src+=("$again.$from") tgt+=("$again.$to.xz") weights+=(2) links+=(-)
fi
for kind in noise copy; do
    src+=("$data/$kind.$from") tgt+=("$data/$kind.$to") weights+=(1) links+=(-)
done

"$HEED" train --device "$DEVICE" --tokenizer "$WORK/student.model" \
    --n-layer-enc 6 --n-layer-dec 2 --d-model 256 --d-ff 1536 --n-head 8 \
    --dropout 0.05 --label-smoothing 0.1 \
    --src "${src[@]}" --tgt "${tgt[@]}" --weights "${weights[@]}" \
    --guided-alignment "${links[@]}" --guided-layer 2 \
    --valid-src "$WORK/valid.$from" --valid-tgt "$WORK/valid.$to" \
    --cache "$WORK/cache" --tokens "${TOKENS:-25000}" --steps "${STEPS:-50000}" \
    --cooldown "${COOLDOWN:-20000}" --lr-scale 1.2 --bpe-dropout 0.03 --sample-side src \
    --ema 0.9995 --max-length 192 --valid-every 4000 --save-every 4000 --keep 2 \
    --out "$WORK/run.student.$pair" "$@"

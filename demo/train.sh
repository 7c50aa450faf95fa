#!/usr/bin/env bash
# train.sh — a small translator, trained from nothing and shown on sentences it never saw.
#
#     demo/train.sh [HEED [OUT-DIR [heed train options...]]]
#
# `make demo-train` calls it. It only runs commands anybody can type, and prints each before it
# runs it.
set -euo pipefail
heed=${1:-build/heed} out=${2:-build/demo}
shift $(($# < 2 ? $# : 2))
demo=$(dirname "$0")

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

echo "heed learns to translate short English sentences into German: a minute or two on two cores."
echo "Stop it with Ctrl-C if you like: run it again to continue where it stopped."
run "$heed" train --config "$demo/train.json" \
    --src "$demo/train.en.xz" --tgt "$demo/train.de.xz" \
    --valid-src "$demo/valid.en.xz" --valid-tgt "$demo/valid.de.xz" --out "$out" "$@"
run "$heed" average --out "$out/average" --overwrite --last 5 "$out"
run "$heed" translate --model "$out/average" --output "$out/heldout.de" --quiet "$demo/heldout.en"
echo
# Every fiftieth sentence beside its translation and the reference.
paste -d '\t' "$demo/heldout.en" "$out/heldout.de" "$demo/heldout.de" | awk -F '\t' 'NR % 50 == 25 {
    printf "  %s\n    -> %s%s\n", $1, $2, $2 == $3 ? "   (as the reference)" : ""
    if ($2 != $3) printf "       (reference: %s)\n", $3 }'
run "$heed" eval --ref "$demo/heldout.de" --hyp "$out/heldout.de"

cat <<END

None of these sentences were in the training data. Try your own, short and simple ones:
    echo 'Where is my book?' | $heed translate --model $out/average
To draw its learning curves:
    $heed inspect $out --curves $out/curves.svg
Everything it wrote is in $out; remove that directory to train again.
END

#!/usr/bin/env bash
# test_align_gold.sh — error rates on alignments made by hand that may not be shipped: in
# $HEED_DATA/align, or shared/data/align beside this tree. What is counted there does not depend on
# the model; how well it aligns does, and is judged where the models in the box are.
# timeout: 180
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
hand=${HEED_DATA:-$tree/../shared/data}/align
[ -d "$hand" ] || skip "no alignments in $hand (HEED_DATA says where they are)"

# rate OPTION... — of heed align on set $name; leaves what it says in said and err
rate() {
    "$heed" align "$@" --gold "$hand/$name.align" --json >said 2>err ||
        fail "$name: $(cat err)"
}
"$heed" train --src t.src --tgt t.tgt "${model[@]}" --tokens 400 --threads 1 --warmup 50 --steps 1 \
    --quiet --out m || fail 'training'
name=cmu-europarl-dev
rate --model m --src "$hand/$name.de" --tgt "$hand/$name.en"
grep -q '"pairs":126,"links":[0-9]*,"sure":2270,"possible":883,' said || fail "$name: $(cat said)"
[ ! -s err ] || fail "$name: $(cat err)"
rate --model m --src "$hand/$name.en" --tgt "$hand/$name.de" --gold-reversed
grep -q '"sure":2270,"possible":883,' said || fail "$name, turned: $(cat said)"
name=bicici-europarl-100
rate --model m --src "$hand/$name.de" --tgt "$hand/$name.en"
grep -q '"pairs":100,"links":[0-9]*,"sure":1232,"possible":0,' said || fail "$name: $(cat said)"
grep -q 'links to words that do not exist, left out: 1$' err || fail "$name: $(cat err)"

models=$tree/models
[ -d "$models/en-de" ] && [ -d "$models/de-en" ] || skip 'no models of both directions in models/'
# at most 0.03 worse than eflomal, trained on the same corpora (recipes/box/eflomal.json)
for name in cmu-europarl-dev bicici-europarl-100; do
    rate --model "$models/de-en" --reverse "$models/en-de" --src "$hand/$name.de" \
        --tgt "$hand/$name.en"
    aer=$(sed 's/.*"aer":\([0-9.]*\).*/\1/' said)
    other=$(sed -n "s/.*\"$name\": \([0-9.]*\).*/\1/p" "$tree/recipes/box/eflomal.json")
    awk -v a="$aer" -v b="$other" 'BEGIN { exit !(b > 0 && a <= b + 0.03) }' ||
        fail "$name: $(cat said), eflomal $other"
done

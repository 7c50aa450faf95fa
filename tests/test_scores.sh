#!/usr/bin/env bash
# test_scores.sh — bench/scores.py, which `make scores` runs, and the model card that is made of
# what it finds: the figures are those that heed prints, sets that are not there are named, missed
# bars are told, and no figure stands in a card that was not measured.
# timeout: 180
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
command -v python3 >/dev/null || skip 'no python3'
export PYTHONDONTWRITEBYTECODE=1

train run --steps 300 --save-every 300 --max-len 64 --quiet || fail 'no model to score'
for pair in en-de de-en; do
    "$heed" quantize --model run --out models/$pair >/dev/null
    "$heed" export --model run --format f32 --out f32/$pair >/dev/null
done
mkdir -p data/msdocs-en-de data/tatoeba-en-de
cp v.src data/msdocs-en-de/test.en
xz -c v.tgt >data/msdocs-en-de/test.de.xz
cp t.src data/tatoeba-en-de/test.en # and no German

scores=(python3 "$tree/bench/scores.py" --heed "$heed" --models models --data data --out out
    --repeat 1 --teachers teachers.json)
cat >teachers.json <<'END'
{"en-de": {"msdocs": {"bleu": 99.5, "chrf2": 99.0}}}
END
"${scores[@]}" --f32 f32 --json all.json --quality-json quality.json >report ||
    fail "scores.py: $(tail -n 3 report)"
for what in newstest2014 europarl tatoeba; do
    grep -q "^LEFT OUT: $what: no test.en and test.de in data/" report ||
        fail "$what is not missed: $(cat report)"
done

# ---- quality: what heed translates and evaluates itself
"$heed" translate --model models/en-de --quiet v.src >hyp
want=$("$heed" eval --ref v.tgt --hyp hyp --metric bleu --score-only --width 2)
value() { # PAIR NAME — its figure
    python3 - "$1" "$2" <<'END'
import json, sys
found = [f["value"] for f in json.load(open("all.json"))["figures"]
         if f["pair"] == sys.argv[1] and f["name"].startswith(sys.argv[2])]
print(*found)
END
}
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a - b < 0.006 && b - a < 0.006) }'; }
near "$(value en-de 'msdocs BLEU' | cut -d ' ' -f 1)" "$want" ||
    fail "BLEU: $(value en-de 'msdocs BLEU') instead of $want"
near "$(value en-de "msdocs BLEU less than the teacher's")" "$(awk -v b="$want" \
    'BEGIN { print 99.5 - b }')" || fail 'distance from the teacher'
[ "$(value en-de 'different outputs')" = 1 ] || fail 'bytes depend on the instruction set'
size=$(cat models/en-de/* | wc -c)
near "$(value en-de 'size')" "$(awk -v n="$size" 'BEGIN { print n / 1e6 }')" || fail 'size'
[ -n "$(value en-de 'msdocs BLEU lost to int8')" ] || fail 'no comparison with f32'
[ -n "$(value de-en 'names, numbers, addresses copied')" ] || fail 'no robustness'
pairs=$tree/tests/data/align/align60
"$heed" align --model models/en-de --reverse models/de-en --src "$pairs.en" --tgt "$pairs.de" \
    --gold "$pairs.align" >aer
near "$(value both 'alignment error rate, align60')" "$(sed 's/AER \([0-9.]*\).*/\1/' aer)" ||
    fail "alignment: $(value both alignment), $(cat aer)"
grep -q '^LEFT OUT: alignments of cmu-europarl-dev: no ' report || fail 'no word of alignments'
for what in 'one sentence' 'batch' 'start' 'resident after one'; do
    awk -v x="$(value en-de "$what" | cut -d ' ' -f 1)" 'BEGIN { exit !(x > 0 && x < 1e7) }' ||
        fail "$what: $(value en-de "$what")"
done
grep -q 'tok:13a' report || fail 'no signature'
grep -q '^| msdocs | [0-9.]* / [0-9.]* | 99.5 / 99.0 |' report || fail "table: $(cat report)"

# ---- bars: this model meets few of them
grep -q '^MISSED: en-de msdocs BLEU: .*asked 52' report || fail 'a missed bar is not told'
expect 1 'MISSED: en-de msdocs chrF2' "${scores[@]}" --only quality --check
expect 0 '≤ 13: ok' "${scores[@]}" --only size --check
expect 1 'asked 55.5' "${scores[@]}" --only quality --role teacher --check
expect 2 "no section is called 'luck'" "${scores[@]}" --only luck
expect 1 'no model in nowhere' "${scores[@]}" --models nowhere

# ---- the card
card=(python3 "$tree/recipes/box/card.py" --model models/en-de)
expect 0 README.md "${card[@]}" --scores all.json
for text in '© European Union, 2001–2012 – Source: European Parliament' \
    'Attribution: www.manythings.org/anki and tatoeba.org' \
    'Attribution: Microsoft Corporation and contributors. Changes were made.' \
    '| encoder, decoder | 1 and 1 layers |' '## Robustness' '99.5 / 99.0'; do
    grep -qF -e "$text" models/en-de/README.md ||
        fail "no '$text' in the card: $(cat models/en-de/README.md)"
done
"$heed" translate --model models/en-de --quiet v.src | cmp - hyp || fail 'a card changes the model'
"${card[@]}" --out bare.md
absent '## (Scores|Robustness|Speed)' bare.md 'figures from nowhere'
expect 2 "'run' is neither en-de nor de-en" python3 "$tree/recipes/box/card.py" --model run

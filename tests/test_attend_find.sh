#!/usr/bin/env bash
# test_attend_find.sh — heed attend --find: its measures are those that Python computes from the
# weights that heed attend prints; its files are JSON and XML; bad input is named.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
python=$(command -v python3 || true)
cat >trees <<'TREES'
(S (NP (DT ba) (NN dodo)) (VP (VBD kili) (NP (PRP$ ba) (NN mumo))) (. .))
(S (NP (NP (DT ba) (NN dodo)) (PP (IN ne) (NP (NN repo) (, ,) (CC so) (NN tusi)))) (VP (VBZ gila)))
(S (NP (NP (DT ba) (NN dodo)) (PP (IN ne) (NP (NN repo) (, ,) (CC so) (NN tusi)))) (VP (VBZ dodo)))
(S (PP (IN ne) (NP (NN lada))) (, ,) (NP (NN dodo)) (VP (VBZ gila) (ADVP (RB pune))) (. .))
TREES
# parents as a person finds them; the tree of line 2 hangs "gila" six words from "dodo", that of
# line 3 "dodo", which is not "far" but "same"
parents=('[1,2,-1,4,2,2]' '[1,7,6,6,6,6,1,-1]' '[1,7,6,6,6,6,1,-1]' '[1,4,4,4,-1,4,4]')
printf '%s\n' 'dodo kili lada kili' 'mumo repo dodo' >text
printf '%s\n' 'kili , dodo lada , kili .' 'dodo dodo repo mumo' >target
printf '%s\n' '3-1 2-0' '' >links
cat t.src trees | tr -d '()' >all
yes 'ba , dodo .' | head -n 200 >>all || true
"$heed" vocab --input all --size 60 --out pieces.model --quiet || fail vocab
"$heed" train --src t.src --tgt t.tgt --tokenizer pieces.model --preset tiny --n-layer 2 \
    --d-model 32 --n-head 4 --d-ff 64 --max-len 100 --max-length 100 --tokens 400 --steps 25 \
    --warmup 10 --threads 1 --quiet --out m || fail training

"$heed" attend --find --model m --trees trees --src-file text --tgt-file target --links links \
    --out found --threads 1 >table 2>said || fail "find: $(cat said)"
grep -q '^6 sentences, 36 words$' said || fail "said: $(cat said)"
[ "$(grep -cE '^(enc|dec|cross) [12]\.[1-4] ' table)" = 24 ] || fail "not all heads: $(cat table)"
grep -q '^heads of the encoder by kind: ' table || fail "no kinds: $(cat table)"
grep -qE '^  parent +enc [12]\.[1-4] .* (trees|src) line [1-6]: [a-z]+ -> [a-z]+ [01]\.[0-9]+$' \
    table || fail "no best case: $(cat table)"
for f in far structure-1; do
    [ -s found/$f.svg ] || fail "no $f.svg: $(ls found)"
done
[ "$(grep -c '<title>head' found/far.svg)" = 4 ] || fail 'far.svg has not all heads'
[ "$(grep -c '<title>head' found/structure-1.svg)" = 1 ] || fail 'structure-1.svg has several'
[ "$(grep -c "font-weight='700'" found/far.svg)" = 1 ] || fail 'no word of far.svg is the one'
"$heed" attend --find --model m --trees trees --src-file text --tgt-file target --links links \
    --json --quiet >again.json || fail 'find --json'
"$heed" attend --find --model m --src-file text --quiet --lines 1 >one || fail 'find --lines'
cut -c1-10 one | grep -q '^enc 2.4' || fail "one line: $(cat one)"
grep -qE '^enc 1.1 .* - +- +- +-$' one || fail "no tree, but agreement with it: $(cat one)"

if [ -z "$python" ]; then
    echo "SKIPPED: there is no python3 to compute the measures a second time" >&2
else
    words() { sed -e 's/([^ ]* *//g' -e 's/)//g' -e 's/  */ /g' "$1"; }
    { words trees && cat text; } >sentences
    n=0 pairs=()
    while IFS= read -r line; do
        n=$((n + 1))
        tgt=()
        [ $n -le 4 ] || tgt=(--tgt-file target --line $((n - 4)))
        "$heed" attend --model m --src "$line" "${tgt[@]}" --out "p$n.json" --threads 1 --quiet ||
            fail "pair $n"
        pairs+=("p$n.json")
        link=null
        case $n in 5) link='[[3,1],[2,0]]' ;; 6) link='[]' ;; esac
        printf '{"parents": %s, "links": %s}\n' "${parents[n - 1]:-null}" "$link" >>facts.lines
    done <sentences
    python3 - facts.lines "${pairs[@]}" >facts.json <<'PY' || fail facts
import json, sys
facts = [json.loads(line) for line in open(sys.argv[1])]
for fact, path in zip(facts, sys.argv[2:], strict=True):
    # what the decoder reads are the keys of its self-attention
    fact["input"] = next(k["key"] for k in json.load(open(path))["kinds"] if k["kind"] == "dec")
print(json.dumps(facts))
PY
    for f in found/heads.json again.json; do
        n=$(python3 "$tree/tests/attend_find.py" $f facts.json "${pairs[@]}" 2>&1) ||
            fail "$f is not what Python computes: $n"
        [ "$n" -ge 200 ] || fail "Python compared only $n numbers"
    done
    for f in found/*.svg; do
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$f" ||
            fail "$f is not XML"
    done
fi

# Wrong usage, and files that cannot be.
find=("$heed" attend --find --model m)
expect 2 '--find needs sentences' "${find[@]}"
expect 2 'takes sentences from files' "${find[@]}" --src-file text --layer 1
expect 2 'takes sentences from files' "${find[@]}" --src x
expect 2 'go with --find' "$heed" attend --model m --src x --trees trees --out x.svg
echo '(S (NP' >open
expect 1 'open:1: ' "${find[@]}" --trees open
echo '1-x' >badlinks
expect 1 'badlinks' "${find[@]}" --src-file text --links badlinks
echo '0-1' >few
expect 2 'few ends before line 2 of the source' "${find[@]}" --src-file text --links few
awk 'BEGIN { for (i = 0; i < 200; i++) printf "dodo "; print "" }' >long
expect 2 'no sentence of 1 could be measured; the last: ' "${find[@]}" --src-file long

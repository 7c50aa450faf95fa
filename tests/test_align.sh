#!/usr/bin/env bash
# test_align.sh — heed align: a line per pair, the same in any batch, both directions put together,
# error rates by hand, choosing and storing; and the alignments made by hand themselves.
# timeout: 180
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
gold=$tree/tests/data/align/align60

# ---- the hand-made pairs are what they say they are
awk 'FILENAME ~ /en$/ { e[FNR] = NF } FILENAME ~ /de$/ { d[FNR] = NF }
     FILENAME ~ /align$/ { n++
         if (!NF || e[FNR] < 5 || e[FNR] > 16) { print FNR ": " e[FNR] " tokens"; exit 1 }
         for (i = 1; i <= NF; i++) {
             if ($i !~ /^[0-9]+[-?][0-9]+$/) { print FNR ": " $i; exit 1 }
             split($i, l, /[-?]/)
             if (l[1] + 0 >= e[FNR] || l[2] + 0 >= d[FNR]) { print FNR ": " $i; exit 1 } } }
     END { if (n != 60) { print n; exit 1 } }' $gold.en $gold.de $gold.align >said ||
    fail "align60: $(cat said)"

# ---- models of both directions
"$heed" train "${data[@]}" "${model[@]}" --n-layer 2 --tokens 400 --max-length 40 --threads 1 \
    --warmup 50 --steps 40 --quiet --out run || fail 'training'
"$heed" average --out m --last 1 run >/dev/null || fail 'average'
"$heed" train --src t.tgt --tgt t.src --tokenizer run/tokenizer.model "${model[@]:0:10}" \
    --tokens 400 --threads 1 --warmup 50 --steps 20 --quiet --out back || fail 'training back'
a() { "$heed" align --quiet --model m "$@"; }
both=(--src v.src --tgt v.tgt)

# ---- lines
a "${both[@]}" >one || fail 'align'
[ "$(wc -l <one)" = 60 ] || fail 'not a line per pair'
[ "$(grep -cE '^[0-9]+-[0-9]+( [0-9]+-[0-9]+)*$' one)" = 60 ] || fail "links: $(head -n 3 one)"
a "${both[@]}" --tokens 1 --threads 1 | cmp - one || fail 'the batch size changes links'
a "${both[@]}" --threads 3 | cmp - one || fail 'threads change links'
paste v.src v.tgt | tac | awk -F '\t' '{ print $1 >"r.src"; print $2 >"r.tgt" }'
a --src r.src --tgt r.tgt | tac | cmp - one || fail 'neighbours change links'
a --src - --tgt v.tgt --output file <v.src && cmp file one || fail '--output'
a --src - --tgt v.tgt --output - <v.src | cmp - one || fail '--output -'
a "${both[@]}" --alignment-layer 2 | cmp - one || fail 'naming the usual layer changes its row'
a "${both[@]}" --alignment-layer 2 --alignment-head 1 --alignment-row output >other
differ one other 'layers, heads and rows do not matter'
# words without a clear link
a "${both[@]}" --alignment-threshold 1 >none
[ "$(tr -d '\n' <none)" = '' ] && [ "$(wc -l <none)" = 60 ] || fail '--alignment-threshold 1'
a "${both[@]}" --alignment-threshold 0.3 >few
awk 'FILENAME == "one" { all[FNR] = " " $0 " "; n += NF; next }
     { m += NF; for (i = 1; i <= NF; i++) if (!index(all[FNR], " " $i " ")) exit bad = 1 }
     END { exit bad || !m || m >= n }' one few || fail "--alignment-threshold: $(cat few)"
cp -r m with && "$heed" describe with --set alignment_threshold=0.3 &&
    "$heed" align --quiet --model with "${both[@]}" | cmp - few || fail 'the threshold of a model'
# what translate says of its own translations, where their text has the pieces they were written in
if command -v python3 >/dev/null; then
    "$heed" vocab --input t.src --size 40 --type char --out char.model --quiet || fail 'vocab'
    "$heed" train --src t.src --tgt t.src --tokenizer char.model "${model[@]:0:10}" --tokens 400 \
        --threads 1 --warmup 50 --steps 30 --quiet --out chars || fail 'training'
    for unit in pieces words; do
        "$heed" translate --quiet --model chars --prefix v.tgt --max-extra 0 --alignment $unit \
            --json v.src >tr.$unit
        python3 -c 'import json, sys
for line in sys.stdin: print(json.loads(line)["text"])' <tr.$unit >text
        "$heed" align --quiet --model chars --src v.src --tgt text --json --units $unit >al.$unit
    done
    python3 - <<'END' || fail 'translate aligns in another way'
import json
read = lambda name: [json.loads(line) for line in open(name)]
checked = 0
for tp, tw, ap, aw in zip(*map(read, ("tr.pieces", "tr.words", "al.pieces", "al.words"))):
    n = len(tp["text"].rstrip()) + 1 # a space at the end is not read again
    if [p.replace("\u2581", " ") for p in tp["pieces"]][:n] != list(" " + tp["text"].rstrip()):
        continue
    assert [l for l in tp["alignment"] if l[1] < n] == ap["alignment"], (tp, ap)
    assert tw["alignment"] == aw["alignment"] and tw["words"] == aw["words"], (tw, aw)
    assert tw["source_words"] == aw["source_words"]
    checked += 1
assert checked >= 10, checked
END
fi

# ---- two directions: nothing but links of either, and at least those of both
for method in intersection union grow-diag grow-diag-final grow-diag-final-and; do
    a "${both[@]}" --reverse back --symmetrise $method >$method
done
a --model back --src v.tgt --tgt v.src | awk '{
    s = ""; for (i = 1; i <= NF; i++) { split($i, l, "-"); s = s (s ? " " : "") l[2] "-" l[1] }
    print s }' >turned
awk 'function have(list, link) { return index(" " list " ", " " link " ") }
     FILENAME == "one" { f[FNR] = $0; next }
     FILENAME == "turned" { r[FNR] = $0; next }
     { for (i = 1; i <= NF; i++) {
           if (!have(f[FNR], $i) && !have(r[FNR], $i)) exit bad = 1
           if (FILENAME == "intersection" && (!have(f[FNR], $i) || !have(r[FNR], $i))) exit bad = 1
       }
       if (FILENAME != "intersection") for (i = split(both[FNR], l, " "); i > 0; i--)
           if (!have($0, l[i])) exit bad = 1
       if (FILENAME == "intersection") both[FNR] = $0
       if (FILENAME == "union") {
           for (i = split(f[FNR] " " r[FNR], l, " "); i > 0; i--) if (!have($0, l[i])) exit bad = 1
       } }
     END { exit bad }' one turned intersection union grow-diag grow-diag-final \
    grow-diag-final-and || fail 'links of two directions'
differ intersection union
cmp <(a "${both[@]}" --reverse back) grow-diag-final-and || fail 'the default of --symmetrise'

# ---- JSON, odd lines
printf 'bada kelim\n\nbada, kelim.\nba\n' >o.src
printf 'kelim bada\nx\n\xff kelim, bada.\n\n' >o.tgt
a --src o.src --tgt o.tgt >got || fail 'odd lines'
[ "$(awk '{ print (NF > 0) }' got | tr -d '\n')" = 1010 ] || fail "odd lines: $(cat got)"
a --src o.src --tgt o.tgt --json >got
sed -n 3p got | grep -q '"source_words":\["bada",",","kelim","\."\]' || fail "--json: $(cat got)"
a --src o.src --tgt o.tgt --json --units tokens | sed -n 3p |
    grep -q '"source_words":\["bada,","kelim\."\]' || fail '--units tokens'
a --src o.src --tgt o.tgt --json --units pieces >got
if command -v python3 >/dev/null; then
    python3 - got <<'END' || fail "--units pieces: $(cat got)"
import json, sys
for line in map(json.loads, open(sys.argv[1])):
    for i, j in line["alignment"]:
        assert i < len(line["source_words"]) and j < len(line["words"]), line
assert len(json.loads(open(sys.argv[1]).readline())["words"]) > 2
END
fi
{ cat v.src; for _ in $(seq 1100); do printf 'bada '; done; echo; } >long.src
{ cat v.tgt; echo bada; } >long.tgt
"$heed" align --model m --src long.src --tgt long.tgt >got 2>err || fail 'a long pair'
grep -q 'pairs without links, too long for the model: 1' err || fail "a long pair: $(cat err)"
cmp <(head -n 60 got) one || fail 'a long pair changes its neighbours'
[ -z "$(tail -n 1 got)" ] || fail 'a long pair has links'

# ---- error rates: as its own reference a model errs in nothing
a "${both[@]}" --units tokens >own
a "${both[@]}" --gold own >got
grep -q '^AER 0.0000  precision 1.0000  recall 1.0000  (60 pairs, ' got || fail "own: $(cat got)"
# by hand: 3 links found in all; sure 0-0 missing from the second, one of the first only possible
printf 'bada\nbada kelim\n' >g.src
printf 'bada\nbada kelim\n' >g.tgt
a --src g.src --tgt g.tgt --units tokens >found
awk 'NR == 1 { print "0?0 9-9" } NR == 2 { split($1, l, "-"); print $2, l[1] "?7" }' found >g.gold
"$heed" align --model m --src g.src --tgt g.tgt --gold g.gold --json >got 2>err
# A = 3, S = 1 (9-9 and ?7 are out of bounds), A n S = 1, A n P = 2
grep -q '"links":3,"sure":1,"possible":1,"aer":0.250000,"precision":0.666667,"recall":1.0' got ||
    fail "by hand: $(cat got found)"
grep -q 'links to words that do not exist, left out: 2' err || fail "bounds: $(cat err)"
awk '{ for (i = 1; i <= NF; i++) { split($i, l, "-"); $i = l[2] "-" l[1] } print }' own >nwo
a "${both[@]}" --gold nwo --gold-reversed | grep -q '^AER 0.0000' || fail '--gold-reversed'
# without a sure link there is no recall, and JSON has no NaN
printf '0?0\n\n' >g.gold
a --src g.src --tgt g.tgt --gold g.gold | grep -q ' recall -  (2 pairs, ' || fail 'no recall'
a --src g.src --tgt g.tgt --gold g.gold --json | grep -q '"recall":null}' || fail 'no recall: JSON'

# ---- choosing: the best is printed, stored in both models, and used
"$heed" align --model m --reverse back --choose "${both[@]}" >table || fail '--choose'
[ "$(grep -cE '^(model|reverse) +[12] (input|output) ' table)" = 12 ] ||
    fail "--choose: $(cat table)"
best=$(sed -n 's/^best for m: layer \([12]\), \([a-z]*\) row, .*/\1 \2/p' table)
[ -n "$best" ] || fail "no best: $(cat table)"
a --reverse back --choose "${both[@]}" --gold own --json >got
grep -q '"aer":' got || fail '--choose --gold'
cp m/config.json before.json
expect 1 'back: a training run writes its config.json anew' "$heed" align --model m \
    --reverse back "${both[@]}" --choose --store
cmp m/config.json before.json || fail 'a choice is stored in one of two models'
"$heed" average --out k --last 1 back >/dev/null
case $best in *input) other=output ;; *) other=input ;; esac # not the one that will be chosen
"$heed" describe m --set alignment_layer=1 --set alignment_head=1 --set alignment_threshold=0.9 \
    --set alignment_row="$other"
a --reverse k --choose --store "${both[@]}" >got || fail '--store'
grep -q '^stored in the config.json of m and k$' got || fail "--store: $(cat got)"
grep -q alignment_threshold m/config.json && fail 'the threshold of another head is kept'
"$heed" describe m --set alignment_threshold=0.9
a --reverse k --choose --store "${both[@]}" >/dev/null
grep -q '"alignment_threshold": 0.9' m/config.json || fail 'the threshold of the same head is lost'
"$heed" describe m --set alignment_threshold=
layer=${best% *} row=${best#* }
grep -q "\"alignment_layer\": $layer" m/config.json && grep -q "\"alignment_row\": \"$row\"" \
    m/config.json && grep -q alignment_layer k/config.json || fail "stored: $(cat m/config.json)"
head=$(sed -n 's/.*"alignment_head": \([0-9]*\).*/\1/p' m/config.json)
a "${both[@]}" >stored
a "${both[@]}" --alignment-layer "$layer" --alignment-row "$row" --alignment-head "$head" |
    cmp - stored || fail 'what is stored is not used'
for row in input output; do
    "$heed" describe m --set alignment_layer=2 --set alignment_head= --set alignment_row=$row
    a "${both[@]}" --alignment-layer 2 >got
    a "${both[@]}" | cmp - got || fail "naming the layer that is stored changes its $row row"
done

# ---- what was not read as it stands is counted
head -c 70000 /dev/zero | tr '\0' a >long
printf '\na \377 b\n' >>long
expect 0 'too long for the model: 1' "$heed" align --model m --src long --tgt long
has 'bad UTF-8 sequences replaced: 2'

# ---- Ctrl-C ends it at the next batch, and stores nothing
for side in src tgt; do # long lines, so that it takes its time
    for _ in {1..100}; do cat t.$side; done | awk 'NR % 16 { printf "%s ", $0; next } 1' >many.$side
done
cp m/config.json before.json
for choose in '' '--choose --store'; do
    # shellcheck disable=SC2086
    "$heed" align --quiet --model m --reverse k --src many.src --tgt many.tgt --tokens 1 \
        --threads 1 $choose >got 2>&1 &
    pid=$!
    sleep 0.3
    kill -TERM $pid
    begin=$SECONDS
    wait $pid && fail "align $choose: finished in spite of a signal"
    [ $((SECONDS - begin)) -lt 10 ] || fail "align $choose: ended $((SECONDS - begin)) s later"
done
cmp m/config.json before.json || fail 'a choice was stored in spite of a signal'

# ---- refused
verb=(align --model m)
expect 2 'only one of --src and --tgt' -- --src - --tgt -
expect 2 '--reverse is missing' -- "${both[@]}" --choose
expect 2 'needs --choose' -- "${both[@]}" --store
expect 2 'needs --gold' -- "${both[@]}" --gold-reversed
expect 2 'also an input' -- "${both[@]}" --output v.src
expect 2 'm/config.json is a file of the model' -- "${both[@]}" --output m/config.json
expect 2 "--symmetrise: 'all'" -- "${both[@]}" --symmetrise all
expect 2 '--alignment-layer: there is no such layer; the decoder has 2' -- "${both[@]}" \
    --alignment-layer 3
expect 2 '--reverse-layer: there is no such layer; the decoder has 1' -- "${both[@]}" \
    --reverse k --reverse-layer 3
expect 2 '--reverse-head: needs --reverse' -- "${both[@]}" --reverse-head 1
expect 2 '--reverse-threshold: needs --reverse' -- "${both[@]}" --reverse-threshold 0.5
expect 2 '--alignment-layer: --choose tries all' -- "${both[@]}" --reverse k --choose \
    --alignment-layer 1
expect 2 '--symmetrise: needs --reverse' -- "${both[@]}" --symmetrise union
expect 2 '--output: is for links' -- "${both[@]}" --reverse k --choose --output table
expect 1 'no text to choose by' -- --src /dev/null --tgt /dev/null --reverse k --choose
cp m/config.json before.json
printf '\n\n' >blank
expect 1 'the models agree on no link' -- --src blank --tgt blank --reverse k --choose --store
cmp m/config.json before.json || fail 'a choice was stored without any links'
cp -r m same
"$heed" describe m --source aa --target bb
"$heed" describe same --source aa --target bb
expect 2 '--reverse: same translates from aa to bb, as --model does' -- "${both[@]}" --reverse same
expect 1 '60' -- --src v.src --tgt g.tgt
printf '0-0\n0~0\n' >bad
expect 1 "bad:2: '0~0' is not a link like 3-4 or 3?4" -- --src g.src --tgt g.tgt --gold bad
printf '0-0\n0-0\n' >bad
expect 1 'bad has 2 lines; there are more pairs' -- "${both[@]}" --gold bad
expect 1 'has more lines than the 60 pairs' -- "${both[@]}" --gold <(cat own bad)
head -n 1 own >bad
expect 1 'bad has 1 line; there are more pairs' -- "${both[@]}" --gold bad
expect 2 'bad is also an input' -- "${both[@]}" --gold bad --output bad
awk 'BEGIN { print "0-0"; for (i = 0; i < 20000; i++) printf "0-0 "; print "" }' >bad
expect 1 'bad:2: the line is longer than 65536 bytes' -- --src g.src --tgt g.tgt --gold bad

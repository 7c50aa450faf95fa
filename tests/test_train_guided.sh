#!/usr/bin/env bash
# heed train --guided-alignment: what it learns, what it refuses, and what it leaves alone.
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
verb=(train "${data[@]}" "${small[@]}")
run=(--steps 60 --log-every 20 --valid-every 60 --save-every 60 --cache cache --quiet)
# last FIELD RUN — its last value in the log of a run
last() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" "$2/log.jsonl" | tail -n 1; }
first() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" "$2/log.jsonl" | head -n 1; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }' ||
    fail "$1 is not less than $2${3:+: $3}"; }

# Aligners are given words: lines stay lines, and what stands between spaces is a word.
printf 'It'"'"'s 3.5 km (or so)...\n\n"Ja"\n' >raw
expect 0 $'It\'s 3.5 km ( or so ) ...\n\n" Ja "' "$heed" words --input raw
gzip -k raw
"$heed" words <raw >words.txt
"$heed" words --input raw.gz | cmp - words.txt || fail 'words of a compressed text'
"$heed" words --input words.txt | cmp - words.txt || fail 'words of words'
expect 1 'nowhere' "$heed" words --input nowhere
head -c 70000 /dev/zero | tr '\0' a >strange
printf '\na \377 b\n' >>strange
expect 0 'lines over 65,536 bytes, written as empty lines: 1' "$heed" words --input strange
has 'bad UTF-8 sequences replaced: 1'

# It learns, and says so: in the log, per line and at every validation, and in what it prints.
expect 0 'guided alignment: head 1 of decoder layer 1, weight 0.1' -- --out plain0 --dry-run \
    --guided-alignment t.links --cache cache
train plain "${run[@]}"
train guided "${run[@]}" --guided-alignment t.links --guided-valid v.links --guided-weight 1 \
    --guided-head 2
absent guided plain/log.jsonl
less "$(last guided guided)" "$(first guided guided)" 'it does not learn the links'
less "$(last valid_guided guided)" "$(first guided guided)" 'nor does validation see it'
differ plain/model.safetensors guided/model.safetensors
# Alignments of this model are read from the head that learnt them.
absent alignment_head plain/config.json
for note in '"alignment_layer": 1' '"alignment_head": 2' '"alignment_row": "input"' \
    '"alignment_threshold": 0.4'; do
    grep -q -e "$note" guided/config.json || fail "no $note in $(cat guided/config.json)"
done
expect 0 'guided ' -- --out loud --steps 20 --log-every 20 --guided-alignment t.links --cache cache
has '400 aligned'

# A weight of nothing leaves everything as it was, to the last bit.
train weightless "${run[@]}" --guided-alignment t.links --guided-weight 0
same plain/model.safetensors weightless/model.safetensors 'links that weigh nothing'

# Corpora with links and without are different files; compressed links are read.
[ "$(find cache -name '*.corpus' | wc -l)" = 4 ] || fail "corpora: $(ls cache)"
gzip -k t.links
xz -k t.links
for z in gz xz; do
    train "from-$z" "${run[@]}" --guided-alignment "t.links.$z" --guided-weight 1 --guided-head 2 \
        --guided-valid v.links
    same guided/model.safetensors "from-$z/model.safetensors" "$z"
done

# Several corpora, one of them without links; empty lines say nothing.
pairs u 50 3
sed -e '1,200s/.*//' t.links >half.links
two=(--src t.src u.src --tgt t.tgt u.tgt --valid-src v.src --valid-tgt v.tgt)
expect 0 '400 pairs read, 400 kept; 200 aligned' "$heed" train "${two[@]}" "${small[@]}" --out two \
    --steps 5 --cache cache --guided-alignment half.links -
lacks '50 aligned'

# Links that do not fit are counted, and the first is named.
sed -e '7s/.*/0-0 99-0/' t.links >odd.links
expect 0 '399 aligned, 1 alignment ignored that does not fit (first: line 7)' -- --out odd \
    --steps 1 --guided-alignment odd.links --cache cache --guided-unit tokens

# What cannot be is said before any work.
expect 2 '--guided-alignment: 2 files for 1 --src file' -- --out no --guided-alignment a b
expect 2 '--guided-valid: needs --guided-alignment' -- --out no --guided-valid v.links
expect 1 'nowhere' -- --out no --guided-alignment nowhere
expect 2 '--guided-layer: 2, but the decoder has 1 layer' -- --out no --guided-alignment t.links \
    --guided-layer 2
expect 2 '--guided-head: 3, but there are 2 heads' -- --out no --guided-alignment t.links \
    --guided-head 3
sed -e '300s/.*/0-0 one-two/' t.links >bad.links
expect 1 "bad.links, line 300: 'one-two' is not a link" -- --out no --guided-alignment bad.links
head -n 399 t.links >short.links
expect 1 'short.links has 399: line i must align pair i' -- --out no --guided-alignment short.links

for nothing in - no.links; do
    sed 's/.*//' t.links >no.links
    expect 1 'no pair of the training data has links' -- --out no --guided-alignment $nothing
done

# A run goes on with its links, and does not take others for them.
cp -r guided on
train on "${run[@]}" --guided-alignment t.links --guided-valid v.links --guided-weight 1 \
    --guided-head 2 --steps 80
expect 2 'the training data differs' -- --out guided "${run[@]}" --steps 80

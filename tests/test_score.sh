#!/usr/bin/env bash
# test_score.sh — heed score: equal to the validation loss of training, the same in any batch, order
# and empty lines kept, clear about what it cannot score.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
"$heed" train "${data[@]}" "${model[@]}" --n-layer 2 --tokens 400 --max-length 40 --threads 1 \
    --warmup 50 \
    --steps 30 --valid-every 30 --quiet --out m || fail 'training'

# The oracle: what training said of the same text. Perplexity counts the end marks, and no label
# smoothing.
"$heed" score --model m --src v.src --tgt v.tgt >plain 2>summary || fail "score: $(cat summary)"
[ "$(wc -l <plain)" = 60 ] || fail 'not a line per pair'
want=$(sed -n 's/.*"step":30,.*"valid_ppl":\([0-9.]*\).*/\1/p' m/log.jsonl)
got=$(sed -n 's/.*perplexity \([0-9.]*\) per token.*/\1/p' summary)
awk -v a="$want" -v b="$got" 'BEGIN { exit !(a > 1 && (a - b) ^ 2 < (2e-5 * a) ^ 2) }' ||
    fail "perplexity $got, training said $want"
grep -q 'per word.*bits per character' summary || fail "summary: $(cat summary)"
# The lines sum to the summary's total; tokens sum to their line.
total=$(sed -n 's/.*log-probability \(-[0-9.]*\),.*/\1/p' summary)
awk -v t="$total" '{ s += $1 } END { exit !((s - t) ^ 2 < 1) }' plain ||
    fail "the lines do not sum to $total"
"$heed" score --model m --src v.src --tgt v.tgt --token-scores --quiet |
    awk -F '\t' '{ n = split($2, x, " "); s = 0; for (i = 1; i <= n; i++) s += x[i]
                   if (n < 2 || (s - $1) ^ 2 > 1e-8) { print NR ": " s " and " $1; exit 1 } }' ||
    fail 'tokens do not sum to their line'

# Neighbours, batch sizes and threads change nothing, to the last digit of a float.
score_json() { "$heed" score --model m --json --token-scores --quiet "$@"; }
score_json --src v.src --tgt v.tgt >all
score_json --src v.src --tgt v.tgt --tokens 1 --threads 1 | cmp - all ||
    fail 'the batch size changes scores'
score_json --src v.src --tgt v.tgt --threads 3 | cmp - all || fail 'threads change scores'
paste v.src v.tgt | tac | awk -F '\t' '{ print $1 >"r.src"; print $2 >"r.tgt" }'
score_json --src r.src --tgt r.tgt | tac | sed 's/"line":[0-9]*//' |
    cmp - <(sed 's/"line":[0-9]*//' all) ||
    fail 'neighbours change scores'
head -n 1 v.src >one.src
head -n 1 v.tgt >one.tgt
score_json --src one.src --tgt one.tgt | cmp - <(head -n 1 all) ||
    fail 'a lone pair scores differently'
for p in bf16 int8; do # other precisions: near, and as steady
    score_json --src v.src --tgt v.tgt --precision $p >all.$p
    score_json --src one.src --tgt one.tgt --precision $p --threads 3 | cmp - <(head -n 1 all.$p) ||
        fail "$p depends on neighbours"
    a=$("$heed" score --model m --src v.src --tgt v.tgt --precision $p 2>&1 >/dev/null | sed \
        -n 's/.*perplexity \([0-9.]*\) per token.*/\1/p')
    awk -v a="$a" -v b="$got" 'BEGIN { exit !(a > 1 && (a - b) ^ 2 < (0.01 * b) ^ 2) }' ||
        fail "$p: perplexity $a, f32 $got"
done
"$heed" score --model m --src v.src --tgt v.tgt --device ref --quiet |
    paste - plain | awk '{ if (($1 - $2) ^ 2 > 1e-7) exit 1 }' || fail 'ref disagrees'

# Compressed input, standard input, normalising.
gzip -k v.src && xz -k v.tgt
"$heed" score --model m --src v.src.gz --tgt v.tgt.xz --quiet | cmp - plain ||
    fail 'compressed input'
"$heed" score --model m --src - --tgt v.tgt --quiet <v.src | cmp - plain || fail 'standard input'
"$heed" score --model m --src v.src --tgt v.tgt --normalise --quiet >norm
"$heed" score --model m --src v.src --tgt v.tgt --json --quiet |
    sed 's/.*"tokens":\([0-9]*\).*/\1/' | paste - norm plain |
    awk '{ if (($1 * $2 - $3) ^ 2 > 1e-6) exit 1 }' || fail 'normalised scores'

# Empty lines are pairs: an empty target is the end mark alone.
printf 'bada\n\n\n' >e.src
printf '\nbada\n\n' >e.tgt
score_json --src e.src --tgt e.tgt >got
[ "$(wc -l <got)" = 3 ] || fail 'empty lines are lost'
[ "$(grep -c '"tokens":1,' got)" = 2 ] || fail "an empty target is not its end mark: $(cat got)"
: >none
"$heed" score --model m --src none --tgt none >got 2>/dev/null ||
    fail 'nothing to score is an error'
[ ! -s got ] || fail 'scores of nothing'
if command -v python3 >/dev/null; then
    python3 -c '
import json, math, sys
for line in open("all"):
    d = json.loads(line)
    assert len(d["pieces"]) == len(d["token_log_probs"]) == d["tokens"], d
    assert d["pieces"][-1] == "</s>", d
    assert abs(math.fsum(d["token_log_probs"]) - d["log_prob"]) < 1e-4, d' || fail 'JSON'
fi

# What cannot be scored.
expect 1 'v.src has 60 lines, one.tgt has 1' "$heed" score --model m --src v.src --tgt one.tgt
expect 1 'one.src has 1 line, v.tgt has 60' "$heed" score --model m --src one.src --tgt v.tgt
head -n 3 v.tgt >three.tgt
expect 1 'one.src has 1 line, three.tgt has 3' "$heed" score --model m --src one.src --tgt three.tgt
printf 'bada bada %.0s' $(seq 2000) >long
cat one.src long >l.src
cat one.tgt one.tgt >l.tgt
expect 1 'l.src:2: ' "$heed" score --model m --src l.src --tgt l.tgt
has 'the model has positions for'
[ "$("$heed" score --model m --src l.src --tgt l.tgt --skip-long --quiet | tail -n 1)" = nan ] ||
    fail 'no nan for a long line'
expect 0 '"log_prob":null' "$heed" score --model m --src l.src --tgt l.tgt --skip-long --json
has 'pairs too long for the model: 1'
printf 'ba\xffda\n' >bad.src
expect 0 'bad UTF-8 sequences replaced: 1' "$heed" score --model m --src bad.src --tgt one.tgt
expect 2 '--model is missing' "$heed" score --src v.src --tgt v.tgt
expect 2 '--tgt is missing' "$heed" score --model m --src v.src
expect 2 'standard input' "$heed" score --model m --src - --tgt -
expect 1 'nothing.txt' "$heed" score --model m --src nothing.txt --tgt v.tgt
expect 1 'nowhere' "$heed" score --model nowhere --src v.src --tgt v.tgt
expect 2 "'f16'" "$heed" score --model m --src v.src --tgt v.tgt --precision f16

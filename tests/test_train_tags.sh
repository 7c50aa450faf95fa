#!/bin/bash
# test_train_tags.sh — data tags, from the vocabulary to the translation: one model learns two tasks
# and does what the tag says.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'

# Without a tag the words come backwards, with <copy> as they are, in other letters.
other() { tr bdgklmnprst vwxzcfhjqyV; }
cp t.src c.src && other <t.src >c.tgt && other <v.src >v.other
both=(--src t.src c.src --tgt t.tgt c.tgt)
"$heed" vocab --input t.src c.tgt --size 200 --symbols '<copy>,<x>' --out tok.model --quiet
"$heed" vocab --input t.src c.tgt --size 200 --out plain.model --quiet
# tags A B OPTION... — trains with these
tags() { "$heed" train "${both[@]}" --tags "$1" "$2" "${small[@]}" --cache cache "${@:3}"; }
tagged() { tags - '<copy>' --tokenizer tok.model "$@"; }

# ---- wrong use
expect 2 '--tags: 1 tag for 2 --src files; give one for each, - for none' \
    "$heed" train "${both[@]}" --tags x "${small[@]}" --out run
expect 2 "--tags: the tokenizer has no piece '<copy>'; heed vocab --symbols makes such pieces" \
    tagged --out run --tokenizer plain.model
lacks 'pairs read'
expect 2 "--valid-tag: the tokenizer has no piece '<y>'" tagged --out run --valid-tag '<y>' \
    --valid-src v.src --valid-tgt v.tgt
expect 2 'is smaller than one sentence of --max-length 400 and a tag' \
    tagged --out run --max-length 400
expect 2 "40 and a tag is more than the model's --max-len 40" tagged --out run --max-len 40
[ ! -e run ] || fail "wrong use left $(ls run)"

# ---- what is learnt depends on the tag
tagged --out run --steps 1200 --save-every 200 --max-len 64 --quiet --bpe-dropout 0.05 \
    --valid-src v.src --valid-tgt v.other --valid-tag '<copy>' --valid-every 200 \
    --bleu-every 1200 --bleu-lines 5 || fail 'training'
# per_token SRC TGT OPTION... — log-probability per token
per_token() {
    "$heed" score --model run --src "$1" --tgt "$2" --quiet --normalise "${@:3}" |
        awk '{ sum += $1 } END { print sum / NR }'
}
copy=$(per_token v.src v.other) copy_tag=$(per_token v.src v.other --prefix-token '<copy>')
back=$(per_token v.src v.tgt) back_tag=$(per_token v.src v.tgt --prefix-token '<copy>')
awk -v a="$copy" -v b="$copy_tag" -v c="$back" -v d="$back_tag" \
    'BEGIN { exit !(b > a + 0.1 && c > d + 0.1) }' ||
    fail "copied: $copy, with the tag $copy_tag; backwards: $back, with the tag $back_tag"
# The validation of training is that of the tagged text.
want=$(sed -n 's/.*"step":1200,.*"valid_ppl":\([0-9.]*\).*/\1/p' run/log.jsonl)
ppl() { { "$heed" score --model run --src v.src --tgt v.other "$@" >/dev/null; } 2>&1; }
got=$(ppl --prefix-token '<copy>' | sed -n 's/.*perplexity \([0-9.]*\) per token.*/\1/p')
awk -v a="$want" -v b="$got" 'BEGIN { exit !(a > 1 && (a - b) ^ 2 < (1e-4 * a) ^ 2) }' ||
    fail "perplexity $got, training said $want"

# ---- translating: the tag is read, and no part of what is told
t() { "$heed" translate --model run --threads 1 --min-length 3 --max-extra 2 --quiet "$@"; }
t v.src >without
t --prefix-token '<copy>' v.src >with
cmp -s with without && fail 'the tag changes nothing'
[ "$(wc -l <with)" = 60 ] || fail "60 lines in, $(wc -l <with) out"
t --prefix-token '<copy>' --json --alignment pieces v.src >json
t --json --alignment pieces v.src >json.without
pieces() { sed 's/.*"source_pieces":\(\[[^]]*\]\).*/\1/' "$1"; }
same <(pieces json) <(pieces json.without) 'the pieces of the source'
# Score's opinion of a translation is the search's.
t --prefix-token '<copy>' --json v.src | sed 's/.*"log_prob":\([-0-9.e]*\).*/\1/' >theirs
"$heed" score --model run --src v.src --tgt with --quiet --prefix-token '<copy>' |
    paste -d ' ' - theirs with | awk '
        NF > 2 { n++; near += ($1 - $2) ^ 2 < 1e-4 * ($2 * $2 + 1) }
        END { print n, near; exit !(n >= 50 && near >= 0.5 * n) }' >agree || # other pieces, cuts
    fail "translate and score do not agree about a tagged text: $(cat agree) lines"
# A split text has the tag before each part: its parts are translated as they are alone.
sed -n '1,3p' v.src | sed 's/$/./' >parts
paste -sd ' ' parts >long
t --json --alignment pieces parts >json
limit=$(($(pieces json | awk -F, '{ if (NF > n) n = NF } END { print n }') + 2))
t --prefix-token '<copy>' --max-source $limit parts | paste -sd ' ' >apart
t --prefix-token '<copy>' --max-source $limit long >whole
same whole apart 'a split text'
t --prefix-token '<copy>' --batch-sentences 1 v.src | cmp - with || fail 'batches matter'
expect 2 "--prefix-token: the model's tokenizer has no piece '<y>'" t --prefix-token '<y>' v.src
expect 2 "--max-source: 2 is not between 3" t --prefix-token '<copy>' --max-source 2 v.src
expect 2 "--prefix-token: the model's tokenizer has no piece 'zz'" \
    "$heed" score --model run --src v.src --tgt v.tgt --prefix-token zz
expect 2 "has no piece 'zz'" \
    "$heed" attend --model run --src 'a b' --out a.svg --prefix-token zz
expect 0 '' "$heed" attend --model run --src "$(head -n 1 v.src)" --out a.svg \
    --prefix-token '<copy>'
grep -q '&lt;copy&gt;' a.svg || fail 'the picture does not show the tag'

# ---- a run keeps its tags; train learns them where it learns the tokenizer
expect 2 'links or subword sampling; --new-data' tags - - --tokenizer tok.model --out run \
    --steps 401 --max-len 64 --lr-scale 1 --bpe-dropout 0.05
expect 0 'learnt from the texts, 150 pieces' tags '<x>' '<copy>' --vocab-size 150 --steps 2 \
    --out own
for tag in '<x>' '<copy>'; do
    expect 0 '' "$heed" translate --model own --max-extra 1 --prefix-token "$tag" v.src
done
expect 2 "'a b' contains a space" tags 'a b' - --vocab-size 160 --steps 2 --out none

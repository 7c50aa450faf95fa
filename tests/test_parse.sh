#!/bin/bash
# test_parse.sh — searching for trees with models that know nothing: whatever the search, they write
# trees of the words they were given, and nothing else.
# timeout: 180
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$dir"
data=$tree/tests/data/parseval
refuses() { # WHAT MESSAGE ARGUMENT...
    local what=$1 message=$2
    shift 2
    if "$heed" "$@" >out 2>err; then fail "$what was accepted"; fi
    grep -qF -- "$message" err || fail "$what: '$(cat err)' has no '$message'"
}
"$heed" trees words --input "$data/ref.tree.xz" >ref.words

# parser DIR [OPTION...] — one that was hardly trained, for rows of that kind
parser() {
    local name=$1
    shift
    "$heed" trees linearise --input "$data/ref.tree.xz" "$@" >"$name.rows"
    "$heed" vocab --input ref.words "$name.rows" --size 500 --out "$name.spm" --quiet \
        --symbols "$("$heed" trees symbols --input "$name.rows")"
    "$heed" train --src ref.words --tgt "$name.rows" --tokenizer "$name.spm" --out "$name" \
        --preset tiny --n-layer 1 --d-model 16 --n-head 2 --d-ff 16 --max-len 700 --max-length 100 \
        --tokens 300 --steps 1 --threads 1 --quiet
}
parser xx
"$heed" average --out model --last 1 xx 2>/dev/null
awk 'NF < 16 && n++ < 250' ref.words >some.words
for way in '--beam 1' '--sample --seed 3' '--beam 21 --alpha 0.3'; do
    [ "$way" != '--beam 21 --alpha 0.3' ] || sed -i 25q some.words
    # shellcheck disable=SC2086 # several options
    "$heed" translate --model model --trees rows --max-extra 60 $way --threads 1 some.words \
        >some.rows
    "$heed" trees restore --strict --input some.rows --words some.words >some.tree ||
        fail "$way: not only trees"
    "$heed" trees words --input some.tree | cmp - some.words
done
"$heed" translate --model model --trees --max-extra 60 --beam 21 --alpha 0.3 --threads 1 \
    some.words |
    cmp - some.tree
"$heed" translate --model model --max-extra 60 some.words --threads 1 >free.rows
refuses 'a free row' 'free.rows: line 1' trees restore --strict --input free.rows --words some.words

# ---- a model that says so by itself, and tags
"$heed" describe model --set trees=words --set max_extra=60 >/dev/null
"$heed" translate --model model --beam 21 --alpha 0.3 some.words --threads 1 | cmp - some.tree
parser tags --tags
grep -q ' , ' tags.rows || fail "no comma among the tags"
"$heed" translate --model tags --trees --max-extra 60 --beam 3 some.words --threads 1 >some.tree
"$heed" trees check --input some.tree 2>/dev/null || fail "tags: not only trees"
"$heed" trees words --input some.tree | cmp - some.words
if grep -q '(XX ' some.tree; then fail "a word without a tag"; fi
printf 'a b\n\n\302\240\n' | "$heed" translate --model model --beam 1 --threads 1 >lines
[ "$(awk '{ print (NF > 0) }' lines | tr -d '\n')" = 101 ] ||
    fail "a tree for nothing, or none for a word of white space: $(cat lines)"
refuses 'no room for a tree' 'line 1: a tree of its' \
    translate --model model --max-length 5 some.words
refuses 'a text with trees' 'trees: lines become trees one by one' \
    translate --model model --format text some.words
"$heed" vocab --input ref.words --size 500 --out plain.spm --quiet
"$heed" train --src ref.words --tgt ref.words --tokenizer plain.spm --out plain --preset tiny \
    --n-layer 1 --d-model 16 --n-head 2 --d-ff 16 --tokens 300 --steps 1 --threads 1 --quiet
refuses 'a tokenizer without brackets' 'has 0 brackets and 0 words of trees among its symbols' \
    translate --model plain --trees some.words
refuses 'serving trees' 'writes parse trees, which are not served' \
    serve --model en-xx=model --listen 127.0.0.1:0

#!/bin/bash
# test_train_init.sh — heed train --init with models that heed did not train: exported ones, and
# ones with two tokenizers, ids of their own or several languages, as imported models are.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"

tune() { "$heed" train --src t.src --tgt t.tgt --valid-src v.src --valid-tgt v.tgt --cache cache \
    --tokens 400 --max-length 40 --threads 1 --warmup 5 --device cpu --save-every 5 "$@"; }
score() { "$heed" score --src v.src --tgt v.tgt --threads 1 --device cpu --quiet "$@"; }

"$heed" vocab --input t.src t.tgt --size 200 --symbols '>>de<<,>>en<<' --out both.model --quiet
"$heed" vocab --input t.tgt --size 200 --symbols '>>de<<,>>en<<' --out target.model --quiet
train m --tokenizer both.model --steps 40 --valid-every 1000 --tie none --output-bias --quiet

# ---- exported models
for format in int8 bf16 f32; do
    "$heed" export --model m --out $format --format $format >/dev/null
    expect 0 "--init: $format weights become f32" tune --out tuned.$format --init $format --steps 10
    score --model $format --precision $format >before
    score --model tuned.$format/ckpt-00000000 --precision $format >begin
    same before begin "the run does not begin with the weights of $format"
    score --model tuned.$format --precision $format >after
    differ before after 'nothing was learnt'
done

# ---- what the model says of itself
"$heed" average --out said m >/dev/null
"$heed" describe said --source de --target en --licence CC-BY-4.0 --set beam=7 >/dev/null
kept() {
    local line
    for line in '"source": "de"' '"licence": "CC-BY-4.0"' '"beam": 7'; do
        grep -q "$line" "$1" || fail "$1 has no $line"
    done
}
tune --out tuned.said --init said --steps 5 --quiet
kept tuned.said/config.json
rm -r said
tune --out tuned.said --init said --steps 10 --quiet
kept tuned.said/config.json
kept tuned.said/ckpt-00000010/config.json

# ---- two tokenizers, and a start that is no token
# foreign TOKENS OUT — m with another tokenizer for its target side, and these in config.json
foreign() {
    mkdir "$2" && cp -L m/model.safetensors m/tokenizer.model "$2"
    cp target.model "$2/tokenizer.target.model"
    sed "s/^  \"tokenizer\": .*/  \"tokens\": $1/" m/config.json >"$2/config.json"
}
foreign '{"start": -1}' two
expect 0 'tokenizers: two, 200 source and 200 target tokens' tune --out tuned.two --init two \
    --steps 10 --valid-every 5
lacks 'learning the vocabulary'
same two/tokenizer.target.model tuned.two/tokenizer.target.model
same two/tokenizer.target.model tuned.two/ckpt-00000010/tokenizer.target.model
grep -q '"start": -1' tuned.two/config.json || fail 'the start is forgotten'
# What the run calls the loss of a token is what heed score says of the same text.
score --model tuned.two/ckpt-00000010 --token-scores | awk -F '\t' '
    { sum -= $1; n += split($2, token, " ") } END { printf "%.3f\n", sum / n }' >scored
sed -n 's/.*"step":10,.*"valid_nll":\([0-9.]*\).*/\1/p' tuned.two/log.jsonl |
    awk '{ printf "%.3f\n", $1 }' >logged
[ -s logged ] || fail "no validation: $(cat tuned.two/log.jsonl)"
same logged scored "validation $(cat logged), score $(cat scored)"
# As it goes on after a stop.
tune --out hurt --init two --steps 5 --valid-every 5 --quiet
expect 0 '--init is not read again' tune --out hurt --init two --steps 10 --valid-every 5
same tuned.two/model.safetensors hurt/model.safetensors 'resumed'
"$heed" translate --model tuned.two --quiet --max-extra 3 <v.src >out
[ "$(wc -l <out)" = 60 ] || fail 'translations'
expect 2 'has more than one tokenizer or ids of its own' tune --out x --init two --steps 1 \
    --tokenizer m/tokenizer.model
expect 2 "--bpe-dropout: the model's tokens are not those of one SentencePiece file" tune --out x \
    --init two --steps 1 --bpe-dropout 0.1
# Another run in the same place leaves no tokenizer of the old one.
tune --out tuned.two --init m --steps 1 --overwrite --quiet
[ ! -e tuned.two/tokenizer.target.model ] || fail 'a tokenizer of the old run'
score --model tuned.two >/dev/null

# ---- several languages: a token before every source sentence, and one before every target
codes='"codes": {"de": ">>de<<", "en": ">>en<<"}'
foreign '{"languages": {"before_source": "source", "before_target": "target", '"$codes"'}}' many
expect 2 '--source-lang: not given, but the model has 2 languages: de, en' tune --out x \
    --init many --steps 1
expect 2 "--target-lang: the model does not know 'fr'" tune --out x --init many --steps 1 \
    --source-lang de --target-lang fr
expect 2 '--source-lang: the model has no languages to choose from' tune --out x --init two \
    --steps 1 --source-lang de
counts() { tr -d , | sed -n \
    's/^an epoch: \([0-9]*\) pairs \([0-9]*\) source and \([0-9]*\) target.*/\1 \2 \3/p'; }
tune --out plain --init two --steps 1 2>&1 | counts >few
tune --out tuned.many --init many --steps 1 --source-lang de --target-lang en 2>&1 | counts >langs
paste -d " " few langs | awk '
    $1 != 400 || $4 != $1 || $5 != $2 + $1 || $6 != $3 + $1 { print; exit 1 }' ||
    fail "tokens: $(cat few), with languages $(cat langs)"
grep -q '"before_target": "target"' tuned.many/config.json || fail 'languages are forgotten'
# Tags in their place before the source, other ones for each corpus; and a model may say which.
expect 2 '--valid-tag is missing' tune --out x --init many --steps 1 --tags '>>en<<' \
    --target-lang en
sed -i 's/^  "tokens"/  "translate": { "target_lang": "en" },\n&/' many/config.json
bleu=(--steps 5 --valid-every 5 --bleu-every 5 --quiet)
tune --out tagged --init many --tags '>>de<<' --valid-tag '>>de<<' "${bleu[@]}"
tune --out said --init many --source-lang de "${bleu[@]}"
same tagged/model.safetensors said/model.safetensors 'a tag and a language'
grep '"valid_bleu"' said/log.jsonl >bleu || fail 'no BLEU'
[ ! -e x ] || fail "refused, but left $(ls x)"

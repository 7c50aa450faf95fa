#!/usr/bin/env bash
# test_ssru.sh — a model whose decoder looks back by a recurrence, from training to every command
# that runs it; what it has not is said by name.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"

ssru=(--decoder ssru --n-layer-dec 2 --steps 120 --log-every 20 --valid-every 60 --save-every 60)
train m "${ssru[@]}" --quiet || fail 'training'
log_lines m/log.jsonl | sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' | awk '
    NR == 1 { first = $1 } { last = $1 }
    END { if (NR < 4 || last > 0.85 * first) { print "loss", first, "to", last; exit 1 } }' ||
    fail 'the loss does not fall'

# Stopped in the middle and resumed: the same bytes.
train half "${ssru[@]}" --steps 60 --quiet
train half "${ssru[@]}" --quiet
same m/model.safetensors half/model.safetensors 'a run in two parts'

expect 0 ssru "$heed" inspect m --tensors
has dec.1.ssru.w_f
lacks dec.1.self

# However sentences are batched and threaded the answer is the same; int8 as well.
"$heed" quantize --model m --out q >/dev/null
for d in m q; do
    "$heed" translate --model $d --beam 4 --quiet --threads 1 <v.src >whole
    while IFS= read -r line; do
        "$heed" translate --model $d --beam 4 --quiet --threads 2 <<<"$line"
    done < <(head -n 12 v.src) >single
    head -n 12 whole >part
    same part single "$d: one by one"
    [ "$(wc -l <whole)" = 60 ] || fail "$d: $(wc -l <whole) lines"
done
# What a translation was given as its log-probability is what scoring gives it.
"$heed" translate --model m --json --quiet <v.src >found.jsonl
"$heed" translate --model m --quiet <v.src >found
"$heed" score --model m --src v.src --tgt found --quiet | cut -f1 >scored
sed -n 's/.*"log_prob": *\(-\?[0-9.e-]*\).*/\1/p' found.jsonl | paste - scored | awk '
    { d = $1 - $2; if (d < 0) d = -d; if (d < 1e-3 * (1 - $1)) n++ }
    END { if (NR != 60 || n < 50) { print n, "of", NR, "agree"; exit 1 } }' ||
    fail 'scores differ from those of the search'

# Attention: of the encoder and from decoder to encoder, and none inside the decoder.
src=$(head -n 1 v.src)
expect 0 'wrote all.html' "$heed" attend --model m --src "$src" --out all.html
expect 0 'wrote cross.svg' "$heed" attend --model m --src "$src" --layer 2 --out cross.svg
expect 2 '--kind dec: the decoder of this model has no self-attention' \
    "$heed" attend --model m --src "$src" --kind dec --out x.svg
"$heed" translate --model m --alignment words --quiet <v.src >aligned || fail 'alignment'

expect 2 'decoder: CTranslate2 has no recurrent decoder layers' \
    "$heed" export --model m --out x --format ctranslate2
[ ! -e x ] && [ ! -e x.svg ] || fail 'something refused was written'

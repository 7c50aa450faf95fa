#!/bin/bash
# test_export.sh — heed export and quantize: every form runs as the model it came from, nothing is
# overwritten unasked, and what an exported model cannot do is said.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"

"$heed" train "${data[@]}" "${small[@]}" --out m --steps 30 --valid-every 1000 2>/dev/null

for format in f32 bf16 int8; do
    expect 0 "$format: $format, " "$heed" export --model m --out $format --format $format
    has 'm has 0.1 MB'
    same m/tokenizer.model $format/tokenizer.model
    [ "$(grep -c '"type": "'$format'"' $format/config.json)" = 1 ] || fail "$format/config.json"
done
expect 0 'q: int8, ' "$heed" quantize --model m --out q
same int8/model.safetensors q/model.safetensors
size() { stat -c %s "$1/model.safetensors"; }
[ "$(size int8)" -lt "$(($(size m) * 2 / 3))" ] || fail "int8 has $(size int8) bytes, f32 $(size m)"

# The same numbers from the exported directory and from the model itself in that precision.
score() { "$heed" score --model "$1" --src v.src --tgt v.tgt --precision "$2" --token-scores \
    --quiet --threads 1; }
for format in f32 bf16 int8; do
    score m $format >scores.m
    score $format auto >scores.auto
    score $format $format >scores.$format
    same scores.m scores.$format "the scores of $format"
done
same scores.int8 scores.auto "int8 is what int8 weights run in"
paste <(cut -f1 scores.f32) <(cut -f1 scores.int8) | awk '
    { d = $1 - $2; sum += d < 0 ? -d : d; all -= $1 }
    END { if (NR != 60 || sum > 0.01 * all) { print "off by", sum, "of", all; exit 1 } }' ||
    fail 'int8 scores are far from f32'
for format in f32 int8; do
    "$heed" translate --model m --precision $format --quiet <v.src >out.m
    "$heed" translate --model $format --quiet <v.src >out.$format
    same out.m out.$format "the translations of $format"
done

# From one exported form to another, as far as nothing was lost.
"$heed" export --model f32 --out f32-int8 --format int8 >/dev/null
same int8/model.safetensors f32-int8/model.safetensors
"$heed" export --model f32 --out f32-ct2 --format ctranslate2 >/dev/null
"$heed" export --model m --out ct2 --format ctranslate2 >/dev/null
same ct2/model.bin f32-ct2/model.bin
expect 0 'CTranslate2 model, int8' "$heed" export --model m --out ct2-int8 --format ctranslate2 \
    --precision int8
same m/tokenizer.model ct2/tokenizer.model
expect 2 'the weights are int8' "$heed" export --model int8 --out x --format f32
expect 2 'the weights are int8' "$heed" export --model int8 --out x --format ctranslate2 \
    --precision f32
expect 2 '--precision int8 is for' "$heed" export --model m --out x --format huggingface \
    --precision int8
[ ! -e x ] || fail 'a refused export left a directory'

# Refusals.
expect 2 '--model is missing' "$heed" export --out x --format f32
expect 2 '--out is missing' "$heed" quantize --model m
expect 2 '--format is missing' "$heed" export --model m --out x
expect 2 "--format: 'onnx' is not one of" "$heed" export --model m --out x --format onnx
expect 2 "--format: 'auto' is not one of" "$heed" export --model m --out x --format auto
expect 2 "--precision: 'bf16' is not one of" "$heed" export --model m --out x --format ctranslate2 \
    --precision bf16
expect 1 'int8 has files in it' "$heed" export --model m --out int8 --format f32
same int8/model.safetensors q/model.safetensors
expect 0 'int8: f32' "$heed" export --model m --out int8 --format f32 --overwrite
same int8/model.safetensors f32/model.safetensors
expect 2 'is the model itself' "$heed" export --model m --out ./m --format int8 --force
expect 1 't.src is not a directory' "$heed" export --model m --out t.src --format int8
expect 1 'nowhere: no such directory' "$heed" export --model nowhere --out x --format int8
expect 1 'exported int8 model' "$heed" average --out x q q
expect 0 '"parameters"' "$heed" inspect q --json
for command in 'translate' 'quantize --out x'; do
    # shellcheck disable=SC2086 # words
    expect 1 'ct2: a model of CTranslate2; heed import makes' "$heed" $command --model ct2
done

"$heed" train "${data[@]}" "${small[@]}" --window 3 --out local --steps 1 2>/dev/null
expect 2 'window: CTranslate2 has no local attention' "$heed" export --model local --out x \
    --format ctranslate2
"$heed" train "${data[@]}" "${small[@]}" --d-v 8 --out narrow --steps 1 2>/dev/null
expect 2 'd_v: CTranslate2 needs keys and values of the same width, not 16 and 8' \
    "$heed" export --model narrow --out x --format ctranslate2
# experiments of docs/paper/questions.md
"$heed" train "${data[@]}" "${small[@]}" --mask none --out ahead --steps 1 2>/dev/null
expect 2 'mask: CTranslate2 has no equivalent' "$heed" export --model ahead --out x \
    --format ctranslate2
expect 2 'mask: MarianMT has no equivalent of none' "$heed" export --model ahead --out x \
    --format huggingface
expect 2 "trained without the decoder's mask" "$heed" translate --model ahead v.src

# ---- damage: checksums find what would give wrong translations
spoil() { # DIR: one byte near the end of the data
    printf 'x' | dd of="$1/model.safetensors" bs=1 seek=$(($(stat \
        -c %s "$1/model.safetensors") - 1000)) conv=notrunc status=none
}
cp -r q spoilt8 && spoil spoilt8
cp -rL m spoilt && spoil spoilt
for model in spoilt8 spoilt; do
    for command in 'translate' 'score --src v.src --tgt v.tgt' 'quantize --out x' \
        'export --format ctranslate2 --out x'; do
        # shellcheck disable=SC2086 # words
        expect 1 "$model/model.safetensors: tensor" "$heed" $command --model $model
        has 'is damaged'
    done
done
expect 1 'spoilt/model.safetensors: tensor' "$heed" average --out x m spoilt

# ---- a file that is cut short while it is mapped
mkfifo in.fifo
cp -r q cut
"$heed" translate --model cut --max-extra 2 --quiet <in.fifo >stream 2>errors &
child=$!
exec 5>in.fifo
sed -n 1p v.src >&5
for _ in $(seq 200); do [ -s stream ] && break; sleep 0.1; done
[ -s stream ] || fail 'no translation before the file is cut'
truncate -s 8192 cut/model.safetensors
sed -n 2p v.src >&5
exec 5>&-
rc=0
wait $child || rc=$?
[ $rc = 1 ] || fail "a file cut short while in use: exit $rc: $(cat errors)"
grep -q 'cut/model.safetensors: can no longer be read' errors || fail "says: $(cat errors)"
[ "$(wc -l <errors)" = 2 ] || fail "several threads say: $(cat errors)"

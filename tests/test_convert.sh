#!/usr/bin/env bash
# test_convert.sh — to other engines and back: the same weights, the same translations; and what
# cannot be expressed there is said.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
models=$tree/tests/data/import
engines='ctranslate2 huggingface'
weights() { case $1 in ctranslate2) echo model.bin ;; *) echo model.safetensors ;; esac; }

# there MODEL ENGINE — exports, imports and exports again: MODEL.ENGINE, MODEL.back and MODEL.again
there() {
    rm -rf "$1.$2" "$1.back" "$1.again"
    expect 0 ' model, f32' "$heed" export --model "$1" --out "$1.$2" --format "$2"
    expect 0 "$1.back: " "$heed" import "$1.$2" --out "$1.back"
    expect 0 ' model, f32' "$heed" export --model "$1.back" --out "$1.again" --format "$2"
    same "$1.$2/$(weights "$2")" "$1.again/$(weights "$2")" "$1 by way of $2"
}

# Models of our own: the configuration comes back too, but for what only training needs.
"$heed" train "${data[@]}" "${small[@]}" --out post --steps 20 --valid-every 1000 2>/dev/null
"$heed" train "${data[@]}" "${small[@]}" --out target --steps 2 --tie target --positions learned \
    --activation gelu --d-ff-dec 40 --output-bias --max-len 50 2>/dev/null
"$heed" translate --model post --quiet <v.src >post.out
shape() {
    "$heed" inspect "$1" | grep -E '^  (n_[a-z_]+|d_[a-z_]+|norm[a-z_]*|positions|tie|max_len) '
}
shape post >post.about
for engine in $engines; do
    there post "$engine"
    same post/tokenizer.model post.back/tokenizer.model
    [ ! -e post.back/vocabulary.txt ] || fail "$engine: a vocabulary where the pieces are one"
    absent '"tokens"' post.back/config.json "$engine: tokens where the file says it all"
    shape post.back >about
    same post.about about "$engine: the shape"
    "$heed" translate --model post.back --alpha 0.6 --length-rule paper --max-length 0 --quiet \
        <v.src >out
    same post.out out "$engine: translations"
    there target "$engine"
done

# Models that came from elsewhere.
for name in ct2-f32 ct2-int16 hf-marian marian-npz; do
    rm -rf m
    "$heed" import "$models/$name" --out m --dtype f32 --quiet
    there m ctranslate2
    same m/model.safetensors m.back/model.safetensors "$name: weights"
    for file in vocabulary.txt vocabulary.target.txt tokenizer.model tokenizer.target.model; do
        [ ! -e m/$file ] || same m/$file m.back/$file "$name: $file"
    done
done

# int8 is int8 there, and the same when it comes back.
"$heed" import "$models/argos.argosmodel" --out argos --quiet
expect 0 'CTranslate2 model, int8' "$heed" export --model argos --out argos.ct2 --format ctranslate2
expect 0 'int8 kept bit for bit' "$heed" import argos.ct2 --out argos.back
same argos/model.safetensors argos.back/model.safetensors 'int8 weights'
expect 2 'the weights are int8' "$heed" export --model argos --out x --format ctranslate2 \
    --precision f32

# f16 stays f16, if only matrices were; f32 becomes f16 if it can.
"$heed" import "$models/hf-marian" --out half --dtype f16 --quiet
expect 0 'MarianMT model, f16' "$heed" export --model half --out half.hf --format huggingface
grep -q '"dtype": "float16"' half.hf/config.json || fail 'its config does not say f16'
expect 0 'parameters, f16' "$heed" import half.hf --out half.back
"$heed" import "$models/hf-marian" --out whole --dtype f32 --quiet
expect 0 'MarianMT model, f32' "$heed" export --model whole --out whole.hf --format huggingface
expect 0 'MarianMT model, f16' "$heed" export --model whole --out whole.f16 --format huggingface \
    --precision f16
same half.hf/model.safetensors whole.f16/model.safetensors 'f16 of f32, and f16'
sed 's/\t.*//; /^#/d' "$models/hf-marian.tsv" >src
for model in half half.back; do
    "$heed" translate --model "$model" --target-lang xxa --beam 1 --max-length 8 --quiet <src \
        >"$model.out"
done
same half.out half.back.out 'translations in f16'
expect 2 '--precision f16 is for --format huggingface, not ctranslate2' "$heed" export \
    --model whole --out x --format ctranslate2 --precision f16
expect 2 '--precision f32 is for other engines; --format bf16' "$heed" export \
    --model whole --out x --format bf16 --precision f32

# A start from the zero vector is a token of its own there.
"$heed" import "$models/ct2-f32" --out zero --quiet
expect 0 'MarianMT model' "$heed" export --model zero --out zero.hf --format huggingface
expect 0 '47 tokens' "$heed" import zero.hf --out zero.back
awk -F '\t' '!/^#/ { print $1 >"src"; print $4 >"greedy" }' "$models/ct2-f32.tsv"
"$heed" translate --model zero.back --beam 1 --max-length 8 --max-extra 100 --quiet <src >out
sed 's/ *$//' greedy >want
same want out 'translations from the zero vector'

"$heed" import "$models/bergamot" --out ssru --quiet
grep -q '"dropout": 0.0' ssru/config.json || fail 'a student would be fine-tuned with dropout'
expect 2 'decoder: MarianMT has no equivalent of ssru' "$heed" export --model ssru --out x \
    --format huggingface
expect 2 'no recurrent decoder layers' "$heed" export --model ssru --out x --format ctranslate2
"$heed" import "$models/ct2-int16" --out pre --quiet
expect 2 'norm: MarianMT has no equivalent of pre' "$heed" export --model pre --out x \
    --format huggingface
"$heed" import "$models/hf-m2m" --out many --quiet
expect 2 'norm: MarianMT' "$heed" export --model many --out x --format huggingface
cp -r zero endless
sed -i 's/"start": -1,/"start": -1, "source_end": -1,/' endless/config.json
expect 2 'sources end with the end mark' "$heed" export --model endless --out x --format huggingface
[ ! -e x ] || fail 'a refused export left a directory'
expect 1 'a model of Hugging Face; heed import makes' "$heed" translate --model zero.hf

#!/usr/bin/env bash
# test_import.sh — the command: what it says about a model, and what it refuses.
# timeout: 60
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$dir"
models=$tree/tests/data/import

expect 0 'CTranslate2, format 2' -- import "$models/ct2-int16" --out m
expect 0 'pre-norm, output bias' -- import "$models/ct2-int16" --out m --overwrite
expect 0 '45 source and 41 target tokens' -- import "$models/ct2-int16" --out m --overwrite
expect 1 'has files in it; --overwrite' -- import "$models/ct2-int16" --out m
expect 0 'int8 kept bit for bit' -- import "$models/argos.argosmodel" --out argos
"$heed" inspect argos >about
grep -qE 'source +de' about || fail 'inspect does not show the language'
expect 0 '' -- import "$models/argos.argosmodel" --out quiet --quiet
expect 0 'fr to en' -- import "$models/argos.argosmodel" --out card --source fr --licence CC0-1.0
grep -q '"licence": "CC0-1.0"' card/config.json || fail 'the licence is not in the card'

# A package that is not packed, and a tokenizer that is given.
mkdir -p package/model
cp "$models"/ct2-f32/* package/model
mv package/model/sentencepiece.model spm
printf '{"from_code": "de", "to_code": "en"}' >package/metadata.json
expect 1 'without a SentencePiece file' -- import package --out x
expect 0 'Argos Translate package, de to en' -- import package --out given --tokenizer spm
cp spm package/sentencepiece.model
expect 0 'Argos Translate package, de to en' -- import package --out own
same given/config.json own/config.json
same given/model.safetensors own/model.safetensors

printf '{"from_code": "no tag", "to_code": "en"}' >package/metadata.json
expect 0 'Argos Translate package' -- import package --out untagged

# A package whose translations begin with a token of their language.
token=▁adar
printf '{"from_code": "de", "to_code": "en", "target_prefix": "%s"}' "$token" \
    >package/metadata.json
expect 0 "translations begin with $token" -- import package --out prefixed
echo 'tna tit' | "$heed" translate --model prefixed --max-length 6 --beam 1 --quiet >with
echo 'tna tit' | "$heed" translate --model own --max-length 6 --beam 1 --quiet >without
differ with without 'the first token changes nothing'
printf '{"from_code": "de", "to_code": "en", "target_prefix": "__xx__"}' >package/metadata.json
expect 1 "target_prefix '__xx__' is not a token" -- import package --out x
touch package/bpe.model
expect 1 'BPE and Moses' -- import package --out x

# Tokens that name languages, as CTranslate2 has them of M2M100.
cp -r "$models/ct2-f16" tongues
sed -i '38s/.*/__de__/; 39s/.*/__en__/' tongues/shared_vocabulary.txt
expect 0 '2 languages' -- import tongues --out speaks
grep -q '"before_target": "target"' speaks/config.json || fail 'no languages in config.json'
grep -q '"de": "__de__"' speaks/config.json || fail 'no language de in config.json'

# Tokens instead of text, unless they are SentencePiece's.
cp -r "$models/ct2-int16" words
expect 1 'give the SentencePiece file' -- import words --out x --tokenizer words
sed -i 's/▁/_/' words/*.txt
rm words/*.spm
expect 0 '' -- import words --out spelled --tokenizer words
sed -n '4,8p' words/source_vocabulary.txt | tr '\n' ' ' |
    "$heed" translate --model spelled --max-length 5 --quiet >out || fail 'no tokens translated'
[ -s out ] || fail 'tokens became nothing'
for token in $(cat out); do
    grep -qxF -- "$token" words/target_vocabulary.txt || fail "no token: $token"
done

expect 2 'heed model already' -- import argos --out x
expect 1 'no such file or directory' -- import nothing --out x
mkfifo pipe
expect 1 'neither a file nor a directory' -- import pipe --out x
cp -r "$models/ct2-f32" piped && rm piped/sentencepiece.model && mkfifo piped/sentencepiece.model
expect 1 'without a SentencePiece file' -- import piped --out x
mkdir empty fairseq
expect 1 'not a model of a known format' -- import empty --out x
mkdir both && cp -r "$models/ct2-f32" "$models/bergamot" both
expect 1 "both: several folders with weights, 'bergamot' and 'ct2-f32' among them" -- \
    import both --out x
expect 1 'several folders' -- import both --out x --format marian
expect 1 "$models/bergamot: no list of tokens" -- import "$models/bergamot" --out x \
    --tokenizer words
cp -r "$models/ct2-f32" other && cp "$models/ct2-bf16/model.bin" other
expect 1 'other: the vocabularies have 46 and 46 tokens, but the model has 40' -- \
    import other --out x
seq 1000 3000 >numbers
"$heed" vocab --input numbers --size 60 --out numbers.model --quiet
expect 1 'ct2-f32: the vocabulary of 46 tokens has only 3 of the 60 pieces' -- \
    import "$models/ct2-f32" --out x --tokenizer numbers.model
echo text >text
expect 1 'text: tokenizer: not a SentencePiece model' -- import "$models/ct2-f32" --out x \
    --tokenizer text
touch fairseq/model.pt fairseq/dict.de.txt
expect 1 'fairseq checkpoint, which is not supported' -- import fairseq --out x
expect 1 'fairseq checkpoint, which is not supported' -- import fairseq/model.pt --out x
expect 2 "'x' is not one of" -- import argos --out x --format x
expect 1 'there is no model.bin' -- import empty --out x --format ctranslate2

# What CTranslate2 has and we do not: a variable more, a flag that is set.
patch() {
    rm -rf patched && cp -r "$models/ct2-f32" patched
    LC_ALL=C sed -i "s!$1!$2!" patched/model.bin
    differ patched/model.bin "$models/ct2-f32/model.bin" "$1"
}
off='\x00\x00\x01\x01\x00\x00\x00\x00' on='\x00\x00\x01\x01\x00\x00\x00\x01'
patch "decoder/alibi$off" "decoder/alibi$on"
expect 1 'linear attention biases' -- import patched --out x
patch decoder/alibi decoder/other
expect 0 '' -- import patched --out x
patch "decoder/alibi$off" "decoder/other$on"
expect 1 "'decoder/other', which heed has no equivalent of" -- import patched --out y
patch 'decoder/activation\(.......\)\x02' 'decoder/activation\1\x03'
expect 1 'activation is 2 in the encoder and 3 in the decoder' -- import patched --out y
patch TransformerSpec WhisperSpecSpec
expect 1 'not a translation model' -- import patched --out y
rm -rf patched && cp -r "$models/ct2-f32" patched
truncate -s -100 patched/model.bin
expect 1 'ends too early' -- import patched --out y
[ ! -e y ] || fail 'something was written'

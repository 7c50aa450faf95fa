#!/usr/bin/env bash
# test_import_marian.sh — what Marian's models may have and ours have not is refused by its name,
# and what lies beside the weights is found or missed.
# timeout: 60
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$dir"
models=$tree/tests/data/import

# patch MODEL FROM TO — a copy of the model, other bytes of the same number in its files
patch() {
    rm -rf patched && cp -r "$models/$1" patched
    [ "${#2}" = "${#3}" ] || fail "'$2' and '$3' have other lengths"
    LC_ALL=C sed -i "s!$2!$3!" patched/*
    ! diff -rq "$models/$1" patched >/dev/null || fail "no '$2' in $1"
}
refused() { # MODEL FROM TO WHY
    patch "$1" "$2" "$3"
    expect 1 "$4" -- import patched --out x
    [ ! -e x ] || fail "$2: something was written"
}
refused bergamot 'type: transformer' 'type: transformes' 'type transformes'
refused bergamot 'right-left: false' 'right-left:  true' 'right-left true'
refused bergamot 'lemma-dim-emb: 0' 'lemma-dim-emb: 9' 'lemma-dim-emb 9'
refused bergamot 'dec-cell: ssru' 'dec-cell: sSru' 'dec-cell sSru, not ssru'
refused bergamot 'autoreg: rnn' 'autoreg: aan' 'transformer-decoder-autoreg aan'
refused bergamot 'transformer-postprocess: dan' 'transformer-postprocess: dhn' "'hn'"
refused bergamot 'transformer-ffn-depth: 2' 'transformer-ffn-depth: 3' 'transformer-ffn-depth 3'
refused bergamot 'dim-emb: 16' 'dim-emb: 24' '24'
refused bergamot 'word-penalty: 0' 'word-penalty: 2' 'word penalty of 2'
refused bergamot encoder_l1_self_Wq encoder_l1_self_Wx 'encoder_l1_self_Wx has no place'
refused bergamot decoder_l2_rnn_bf decoder_l1_rnn_bf 'decoder_l1_rnn_bf is there twice'
refused bergamot '- vocab.deen.spm' '- vacob.deen.spm' "'vacob.deen.spm' is not there"
refused bergamot '- model.deen' '- madol.deen' "its model 'madol.deen"
refused bergamot special:model.yml special:madol.yml 'no special:model.yml'
refused marian-bin-f16 'version: v1.12.1' 'version: v1.12.0' 'gelu, which was an approximation'
refused marian-bin-f16 'activation: gelu' 'activation: silu' 'silu, not relu, swish or gelu'
refused marian-bin-f16 'Wpos' 'Wpas' 'no Wpos'
refused marian-bin-f16 '  - 1' '  - 3' 'transformer-tied-layers: layer 3 of 2'
refused marian-intgemm decoder_ff_logit_out_Wt decoder_ff_logit_out_Wx 'out_Wx has no place'
# A type that is laid out for one processor: 0x402 becomes 0x802.
patch marian-bin-f16 '\x02\x04\x00\x00\x00\x00\x00\x00' '\x02\x08\x00\x00\x00\x00\x00\x00'
expect 1 'packed16 is laid out for one processor' -- import patched --out x

# Its factors for activations are kept, unless its products are others.
expect 0 'int8 kept bit for bit' -- import "$models/bergamot" --out scaled
grep -q 'dec.1.ssru.w_f.x_scale' scaled/model.safetensors || fail 'no scale of x'
patch bergamot int8shiftAlphaAll int8shiftAlfaaAll
expect 0 'int8 kept bit for bit' -- import patched --out unscaled
! grep -q x_scale unscaled/model.safetensors || fail 'a scale of x that was not asked for'

expect 0 '48 source and 40 target tokens' -- import "$models/marian-bin-pre" --out two

# One file of the directory, or a configuration that names it.
expect 0 'Marian' -- import "$models/marian-npz/model.npz" --out a
expect 0 'Marian' -- import "$models/marian-npz/decoder.yml" --out b
expect 0 'Marian' -- import "$models/marian-npz" --out c --format marian
for other in b c; do
    same a/model.safetensors $other/model.safetensors
    same a/config.json $other/config.json
done
grep -q '"beam": 1' a/config.json || fail 'the beam of decoder.yml is not kept'
mkdir alone && cp "$models/marian-npz/model.npz" alone
expect 1 'no vocabulary of the source' -- import alone --out x
cp "$models/bergamot/vocab.deen.spm" alone/vocab.spm
expect 0 '' -- import alone --out d # by chance of as many tokens
cp "$models/marian-bin-pre/trgvocab.spm" alone/vocab.spm
expect 1 'the model has embeddings for' -- import alone --out x

# A zip of OPUS-MT without its SentencePiece files, and one that was split by BPE.
mkdir opus && python3 -m zipfile -e "$models/opus-mt.zip" opus
expect 0 '2 languages' -- import opus --out e
rm opus/source.spm
expect 1 'no source.spm to split words by' -- import opus --out x
touch opus/source.bpe
expect 1 'split by BPE codes' -- import opus --out x
note 'Marian: known or refused'

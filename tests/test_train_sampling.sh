#!/bin/bash
# test_train_sampling.sh — heed train on segmentations that are drawn anew: --bpe-dropout and
# --unigram-alpha.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
"$heed" vocab --input t.src t.tgt --size 200 --out tok.model --quiet
only=(--src t.src --tgt t.tgt --tokenizer tok.model --cache cache)
# bare OPTION... — no validation, a tokenizer that is there
bare() { "$heed" train "${only[@]}" "${small[@]}" --quiet "$@"; }

"$heed" vocab --input t.src t.tgt --size 200 --type unigram --out uni.model --quiet
expect 2 "--bpe-dropout: the tokenizer is of type unigram, not bpe; give --unigram-alpha" \
    bare --out d --steps 1 --bpe-dropout 0.1 --tokenizer uni.model
expect 2 "--unigram-alpha: the tokenizer is of type bpe, not unigram; give --bpe-dropout" \
    bare --out d --steps 1 --unigram-alpha 0.1
expect 2 'the tokenizer is of type unigram, not bpe' "$heed" train --src t.src --tgt t.tgt \
    "${small[@]}" --out d --steps 1 --vocab-type unigram --bpe-dropout 0.1
expect 2 '--bpe-dropout: ' bare --out d --bpe-dropout 1.1
[ ! -e d ] || fail "wrong use left $(ls d)"
expect 0 'tokens per epoch, an estimate: sampled segmentations have more' \
    bare --out d --steps 1 --bpe-dropout 0.1 --dry-run
expect 0 'target tokens per epoch' bare --out d --steps 1 --dry-run
lacks estimate
run=(--steps 30 --save-every 10 --keep 9 --bpe-dropout 0.1)
bare --out drop "${run[@]}"
bare --out twin "${run[@]}" --prefetch 0
same drop/model.safetensors twin/model.safetensors 'without prefetching'
bare --out side "${run[@]}" --sample-side src
differ drop/model.safetensors side/model.safetensors 'one side is not both'
bare --out none --steps 30
bare --out zero --steps 30 --bpe-dropout 0 --sample-side tgt
same none/model.safetensors zero/model.safetensors 'no sampling is as before'
differ none/model.safetensors drop/model.safetensors 'sampling does nothing'
rm -r drop/ckpt-000000[23]0
expect 2 'links or subword sampling; --new-data' bare --out drop --steps 30
bare --out drop "${run[@]}"
same drop/model.safetensors twin/model.safetensors 'resumed'
bare --out drop --steps 31 --bpe-dropout 0.2 --new-data
bare --out uni --steps 10 --tokenizer uni.model --unigram-alpha 0.2
# Validation is always by the best segmentation: the untrained model's is the same.
first_loss() { sed -n '/"valid_loss"/{s/.*"valid_loss":\([0-9.]*\).*/\1/p;q}' "$1/log.jsonl"; }
for p in 0 0.5; do
    bare --out "valid$p" --steps 1 --valid-every 1 --lr-scale 1e-9 --valid-src v.src \
        --valid-tgt v.tgt --bpe-dropout $p
done
[ -n "$(first_loss valid0)" ] && [ "$(first_loss valid0)" = "$(first_loss valid0.5)" ] ||
    fail "validation: $(first_loss valid0), with sampling $(first_loss valid0.5)"

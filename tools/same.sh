#!/usr/bin/env bash
# same.sh — do two builds of heed give the same results? For changes that must not alter any.
#
#     tools/same.sh OLD NEW [MODEL]     two programs, and a trained model (build/demo/average)
#
# Runs a fixed list of commands with both: vocabularies, training in several shapes and precisions,
# interrupted training, averages, exports, translations in every mode, scores, evaluation. Compared
# are all bytes of text, of vocabularies and of tensors; not config.json and the headers of weights,
# which may gain entries, nor figures of speed. One line per comparison, exit 1 on a difference.
set -euo pipefail
[ $# -ge 2 ] || { echo 'usage: tools/same.sh OLD NEW [MODEL]' >&2; exit 2; }
program=("$(realpath "$1")" "$(realpath "$2")")
model=${3:+$(realpath "$3")}
demo=$(realpath "$(dirname "$0")/../demo")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tensors FILE — a line for every tensor of a safetensors file: name, type, shape, hash of its bytes
tensors() {
    python3 - "$1" <<'PYTHON'
import hashlib, json, sys
data = open(sys.argv[1], "rb").read()
size = int.from_bytes(data[:8], "little")
for name, t in sorted(json.loads(data[8:8 + size]).items()):
    if name == "__metadata__":
        continue
    a, b = (8 + size + x for x in t["data_offsets"])
    print(name, t["dtype"], t["shape"], hashlib.sha256(data[a:b]).hexdigest()[:32])
PYTHON
}

# run PROGRAM — everything, in the current directory
run() {
    local heed=$1 m k
    local train=("$heed" train --quiet --config "$demo/train.json" --device cpu --src train.en
        --tgt train.de --valid-src valid.en --valid-tgt valid.de --log-every 10 --valid-every 20)
    xz -dc "$demo/train.en.xz" | sed -n 1,6000p >train.en
    xz -dc "$demo/train.de.xz" | sed -n 1,6000p >train.de
    xz -dc "$demo/valid.en.xz" | sed -n 1,200p >valid.en
    xz -dc "$demo/valid.de.xz" | sed -n 1,200p >valid.de
    "$heed" vocab --input train.en train.de --size 1500 --out bpe.model >/dev/null 2>&1
    "$heed" vocab --input train.en train.de --size 900 --type unigram --out unigram.model \
        >/dev/null 2>&1
    train+=(--tokenizer bpe.model)
    "${train[@]}" --steps 40 --save-every 20 --out plain
    "${train[@]}" --steps 20 --save-every 20 --out resumed
    "${train[@]}" --steps 40 --save-every 20 --out resumed
    "${train[@]}" --steps 20 --dtype bf16 --clip 1 --accumulate 2 --out bf16
    "${train[@]}" --steps 20 --norm pre --positions learned --tie none --activation gelu \
        --window 8 --attention-dropout 0.1 --activation-dropout 0.1 --out other
    "${train[@]}" --steps 10 --isa generic --threads 1 --out generic
    "$heed" average --last 2 --out average plain >/dev/null 2>&1
    for k in f32 bf16 int8; do
        "$heed" export --model average --format $k --out export-$k >/dev/null 2>&1
    done
    "$heed" export --model average --format ctranslate2 --out ct2 >/dev/null 2>&1
    for k in plain resumed bf16 other generic average export-f32 export-bf16 export-int8; do
        tensors $k/model.safetensors >$k.tensors
    done
    sha256sum ct2/* >ct2.sums
    grep -ho '"valid_loss":[^,}]*' plain/log.jsonl >plain.losses

    m=${model:-average}
    head -n 150 "$demo/heldout.en" >some.en
    head -n 150 "$demo/heldout.de" >some.de
    sed 's/\(....\).*/\1/' some.de | tr -d '\200-\377' >prefix.txt
    paste -sd' ' some.en | fold -sw 700 >long.en
    t() {
        local name=$1
        shift
        "$heed" translate --quiet --device cpu --model "$m" "$@" >"translate-$name"
    }
    t plain some.en
    t long long.en
    for k in bf16 int8; do t $k --precision $k --scores some.en; done
    t greedy --beam 1 --scores some.en
    t wide --beam 12 --nbest 12 --alpha 1.2 some.en
    t scores --scores --threads 1 --batch-sentences 5 some.en
    t json --json --nbest 2 --max-length 40 --alignment pieces some.en
    t sample --sample --nbest 3 --top-k 20 --top-p 0.9 --temperature 0.8 --seed 7 --scores some.en
    t limits --min-length 4 --max-extra 3 --no-repeat-ngram 2 --repetition-penalty 1.3 \
        --no-unknown some.en
    t prefix --prefix prefix.txt --scores some.en
    t ensemble --model "$m" --scores some.en
    "$heed" translate --quiet --device cpu --model export-int8 --scores some.en >translate-exported
    "$heed" translate --quiet --device ref --model "$m" --scores --beam 2 \
        <(head -n 4 some.en) >translate-ref
    local score=("$heed" score --quiet --device cpu --model "$m" --src some.en --tgt some.de)
    "${score[@]}" --token-scores >score
    "${score[@]}" --precision int8 --json >score-int8
    local eval=("$heed" eval --ref some.de --hyp translate-plain)
    "${eval[@]}" translate-prefix --metric bleu,chrf,chrf++ >eval-table
    "${eval[@]}" translate-limits --paired --samples 200 >eval-paired
    "${eval[@]}" --sentence --width 4 >eval-sentence
}

mkdir "$work/old" "$work/new"
(cd "$work/old" && run "${program[0]}")
(cd "$work/new" && run "${program[1]}")
failed=0
for file in "$work"/old/*.model "$work"/old/*.tensors "$work"/old/*.sums "$work"/old/*.losses \
    "$work"/old/translate-* "$work"/old/score* "$work"/old/eval*; do
    name=${file##*/}
    if cmp -s "$file" "$work/new/$name"; then
        echo "same     $name"
    else
        echo "DIFFERS  $name"
        diff "$file" "$work/new/$name" | head -n 4 || true
        failed=1
    fi
done
if ! cmp -s "$work/new/plain.tensors" "$work/new/resumed.tensors"; then
    echo 'DIFFERS  training with a break from training without one'
    failed=1
fi
exit $failed

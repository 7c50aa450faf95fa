# box_student.sh — a model of the shape that is shipped, with random weights. To be sourced.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts use what is set here

# random_student HEED DIR — DIR/run, DIR/int8 and DIR/ct2: 6 + 2 layers of 256 and 1,536, 12,288
# pieces, each a word. Its translations mean nothing and do not end by themselves.
random_student() {
    local heed=$1 dir=$2
    [ ! -e "$dir/ct2/model.bin" ] || return 0
    mkdir -p "$dir"
    # 12,497 words and the marks
    seq -f "w%05.0f" 12497 | paste -d ' ' - - - - - - - - - - - - - - - - >"$dir/text"
    "$heed" vocab --input "$dir/text" --out "$dir/tokenizer.model" --type word --size 12288 --quiet
    "$heed" train --preset tiny --n-layer-enc 6 --n-layer-dec 2 --d-model 256 --d-ff 1536 \
        --n-head 8 --tokenizer "$dir/tokenizer.model" --src "$dir/text" --tgt "$dir/text" \
        --out "$dir/run" --steps 1 --tokens 256 --overwrite 2>"$dir/train.log"
    "$heed" export --model "$dir/run" --out "$dir/int8" --format int8 --force >/dev/null
    "$heed" export --model "$dir/run" --out "$dir/ct2" --format ctranslate2 --force >/dev/null
}

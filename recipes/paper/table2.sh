#!/usr/bin/env bash
# table2.sh [ROW...] — the paper's Table 2: BLEU, and what training cost in floating-point
# operations. A row is TEXTS/MODEL; without arguments all of them:
#
#     multi30k.en-de multi30k.en-fr    29,000 captions of pictures
#     all.en-de                        tatoeba, msdocs and europarl; tests newstest2014 and others
#     tatoeba.en-fr                    everyday sentences; tests newstest2014, too
#     tiny base big                    the models
#
#     DATA     folder with multi30k, tatoeba-en-de, msdocs-en-de, ..., each with train, valid and
#              test texts as SET.LANGUAGE.xz
#     WORK     where everything goes (local/paper/table2)
#     MINUTES  how long it may take, without the last steps of a row (no limit). The next time it
#              goes on where it stopped, if WORK is still there. Of WORK, the last checkpoint of
#              the row that is not finished is what matters: ROW.run/ckpt-*, 12 bytes a parameter.
#              Where so much cannot be kept, choose STEPS that fit; finished rows are in RESULTS.
#     STEPS, TOKENS, WARMUP, PIECES    updates, tokens of each, updates of rising learning rate,
#              pieces of the vocabulary, in place of the usual ones of a text (see below)
#     LR_SCALE of the paper's learning rate (1): fewer updates have a shorter warm-up, whose rate
#              would rise higher than deep models bear
#     BEAMS, ALPHAS, CHOOSE    what to choose from ("1 4 8", "0.2 0.6 1.0") on the first CHOOSE
#              lines of the validation text (500)
#     PEER     1: the same with PyTorch (peer.py), on the same texts, pieces, updates and batches;
#              a folder with torch_quality.py: that program instead, which is for a GPU
#     RATE     what one device sustains in single precision, in TFLOP/s, for the paper's way of
#              estimating; if not given, measured on a CPU, and 67 (an H100's or H200's) on a GPU
#     DEVICE, THREADS    to run on (cpu, all)
#     HEED, PYTHON       the programs (build/heed, python3)
#     RESULTS, REPORT    where results and the report go (docs/paper/results, docs/paper)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK=${WORK:-local/paper/table2} HEED=${HEED:-build/heed} PYTHON=${PYTHON:-python3}
RESULTS=${RESULTS:-docs/paper/results} REPORT=${REPORT:-docs/paper}
BEAMS=${BEAMS:-1 4 8} ALPHAS=${ALPHAS:-0.2 0.6 1.0} CHOOSE=${CHOOSE:-500} DEVICE=${DEVICE:-cpu}
LR_SCALE=${LR_SCALE:-1}
: "${DATA:?the folder with the texts}"
[ $# -gt 0 ] || set -- {multi30k.en-de,multi30k.en-fr,all.en-de,tatoeba.en-fr}/{tiny,base,big}
mkdir -p "$WORK/texts" "$RESULTS"
run_on=(--device "$DEVICE" --threads "${THREADS:-0}")

# shellcheck source=recipes/paper/common.sh
. recipes/paper/common.sh

# ---- texts -------------------------------------------------------------------------------------

# of CORPUS SET LANGUAGE — the file of a text
of() {
    local folder=$DATA/$1
    [ -d "$folder" ] || folder=$DATA/$1-$pair
    echo "$folder/$2.$3.xz"
}

# texts TEXTS — what a row's texts are called, and how it is trained
texts() {
    pair=${1#*.} src=${1#*.} tgt=${1#*-} dropout=()
    src=${src%-*}
    case $1 in
    multi30k.*)
        train=(multi30k) dev=multi30k tests=(multi30k) usual=(4000 8192 1500 8000)
        dropout=(--dropout 0.3) # so few sentences are soon learnt by heart
        ;;
    all.en-de)
        train=(tatoeba msdocs europarl) dev=newstest tests=(newstest europarl tatoeba msdocs)
        usual=(100000 25000 4000 24000)
        ;;
    tatoeba.*) train=(tatoeba) dev=tatoeba tests=(newstest tatoeba) usual=(10000 8192 2000 8000) ;;
    *) echo "table2.sh: there are no texts called '$1'" >&2 && exit 2 ;;
    esac
    steps=${STEPS:-${usual[0]}} tokens=${TOKENS:-${usual[1]}} warmup=${WARMUP:-${usual[2]}}
    pieces=${PIECES:-${usual[3]}} here=$WORK/texts/$1
    from=() to=()
    for corpus in "${train[@]}"; do
        from+=("$(of "$corpus" train "$src")") to+=("$(of "$corpus" train "$tgt")")
    done
    for side in "$src" "$tgt"; do
        plain "$(of "$dev" valid "$side")" "$here.valid.$side"
        [ -e "$here.choose.$side" ] || sed "${CHOOSE}q" "$here.valid.$side" >"$here.choose.$side"
        for test in "${tests[@]}"; do plain "$(of "$test" test "$side")" "$here.$test.$side"; done
    done
    [ -e "$here.model" ] || "$HEED" vocab --input "${from[@]}" "${to[@]}" --size "$pieces" \
        --quiet --out "$here.model"
}

plain() {
    [ -e "$2" ] || { "$PYTHON" recipes/paper/table2.py plain "$1" >"$2.part" && mv "$2.part" "$2"; }
}

# ---- a row -------------------------------------------------------------------------------------

# write MODEL BEAM ALPHA TEXT OUT — translates once
write() {
    [ -e "$5" ] || "$HEED" translate --model "$1" --beam "$2" --alpha "$3" "${run_on[@]}" \
        --quiet --output "$5" "$4"
}

# chosen — "BEAM ALPHA" with the best BLEU of the lines to choose on; all of them in $row.grid
chosen() {
    local beam alpha
    for beam in $BEAMS; do
        for alpha in $ALPHAS; do
            write "$row.average" "$beam" "$alpha" "$here.choose.$src" "$row.$beam.$alpha.$tgt"
            echo "$beam $alpha $("$HEED" eval --metric bleu --width 2 --score-only \
                --ref "$here.choose.$tgt" --hyp "$row.$beam.$alpha.$tgt")"
            [ "$beam" != 1 ] || break # one hypothesis has no length to prefer
        done
    done >"$row.grid"
    sort -s -k 3,3 -n -r "$row.grid" | sed 's/ [^ ]*$//; q'
}

score() { # STEM — all tests, as JSON
    for test in "${tests[@]}"; do
        "$HEED" eval --json --width 2 --ref "$here.$test.$tgt" --hyp "$1.$test.$tgt" \
            >"$1.$test.json"
    done
}

trained() { # how many updates a run has made
    sed -n 's/^{"step":\([0-9]*\),"epoch".*/\1/p' "$row.run/log.jsonl" 2>/dev/null | tail -n 1
}

row_of_heed() {
    local every=$((steps / 20 > 0 ? steps / 20 : 1)) shape=()
    [ -z "${SMOKE:-}" ] || shape=(--n-layer 1 --d-model 16 --d-ff 16 --n-head 2)
    if [ "$(trained)" != "$steps" ]; then
        limited "$HEED" train --src "${from[@]}" --tgt "${to[@]}" --tokenizer "$here.model" \
            --preset "$model" "${shape[@]}" "${dropout[@]}" --max-length 128 \
            --valid-src "$here.valid.$src" --valid-tgt "$here.valid.$tgt" --steps "$steps" \
            --tokens "$tokens" --warmup "$warmup" --lr-scale "$LR_SCALE" \
            --save-every "$every" --valid-every "$every" \
            --keep 5 --log-every "$(((every + 9) / 10))" --cache "$WORK/cache" \
            --out "$row.run" "${run_on[@]}" >"$row.log" 2>&1 || [ $? = 124 ] || {
            tail -n 5 "$row.log" >&2
            return 1
        }
        [ "$(trained)" = "$steps" ] || stop "$name"
    fi
    [ -e "$row.average" ] || {
        "$HEED" average --out "$row.part" --overwrite --last 5 "$row.run"
        mv "$row.part" "$row.average"
    }
    read -r beam alpha <<<"$(chosen)"
    write "$row.run" 4 0.6 "$here.choose.$src" "$row.alone.$tgt"
    for test in "${tests[@]}"; do
        write "$row.average" "$beam" "$alpha" "$here.$test.$src" "$row.$test.$tgt"
    done
    score "$row"
    "$HEED" eval --metric bleu --json --width 2 --ref "$here.choose.$tgt" --hyp "$row.alone.$tgt" \
        >"$row.alone.json"
    keep heed
}

row_of_peer() {
    local files=()
    [ ! -e "$RESULTS/$name-pytorch.json" ] || return 0
    # The result has them: the model they were chosen with may have stayed on another machine.
    read -r beam alpha <<<"$("$PYTHON" recipes/paper/table2.py chosen "$RESULTS/$name.json")"
    if [ -d "$PEER" ]; then
        row_of_program
    else
        for test in "${tests[@]}"; do files+=("$here.$test.$src"); done
        peer "$row.peer.json" --like "$row.run/config.json" --tokenizer "$here.model" \
            --src "${from[@]}" --tgt "${to[@]}" --out "$row.peer" --steps "$steps" \
            --tokens "$tokens" --warmup "$warmup" --lr-scale "$LR_SCALE" \
            --every $((steps / 20 > 0 ? steps / 20 : 1)) \
            --max-length 128 --beam "$beam" --alpha "$alpha" --extra 50 \
            --threads "${THREADS:-0}" --device "$DEVICE" --translate "${files[@]}"
        for test in "${tests[@]}"; do
            cp "$row.peer/${here##*/}.$test.out" "$row.peer.$test.$tgt"
        done
    fi
    score "$row.peer"
    keep peer
}

# torch_quality.py, which learns a vocabulary of its own and says how long it took in words
row_of_program() {
    local folder=$row.quality side test
    mkdir -p "$folder"
    for side in "$src" "$tgt"; do
        for corpus in "${train[@]}"; do cat "$(of "$corpus" train "$side")"; done \
            >"$folder/train.$side.xz"
        cp "$here.valid.$side" "$folder/valid.$side"
        for test in "${tests[@]}"; do cp "$here.$test.$side" "$folder/$test.$side"; done
    done
    (IFS=, && "$PYTHON" "$PEER/torch_quality.py" --data "$folder" --src "$src" --tgt "$tgt" \
        --config "$model" "${dropout[@]}" --vocab "$pieces" --tokens "$tokens" --steps "$steps" \
        --warmup "$warmup" --every $((steps / 20 > 0 ? steps / 20 : 1)) --beam "$beam" \
        --alpha "$alpha" --max-len 128 --test "${tests[*]}" --out "$row.peer") \
        >"$row.peer.log"
    for test in "${tests[@]}"; do mv "$row.peer.$test" "$row.peer.$test.$tgt"; done
    "$PYTHON" recipes/paper/table2.py spoken "$row.peer.log" >"$row.peer.json"
}

keep() { # heed|peer — the row's result
    local file=$RESULTS/$name.json
    [ "$1" = heed ] || file=$RESULTS/$name-pytorch.json
    "$PYTHON" recipes/paper/table2.py result "$row" --of "$1" --texts "$texts" --model "$model" \
        --steps "$steps" --tokens "$tokens" --device "$DEVICE" --rate "$RATE" \
        --chosen "$beam" "$alpha" --tests "${tests[@]}" --command "$command" >"$file.part"
    mv "$file.part" "$file"
    "$PYTHON" recipes/paper/report.py --results "$RESULTS" --out "$REPORT"
    echo "$file"
}

# ---- what a device sustains in single precision ------------------------------------------------
case $DEVICE in
cuda*) RATE=${RATE:-67} ;;
*) RATE=${RATE:-$("$HEED" bench train --preset tiny --tokens 1024 --seconds 1 --json \
    --threads "${THREADS:-0}" | "$PYTHON" recipes/paper/table2.py rate)} ;;
esac

for one in "$@"; do
    texts=${one%/*} model=${one#*/}
    texts "$texts"
    name=table2-$texts-$model-$steps row=$WORK/$texts.$model.$steps
    command="DATA=... STEPS=$steps TOKENS=$tokens WARMUP=$warmup LR_SCALE=$LR_SCALE"
    command="$command ${PEER:+PEER=1 }recipes/paper/table2.sh $one"
    [ -e "$RESULTS/$name.json" ] || row_of_heed
    [ -z "${PEER:-}" ] || row_of_peer
done

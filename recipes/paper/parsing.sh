#!/usr/bin/env bash
# parsing.sh — the paper's section 6.3 and Table 4: English constituency parsing.
#
#     DATA    folder with craft-treebank/{train,valid,test}.tree.xz and gum/test.tree.xz
#     TEXT    English sentences without trees, plain, gzip or xz: for the semi-supervised parser,
#             which is left out where there are none
#     WORK    where everything goes (local/paper/parsing)
#     HEED, PYTHON    the programs (build/heed, python3)
#     LAYERS, D_MODEL, D_FF, HEADS, DROPOUT    of the model (4, 1024, 4096, 16, 0.3)
#     PIECES, STEPS, TOKENS, WARMUP, EVERY     vocabulary, updates, tokens of each, updates of
#             rising learning rate, and between checkpoints (16000, 8000, 8000, 4000, 500)
#     LR_SCALE  of the paper's learning rate (1)
#     SEED    of weights, dropout and order (1)
#     DTYPE   to train with (what heed train takes: f32, bf16 on a GPU); small: bf16
#     TAGS    1: rows have the tag of each word in place of XX. A decoder has to find out which word
#             it is at; tags say so at every word, brackets alone only now and then
#     SIZE    small: a model and training for two cores of a CPU, with tags; what is given besides
#             counts
#     AVERAGE  how many of the last checkpoints to take the mean of (5)
#     LONGEST  longest sentence or row to train on, in pieces (300)
#     EXTRA   how much longer than its input a row may be (300)
#     LIMIT   most sentences of each set to parse (all of them)
#     MORE    most sentences of TEXT to parse (60000)
#     PEER    1: the same with PyTorch (peer.py), which PYTHON must have
#     FREE    1: parse without the constrained search as well, as PyTorch has to
#     RESULTS, NAME   where the result goes (docs/paper/results), and its name (parsing)
#     REPORT  where the report goes (docs/paper)
#
#     MINUTES  how long it may take, without the last steps (no limit); it goes on the next time
#
# Arguments, such as --device cuda, go to heed train and heed translate. What is done is not done
# again: stop it and start it as you like. Meant for 15 minutes of an H200, the peer for as many.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK=${WORK:-local/paper/parsing} HEED=${HEED:-build/heed} PYTHON=${PYTHON:-python3}
if [ "${SIZE:-}" = small ]; then
    LAYERS=${LAYERS:-3} D_MODEL=${D_MODEL:-128} D_FF=${D_FF:-512} HEADS=${HEADS:-4}
    DROPOUT=${DROPOUT:-0.1} PIECES=${PIECES:-6000} STEPS=${STEPS:-8000} TOKENS=${TOKENS:-2048}
    WARMUP=${WARMUP:-1000} LONGEST=${LONGEST:-200} LIMIT=${LIMIT:-500} TAGS=${TAGS:-1}
    NAME=${NAME:-parsing-small} DTYPE=${DTYPE:-bf16}
fi
LAYERS=${LAYERS:-4} D_MODEL=${D_MODEL:-1024} D_FF=${D_FF:-4096} HEADS=${HEADS:-16}
DROPOUT=${DROPOUT:-0.3} PIECES=${PIECES:-16000} STEPS=${STEPS:-8000} TOKENS=${TOKENS:-8000}
WARMUP=${WARMUP:-4000} EVERY=${EVERY:-500} SEED=${SEED:-1} LR_SCALE=${LR_SCALE:-1}
RESULTS=${RESULTS:-docs/paper/results} REPORT=${REPORT:-docs/paper} NAME=${NAME:-parsing}
# shellcheck source=recipes/paper/common.sh
. recipes/paper/common.sh
BEAM=21 ALPHA=0.3 EXTRA=${EXTRA:-300} LONGEST=${LONGEST:-300} AVERAGE=${AVERAGE:-5}
: "${DATA:?the folder with craft-treebank and gum}"
model='LAYERS|D_MODEL|D_FF|HEADS|DROPOUT'
training='PIECES|STEPS|TOKENS|WARMUP|LR_SCALE|EVERY|SEED|DTYPE|LONGEST|AVERAGE'
command="$(set | grep -E "^($model|$training)=" | tr '\n' ' ')${TAGS:+TAGS=1 }"
command="DATA=... ${TEXT:+TEXT=... }${command}${LIMIT:+LIMIT=$LIMIT }${PEER:+PEER=1 }"
command="${command}${FREE:+FREE=1 }recipes/paper/parsing.sh${*:+ $*}"
mkdir -p "$WORK" "$RESULTS"

# made FILE COMMAND... — its standard output becomes FILE, once
made() {
    local file=$1
    shift
    [ -e "$file" ] || { "$@" >"$file.part" && mv "$file.part" "$file"; }
}

# ---- texts: trees as rows of brackets, and the words beside them
for set in train valid test gum; do
    from=$DATA/craft-treebank/$set.tree.xz
    [ "$set" != gum ] || from=$DATA/gum/test.tree.xz
    made "$WORK/$set.tree" "$HEED" trees clean --input "$from"
    [ "$set" = train ] || [ -z "${LIMIT:-}" ] || sed -i "${LIMIT}q" "$WORK/$set.tree"
    made "$WORK/$set.words" "$HEED" trees words --input "$WORK/$set.tree"
    made "$WORK/$set.rows" "$HEED" trees linearise ${TAGS:+--tags} --input "$WORK/$set.tree"
done
if [ ! -e "$WORK/bpe.model" ]; then
    "$HEED" vocab --input "$WORK/train.words" "$WORK/train.rows" --size "$PIECES" --quiet \
        --symbols "$("$HEED" trees symbols --input "$WORK/train.rows")" --out "$WORK/bpe.model"
fi

# train NAME OPTION... — a run, and the average of its last checkpoints with how it is to be used
train() {
    local name=$1
    shift
    [ ! -e "$WORK/$name.model" ] || return 0
    limited "$HEED" train "$@" --out "$WORK/$name.run" --tokenizer "$WORK/bpe.model" --preset base \
        --valid-src "$WORK/valid.words" --valid-tgt "$WORK/valid.rows" \
        --n-layer "$LAYERS" --d-model "$D_MODEL" --d-ff "$D_FF" --n-head "$HEADS" \
        --dropout "$DROPOUT" --max-len 1024 --max-length "$LONGEST" --tokens "$TOKENS" \
        --steps "$STEPS" --warmup "$WARMUP" --lr-scale "$LR_SCALE" \
        --save-every "$EVERY" --valid-every "$EVERY" \
        --seed "$SEED" --cache "$WORK/cache" --quiet ${DTYPE:+--dtype "$DTYPE"} ||
        ended $? "training $name"
    "$HEED" average --out "$WORK/$name.part" --overwrite --last "$AVERAGE" "$WORK/$name.run"
    "$HEED" describe "$WORK/$name.part" --set trees=rows --set "beam=$BEAM" \
        --set "alpha=$ALPHA" --set "max_extra=$EXTRA"
    mv "$WORK/$name.part" "$WORK/$name.model"
}

# parse NAME OPTION... — every set by a model, beam and all as the model says
parse() {
    local name=$1 set
    shift
    for set in valid test gum; do
        [ -e "$WORK/$name.$set.rows" ] || limited "$HEED" translate "$@" --quiet \
            --model "$WORK/$name.model" --output "$WORK/$name.$set.rows" "$WORK/$set.words" ||
            ended $? "$name's trees of $set"
    done
}

# score NAME — the trees that rows give, and their F1. Tags, which nobody is asked for, are the
# treebank's: they decide which words are punctuation.
score() {
    local name=$1 set
    for set in valid test gum; do
        "$HEED" trees restore --input "$WORK/$name.$set.rows" --words "$WORK/$set.words" \
            --like "$WORK/$set.tree" >"$WORK/$name.$set.tree" 2>"$WORK/$name.$set.repairs"
        "$HEED" eval --metric parseval --width 2 --json --ref "$WORK/$set.tree" \
            --hyp "$WORK/$name.$set.tree" >"$WORK/$name.$set.json"
    done
}

report() { # what is scored so far
    "$PYTHON" recipes/paper/parsing.py result "$WORK" "$command" "$RESULTS/$NAME.json" \
        >"$RESULTS/$NAME.part"
    mv "$RESULTS/$NAME.part" "$RESULTS/$NAME.json"
    "$PYTHON" recipes/paper/report.py --results "$RESULTS" --out "$REPORT"
}

# ---- the treebank alone
train heed --src "$WORK/train.words" --tgt "$WORK/train.rows" "$@"
parse heed "$@"
score heed
report

# ---- the peer
if [ -n "${PEER:-}" ]; then
    peer "$WORK/peer.json" --like "$WORK/heed.run/config.json" --tokenizer "$WORK/bpe.model" \
        --src "$WORK/train.words" --tgt "$WORK/train.rows" --out "$WORK/peer" --steps "$STEPS" \
        --tokens "$TOKENS" --warmup "$WARMUP" --lr-scale "$LR_SCALE" --every "$EVERY" \
        --max-length "$LONGEST" \
        --beam "$BEAM" --alpha "$ALPHA" --extra "$EXTRA" --seed "$SEED" --average "$AVERAGE" \
        --translate "$WORK/valid.words" "$WORK/test.words" "$WORK/gum.words"
    for set in valid test gum; do cp "$WORK/peer/$set.out" "$WORK/peer.$set.rows"; done
    score peer
    report
fi

# ---- the same parser, which may write what is no tree
if [ -n "${FREE:-}" ]; then
    if [ ! -e "$WORK/free.model" ]; then
        rm -rf "$WORK/free.part"
        cp -r "$WORK/heed.model" "$WORK/free.part"
        "$HEED" describe "$WORK/free.part" --set trees=
        mv "$WORK/free.part" "$WORK/free.model"
    fi
    parse free "$@"
    score free
    report
fi

# ---- and more text, parsed by that parser: the half that it is surest of
if [ -n "${TEXT:-}" ]; then
    made "$WORK/more.words" "$PYTHON" recipes/paper/parsing.py words "$TEXT" "${MORE:-60000}"
    [ -e "$WORK/more.scored" ] || limited "$HEED" translate --model "$WORK/heed.model" --beam 1 \
        --scores "$@" --quiet --output "$WORK/more.scored" "$WORK/more.words" ||
        ended $? "trees of more text"
    "$PYTHON" recipes/paper/parsing.py surest "$WORK/more" "$ALPHA"
    train semi --src "$WORK/train.words" "$WORK/surest.words" \
        --tgt "$WORK/train.rows" "$WORK/surest.rows" --weights 2 1 "$@"
    parse semi "$@"
    score semi
    report
fi

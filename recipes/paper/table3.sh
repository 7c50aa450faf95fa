#!/usr/bin/env bash
# table3.sh — the paper's Table 3: trains every row that is not finished and writes the report.
#
#     SIZE   paper; small: a quarter of the widths and half of the layers, for a CPU (see table3.py)
#     DATA   folder with train, valid and test texts and bpe.model (data.sh makes it for both sizes)
#     WORK   where runs and results go (local/paper)
#     HEED   the program (build/heed)
#     STEPS, TOKENS   updates of each row, and tokens of each (4000, 4096; small: 3000, 1024)
#     WARMUP updates of rising learning rate (a fifth of all)
#     SEEDS  of each row (1; base has three): the table has their means
#     HEAD_WIDTH  paper: heads as wide as the paper's, whatever SIZE: for a question about group A
#     SET    another option of heed train for all rows, as NAME=JSON: for questions about the table
#     NAME   of runs and result (table3; small: table3-small)
#     MINUTES         how long it may take (no limit); it goes on the next time
#     RESULTS, REPORT where its results and the report go (docs/paper/results, docs/paper)
#
# Arguments go to heed sweep: --device cuda:0 --device cuda:1 runs two rows at a time, --only NAME
# one. Two at a time on one GPU keep it at work while one of them saves or is tested. A quarter of
# an hour of one H200; small takes an hour of one core with AMX, --device cpu --device cpu half of
# it with two. Stop and start it as you like.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=recipes/paper/common.sh
. recipes/paper/common.sh
WORK=${WORK:-local/paper} HEED=${HEED:-build/heed} SIZE=${SIZE:-paper}
RESULTS=${RESULTS:-docs/paper/results} REPORT=${REPORT:-docs/paper}
[ -z "${SMOKE:-}" ] || SIZE=smoke
name=table3 usual=4000,4096 more=() quiet=(--heed "$HEED") command="DATA=... SIZE=$SIZE"
if [ "$SIZE" = small ]; then
    name=table3-small usual=3000,1024
    more=(--set threads=1 --set 'dtype="bf16"')
fi
[ -z "${SET:-}" ] || more+=(--set "$SET") command+=" SET='$SET'"
[ -z "${HEAD_WIDTH:-}" ] || more+=(--head-width "$HEAD_WIDTH") command+=" HEAD_WIDTH=$HEAD_WIDTH"
[ -z "${SEEDS:-}" ] || command+=" SEEDS=$SEEDS"
[ -z "${WARMUP:-}" ] || more+=(--warmup "$WARMUP") command+=" WARMUP=$WARMUP"
[ -z "${NAME:-}" ] || command+=" NAME=$NAME"
name=${NAME:-$name}
STEPS=${STEPS:-${usual%,*}} TOKENS=${TOKENS:-${usual#*,}}
only=$(printf ' %s' "$@" | grep -o -- ' --only [^ ]*' | tr -d '\n' || :)
mkdir -p "$WORK" "$RESULTS"
python3 recipes/paper/table3.py plan --data "${DATA:?the folder with the texts}" --size "$SIZE" \
    --out "$WORK/$name" --steps "$STEPS" --tokens "$TOKENS" \
    --seeds "${SEEDS:-1}" "${more[@]}" >"$WORK/$name.json"
device=$(printf ' %s' "$@" | sed -n 's/.* --device \([^ ]*\).*/\1/p')
[ "$SIZE" = smoke ] && quiet=() || quiet+=(--device "${device:-cpu}")
limited "$HEED" sweep "$WORK/$name.json" "$@" || [ $? = 124 ]
[ -e "$WORK/$name/results.json" ] || stop "its first row"
python3 recipes/paper/table3.py result "$WORK/$name.json" "$WORK/$name/results.json" \
    --size "$SIZE" "${quiet[@]}" \
    --command "$command STEPS=$STEPS TOKENS=$TOKENS recipes/paper/table3.sh$only" \
    >"$RESULTS/$name.part"
mv "$RESULTS/$name.part" "$RESULTS/$name.json"
python3 recipes/paper/table3.py chart "$RESULTS/$name.json" >"$WORK/$name.chart.json"
mkdir -p "$REPORT"
[ ! -s "$WORK/$name.chart.json" ] ||
    "$HEED" plot "$WORK/$name.chart.json" --out "$REPORT/$name.svg"
python3 recipes/paper/report.py --results "$RESULTS" --out "$REPORT"

#!/usr/bin/env bash
# questions.sh [QUESTION...] — readers' questions answered by experiment: runs what is not
# finished, measures, draws and reports. Without arguments all of them (questions_run.py names lists
# them); EXTRA=1 also measures what needs trained models after some.
#
#     SIZE    small: models for a CPU, on the sentences in demo/, some 45 minutes of one core;
#             full: base on the texts of data.sh, for a GPU
#     DATA    with SIZE=full: where data.sh put its texts
#     MODEL   another model to ask about "The cat chased its tail", if any
#     DEVICE  what to train on (auto)
#     STEPS   with SIZE=full: updates of each run (20000), warm-up a fifth of them
#     MINUTES how long it may take, without the last steps (no limit); it goes on the next time
#     WORK    where runs go (local/paper)
#     HEED    the program (build/heed)
#     RESULTS, REPORT   where results and report go (docs/paper/results, docs/paper)
#
# Stop and start it as you like: runs go on where they were, and finished ones stay.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
HEED=${HEED:-build/heed} SIZE=${SIZE:-small}
RESULTS=${RESULTS:-docs/paper/results} REPORT=${REPORT:-docs/paper}
work=${WORK:-local/paper}/questions
# shellcheck source=recipes/paper/common.sh
. recipes/paper/common.sh
[ "$SIZE" = small ] || work=$work-$SIZE
ask() { python3 recipes/paper/questions_run.py "$@"; }
mkdir -p "$work" "$RESULTS" "$REPORT"
if [ ! -e "$work/data/bpe.model" ]; then
    case $SIZE in
    full) ask data --heed "$HEED" --out "$work/data" --data "${DATA:?the folder with the texts}" ;;
    smoke) ask data --heed "$HEED" --out "$work/data" --smoke ;;
    *) ask data --heed "$HEED" --out "$work/data" ;;
    esac
fi
size=(--size "$SIZE")
[ "$SIZE" != full ] || size+=(--steps "${STEPS:-20000}")
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(ask names)
for name in "${names[@]}"; do
    ask plan "$name" --work "$work" "${size[@]}" >"$work/$name.json"
    limited "$HEED" sweep "$work/$name.json" --quiet --device "${DEVICE:-auto}" \
        >"$work/$name.txt" || [ $? = 124 ]
done
[ -e "$work/base/results.json" ] || stop "its first row"
if [ $# = 0 ] || [ -n "${EXTRA:-}" ]; then
    ask extra --heed "$HEED" --work "$work" --model "${MODEL:-}"
fi
ask collect --work "$work" "${size[@]}" --command \
    "${STEPS:+STEPS=$STEPS }SIZE=$SIZE recipes/paper/questions.sh" \
    >"$RESULTS/questions.json.part"
mv "$RESULTS/questions.json.part" "$RESULTS/questions.json"
python3 recipes/paper/questions.py charts "$RESULTS/questions.json" --out "$work/charts"
for chart in "$work"/charts/*.json; do
    "$HEED" plot "$chart" --out "$REPORT/question-$(basename "$chart" .json).svg"
done
python3 recipes/paper/report.py --results "$RESULTS" --out "$REPORT"

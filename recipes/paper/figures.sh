#!/usr/bin/env bash
# figures.sh — the paper's Figures 3 to 5: what the heads of a model attend to, found by a search
# over all of them, drawn, and reported.
#
#     MODEL   a directory or a name that heed knows, English to anything
#     TREES   constituency trees of English, one to a line, plain or xz
#     LINES   trees to measure at most (300)
#     WORK    where texts and findings go (local/paper)
#     HEED    the program (build/heed)
#     RESULTS, REPORT   where the results and the report go (docs/paper/results, docs/paper)
#
# Arguments go to heed attend: --threads 4. A minute on one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK=${WORK:-local/paper} HEED=${HEED:-build/heed}
RESULTS=${RESULTS:-docs/paper/results} REPORT=${REPORT:-docs/paper}
: "${MODEL:?the model to look into}" "${TREES:?a file with trees}"
mkdir -p "$RESULTS" "$REPORT"
python3 recipes/paper/figures.py texts --trees "$TREES" --out "$WORK/figures"
"$HEED" attend --find --model "$MODEL" --trees "$WORK/figures/trees" --lines "${LINES:-300}" \
    --src-file "$WORK/figures/anaphora.en" --links "$WORK/figures/anaphora.links" \
    --out "$WORK/figures/found" "$@" >"$WORK/figures/table.txt"
for picture in "$WORK"/figures/found/*.svg; do
    cp "$picture" "$REPORT/figure-$(basename "$picture")"
done
python3 recipes/paper/figures.py collect "$WORK/figures/found/heads.json" \
    --model "$(basename "$MODEL")" --command \
    "MODEL=$(basename "$MODEL") TREES=$(basename "$TREES") recipes/paper/figures.sh" \
    >"$RESULTS/figures.json.part"
mv "$RESULTS/figures.json.part" "$RESULTS/figures.json"
python3 recipes/paper/report.py --results "$RESULTS" --out "$REPORT"

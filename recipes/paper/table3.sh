#!/usr/bin/env bash
# table3.sh — the paper's Table 3: trains every row that is not finished and writes the report.
#
#     DATA   folder with train, valid and test texts and bpe.model (see table3.py)
#     WORK   where runs and results go (local/paper)
#     HEED   the program (build/heed)
#     STEPS, TOKENS   updates of each row, and tokens of each (8000, 8000)
#     MINUTES         how long it may take (no limit); it goes on the next time
#     RESULTS, REPORT where its results and the report go (docs/paper/results, docs/paper)
#
# Arguments go to heed sweep: --device cuda:0 --device cuda:1 runs two rows at a time, --only NAME
# one. With STEPS=4000 about 25 minutes of one H200; stop and start it as you like.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=recipes/paper/common.sh
. recipes/paper/common.sh
WORK=${WORK:-local/paper} HEED=${HEED:-build/heed}
RESULTS=${RESULTS:-docs/paper/results}
mkdir -p "$WORK" "$RESULTS"
python3 recipes/paper/table3.py plan --data "${DATA:?the folder with the texts}" \
    --out "$WORK/table3" --steps "${STEPS:-8000}" --tokens "${TOKENS:-8000}" ${SMOKE:+--smoke} \
    >"$WORK/table3.json"
limited "$HEED" sweep "$WORK/table3.json" "$@" || [ $? = 124 ]
[ -e "$WORK/table3/results.json" ] || stop "its first row"
cp "$WORK/table3/results.json" "$RESULTS/table3.json"
python3 recipes/paper/report.py --results "$RESULTS" --out "${REPORT:-docs/paper}"

#!/usr/bin/env bash
# table1.sh — the paper's Table 1, measured on one device: results, plots, the report.
#
#     recipes/paper/table1.sh [cpu|cuda] [OPTION...]      options go to heed bench layers
#
#     HEED   the program (build/heed)
#     WORK   where charts go before they are drawn (local/paper)
#     RESULTS, REPORT   where results and the report go (docs/paper/results, docs/paper)
#
# Three minutes of one core, two of a GPU. On the CPU times are those of one thread, counted by the
# processor, so that other programs do not disturb them much.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
HEED=${HEED:-build/heed} WORK=${WORK:-local/paper} RESULTS=${RESULTS:-docs/paper/results}
REPORT=${REPORT:-docs/paper}
device=${1:-cpu}
[ $# = 0 ] || shift
case $device in
cpu) options=(--threads 1) ;;
cuda)
    options=(--dtype bf16 --n-max 65536 --d 1024 --n 8192 --batch 256 --d-max 4096 --seconds 90)
    ;;
*) echo "table1.sh: no device '$device': cpu or cuda" >&2 && exit 2 ;;
esac
mkdir -p "$WORK" "$RESULTS" "$REPORT"
"$HEED" bench layers --device "$device" "${options[@]}" "$@" --json "$WORK/table1-$device.json"
python3 recipes/paper/table1.py add "$WORK/table1-$device.json" \
    --command "recipes/paper/table1.sh $device${*:+ $*}" >"$RESULTS/table1-$device.json.part"
mv "$RESULTS/table1-$device.json.part" "$RESULTS/table1-$device.json"
for against in n d; do
    python3 recipes/paper/table1.py chart "$RESULTS/table1-$device.json" --against $against \
        >"$WORK/table1-$device-$against.json"
    "$HEED" plot "$WORK/table1-$device-$against.json" --out "$REPORT/table1-$device-$against.svg"
done
python3 recipes/paper/report.py --results "$RESULTS" --out "$REPORT"

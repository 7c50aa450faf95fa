#!/usr/bin/env bash
# gpu_decode.sh — translating on a GPU: how fast, and are the translations those of the CPU?
#
#     bench/gpu_decode.sh MODEL TEXT [FOLDER]
#
# MODEL: a model directory; TEXT: one sentence per line. FOLDER: where heed, libheed-cuda.so and
# lib/ are (local/gpu, as `bench/gpu.sh pack` leaves it; a build folder will do). TEXT is translated
# on the CPU in f32 and on the GPU in f32 and bf16.
# Lines that differ are kept in OUT (FOLDER/decode). Exit status 1: fewer than 99 % of the lines are
# the same in f32.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
if [ $# -lt 2 ]; then echo "usage: bench/gpu_decode.sh MODEL TEXT [FOLDER]" >&2 && exit 2; fi
model=$1 text=$2 home=${3:-local/gpu}
. bench/gpu_home.sh
out=${OUT:-$home/decode}
batch=${BATCH:-64}
mkdir -p "$out"

# translate NAME ARGUMENTS... — into $out/NAME.txt; its speed in tokens per second is left in
# `speed`
translate() {
    local name=$1
    shift
    "$heed" translate --model "$model" --batch-sentences "$batch" --batch-tokens $((batch * 64)) \
        --quiet --stats "$@" "$text" \
        >"$out/$name.txt" 2>"$out/$name.log" || { cat "$out/$name.log" >&2 && exit 1; }
    speed=$(grep -oE '[0-9.]+ target tokens/s' "$out/$name.log" | head -n 1)
}

# report NAME — the fraction of lines that are the CPU's, and the speed
report() {
    awk -v name="$1" -v speed="$speed" '
        NR == FNR { want[FNR] = $0; next }
        { n++; same += want[FNR] == $0 }
        END { printf "%-22s %16s   %d of %d lines as on the cpu (%.2f %%)\n",
            name, speed, same, n, 100 * same / n }' \
        "$out/cpu-f32.txt" "$out/$1.txt"
}

translate cpu-f32 --device cpu --precision f32 && report cpu-f32
translate cuda-f32 --device cuda --precision f32 && report cuda-f32
translate cuda-bf16 --device cuda --precision bf16 && report cuda-bf16
diff "$out/cpu-f32.txt" "$out/cuda-f32.txt" >"$out/differences.txt"
awk 'NR == FNR { want[FNR] = $0; next }
    { n++; same += want[FNR] == $0 }
    END { exit !(n > 0 && same >= 0.99 * n) }' \
    "$out/cpu-f32.txt" "$out/cuda-f32.txt"

#!/usr/bin/env bash
# start.sh — from the start of `heed translate` to its first translation, and the memory that takes.
#
#     bench/start.sh [HEED [MODEL [SENTENCE]]]
#
# Prints the best and the median of REPEAT runs in milliseconds, and the largest resident memory.
# Without a model it makes one of the shape that is shipped, with random weights, whose translations
# are ended at the length of the source. The program is linked and the model read from the page
# cache; time is the processor's and everything else up to the end of the process.
#
# REPEAT=40  WORK=build/bench-box
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=bench/box_student.sh
. "$here/box_student.sh"
heed=${1:-build/heed} model=${2:-} work=${WORK:-build/bench-box}
sentence=${3:-}
options=(--quiet)
if [ -z "$model" ]; then
    random_student "$heed" "$work"
    model=$work/int8 sentence=${sentence:-w00001 w00020 w00300 w04000 w00005 w00060 w00700 w08000}
    options+=(--max-extra 0)
fi
python3 - "${REPEAT:-40}" "${sentence:-The weather is better today than yesterday.}" \
    "$heed" translate --model "$model" "${options[@]}" <<'PY'
import resource, subprocess, sys, time

repeat, sentence, command = int(sys.argv[1]), sys.argv[2].encode() + b"\n", sys.argv[3:]
took = []
for _ in range(repeat):
    begin = time.perf_counter()
    run = subprocess.run(command, input=sentence, stdout=subprocess.PIPE, check=True)
    took.append(1e3 * (time.perf_counter() - begin))
    assert run.stdout.strip(), "no translation"
took.sort()
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(f"start to first translation: best {took[0]:.1f} ms, median {took[len(took) // 2]:.1f} ms")
print(f"largest resident memory: {peak * 1.048576:.1f} MB")
PY

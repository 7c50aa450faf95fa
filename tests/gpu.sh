#!/usr/bin/env bash
# gpu.sh — all tests that involve a GPU, then the kernels under compute-sanitizer. `make test-gpu`
# calls it.
#
#     tests/gpu.sh FOLDER      of the build: FOLDER/tests/test_*, FOLDER/libheed-cuda.so
#
# SANITIZE=0 leaves compute-sanitizer out, ONLY_SANITIZE=1 all the rest. Where there is no GPU every
# test fails when HEED_TEST_GPU is set.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=$1
export HEED_PLUGIN_PATH=$build BUILD=$build
failed=0

# JOBS: tests share the device, and each brings a context of its own.
programs=()
for program in "$build"/tests/test_*; do
    if [ -x "$program" ] && [ -f "$program" ] &&
        [[ $("$program" --list 2>/dev/null) == *cuda* ]]; then programs+=("$program"); fi
done
programs+=(tests/test_train_cuda.sh)
if [ "${ONLY_SANITIZE:-0}" = 0 ]; then
    tests/run.sh -j "${JOBS:-4}" -k cuda "${programs[@]}" || failed=1
    tests/gpu_serve.sh "$build" || [ $? = 77 ] || failed=1
fi

# checked TOOL PROGRAM TEST
checked() {
    local log
    if log=$(compute-sanitizer --tool "$1" --error-exitcode 99 "$build/tests/$2" "$3" 2>&1); then
        printf 'ok      %-10s %s:%s\n' "$1" "$2" "$3"
    else
        printf 'FAILED  %-10s %s:%s\n%s\n' "$1" "$2" "$3" "$(tail -n 30 <<<"$log")"
        failed=1
    fi
}
if [ "${SANITIZE:-1}" = 1 ] && command -v compute-sanitizer >/dev/null; then
    for op in embed linear attention add_norm xent guide ssru; do
        checked memcheck test_ops compare_cuda.$op
    done
    for op in embed attention add_norm xent guide ssru; do
        checked racecheck test_ops compare_cuda.$op
    done
    for tool in memcheck racecheck; do
        for name in step_compare.cuda ssru_tree.cuda topk_against_ref.cuda; do
            checked "$tool" test_decode $name
        done
    done
    checked memcheck test_resident conduct.cuda-f32
    checked racecheck test_resident no_numbers.cuda-f32
    checked memcheck test_adam adam_on_cuda
    checked memcheck test_oracle cuda_bf16.post
    checked initcheck test_oracle cuda_f32.pre
fi
exit $failed

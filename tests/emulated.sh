#!/usr/bin/env bash
# emulated.sh — the GPU's tests with its kernels compiled for the CPU (emulated/README.md), and
# proof that kernels with faults are noticed. `make test-emulated` and test_emulated.sh call it.
#
#     tests/emulated.sh [--all] FOLDER      of the build
#
# Without --all: what takes less than a minute in all.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
all=
[ "$1" != --all ] || { all=1 && shift; }
build=$1
emulated=$build/emulated
failed=0

# A program prefers the plug-in beside itself, so programs are put beside the one that emulates.
mkdir -p "$emulated/tests"
programs=()
for program in "$build"/tests/test_*; do
    if [ -x "$program" ] && [ -f "$program" ] &&
        [[ $("$program" --list 2>/dev/null) == *cuda* ]]; then
        ln -f "$program" "$emulated/tests/" && programs+=("$emulated/tests/${program##*/}")
    fi
done
ln -f "$build/heed" "$emulated/"
library_path=$(realpath "$emulated")
export BUILD=$emulated HEED_TEST_GPU=1 LD_LIBRARY_PATH=$library_path TEST_SCALE=${TEST_SCALE:-4}

# broken FAULT WHAT-MUST-BE-SAID [VARIABLE=VALUE...]
broken() {
    local fault=$1 want=$2 out
    shift 2
    out=$(env "$@" "$emulated/broken" "$fault" 2>&1)
    [[ $out == *"$want"* ]] && return
    printf 'FAILED: the emulated GPU should say "%s" of the kernel "%s" (%s), and says "%s"\n' \
        "$want" "$fault" "${*:-as it is}" "$out"
    failed=1
}
broken divergent 'while other lanes of the warp are at'
broken forever 'waits for ever at an mbarrier'
broken hasty 'does not wait for the kernel before'
broken beyond-shared 'behind its 256 bytes of shared memory'
broken beyond-memory 'wrote behind 256 bytes of device memory'
broken copy-never 'ends before what it began has been waited for'
broken copy-early wrong
broken unwritten wrong
broken barrier wrong EMULATED_SEED=1
broken barrier-waits right EMULATED_SEED=1
for order in eager late late-first late-others; do
    broken stream-waits right EMULATED_ORDER=$order
done
broken stream wrong EMULATED_ORDER=late-first

# run WHAT VARIABLE=VALUE... -- OPTION... — tests of all programs, with what the variables say
run() {
    local variables=()
    echo "$1:"
    shift
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    env "${variables[@]}" tests/run.sh "$@" "${programs[@]}" || failed=1
}
# What trains for 200 updates and what looks at a clock is for GPUs.
without='cuda_curve|cuda_repeats|cuda_profile'
if [ -n "$all" ]; then
    run 'blocks and warps in one order' -- -k cuda -x "$without"
    programs+=(tests/test_train_cuda.sh)
    run 'in another, and as late as may be' EMULATED_SEED=1 EMULATED_ORDER=late -- -k cuda \
        -x "$without"
    run 'on an older device' EMULATED_CAPABILITY=80 -- -k cuda -x "$without"
    run 'experiments' HEED_CUDA_FEW=256 HEED_CUDA_EDGES=1 -- -k cuda -x "$without"
    for order in eager late-first late-others; do
        run "a second stream, $order" HEED_CUDA_BESIDE=1 EMULATED_ORDER=$order -- -k cuda \
            -x "$without"
    done
else
    without="$without|average_stands_in|updates_cuda|a_head_learns|host_and_backend|crowds_agree"
    without="$without|second_stream"
    run 'blocks and warps in an order that is drawn, as late as may be' EMULATED_SEED=1 \
        EMULATED_ORDER=late -- -k cuda -x "$without"
    run 'on an older device' EMULATED_CAPABILITY=80 -- -k cuda_bf16 -x "$without"
    for some in compare_cuda.linear step_compare.cuda no_numbers.cuda-bf16; do
        run 'experiments' HEED_CUDA_FEW=256 HEED_CUDA_EDGES=1 -- -k $some
    done
    for order in late-first late-others; do
        run "a second stream, $order" EMULATED_ORDER=$order -- -k cuda_second_stream.post
    done
fi
exit $failed

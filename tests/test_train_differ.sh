#!/usr/bin/env bash
# test_train_differ.sh — ranks that differ in words, texts, processor, GPU or build are refused
# before anything is learnt, and one of them says why; as are numbers that cannot share an update.
# timeout: 240
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/train.sh
. "$here/train.sh"
# shellcheck source=tests/ranks.sh
. "$here/ranks.sh"
run=("${data[@]}" "${small[@]}" --steps 20 --cache cache --accumulate 8)

# What ranks cannot do together is refused, and said once.
refuse() { # STATUS TEXT COMMAND...
    expect "$@"
    [ "$(grep -c '^heed:' <<<"$out")" = 1 ] || fail "not once: $out"
}
refuse 2 'ranks may be 1, 2, 4 or 8' mpirun -n 3 "$heed" train "${run[@]}" --out no
[ ! -e no ] || fail 'a refused run has written something'
verb=(train "${run[@]}" --out no)
refuse 2 'has another training options than rank 0' \
    mpirun -n 1 "$heed" "${verb[@]}" : -n 1 "$heed" "${verb[@]}" --warmup 51
refuse 2 'has another processor or device than rank 0' \
    mpirun -n 1 "$heed" "${verb[@]}" : -n 1 "$heed" "${verb[@]}" --isa generic
sed 's/a/e/' t.src >other.src
refuse 2 'has another training data than rank 0' \
    mpirun -n 1 "$heed" "${verb[@]}" : -n 1 "$heed" "${verb[@]/#t.src/other.src}"

# GPUs that are none (pretend.c): of the same name they train, another model or library is refused.
# The same for another build of the program, or of a plug-in that comes with the device.
mkdir gpu gpu2
cp "$heed" "$build/libheed-mpi.so" "$build/tests/pretend/libheed-cuda.so" gpu
cp "$heed" "$build/libheed-mpi.so" "$build/tests/pretend/libheed-cuda.so" gpu2
gpu=(train "${run[@]}" --steps 2 --accumulate 2 --device cuda --comm mpi)
h200='NVIDIA H200, cuBLASLt 13.0.2'
ranks 2 -x HEED_PRETEND="$h200" gpu/heed "${gpu[@]}" --out gpu/run >gpu.log 2>&1 ||
    fail "two of a kind: $(cat gpu.log)"
for other in 'NVIDIA H100, cuBLASLt 13.0.2' 'NVIDIA H200, cuBLASLt 13.1.0'; do
    refuse 2 "than rank 0 on $(uname -n): 'cuda $other, f32', not 'cuda $h200, f32'" \
        mpirun -n 1 -x HEED_PRETEND="$h200" gpu/heed "${gpu[@]}" --out no : \
        -n 1 -x HEED_PRETEND="$other" gpu/heed "${gpu[@]}" --out no
    has 'rank 1 on'
    has 'has another processor or device'
done
echo >>gpu2/libheed-cuda.so
refuse 2 'has another program than rank 0' \
    mpirun -n 1 gpu/heed "${gpu[@]}" --out no : -n 1 gpu2/heed "${gpu[@]}" --out no
echo >>gpu2/heed
refuse 2 'has another program than rank 0' \
    mpirun -n 1 gpu/heed "${verb[@]}" : -n 1 gpu2/heed "${verb[@]}"
head -n 4 v.src >few
refuse 2 'has another program than rank 0' \
    mpirun -n 1 gpu/heed translate --model gpu/run few : \
    -n 1 gpu2/heed translate --model gpu/run few

# What they would do is said without doing it.
rm -rf no
"$heed" train "${run[@]}" --ranks 2 --dry-run --out no >dry.log 2>&1 || fail "$(cat dry.log)"
grep -q '^2 ranks (mpi): 4 batches of every update' dry.log || fail "$(cat dry.log)"

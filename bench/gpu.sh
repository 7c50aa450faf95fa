#!/usr/bin/env bash
# gpu.sh — heed on a GPU machine: tests, speed, and PyTorch beside it, in one call with a table at
# the end.
#
#     bench/gpu.sh pack [BUILD]     here: gathers in local/gpu what a bare machine needs
#     bench/gpu.sh run              there: tests and figures from local/gpu
#     bench/gpu.sh bench BUILD      figures alone, from a build on this machine (`make bench-gpu`)
#
# STAGES picks of run: "test sanitize bench peers" (all), and "quality", which needs DATA: a folder
# with {train,valid,test}.{en,de}, plain or .xz (bench/gpu_quality.sh). OUT: where logs go
# (local/gpu/out). HOME_GPU: another folder than local/gpu. LIMIT: seconds that a PyTorch program
# may take (200). SECONDS_EACH: how long a step is timed (3). JSON=1: no table, but lines for
# bench/tables.py. Every figure that is printed is taken in this call, heed's and the peer's on the
# same device.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
mode=${1:-run}
home=${HOME_GPU:-local/gpu}
stages=${STAGES:-test sanitize bench peers${DATA:+ quality}}
seconds=${SECONDS_EACH:-3}

pack() {
    local build=${1:-build}
    rm -rf "$home"
    mkdir -p "$home/tests" "$home/lib"
    cp "$build/heed" "$build"/libheed-*.so "$home/"
    for program in "$build"/tests/test_*; do
        if [ -f "$program" ] && [ -x "$program" ] &&
            [[ $("$program" --list 2>/dev/null) == *cuda* ]]; then
            cp "$program" "$home/tests/"
        fi
    done
    ldd "$home/heed" "$home"/tests/* "$home/libheed-cuda.so" | awk '/=> \// { print $3 }' |
        sort -u |
        grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|cublasLt))\.so' |
        xargs cp -Lt "$home/lib"
    find "$home" -type f \( -name 'test_*' -o -name heed -o -name '*.so*' \) \
        -exec strip --strip-unneeded {} + 2>/dev/null
    du -sh "$home"
}

has() { case " $stages " in *" $1 "*) true ;; *) false ;; esac }

failed=0
# figure NAME COMMAND... — what it prints goes to a log, and a failure into the table as well
figure() {
    local name=$1 rc=0
    shift
    "$@" >"$out/$name.json" 2>"$out/$name.err" || rc=$?
    if [ $rc != 0 ]; then
        failed=1
        printf '{"error":"exit %d"}\n' $rc >>"$out/$name.json"
        tail -n 3 "$out/$name.err" >&2
    fi
    echo "== $name: $(tail -n 1 "$out/$name.json" | cut -c1-150)"
}
train() { figure "$1.heed" "$heed" bench train --device cuda --dtype bf16 --json \
    --seconds "$seconds" "${@:2}"; }
train_peer() {
    figure "$1.torch" python bench/torch_gpu_train.py --seconds "$seconds" \
        --device "${DEVICE:-cuda}" "${@:2}"
}
decode() {
    figure "decode-$1.heed" "$heed" bench translate --device cuda --precision bf16 --json \
        --preset base \
        --n-vocab 37000 --beam 4 --length 32 --force-length 32 --batch "$1" --sentences "$2"
}
decode_peer() {
    figure "decode-$1.torch" python bench/torch_gpu_decode.py --batch "$1" \
        --device "${DEVICE:-cuda}"
}

base=(--preset base --tokens 25000)
big=(--preset big --tokens 25000)
bench() {
    train base-32 "${base[@]}" --length 32
    train base-bucketed "${base[@]}" --bucketed
    train big-bucketed "${big[@]}" --bucketed
    train base-mixed "${base[@]}" --length 0
    train tiny-mixed --preset tiny --tokens 8192 --length 0 --n-vocab 10000
    "$heed" bench train --device cuda --dtype bf16 "${base[@]}" \
        --seconds 1 >"$out/breakdown.txt" 2>&1
    cat "$out/breakdown.txt"
    decode 256 1024
    decode 64 512
    decode 1 64
}

peers() {
    if ! python -c 'import torch'; then echo 'no PyTorch here: the peers are left out' && return; fi
    train_peer base-32 "${base[@]}" --length 32
    train_peer base-bucketed "${base[@]}" --bucketed
    train_peer big-bucketed "${big[@]}" --bucketed
    for batch in 256 64 1; do decode_peer $batch; done
}

case $mode in
pack) pack "${2:-build}" && exit ;;
run) ;;
bench) home=$2 stages="bench peers${DATA:+ quality}" ;;
*) echo "usage: bench/gpu.sh pack|run|bench" >&2 && exit 2 ;;
esac
out=${OUT:-$home/out}
mkdir -p "$out"
rm -f "$out"/*.txt "$out"/*.json "$out"/*.err
# shellcheck source=bench/gpu_home.sh
. bench/gpu_home.sh
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader
echo "cuBLASLt in ${cublas:-no place known}; kernel $(uname -r); $(getconf GNU_LIBC_VERSION)"
if has test; then
    HEED_TEST_GPU=1 SANITIZE=0 tests/gpu.sh "$home" 2>&1 | tee "$out/test.txt" || failed=1
fi
if has bench; then bench; fi
if has peers; then peers; fi
if has quality; then
    bench/gpu_quality.sh "${DATA:?quality needs DATA}" "$home" "$out/quality" 2>&1 |
        tee "$out/quality.txt" || failed=1
    cp "$out"/quality/*.json "$out/"
fi
if has sanitize; then
    HEED_TEST_GPU=1 ONLY_SANITIZE=1 tests/gpu.sh "$home" 2>&1 | tee "$out/sanitize.txt" || failed=1
fi
python bench/gpu_table.py ${JSON:+--json} "$out"
exit $failed

#!/usr/bin/env bash
# gpu.sh — heed on a GPU machine: tests, speed, and PyTorch beside it, in one call with a short table at the end.
#
#     bench/gpu.sh pack [BUILD]     here: gathers local/gpu, what a bare machine needs to run the rest
#     bench/gpu.sh run              there: tests and figures from local/gpu
#     bench/gpu.sh bench BUILD      figures alone, from a build on this machine (`make bench-gpu`)
#
# STAGES picks of run: "test sanitize bench peers" (all). PEERS: folder with the PyTorch programs to run beside heed
# (torch_train.py); pack takes it along. OUT: where whole logs go (local/gpu/out). HOME_GPU: another folder than local/gpu. Every figure that is printed is
# taken in this call, heed's and the peer's one after the other on the same device.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
mode=${1:-run}
home=${HOME_GPU:-local/gpu}
stages=${STAGES:-test sanitize bench peers}
out=${OUT:-$home/out}

pack() {
    local build=${1:-build}
    rm -rf "$home"
    mkdir -p "$home/tests" "$home/lib"
    cp "$build/heed" "$build/libheed-cuda.so" "$home/"
    for program in "$build"/tests/test_*; do
        if [ -f "$program" ] && [ -x "$program" ] && [[ $("$program" --list 2>/dev/null) == *cuda* ]]; then
            cp "$program" "$home/tests/"
        fi
    done
    ldd "$home/heed" "$home"/tests/* "$home/libheed-cuda.so" | awk '/=> \// { print $3 }' | sort -u |
        grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|cublasLt))\.so' | xargs cp -Lt "$home/lib"
    if [ -n "${PEERS:-}" ]; then cp -r "$PEERS" "$home/peers"; fi
    find "$home" -type f \( -name 'test_*' -o -name 'heed' -o -name '*.so*' \) -exec strip --strip-unneeded {} + 2>/dev/null
    du -sh "$home"
}

# cuBLASLt is the toolkit's, or came with PyTorch.
find_cublas() {
    local folder
    for folder in /usr/local/cuda/lib64 $(python3 -c 'import nvidia, os; print(*[os.path.join(p, d, "lib") for p in nvidia.__path__
        for d in os.listdir(p)])' 2>/dev/null); do
        if [ -e "$folder/libcublasLt.so.13" ]; then echo "$folder" && return; fi
    done
}

has() { case " $stages " in *" $1 "*) true ;; *) false ;; esac }

# figures NAME HEED-ARGUMENTS... — one line of the table, the whole report to the log
rows=()
figures() {
    local name=$1 line
    shift
    "$heed" bench train --device cuda --dtype bf16 "$@" >"$out/$name.txt" 2>&1
    "$heed" bench train --device cuda --dtype bf16 --json "$@" >"$out/$name.json" 2>>"$out/$name.txt"
    line=$(env -u LD_LIBRARY_PATH python3 - "$out/$name.json" <<'END' 2>/dev/null
import json, sys
r = json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])
print(f"{r['ms_per_step']:9.2f} {r['tgt_tokens_per_s']:12.0f} {r['tflops']:8.1f} {100 * r['gemm_share']:7.1f} {r['peak_mb'] / 1024:8.2f}")
END
    )
    rows+=("$(printf '%-26s %s' "$name" "${line:-failed: $(tail -n 1 "$out/$name.txt" | cut -c1-80)}")")
    echo "== $name" && cat "$out/$name.txt"
}

bench() {
    figures base-32 --preset base --tokens 25000 --length 32 --seconds "${SECONDS_EACH:-3}"
    figures base-mixed --preset base --tokens 25000 --length 0 --seconds "${SECONDS_EACH:-3}"
    figures base-bucketed --preset base --tokens 25000 --bucketed --seconds "${SECONDS_EACH:-3}"
    figures big-bucketed --preset big --tokens 25000 --bucketed --seconds "${SECONDS_EACH:-3}"
    figures big-mixed --preset big --tokens 25000 --length 0 --seconds "${SECONDS_EACH:-3}"
    figures tiny-mixed --preset tiny --tokens 8192 --length 0 --seconds "${SECONDS_EACH:-3}" --n_vocab 10000
}

# peer NAME ARGUMENTS... — PyTorch's own report
peer() {
    local name=$1
    shift
    env -u LD_LIBRARY_PATH PYTHONUNBUFFERED=1 timeout 200 python3 "$peers/torch_train.py" "$@" >"$out/torch-$name.txt" 2>&1
    echo "== torch $name" && tail -n 8 "$out/torch-$name.txt"
}

table() {
    printf '\n%-26s %9s %12s %8s %7s %8s\n' "" ms/step "tgt tok/s" TFLOP/s "GEMM %" GiB
    if [ ${#rows[@]} -gt 0 ]; then printf '%s\n' "${rows[@]}"; fi
    for file in "$out"/torch-*.txt; do
        if [ -e "$file" ]; then printf '%-26s %s\n' "$(basename "$file" .txt)" "$(tail -n 1 "$file" | cut -c1-110)"; fi
    done
    if [ -e "$out/test.txt" ]; then printf '%-26s %s\n' tests "$(tail -n 1 "$out/test.txt")"; fi
    if [ -e "$out/sanitize.txt" ]; then
        printf '%-26s %s ok, %s failed\n' compute-sanitizer "$(grep -c '^ok' "$out/sanitize.txt")" "$(grep -c '^FAILED  ' "$out/sanitize.txt")"
    fi
}

case $mode in
pack)
    pack "${2:-build}"
    exit
    ;;
run) build=$home ;;
bench) build=$2 stages="bench peers" ;;
*) echo "usage: bench/gpu.sh pack|run|bench" >&2 && exit 2 ;;
esac
mkdir -p "$out"
rm -f "$out"/*.txt "$out"/*.json
heed=$build/heed
peers=${PEERS:-$home/peers}
cublas=$(find_cublas)
export LD_LIBRARY_PATH=$PWD/$home/lib:$cublas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader
echo "cuBLASLt in ${cublas:-no place known}; kernel $(uname -r); glibc $(getconf GNU_LIBC_VERSION)"
if has test; then HEED_TEST_GPU=1 SANITIZE=0 tests/gpu.sh "$build" 2>&1 | tee "$out/test.txt"; fi
if has bench; then bench; fi
if has peers && [ -e "$peers/torch_train.py" ]; then
    peer base-32 --config base --fixed 32 --steps 20 --modes default
    peer base-bucketed --config base --steps 16 --modes "${BUCKETED_MODES:-default}"
    peer big-bucketed --config big --steps 16 --modes "${BUCKETED_MODES:-default}"
fi
if has sanitize; then HEED_TEST_GPU=1 ONLY_SANITIZE=1 tests/gpu.sh "$build" 2>&1 | tee "$out/sanitize.txt"; fi
table

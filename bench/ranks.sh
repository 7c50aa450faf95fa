#!/usr/bin/env bash
# ranks.sh — what ranks cost on one machine of two cores with nothing else to do. One line per
# figure, in at most three minutes each:
#
#     threads   2 ranks of 1 thread against 1 rank of 2 threads, by `heed train` on the demo's texts
#     tree      updates of 8 batches against their gradients and one pass of Adam, on 1 rank
#     ddp       2 ranks against 2 of PyTorch's DistributedDataParallel (torch_ddp.py)
#
#     bench/ranks.sh [threads] [tree] [ddp]      all if not given
#
# BUILD: where heed was built. PYTHON: one that has PyTorch.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
TEST_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/heed-ranks.XXXXXX")
export TEST_DIR
trap 'rm -rf "$TEST_DIR"' EXIT
# shellcheck source=tests/shell.sh
. "$here/../tests/shell.sh"
# shellcheck source=tests/ranks.sh
. "$here/../tests/ranks.sh"
[ $# -gt 0 ] || set -- threads tree ddp

# median — of the numbers in the lines read
median() { sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

bench_threads() {
    local texts=$tree/demo round kind
    local words=(--src "$texts/train.en.xz" --tgt "$texts/train.de.xz" --preset tiny
        --vocab-size 4000 --tokens 2000 --accumulate 2 --save-every 1000 --log-every 2
        --cache "$dir/cache" --quiet)
    "$heed" train "${words[@]}" --steps 1 --out "$dir/warm"
    for round in 1 2 3; do
        "$heed" train "${words[@]}" --steps 9 --threads 2 --out "$dir/threads$round"
        "$heed" train "${words[@]}" --steps 9 --ranks 2 --threads 1 --out "$dir/ranks$round"
        same "$dir/threads$round/model.safetensors" "$dir/ranks$round/model.safetensors"
    done
    for kind in threads ranks; do # without the first two updates, which warm up
        for round in 1 2 3; do
            sed -n 's/^{"step":[3-9].*"tok_s":\([0-9.]*\).*/\1/p' "$dir/$kind$round/log.jsonl"
        done | median >"$dir/$kind"
    done
    awk '{ x[FNR == NR] = $1 } END {
        printf "bar: 2 ranks x 1 thread %.0f tokens/s, 1 rank x 2 threads %.0f: %.1f %% " \
            "(at least 90 %%); the same bytes\n", x[1], x[0], 100 * x[1] / x[0]
    }' "$dir/ranks" "$dir/threads"
}

bench_tree() {
    "$heed" bench train --preset tiny --n-vocab 4000 --tokens 1536 --threads 1 --seconds 45 \
        --accumulate 8 --json | tr -d '{}"' | tr ',' ' ' | awk '/accumulate/ {
        for (i = 1; i <= NF; i++) { split($i, f, ":"); v[f[1]] = f[2] }
        printf "bar: an update of %d batches in a tree %.1f ms, plainly %.1f ms: %+.2f %% " \
            "(at most 1.5 %%)\n", v["accumulate"], v["ms_per_update"], v["plain_ms"],
            100 * (v["ms_per_update"] / v["plain_ms"] - 1)
    }'
}

bench_ddp() {
    local python=${PYTHON:-python3}
    "$python" -c 'import torch' 2>/dev/null || { echo "ddp: no PyTorch for $python"; return; }
    "$python" "$here/torch_ddp.py" --heed "$heed"
}

for part in "$@"; do "bench_$part"; done

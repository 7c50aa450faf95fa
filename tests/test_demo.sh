#!/bin/bash
# test_demo.sh — the toy task is learnt: more than 99 % of unseen sequences exact, in both precisions.
# timeout: 300
set -eu
heed=${BUILD:-build}/heed
for dtype in f32 bf16; do
    out=$("$heed" demo --dtype $dtype 2>/dev/null)
    echo "$out" | head -2
    read -r exact _ total _ < <(echo "$out" | sed -n 2p)
    [ $((100 * exact)) -gt $((99 * total)) ] || { echo "only $exact of $total exact"; exit 1; }
    [ "${TEST_SLOW:-1}" = 1 ] || break
done

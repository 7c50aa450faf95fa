#!/usr/bin/env bash
# scale.sh — does `heed bench scale --predict` predict what happens? CPU ranks of one thread each,
# on machines made of network namespaces (tests/machines.sh) whose links are capped at 1 Gbit/s,
# time their updates alone and together. Of every size, and of the worst, it prints what was
# predicted and what was measured. Root, and a machine with nothing else to do that has a CPU for
# every rank.
#
#     bench/scale.sh [RANKS...]     2 and 4 if not given
#
# BUILD: where heed was built; TOKENS: of the largest batch; SECONDS_EACH: time for each size.
set -euo pipefail
tests=$(realpath "$(dirname "$0")/../tests")
TEST_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/heed-scale.XXXXXX")
export TEST_DIR
# shellcheck source=tests/shell.sh
. "$tests/shell.sh"
# shellcheck source=tests/ranks.sh
. "$tests/ranks.sh"
door=nsenter # mpirun takes any, and so fewer machines lack something
# shellcheck source=tests/machines.sh
. "$tests/machines.sh"
command -v tc >/dev/null || skip 'no tc here (iproute2)'
[ $# -gt 0 ] || set -- 2 4

# 1 Gbit/s out of every machine and into it, as a network card has. Of 1514 bytes of a full frame
# TCP carries 1448 of ours: 0.1196 GB/s. Queues are short: acknowledgements wait behind what goes
# the same way, and a window is soon too small for that.
cap() {
    local n limit=(root tbf rate 1gbit burst 128kb latency 3ms)
    for n in 0 1 2 3; do
        on "${hosts[$n]}" tc qdisc add dev eth0 "${limit[@]}"
        tc qdisc add dev "heed$$-$n" "${limit[@]}"
    done
}

set_up
cap
for n in "$@"; do
    spread "$n" "$heed" bench scale --predict --preset tiny --n-vocab 4000 --threads 1 --json \
        --tokens "${TOKENS:-2048}" --seconds "${SECONDS_EACH:-6}" \
        --across 0.1196 --latency 100 --message 10 >"$dir/out" || fail "$n ranks: $(cat "$dir/out")"
    # shellcheck disable=SC2016 # awk's
    tr -d '{}"' <"$dir/out" | tr ',' ' ' | awk -v cpus="$(nproc)" '
    function off(name) { return 100 * (v[name] / v["measured_ms"] - 1) }
    function worse(a, b) { if (b < 0) b = -b; return a > b ? a : b }
    /what:measured/ {
        for (i = 1; i <= NF; i++) { split($i, f, ":"); v[f[1]] = f[2] }
        printf "%d ranks, %5d tokens each: measured %.1f ms; predicted by 1 Gbit/s %.1f ms " \
            "(%+.1f %%), by the links as measured, %.3f GB/s, %.1f ms (%+.1f %%)\n", v["ranks"],
            v["tokens"], v["measured_ms"], v["predicted_ms"], off("predicted_ms"),
            v["across_gb_per_s"], v["by_links_ms"], off("by_links_ms")
        assumed = worse(assumed, off("predicted_ms"))
        links = worse(links, off("by_links_ms"))
        sent = worse(sent, v["sent_share"])
        n++
    } END {
        if (n != 4) { print "no measurement"; exit 1 }
        short = v["ranks"] > cpus
        if (short)
            printf "no bar: the model gives every rank a CPU of its own, and here %d, and what " \
                "carries their messages, share %d\n", v["ranks"], cpus
        printf "%s: %d ranks at 1 Gbit/s: off by %.1f %% at most, by the links as measured " \
            "%.1f %% (10 %%); sent %.4f of what must be (1.02)\n",
            short ? "seen" : "bar", v["ranks"], assumed, links, sent
    }'
done

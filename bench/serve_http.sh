#!/usr/bin/env bash
# serve_http.sh — heed serve's HTTP beside libmicrohttpd's: is our own worth its lines?
#
#     bench/serve_http.sh MODEL [HEED]
#
# MODEL: any model directory with languages, or FROM-TO=DIR. Both servers answer {"status":"ok"}
# from one thread. Measured of each: resident memory that 10,000 kept connections take after one
# request each; the same after each had one of 256 KiB (texts come in URLs); requests per second of
# 64 connections (wrk); whether a client's hang-up is noticed while its request waits is not a
# figure: libmicrohttpd does not watch a suspended connection, by its manual. Needs
# libmicrohttpd-dev and wrk.
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:?usage: bench/serve_http.sh MODEL [HEED]} heed=${2:-build/heed}
count=${COUNT:-10000} port=${PORT:-5380}
ulimit -n "$((2 * count + 100))" 2>/dev/null || ulimit -n "$(ulimit -Hn)"
work=$(mktemp -d)
pids=()
finish() { kill "${pids[@]}" 2>/dev/null || true; wait || true; rm -rf "$work"; }
trap finish EXIT
command -v wrk >/dev/null || { echo "bench/serve_http.sh: wrk is not installed" >&2; exit 1; }
cc -O2 -o "$work/mhd" bench/serve_http_mhd.c -lmicrohttpd
"$work/mhd" "$port" &
pids+=($!)
"$heed" serve --model "$model" --listen "127.0.0.1:$((port + 1))" --max-connections 12000 --quiet &
pids+=($!)
for i in 0 1; do
    until curl -sf "http://127.0.0.1:$((port + i))/health" >/dev/null; do sleep 0.1; done
done
python3 bench/serve_idle.py "$count" microhttpd="$port:${pids[0]}" heed="$((port + 1)):${pids[1]}"
for round in 1 2 3; do
    for i in 0 1; do
        name=microhttpd
        if [ $i = 1 ]; then name=heed; fi
        rate=$(wrk -t1 -c64 -d"${SECONDS_EACH:-3}" "http://127.0.0.1:$((port + i))/health" |
            awk '/^Requests\/sec/ { print $2 }')
        echo "$name, round $round: $rate requests/s of 64 connections"
    done
done

#!/usr/bin/env bash
# test_translate_ranks.sh — heed translate as several processes: the same bytes in the same order,
# one word when something is wrong, nobody left when one of them is killed.
# timeout: 240
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
# shellcheck source=tests/ranks.sh
. "$(dirname "$0")/ranks.sh"

seq 1000 | sed 's/./& /g' >"$dir/numbers"
"$heed" train --src "$dir/numbers" --tgt "$dir/numbers" --out "$dir/model" --preset tiny \
    --n-layer 1 --d-model 16 --d-ff 32 --n-head 2 --vocab-size 20 --steps 30 --tokens 400 \
    --threads 1 --quiet
verb=(translate --model "$dir/model" --beam 1 --sample --seed 4 --max-length 12 --threads 1)
# Windows of 7 lines, then 14 ...; bytes that are no UTF-8; a line that a limit cuts off.
{ sed -n '1,400p' "$dir/numbers" && printf '1 2 \xff 3\r\n\n' && seq -s ' ' 60; } >"$dir/in"

# by NAME PROCESSES... — NAME.out, NAME.err
by() {
    local name=$1
    shift
    "$@" "${verb[@]}" --batch-sentences 7 --look-ahead 40 --json "$dir/in" \
        >"$dir/$name.out" 2>"$dir/$name.err" || fail "$name: $(cat "$dir/$name.err")"
}
by alone "$heed"
[ "$(wc -l <"$dir/alone.out")" = 403 ] || fail "$(wc -l <"$dir/alone.out") lines"
grep -q 'U+FFFD; the first is line 401' "$dir/alone.err" || fail "$(cat "$dir/alone.err")"
for n in 2 3; do
    by "mpirun$n" mpirun -n $n "$heed"
    same "$dir/mpirun$n.out" "$dir/alone.out" "$n ranks"
    same "$dir/mpirun$n.err" "$dir/alone.err" "$n ranks"
done
verb+=(--ranks 3)
by ranks "$heed"
same "$dir/ranks.out" "$dir/alone.out"
"$heed" "${verb[@]}" --output "$dir/file" <"$dir/in" 2>/dev/null
"$heed" "${verb[@]:0:${#verb[@]}-2}" <"$dir/in" >"$dir/want" 2>/dev/null
same "$dir/file" "$dir/want"

# What is wrong is said once, with the status it always had.
expect 2 'heed: --html and --ranks do not go together' -- --html "$dir/in"
expect 1 'No such file' -- "$dir/nowhere"
[ "$(grep -c '^heed:' <<<"$out")" = 1 ] || fail "not once: $out"
expect 1 'no such model directory' -- --model "$dir/nowhere" "$dir/in"
[ "$(grep -c '^heed:' <<<"$out")" = 1 ] || fail "not once: $out"
expect 2 '--ranks: 3, but 2 were started' mpirun -n 2 "$heed" "${verb[@]}" "$dir/in"
PATH=/nowhere expect 2 'mpirun cannot be started' -- "$dir/in"

# A rank that is killed: all end, and whoever started them is told.
mkfifo "$dir/endless"
rc=0
"$heed" "${verb[@]}" --output "$dir/never" "$dir/endless" >"$dir/log" 2>&1 &
launcher=$!
exec 7>"$dir/endless" # rank 0 waits for lines
victim=
for _ in {1..600}; do
    victim=$(rank_pid 1 "$dir/endless")
    [ -z "$victim" ] || break
    sleep 0.1
done
[ -n "$victim" ] || fail "no rank 1: $(cat "$dir/log")"
kill -9 "$victim"
wait $launcher || rc=$?
[ $rc = 75 ] || fail "a killed rank: exit $rc: $(cat "$dir/log")"
gone "$dir/endless"

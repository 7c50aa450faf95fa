#!/usr/bin/env bash
# test_restarts.sh — heed train --ranks --restarts goes on by itself after a rank was killed, and
# ends with the bytes of a run that was left alone; SIGTERM ends it in order.
# timeout: 240
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/train.sh
. "$here/train.sh"
# shellcheck source=tests/ranks.sh
. "$here/ranks.sh"
run=("${data[@]}" "${small[@]}" --cache cache --tokens 150 --accumulate 8 --save-every 10 --keep 9
    --valid-every 50 --log-every 50)

expect 2 'needs --ranks, which says how many' "$heed" train "${run[@]}" --out no --restarts 1

# saved RUN — it has a checkpoint after its beginning, within two minutes
saved() {
    for _ in {1..1200}; do
        if compgen -G "$1/ckpt-*[1-9]0" >/dev/null; then return 0; fi
        sleep 0.1
    done
    fail "$1: no checkpoint: $(cat "$1.log")"
}
long=(--steps 600 --log-every 1)
"$heed" train "${run[@]}" "${long[@]}" --out one --quiet
"$heed" train "${run[@]}" "${long[@]}" --out "$dir/many" --ranks 4 --restarts 2 >many.log 2>&1 &
launcher=$!
saved many
kill -9 "$(rank_pid 1 "$dir/many")" || fail "the run was too fast: $(cat many.log)"
killed=$(now)
learns many
note "the first update came $(since "$killed") s after rank 1 was killed"
wait $launcher || fail "exit $?: $(cat many.log)"
grep -qE '^heed: rank 1 on .* is gone, ' many.log || fail "$(cat many.log)"
grep -qE '^heed: starting again with [24] ranks \(restart 1 of 2\)' many.log ||
    fail "$(cat many.log)"
same one/model.safetensors many/model.safetensors
same "$(newest one)/model.safetensors" "$(newest many)/model.safetensors"

# Whoever ends the launcher ends the ranks, in order: what was learnt is saved.
rc=0
"$heed" train "${run[@]}" --steps 100000 --out "$dir/ended" --ranks 2 --restarts 2 >ended.log 2>&1 &
launcher=$!
saved ended
kill "$launcher"
wait $launcher || rc=$?
[ $rc = 143 ] || fail "SIGTERM: exit $rc: $(cat ended.log)"
gone "$dir/ended"
grep -q '^stopped; run the same command again' ended.log || fail "not in order: $(cat ended.log)"

#!/usr/bin/env bash
# test_demo.sh — the demo from one end to the other with a model too small to be good: it trains,
# stops, continues, averages and translates, one line out for each line in.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
demo=$tree/demo
cd "$dir"

# A short run, then more of it.
small=(--d-model 16 --d-ff 32 --n-head 2 --n-layer 1 --vocab-size 300 --save-every 1 --threads 1)
out=$("$demo/run.sh" "$heed" "$dir/run" "${small[@]}" --steps 5 2>&1) || fail "the demo: $out"
has 'training data: 30,021 pairs read, 30,021 kept'
has 'average of 5 checkpoints, steps 1 to 5'
has 'BLEU|nrefs:1|'
[ "$(grep -c '^    -> ' <<<"$out")" = 10 ] || fail "not ten translations: $out"
out=$("$demo/run.sh" "$heed" "$dir/run" "${small[@]}" --steps 8 2>&1) || fail "the demo again: $out"
has 'continuing'
has 'steps 4 to 8'

# Ctrl-C while it trains: it says that it can continue, shows nothing, and does not claim to have
# finished.
set -m # a process group of its own, so that all of it gets the signal, as from a terminal
"$demo/run.sh" "$heed" "$dir/run" "${small[@]}" --steps 1000000 >log 2>&1 &
child=$!
set +m
for _ in $(seq 100); do
    grep -q continuing log && break
    sleep 0.2
done
sleep 0.5
kill -INT -- "-$child"
wait "$child" && fail 'a stopped demo went on as if it had finished'
grep -q 'run the same command again to continue' log || fail "no word about continuing: $(cat log)"
absent BLEU log 'a stopped demo went on'

# What it wrote is a model like any other.
[ "$(wc -l <run/heldout.de)" = 500 ] || fail 'not a translation for every sentence'
echo 'Tom is here.' | "$heed" translate --model run/average --quiet >/dev/null ||
    fail 'the model does not translate'

#!/usr/bin/env bash
# test_demo.sh — the demo from one end to the other with a model too small to be good: it trains, stops,
# continues, averages and translates, one line out for each line in.
# timeout: 120
set -eu
heed=$(realpath "${BUILD:-build}/heed")
demo=$(realpath demo)
dir=${TEST_DIR:-$(mktemp -d)}
cd "$dir"
fail() { echo "FAILED: $*"; exit 1; }
has() { case $out in *"$1"*) ;; *) fail "no '$1' in: $out" ;; esac; }
# expect CODE TEXT -- ARGS
expect() {
    local code=$1 text=$2 rc=0
    shift 3
    out=$("$heed" "$@" 2>&1 </dev/null) || rc=$?
    [ "$rc" = "$code" ] || fail "heed $*: exit $rc instead of $code: $out"
    has "$text"
}

# A short run, then more of it.
small=(--d-model 16 --d-ff 32 --n-head 2 --n-layer 1 --vocab-size 300 --save-every 1 --threads 1)
out=$("$demo/run.sh" "$heed" "$dir/run" "${small[@]}" --steps 5 2>&1) || fail "the demo: $out"
has 'training data: 30021 pairs read, 30021 kept'
has 'average of 5 checkpoints, steps 1 to 5'
has 'Of all 500 sentences'
[ "$(grep -c '^    -> ' <<<"$out")" = 10 ] || fail "not ten translations: $out"
out=$("$demo/run.sh" "$heed" "$dir/run" "${small[@]}" --steps 8 2>&1) || fail "the demo again: $out"
has 'continuing'
has 'steps 4 to 8'

# Ctrl-C while it trains: it says that it can continue, shows nothing, and does not claim to have finished.
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
grep -q 'the same command continues' log || fail "no word about continuing: $(cat log)"
grep -q 'Of all' log && fail 'a stopped demo went on'

# The command itself: a line for every line.
model=$dir/run/average
printf 'Hello.\n\nTom is here.\r\n   \nlast, without an end' >in
"$heed" demo --model "$model" --threads 1 <in >got || fail 'demo as a filter'
[ "$(wc -l <got)" = 5 ] || fail "5 lines in, $(wc -l <got) out"
[ -z "$(sed -n 2p got)" ] || fail 'an empty line became text'
"$heed" demo --model "$model" --threads 2 --input in | cmp - got || fail 'threads change the result'
head -n 1 in | "$heed" demo --model "$model" | cmp - <(head -n 1 got) || fail 'neighbours change the result'
: >empty
[ -z "$("$heed" demo --model "$model" --input empty)" ] || fail 'text from nothing'
[ -z "$("$heed" demo --model "$model" --input empty --show 3)" ] || fail 'text shown from nothing'
seq -s ' ' 1000 >long
out=$("$heed" demo --model "$model" --input long 2>&1 >/dev/null) || fail 'a long line'
has '1 lines were cut'
cat long long in | "$heed" demo --model "$model" 2>/dev/null | tail -n +3 | cmp - got || fail 'long neighbours change the result'
cp got same
out=$("$heed" demo --model "$model" --input in --reference same --show 99)
has 'Of all 5 sentences 5'
[ "$(grep -c 'as the reference)' <<<"$out")" = 5 ] || fail "not five equal lines: $out"

expect 2 '--model is missing' -- demo
expect 2 '' -- demo --model "$model" --dtype f64
expect 1 'nowhere' -- demo --model "$dir/nowhere"
expect 1 'nothing.txt' -- demo --model "$model" --input "$dir/nothing.txt"
expect 1 'in has 5 lines, long has 1' -- demo --model "$model" --input in --reference long
cp -r "$model" other
"$heed" vocab --input "$demo/train.en.xz" --size 200 --out other/tokenizer.model --quiet
expect 1 '200 pieces, but the model has 300' -- demo --model other --input in

#!/usr/bin/env bash
# test_scale.sh — heed bench scale --predict: from an earlier measurement, whose table follows
# from arithmetic; by measuring; and as ranks, whose messages are as large as they must be.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/shell.sh
. "$here/shell.sh"
verb=(bench scale --predict)

# step TOKENS GRADIENT — a line of an earlier measurement: 60 M parameters in bf16, which are 8
# buckets, Adam in 1 ms, sums at 1,000 GB/s
step() {
    printf '{"bench":"scale","what":"step","preset":"base","device":"cuda","dtype":"bf16",'
    printf '"parameters":60000000,"bytes_per_parameter":2,"late_share":0.3,"sum_gb_per_s":1000,'
    printf '"tokens":%d,"gradient_ms":%s,"adam_ms":1}\n' "$1" "$2"
}
{ step 3000 3.5; step 24000 21.5; echo '{"what":"predicted","ms":1}'; } >"$dir/gpu.json"
expect 0 'predicted, not measured' -- --measured "$dir/gpu.json"
has 'assumed, not measured'
has 'a rank sends 340 GB/s within its machine of 8 ranks, 42.5 GB/s to others'
has 'about 1.93 ms and 0.857 ms per 1,000 tokens' # 3 + 1.5 and 21 + 1.5
has 'per parameter 4 bytes of gradient are exchanged and 2 gathered'

# row RANKS OPTION... — the prediction for 24,000 tokens, as fields
row() {
    local n=$1
    shift
    "$heed" "${verb[@]}" --json --measured "$dir/gpu.json" "$@" |
        grep "\"predicted\",\"ranks\":$n,.*\"tokens\":24000" | tr -d '{}"' | tr , ' '
}
# near FIELDS NAME WANT
near() {
    awk -v name="$2" -v want="$3" '{
        for (i = 1; i <= NF; i++) { split($i, f, ":"); if (f[1] == name) got = f[2] }
        if (got == "" || got - want > 6e-5 || want - got > 6e-5) exit 1
    }' <<<"$1" || fail "$2 is not $3: $1"
}
# One machine: 8 buckets of calls, 7 of 8 parts of 240 MB at 340 GB/s.
r=$(row 8)
near "$r" exchange_ms "$(awk 'BEGIN { print 8 * (20 + 7) / 1e3 + 240 * 7 / 8 / 340 }')"
near "$r" gather_ms "$(awk 'BEGIN { print 8 * (20 + 7) / 1e3 + 120 * 7 / 8 / 340 }')"
near "$r" sums_ms "$(awk 'BEGIN { print 0.24 * (2 + 1 / 8) }')"
# 64 machines: an eighth goes on to 63 others at 42.5 GB/s.
r=$(row 512)
near "$r" exchange_ms "$(awk 'BEGIN {
    calls = 8 * (20 + 7) + 8 * (20 + 63)
    print calls / 1e3 + 240 * 7 / 8 / 340 + 30 * 63 / 64 / 42.5 }')"
near "$r" efficiency "$(awk -v ms="${r#* ms:}" 'BEGIN { print 22.5 / ms }')"
# Slower links, fewer ranks on a machine.
r=$(row 64 --per-machine 1 --across 1 --latency 0 --message 0)
near "$r" exchange_ms "$(awk 'BEGIN { print 240 * 63 / 64 }')"

# Files of others.
expect 1 'no-such.json' -- --measured "$dir/no-such.json"
echo '{"what":"other"}' >"$dir/other.json"
expect 1 'no steps' -- --measured "$dir/other.json"
step 3000 -1 >"$dir/bad.json"
expect 1 'gradient_ms: expected a number above 0' -- --measured "$dir/bad.json"
step 3000 1 | sed 's/"adam_ms":1/"adam":1/' >"$dir/bad.json"
expect 1 'adam_ms' -- --measured "$dir/bad.json"
step 3000 1 | sed 's/60000000/1e300/' >"$dir/bad.json"
expect 1 'beyond reason' -- --measured "$dir/bad.json"
for _ in {1..17}; do step 3000 1; done >"$dir/bad.json"
expect 1 'more than 16 lines' -- --measured "$dir/bad.json"
echo '{"what":"step"' >"$dir/bad.json"
expect 1 'bad.json' -- --measured "$dir/bad.json"
expect 2 '--per-machine: 3 is not a power of two' -- --measured "$dir/gpu.json" --per-machine 3

# What it measures it can read.
tiny=(--preset tiny --n-layer 1 --d-model 32 --n-head 2 --d-ff 64 --n-vocab 9000 --tokens 256
    --seconds 0 --threads 1)
"$heed" "${verb[@]}" "${tiny[@]}" --json >"$dir/here.json"
[ "$(grep -c '"what":"step"' "$dir/here.json")" = 4 ] || fail "$(cat "$dir/here.json")"
[ "$(grep -c '"what":"predicted"' "$dir/here.json")" = 12 ] || fail "$(cat "$dir/here.json")"
"$heed" "${verb[@]}" --json --measured "$dir/here.json" >"$dir/again.json"
same <(grep '"step"' "$dir/here.json") <(grep '"step"' "$dir/again.json")
"$heed" "${verb[@]}" --n-vocab 4 --max-len 8 >"$dir/short" 2>&1 && fail 'sentences beyond max-len'

# shellcheck source=tests/ranks.sh
. "$here/ranks.sh"
# The bytes of an update: gradients as f32 and parameters as bf16, (W - 1) / W of them.
for n in 2 4; do
    mpirun -n "$n" "$heed" "${verb[@]}" "${tiny[@]}" --json --dtype bf16 >"$dir/ranks.json" ||
        fail "$n ranks"
    tr -d '{}"' <"$dir/ranks.json" | tr , ' ' | awk -v n="$n" '
    { for (i = 1; i <= NF; i++) { split($i, f, ":"); v[f[1]] = f[2] } }
    /what:measured/ {
        count++
        ideal = 6 * v["parameters"] * (n - 1) / n
        if (v["ranks"] != n || v["measured_ms"] <= 0) exit 1
        if (v["sent_bytes"] > 1.02 * ideal || v["sent_bytes"] < 0.98 * ideal) exit 1
    }
    END { if (count != 4) exit 1 }' || fail "$n ranks: $(cat "$dir/ranks.json")"
done
# Ranks that take CPUs from each other are no proof of anything, which it says.
cpus=$(getconf _NPROCESSORS_ONLN)
expect 0 "$((2 * cpus)) threads of theirs share $cpus CPUs of this machine" \
    mpirun -n 2 "$heed" "${verb[@]}" "${tiny[@]}" --threads "$cpus"
expect 2 '--measured: 2 ranks measure for themselves' \
    mpirun -n 2 "$heed" "${verb[@]}" --measured "$dir/gpu.json"

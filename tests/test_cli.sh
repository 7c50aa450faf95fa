#!/bin/bash
# test_cli.sh — the command line: exit codes, one clear error with a hint, help, JSON that parses.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"

expect 0 'heed 0.' -- --version
expect 0 'bench' -- --help
expect 2 'usage' --
expect 2 "no command 'trian'" -- trian
expect 2 'hint: heed --help' -- trian
expect 0 '--tokens' -- bench train --help
expect 0 '--label-smoothing' -- bench train --help
expect 0 'post|pre' -- bench train --help
expect 2 "no command 'bench gem'; did you mean gemm?" -- bench gem
expect 2 'did you mean train?' -- trian
expect 2 'did you mean --label-smoothing?' -- bench train --label-smothing 0.1
expect 2 "no option '--zzzzzz'
" -- bench train --zzzzzz
expect 2 "no option '--tokenz'" -- bench train --tokenz 3
expect 2 "--tokens: 'many' is not a whole number" -- bench train --tokens many
expect 2 '--tokens: 0 is not between 1 and 16,777,216' -- bench train --tokens 0
expect 2 '--tokens needs a value' -- bench train --tokens
expect 2 '--json takes no value' -- bench train --json=yes
expect 2 "unexpected argument 'x'" -- bench train x
expect 2 '--dropout: 1 is not at least 0 and below 1' -- bench train --dropout 1
expect 2 '--d-model: 100 is not divisible by the number of heads, 8' -- bench train --d-model 100
expect 2 "--preset: 'huge' is not one of tiny, small, base, big" -- bench train --preset huge
expect 2 '--n-layer: 0 is not between 1 and 1,000' -- bench train --n-layer 0
expect 2 "norm: 'both' is not one of post, pre" -- bench train --norm both
expect 2 '--length: 200 is more than' -- bench train --tokens 100 --length 200
expect 2 "--dtype: 'f16'" -- bench train --dtype f16
expect 2 'threads' -- bench train --threads 5000
expect 2 "isa: 'sse9'" -- bench train --preset tiny --n-vocab 50 --isa sse9
expect 2 "device: 'tpu'" -- bench train --preset tiny --n-vocab 50 --device tpu
expect 0 '.TH HEED' -- manual
expect 2 "'csh' is not one of bash, zsh, fish" -- completion csh
expect 0 '--beam N' -- help translate
expect 0 '--bucketed' -- help bench train
expect 0 'bench gemm' -- help bench
expect 0 'bench gemm' -- bench --help
expect 2 'did you mean translate?' -- help tanslate
expect 2 'which command?' -- bench
expect 0 'SIGHUP is ignored' -- train --help
expect 2 'did you mean --help?' -- --hepl
for option in model output prefix; do expect 2 "--$option: is empty" -- translate --$option ''; done
expect 2 'translate: FILE is empty' -- translate --model m ''
expect 2 '--output needs a value' -- translate --model m --output --quiet
expect 2 '--output needs a value' -- translate --model m --output -- x
expect 1 'm: no such directory, and no model of that name' -- translate --model m --output=--quiet
expect 2 '--weights: -1 is not a number above 0' -- train --src a --tgt b --out o --weights -1
expect 2 '--weights: 1e300 is not a number above 0, at most 1,000,000' -- \
    train --src a --tgt b --out o --weights 1e300
expect 2 '--seed: 18446744073709551616 is too large' -- translate --seed 18446744073709551616
expect 2 '--alpha: 1e400 is not between -10 and 10' -- translate --alpha 1e400
for name in cuda:x cuda:-1 cuda: cuda:99999999999 cuda:0x; do
    expect 2 "--device: '$name' is not one of" -- \
        bench train --preset tiny --n-vocab 50 --device $name
done
expect 2 "HEED_ISA: 'sse9' cannot be used" env HEED_ISA=sse9 "$heed" bench train --device cpu
echo '{"tokenz": 3}' >"$dir/options.json"
expect 2 'tokenz: there is no such option; did you mean tokens?' -- train \
    --config "$dir/options.json"
# Whole words, within the terminal.
for command in bench 'bench translate' attend translate; do
    # shellcheck disable=SC2086 # words
    expect 0 'heed' env COLUMNS=60 "$heed" $command --help
    wide=$(printf %s "$out" | sed 's/—/-/' | awk 'length > 60 || / $/')
    [ -z "$wide" ] || fail "beyond the terminal: $wide"
done
expect 0 '' env COLUMNS=80 "$heed" translate --help
has $'\n                              included; 0: the model\'s positions'

tiny="--preset tiny --n-vocab 100 --tokens 64 --length 16 --seconds 0.1"
json=$("$heed" bench train $tiny --json)
HEED_ISA='' "$heed" bench train $tiny --json >/dev/null ||
    fail 'an empty HEED_ISA is not the same as none'
for key in bench preset device dtype ms_per_step tgt_tokens_per_s tflops gemm_share peak_mb; do
    case $json in *"\"$key\":"*) ;; *) fail "no $key in $json" ;; esac
done
expect 0 'linear_bwd' -- bench train $tiny
expect 0 'ms per update of 3 batches' -- bench train $tiny --accumulate 3
expect 0 '"dtype":"bf16"' -- bench train $tiny --dtype bf16 --norm pre --activation gelu \
    --tie none --json
expect 0 '"bench":"gemm"' -- bench gemm --m 4 --min-ms 1 --isa generic --dtype f32 --json
expect 0 '"m":3,' -- bench gemm --m 3 --min-ms 1 --isa generic --dtype f32 --json
expect 0 '"m":3,' -- bench gemm --tiled --m 3 --min-ms 1 --isa generic --dtype f32 --json
if command -v python3 >/dev/null; then
    { echo "$json"; "$heed" bench gemm --m 4 --min-ms 1 --isa generic --json; } |
        python3 -c 'import json,sys
n = sum(1 for line in sys.stdin if json.loads(line)["bench"])
assert n == 11, n' ||
        fail 'JSON lines do not parse'
fi
rc=0
"$heed" --help >&- 2>/dev/null || rc=$?
[ "$rc" = 1 ] || fail "closed standard output: exit $rc"
if [ -w /dev/full ]; then
    rc=0
    out=$("$heed" --help 2>&1 >/dev/full) || rc=$?
    [ "$rc" = 1 ] || fail "full disk: exit $rc: $out"
fi

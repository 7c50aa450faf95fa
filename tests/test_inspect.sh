#!/usr/bin/env bash
# test_inspect.sh — heed inspect and heed average on a run directory, as a user calls them.
# timeout: 60
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"

TEST_DIR=$dir "$build/tests/test_checkpoint" writes_a_run >/dev/null 2>&1 ||
    fail 'no run to look at'
run=$dir/run
expect 0 'steps done   5' -- inspect "$run"
has 'checkpoints  3 4 5'
has 'parameters   59,784 in '
case $out in *enc.0.self.w_qkv*) fail 'tensors are listed unasked' ;; esac
expect 0 'enc.0.self.w_qkv' -- inspect "$run" --tensors
expect 1 'no logged steps to draw' -- inspect "$run" --curves "$dir/x.svg"

{ # the first lines of a run
    echo '{"step":5500,"epoch":0,"loss":9.5,"nll":9.25,"lr":0.001,"tokens":9,"tok_s":5000,"time":1}'
    echo '{"step":5500,"valid_loss":9.5,"valid_nll":9.25,"valid_ppl":77,"valid_bleu":0}'
} >"$run/log.jsonl"
expect 0 'BLEU         step 5,500  0.00' -- inspect "$run" --curves "$dir/x.svg"
[ "$(grep -c '<circle' "$dir/x.svg")" = 7 ] || fail 'a lone point is not drawn'
grep -q '>5,000</text>' "$dir/x.svg" || fail 'the digits of an axis are not grouped'
! grep -q '>-[0-9.]*</text>' "$dir/x.svg" || fail 'an axis begins below 0'
{
    for s in $(seq 1 200); do
        printf '{"step":%d,"epoch":1,"loss":%d.5,"nll":2.5,"ppl":12.2,"lr":0.001,' $s $((300 - s))
        echo "\"tokens\":100,\"tok_s\":5000,\"time\":$s}"
    done
    echo '{"step":50,"valid_loss":4.6,"valid_nll":4.35,"valid_ppl":77,"valid_bleu":12.5}'
    echo '{"step":100,"valid_loss":4.5,"valid_nll":4.25,"valid_ppl":70}'
    echo '{"step":200,"valid_loss":4.75,"valid_nll":4.5,"valid_ppl":90,"valid_bleu":11.25}'
    echo '{"event":"saved","step":200}'
    echo '{"step":201,"los'                # killed in the middle of a line
    echo '{"step":150,"loss":9.25,"nll":2,"ppl":7,"lr":0.001,"epoch":1}' # and resumed earlier
} >"$run/log.jsonl"
expect 0 'training     step 150  loss 9.2500' -- inspect "$run" --curves "$dir/x.svg"
has 'validation   step 200  loss 4.7500'
has '  epoch 2' # counted from 1, as train does
has 'best         step 100  loss 4.5000'
has 'BLEU         step 200  11.25'
has 'best BLEU    step 50  12.50'
has "log.jsonl:205: 1 line could not be read"
has "wrote $dir/x.svg: learning curves up to step 200"
[ "$(head -c 5 "$dir/x.svg")" = '<svg ' ] || fail 'not an SVG'
[ "$(tail -n 1 "$dir/x.svg")" = '</svg>' ] || fail 'the SVG does not end'
grep -q 'validation' "$dir/x.svg" || fail 'no validation curve'
grep -q "<text class='t' x='76.0' [^>]*>0</text>" "$dir/x.svg" ||
    fail 'the axis of steps does not begin at 0'
grep -q '>BLEU on the validation text<' "$dir/x.svg" || fail 'no curve of BLEU'
expect 0 "$run" -- inspect "$run" --curves "$dir/x.svg" --quiet # an earlier picture may be replaced
case $out in *wrote*) fail 'not quiet' ;; esac
echo precious >"$dir/notes"
for file in "$dir/notes" "$run/log.jsonl" "$run/config.json"; do # but nothing else
    cp "$file" "$dir/before"
    expect 1 "$file exists and is not an SVG" -- inspect "$run" --curves "$file"
    cmp "$file" "$dir/before" || fail "$file was replaced"
done
expect 1 "$dir" -- inspect "$run" --curves "$dir"
bad=$dir/$'r\xffn' # a path that is not UTF-8
cp -r "$run" "$bad"
expect 0 '"directory": "' -- inspect "$bad" --json --curves "$dir/bad.svg"
has $'r\xef\xbf\xbdn'
grep -q $'r\xef\xbf\xbdn' "$dir/bad.svg" || fail 'the title is not UTF-8'
rm -r "$bad"
expect 0 '<svg' -- inspect "$run" --curves /dev/stdout --log --json
expect 0 '"best_valid": {"step": 100' -- inspect --json "$run"
if command -v python3 >/dev/null; then
    python3 - "$dir/x.svg" <<<'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' ||
        fail 'not XML'
    "$heed" inspect --json "$run" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["step"] == 5 and d["parameters"] == sum(t["count"] for t in d["tensors"]), d
assert d["checkpoints"] == [3, 4, 5] and d["train"]["step"] == 150, d
assert d["log_lines_unread"] == 1, d' || fail 'JSON'
fi

expect 0 'average of 2 checkpoints, steps 4 to 5' -- average --out "$dir/mean" --last 2 "$run"
expect 0 'steps done   5' -- inspect "$dir/mean"
[ -s "$dir/mean/tokenizer.model" ] || fail 'no tokenizer beside the average'
expect 0 'average of 2 models' -- average "$run/ckpt-00000003" --out="$dir/mean2" "$run"
expect 1 'has files in it; --overwrite' -- average --out "$dir/mean" --last 2 "$run"
expect 0 'average of 1 model' -- average --overwrite --out "$dir/mean2" "$run"
config=$(cksum <"$run/config.json")
expect 1 'belongs to a training run' -- average --overwrite --out "$run" "$run/ckpt-00000003"
expect 2 'is the model itself' -- average --overwrite --out "$run" "$run"
expect 1 'belongs to a training run' -- average --overwrite --out "$run/ckpt-00000003" "$dir/mean"
[ "$config" = "$(cksum <"$run/config.json")" ] || fail 'a refused average changed the run'
expect 2 'has only 3 checkpoints' -- average --out "$dir/mean" --last 4 "$run"
expect 2 "one run's directory" -- average --out "$dir/mean" --last 2 "$run" "$run"
expect 2 '--out is missing' -- average "$run"
expect 2 'MODEL is missing' -- average --out "$dir/mean"
expect 2 'MODEL is missing' -- inspect
expect 2 "unexpected argument 'b'" -- inspect a b
expect 2 "no option '--jsn'" -- inspect "$run" --jsn
expect 1 'nothing: no such model directory' -- inspect "$dir/nothing"
expect 0 'usage: heed inspect' -- inspect --help

rm "$run/model.safetensors" # not published yet: the newest checkpoint is looked at
expect 0 'steps done   5' -- inspect "$run"
truncate -s -1 "$run/ckpt-00000005/model.safetensors"
expect 1 'model.safetensors' -- inspect "$run"
rm -r "$run"/ckpt-*
expect 0 'no weights yet' -- inspect "$run"

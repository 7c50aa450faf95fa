#!/bin/bash
# test_train_trouble.sh — what may befall a run: changed inputs, damaged files, full disks,
# divergence, a second process. Each is one clear error or a recovery, and what was there before is
# still whole.
# timeout: 240
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'

base=(--steps 60 --save-every 10 --valid-every 20 --log-every 10 --cache cache)
train good "${base[@]}" --quiet
train long "${base[@]}" --steps 80 --quiet
[ "$(steps good)" = '20 30 40 50 60' ] || fail "kept: $(steps good)"

# Everything in a directory that a refused start must leave alone.
state_of() { (cd "$1" && find . -type f ! -name lock | sort | xargs cksum); }
fresh() { rm -rf run && cp -a good run; }

# refused TEXT OPTION... — the run `good`, continued with options, is refused and stays as it is
refused() {
    local text=$1 before
    shift
    fresh
    before=$(state_of run)
    expect 2 "$text" train run "${base[@]}" --steps 80 "$@"
    [ "$before" = "$(state_of run)" ] || fail "refused ($text), but the run changed"
}
# goes_on TEXT OPTION... — it is continued to step 80
goes_on() {
    local text=$1
    shift
    fresh
    expect 0 "$text" train run "${base[@]}" --steps 80 "$@"
    has 'done: step 80'
}

# ---- a finished run stays finished
before=$(state_of good)
expect 0 '' train good "${base[@]}" --quiet
[ "$out" = '' ] || fail "quiet, but says $out"
[ "$before" = "$(state_of good)" ] || fail 'starting a finished run changed it'
fresh
expect 0 'nothing left to do: the run is at step 60; --steps 60 counts' train run \
    "${base[@]}"
has 'done: step 60'
goes_on 'continuing from step 60'
same run/model.safetensors long/model.safetensors 'continued beyond its end'

# ---- other data, tokenizer, shape
pairs x 400 9
head -n 390 t.src >cut.src
head -n 390 t.tgt >cut.tgt
usual=("${data[@]}")
data=(--src x.src --tgt x.tgt --valid-src v.src --valid-tgt v.tgt)
refused 'the training data differs'
has '--new-data'
data=(--src cut.src --tgt cut.tgt --valid-src v.src --valid-tgt v.tgt)
refused 'the training data differs'
goes_on 'continuing from step 60' --new-data
differ run/model.safetensors long/model.safetensors 'new data made no difference'
data=("${usual[@]}")
refused 'the training data differs' --src x.src --tgt x.tgt
refused 'the training data differs' --weights 2
refused 'the training data differs' --ratio 1.1
refused 'seed: 3, but the saved run had 1' --seed 3
refused 'tokens: 500, but the saved run had 400' --tokens 500
"$heed" vocab --input x.src x.tgt --size 200 --out other.model --quiet
"$heed" vocab --input x.src x.tgt --size 190 --out smaller.model --quiet
refused 'another tokenizer' --tokenizer other.model
has '--new-tokenizer'
goes_on 'continuing from step 60' --tokenizer other.model --new-tokenizer
same run/tokenizer.model other.model
same run/ckpt-00000080/tokenizer.model other.model
same run/ckpt-00000060/tokenizer.model good/tokenizer.model
refused 'n_vocab_src 200, not 190' --tokenizer smaller.model --new-tokenizer
refused 'd_ff 64, not 128' --d-ff 128
refused 'n_head 2, not 4' --n-head 4
refused 'n_layer_enc 1, not 2' --n-layer 2
refused 'norm post, not pre' --norm pre
goes_on 'continuing from step 60' --dropout 0.3
goes_on '--vocab-size 300 is ignored' --vocab-size 300
fresh
expect 0 'done: step 20' train run "${base[@]}" --steps 20 --d-ff 128 --overwrite
[ "$(steps run)" = '0 10 20' ] || fail "begun anew: $(steps run)"
[ "$(log_steps run/log.jsonl | tr '\n' ' ')" = '10 20 ' ] || fail 'the old log is still there'

# ---- a finished model is not a run: nothing of it is replaced unasked
"$heed" average --out finished --last 2 good >/dev/null
"$heed" quantize --model good --out finished8 >/dev/null
for model in finished finished8; do
    before=$(state_of $model)
    expect 1 "$model holds a finished model and no checkpoint" train $model "${base[@]}"
    [ "$before" = "$(state_of $model)" ] || fail "$model was refused, but changed"
done
"$heed" export --model good --format ctranslate2 --out other >/dev/null
mkdir foreign
echo '{"model_type": "marian"}' >foreign/config.json
for model in other foreign; do
    before=$(state_of $model)
    expect 1 "--out: $model" train $model "${base[@]}"
    has '--overwrite replaces it'
    [ "$before" = "$(state_of $model)" ] || fail "$model was refused, but changed"
done
expect 0 'done: step 10' train other "${base[@]}" --steps 10 --overwrite
lacks 'is ignored'
[ ! -e other/model.bin ] && [ ! -e other/shared_vocabulary.json ] || fail 'two models in one place'
expect 0 'done: step 10' train finished8 "${base[@]}" --steps 10 --overwrite
expect 0 'continuing from step 10' train finished8 "${base[@]}" --steps 20
"$heed" translate --model finished8 --quiet v.src >/dev/null ||
    fail 'a model that replaced another does not run'

# ---- damage
flip() { # FILE: one bit in the middle
    local at=$(($(stat -c %s "$1") / 2)) byte
    byte=$(od -An -tu1 -j $at -N 1 "$1")
    printf "%b" "\\x$(printf %02x $((byte ^ 1)))" |
        dd of="$1" bs=1 seek=$at conv=notrunc status=none
}
# The hard link in the run's directory is the same file: damage would reach both.
break_newest() { fresh && cp run/ckpt-00000060/"$2" x && "$1" x && mv x run/ckpt-00000060/"$2"; }
cut_short() { truncate -s 1000 "$1"; }
remove() { rm "$1" && mkdir -p gone && touch x; }
for file in model.safetensors state.safetensors; do
    for how in flip cut_short remove; do
        break_newest $how $file
        expect 0 'continuing from step 50; 1 newer' train run "${base[@]}" --steps 80
        has "$file"
        same run/model.safetensors long/model.safetensors "after $how $file"
        [ "$(steps run)" = '40 50 60 70 80' ] || fail "after $how $file: $(steps run)"
    done
done
for how in flip cut_short; do # one that opens, and one that does not
    break_newest $how tokenizer.model
    expect 0 'continuing from step 50; 1 newer checkpoint is damaged' train run "${base[@]}" \
        --steps 80
    has tokenizer.model
    same run/model.safetensors long/model.safetensors "after $how tokenizer.model"
    for c in run/ckpt-*; do same "$c/tokenizer.model" good/tokenizer.model; done
done
break_newest flip state.safetensors # a damaged one must not push out good ones
expect 0 'done: step 55' train run "${base[@]}" --steps 55 --keep 1 --valid-every 1000
[ "$(steps run)" = 55 ] || fail "damaged, keep 1: $(steps run)"
fresh
rm -r run/ckpt-00000060
expect 0 'continuing from step 50' train run "${base[@]}" --steps 80
same run/model.safetensors long/model.safetensors 'after a deleted checkpoint'
fresh # the best one is gone: what was published is still it
best=$(sed -n 's/^{"step":\([0-9]*\),.*"best":true}/\1/p' run/log.jsonl | tail -n 1)
[ "$best" = 60 ] || fail "best of good is $best"
expect 0 'done: step 65' train run "${base[@]}" --steps 65 --valid-every 1000 --valid-src x.src \
    --valid-tgt x.tgt
rm -r run/ckpt-00000060
expect 0 'done: step 70' train run "${base[@]}" --steps 70 --valid-every 1000 --valid-src x.src \
    --valid-tgt x.tgt
"$heed" inspect run >/dev/null || fail 'nothing published'
fresh
for c in run/ckpt-*; do truncate -s 9 "$c/state.safetensors"; done
before=$(state_of run)
expect 1 'no checkpoint is intact: --overwrite starts over' train run "${base[@]}" --steps 80
[ "$before" = "$(state_of run)" ] || fail 'a run without a good checkpoint was changed'
fresh
mkdir run/ckpt-00000070.tmp run/ckpt-00000005.tmp
echo rubbish >run/ckpt-00000070.tmp/model.safetensors
mv run/ckpt-00000060 run/ckpt-00000060.old
expect 0 'continuing from step 60' train run "${base[@]}" --steps 80
same run/model.safetensors long/model.safetensors 'after rubbish'
compgen -G 'run/*.tmp' >/dev/null && fail 'rubbish stays'
compgen -G 'run/*.old' >/dev/null && fail 'rubbish stays'
fresh
echo garbage >>run/log.jsonl # and one that is too short
expect 0 'done: step 80' train run "${base[@]}" --steps 80
absent garbage run/log.jsonl 'the log was not cut back'
fresh
truncate -s 100 run/log.jsonl
expect 0 'done: step 80' train run "${base[@]}" --steps 80
fresh
echo '{' >run/config.json
expect 1 'run/config.json' train run "${base[@]}" --steps 80
fresh
rm run/tokenizer.model run/config.json run/model.safetensors
rc=0
out=$(train run "${base[@]}" --steps 80 2>&1) || rc=$?
[ $rc = 0 ] || [ $rc = 1 ] || fail "without config and tokenizer: $rc $out"
[ -d run/ckpt-00000060 ] || fail 'a checkpoint was lost'

# ---- places that cannot be written
touch file
expect 1 'file: not a directory' train file "${base[@]}"
expect 1 'file: not a directory' train file/run "${base[@]}"
expect 1 '/dev/null: not a directory' train nothing "${base[@]}" --cache /dev/null/x
[ ! -e nothing ] || fail 'a cache that cannot be made leaves a run behind'
for file in config.json tokenizer.model; do # whoever opens a pipe waits
    cp -a finished pipe && rm pipe/$file && mkfifo pipe/$file
    expect 1 "pipe/$file: not a regular file" timeout 20 "$heed" translate --model pipe v.src
    expect 1 "pipe/$file: not a regular file" timeout 20 "$heed" train "${data[@]}" --out pipe
    rm -r pipe
done
as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if "${as_user[@]}" test -x "$heed" -a -r t.src 2>/dev/null; then
    fresh
    chmod -R a-w,a+rX run cache
    before=$(state_of run)
    rc=0
    out=$("${as_user[@]}" "$heed" train "${data[@]}" "${small[@]}" --out run "${base[@]}" \
        --steps 80 2>&1) || rc=$?
    [ $rc = 1 ] || fail "read-only: exit $rc: $out"
    has 'Permission denied'
    [ "$before" = "$(state_of run)" ] || fail 'a read-only run changed'
    chmod -R u+w run cache
else
    note 'not tested: a read-only directory (the user nobody cannot get at it)'
fi
mkdir disk
if mount -t tmpfs -o size=1700k none disk 2>/dev/null; then
    trap 'umount disk' EXIT
    cp -a good/tokenizer.model .
    rc=0
    full=("${base[@]}" --keep 100 --tokenizer tokenizer.model)
    out=$(train disk/run "${full[@]}" 2>&1) || rc=$?
    [ $rc = 1 ] || fail "disk full: exit $rc: $out"
    has 'no space left on the disk; what was there before is intact'
    compgen -G 'disk/run/*.tmp' >/dev/null && fail 'a full disk keeps rubbish'
    [ -n "$(steps disk/run)" ] || fail 'no checkpoint fits: the test proves nothing'
    for c in disk/run/ckpt-*; do "$heed" inspect "$c" >/dev/null || fail "$c after disk full"; done
    "$heed" inspect disk/run >/dev/null || fail 'the run after disk full'
    mount -o remount,size=20m disk
    expect 0 'continuing from step' train disk/run "${full[@]}"
    same disk/run/model.safetensors good/model.safetensors 'after a full disk'
    umount disk
    trap - EXIT
else
    note 'not tested: a full disk (a tmpfs cannot be mounted here)'
fi

# ---- two at once
fresh
"$heed" train "${data[@]}" "${small[@]}" --out run "${base[@]}" --steps 100000 --quiet &
pid=$!
trap 'kill -KILL $pid 2>/dev/null' EXIT
for _ in $(seq 100); do
    [ "$(steps run)" != '20 30 40 50 60' ] && break
    sleep 0.1
done
expect 1 "in use by another process: PID $pid" train run "${base[@]}"
kill -INT $pid
rc=0
wait $pid || rc=$?
[ $rc = 130 ] || fail "SIGINT ended it with $rc"
trap - EXIT

# ---- divergence
wild=("${base[@]}" --lr-scale 1e6 --warmup 1 --log-every 1)
finite() {
    "$heed" inspect "$1" --tensors >tensors
    grep -qE '^(enc|dec)\.' tensors || fail "inspect shows no tensors: $(cat tensors)"
    absent '^(enc|dec|src|tgt).*(nan|inf)' tensors "$1 is not finite"
}
rm -rf run
expect 1 'diverged at step 2, epoch 1, batch 2 of pool 1: the loss is worse than guessing' train \
    run "${wild[@]}"
has 'the last checkpoint is of step 0'
finite run
[ "$(steps run)" = 0 ] || fail "diverged: $(steps run)"
expect 1 'diverged at step 2' train run "${wild[@]}" # again, and no other end
expect 0 'done: step 20' train run "${base[@]}" --steps 20
rm -rf run
expect 1 'diverged 10 times in a row, last at step 2' train run "${wild[@]}" --on-divergence skip
has 'batch 3 of pool 1: the loss is worse than guessing'
[ "$(grep -c '"event":"skipped"' run/log.jsonl)" = 9 ] || fail 'skips are not logged'
finite run
rm -rf run
expect 1 'diverged again after going back 3 times: step 2' train run "${wild[@]}" \
    --on-divergence rewind
[ "$(grep -c '"event":"rewound"' run/log.jsonl)" = 3 ] || fail 'rewinds are not logged'
[ "$(log_steps run/log.jsonl | tr '\n' ' ')" = '1 1 1 1 ' ] || fail 'it did not go back'
finite run
expect 2 "'ignore' is not one of stop, skip, rewind" train run --on-divergence ignore

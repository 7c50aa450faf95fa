#!/bin/bash
# test_train_aside.sh — checkpoints written while training goes on are those of a run that waits for
# them, an option that may change from start to start; what befalls the disk, and what a run says
# about its time. (Kills: test_train_resume.sh. Slow disks: test_trainer.c.)
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'

# compare ONE OTHER — all checkpoints with their states, what is published, the log
compare() {
    local c
    [ "$(steps "$1")" = "$(steps "$2")" ] || fail "$2: steps $(steps "$2"), not $(steps "$1")"
    for c in "$1"/ckpt-????????; do
        same "$c/model.safetensors" "$2/${c##*/}/model.safetensors"
        same_states "$c" "$2/${c##*/}"
    done
    same "$1/model.safetensors" "$2/model.safetensors"
    diff <(log_lines "$1/log.jsonl") <(log_lines "$2/log.jsonl") || fail "logs of $1 and $2"
    compgen -G "$2/*.tmp" >/dev/null && fail "$2: leavings"
    return 0
}

base=(--steps 60 --save-every 5 --valid-every 20 --log-every 10 --keep 4 --cache cache --quiet)
bf16=("${base[@]}" --dtype bf16 --ema 0.9 --accumulate 2 --clip 1)
for aside in off on auto; do
    train "f32-$aside" "${base[@]}" --save-aside $aside
    train "bf16-$aside" "${bf16[@]}" --save-aside $aside
done
for aside in on auto; do
    compare f32-off "f32-$aside"
    compare bf16-off "bf16-$aside"
    sed "s/f32-$aside/f32-off/" f32-$aside/config.json | diff f32-off/config.json - ||
        fail "the configuration says how checkpoints were written"
done
expect 2 "--save-aside: 'maybe' is not one of auto, on, off" train run --save-aside maybe

# How a run writes its checkpoints is no part of what it is.
for aside in on off on; do
    rc=0
    train mixed "${base[@]}" --save-aside $aside --minutes 0.0005 || rc=$?
    [ $rc = 0 ] || fail "exit $rc"
done
train mixed "${base[@]}" --save-aside on
same f32-off/model.safetensors mixed/model.safetensors 'on and off by turns'

# ---- what it takes, and says
loud=(--steps 60 --save-every 20 --valid-every 20 --log-every 10 --cache cache)
expect 0 'workspace 0.00, copy for checkpoints 0.00)' train loud "${loud[@]}" --save-aside on
last=$(tail -n 1 <<<"$out")
share='[0-9]*\.[0-9] %'
[[ $last =~ ^[0-9.]+\ %\ of\ the\ time\ went\ to\ updates ]] || fail "no times: $out"
grep -qx "$share of the time went to updates, $share to validation, $share to checkpoints, $share \
to waiting for data" <<<"$last" || fail "times: $last"
awk '{ for (i = 1; i < NF; i++) if ($(i + 1) == "%") sum += $i }
    END { exit !(sum > 60 && sum < 101) }' <<<"$last" || fail "times: $last"
note=$(grep '"event":"times"' loud/log.jsonl) || fail 'no times in the log'
case $note in
*"\"text\":\"$last\",\"all\":"*'"updates":'*'"validation":'*'"saving":'*'"data":'*) ;;
*) fail "log: $note" ;;
esac
expect 0 'done: step 60' train loud "${loud[@]}" --save-aside on
case $out in *'of the time'*) fail "nothing was done, but: $out" ;; esac
expect 0 'of memory' train dry "${loud[@]}" --save-aside on --dry-run
if ! sanitized; then # room for the run, but not for a copy as well
    wide=("${small[@]}" --d-model 256 --n-head 4 --d-ff 1024 --n-layer 2 --cache cache --steps 1)
    short() { (ulimit -v 400000 && "$heed" train "${data[@]}" "${wide[@]}" --out short "$@"); }
    most() { short --tokens 30000 "$@" 2>&1 | sed -n 's/.*; --tokens \([0-9]*\) would fit.*/\1/p'; }
    without=$(most --save-aside off) || :
    with=$(most --save-aside on) || :
    [ "$with" -lt "$without" ] || fail "a copy takes no memory: $with tokens fit, $without without"
    expect 0 'done: step 1' short --tokens "$with" --save-aside on
fi

# ---- disks
mkdir disk
if mount -t tmpfs -o size=1700k none disk 2>/dev/null; then
    trap 'umount disk' EXIT
    cp f32-off/tokenizer.model .
    full=("${base[@]}" --save-every 10 --keep 100 --tokenizer tokenizer.model --save-aside on)
    expect 1 'no space left on the disk; what was there before is intact' \
        train disk/run "${full[@]}"
    compgen -G 'disk/run/*.tmp' >/dev/null && fail 'a full disk keeps rubbish'
    [ -n "$(steps disk/run)" ] || fail 'no checkpoint fits: the test proves nothing'
    for c in disk/run/ckpt-*; do "$heed" inspect "$c" >/dev/null || fail "$c after disk full"; done
    "$heed" inspect disk/run >/dev/null || fail 'the run after disk full'
    mount -o remount,size=20m disk
    train disk/run "${full[@]}"
    same disk/run/model.safetensors f32-off/model.safetensors 'after a full disk'
    umount disk
    trap - EXIT
else
    note 'not tested: a full disk (a tmpfs cannot be mounted here)'
fi

# A directory that goes while the run does: it ends, with the message, at a checkpoint.
"$heed" train "${data[@]}" "${small[@]}" --out gone "${base[@]}" --steps 1000000 --save-aside on \
    >gone.out 2>&1 &
pid=$!
trap 'kill -KILL $pid 2>/dev/null' EXIT
for _ in $(seq 100); do
    if [ -d gone ] && [ "$(steps gone | wc -w)" -gt 2 ]; then break; fi
    sleep 0.1
done
mv gone elsewhere
rc=0
wait $pid || rc=$?
trap - EXIT
[ $rc = 1 ] || fail "without its directory: exit $rc: $(cat gone.out)"
grep -q '^heed: gone/.*No such file' gone.out || fail "message: $(cat gone.out)"
for c in elsewhere/ckpt-????????; do "$heed" inspect "$c" >/dev/null || fail "$c is damaged"; done

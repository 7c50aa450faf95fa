#!/usr/bin/env bash
# cluster.sh — ranks on four machines, or what looks like them: network namespaces with a name and
# an sshd each, joined by a bridge. `make test-cluster` runs it; it needs root, iproute2, Open MPI
# and openssh-server. What one machine can show is in test_ranks.sh, test_watch.sh and
# test_train_ranks.sh.
#
#     tests/cluster.sh [STEP...]     those of step_STEP below; all if not given
set -euo pipefail
here=$(realpath "$(dirname "$0")")
TEST_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/heed-cluster.XXXXXX")
export TEST_DIR
trap 'rm -rf "$TEST_DIR"' EXIT
# shellcheck source=tests/train.sh
. "$here/train.sh"
# shellcheck source=tests/ranks.sh
. "$here/ranks.sh"
[ "$(id -u)" = 0 ] || skip 'machines made of namespaces need root'
for tool in ip nsenter unshare ssh ssh-keygen /usr/sbin/sshd; do
    command -v "$tool" >/dev/null || skip "no $tool here (iproute2, util-linux, openssh-server)"
done
[ $# -gt 0 ] || set -- talk same resume kill stop cut orted full refuse
bridge=heed-br$$ net=10.213.77
hosts=(h0 h1 h2 h3)
declare -A at # host -> process that holds its namespaces

# ---- machines ------------------------------------------------------------------------------------

# Ends whatever runs in the machines' namespaces, which only this script has started.
tear_down() {
    trap '' INT TERM
    local host process nets=
    for host in "${!at[@]}"; do nets+=" $(readlink "/proc/${at[$host]}/ns/net" || true)"; done
    for process in /proc/[0-9]*; do
        case $nets in *"$(readlink "$process/ns/net" 2>/dev/null || echo none)"*)
            kill -9 "${process#/proc/}" 2>/dev/null || true ;;
        esac
    done
    for n in 0 1 2 3; do ip link del "heed$$-$n" 2>/dev/null || true; done
    ip link del "$bridge" 2>/dev/null || true
    umount "$dir/small" 2>/dev/null || true
    rm -rf "$dir"
}
trap tear_down EXIT
trap 'exit 130' INT TERM

# on HOST COMMAND... — as if logged in there
on() {
    local host=$1
    shift
    nsenter -t "${at[$host]}" --net --uts -- "$@"
}

# start_host NUMBER — a namespace with a name, an address and an sshd
start_host() {
    local n=$1 host=${hosts[$1]} own
    # shellcheck disable=SC2016 # for the inner shell
    unshare --net --uts bash -c 'hostname "$0" && exec /usr/sbin/sshd -D -e -f "$1"' "$host" \
        "$dir/sshd_config" >>"$dir/sshd.log" 2>&1 &
    at[$host]=$!
    disown
    own=$(readlink /proc/self/ns/net)
    for _ in {1..200}; do
        [ "$(readlink "/proc/${at[$host]}/ns/net")" != "$own" ] && break
        sleep 0.05
    done
    ip link add "heed$$-$n" type veth peer name eth0 netns "${at[$host]}"
    ip link set "heed$$-$n" master "$bridge" up
    on "$host" ip link set lo up
    on "$host" ip address add "$net.$((n + 10))/24" dev eth0
    on "$host" ip link set eth0 up
}

set_up() {
    mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
    ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
    cp "$dir/key.pub" "$dir/authorized"
    cat >"$dir/sshd_config" <<-END
	ListenAddress 0.0.0.0
	HostKey $dir/host_key
	AuthorizedKeysFile $dir/authorized
	PidFile none
	UsePAM no
	PermitRootLogin yes
	StrictModes no
	PasswordAuthentication no
	MaxStartups 100
	END
    ip link add "$bridge" type bridge
    ip link set "$bridge" up
    for n in 0 1 2 3; do start_host $n; done
    for n in 0 1 2 3; do
        for _ in {1..200}; do
            if [ "$(login "$net.$((n + 10))" hostname 2>/dev/null)" = "${hosts[$n]}" ]; then
                continue 2
            fi
            sleep 0.05
        done
        fail "no login on ${hosts[$n]}: $(tail -n 5 "$dir/sshd.log")"
    done
}

ssh_words="-i $dir/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
-o LogLevel=ERROR -o BatchMode=yes"
# shellcheck disable=SC2086 # words
login() { on h0 ssh $ssh_words "$@"; }

# spread N COMMAND... — N ranks, as many on each machine, started from h0, as docs/cluster.md says
spread() {
    local n=$1 each list=
    shift
    each=$(((n + 3) / 4))
    for ((k = 0; k * each < n; k++)); do list+=${list:+,}$net.$((k + 10)):$each; done
    on h0 env -u OMPI_MCA_plm TEST_RANKS="$n" TEST_LOCAL=$each \
        OMPI_MCA_plm_rsh_args="$ssh_words" mpirun -n "$n" \
        --host "$list" -x TEST_RANKS -x TEST_LOCAL -x OMPI_MCA_mpi_yield_when_idle \
        --mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 \
        --mca oob_tcp_keepalive_probes 2 \
        --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" "$@"
}

# ---- what ranks say ------------------------------------------------------------------------------

step_talk() {
    local test
    spread 4 uname -n >"$dir/names"
    [ "$(sort "$dir/names" | xargs)" = 'h0 h1 h2 h3' ] || fail "ranks are on $(xargs <"$dir/names")"
    for test in host device counts; do
        spread 4 "$build/tests/test_ranks" $test >"$dir/log" 2>&1 || fail "$(cat "$dir/log")"
        [ "$(grep -c 'PASSED.* 1 test' "$dir/log")" = 4 ] || fail "$test: $(cat "$dir/log")"
    done
    spread 4 "$heed" bench comm --largest 8 >"$dir/bench" || fail 'bench comm'
    sed 's/^/    /' "$dir/bench"
    grep -q '^mpi, 4 ranks, 1 on this machine, groups of 1' "$dir/bench" || fail 'other machines'
}

# ---- training ------------------------------------------------------------------------------------

run=("${data[@]}" "${small[@]}" --cache cache --tokens 150 --accumulate 8 --steps 50 --log-every 10
    --valid-every 20 --save-every 10 --keep 99 --clip 0.5 --dropout 0.2)

# by N OUT OPTION... — a run of N ranks on the four machines
by() {
    local n=$1 out=$2
    shift 2
    spread "$n" "$heed" train "${run[@]}" --out "$out" "$@" >"$out.log" 2>&1
}
# compare ONE MANY — every checkpoint and the log are the same
compare() {
    [ "$(steps "$2")" = "$(steps "$1")" ] || fail "$2: steps $(steps "$2")"
    for c in "$1"/ckpt-????????; do
        same "$c/model.safetensors" "$2/${c##*/}/model.safetensors"
    done
    same "$1/model.safetensors" "$2/model.safetensors"
    same_states "$(newest "$1")" "$(newest "$2")"
    diff <(log_lines "$1/log.jsonl") <(log_lines "$2/log.jsonl") || fail "the log of $2"
}

step_same() {
    "$heed" train "${run[@]}" --out alone --quiet || fail 'one process'
    for n in 1 2 4 8; do
        by $n "same$n" || fail "$n ranks: $(cat "same$n.log")"
        compare alone "same$n"
    done
}

# later RUN STEP — a checkpoint after that step is there, within two minutes
later() {
    for _ in {1..1200}; do
        [ "$(steps "$1" | awk '{ print $NF + 0 }')" -le "$2" ] || return 0
        sleep 0.1
    done
    fail "$1: nothing after step $2: $(cat "$1.log")"
}
# pid_of RANK RUN — its process
pid_of() {
    rank_pid "$1" "--out $2" | grep . || fail "$2: no rank $1: $(cat "$2.log")" >&2
}
# begin N RUN OPTION... — in the background, until it has saved something
begin() {
    local n=$1 out=$2 step
    shift 2
    step=$(steps "$out" | awk '{ print $NF + 0 }')
    by "$n" "$out" "$@" &
    launcher=$!
    later "$out" "$step"
}
# kill_one N RUN RANK OPTION... — N ranks go on until that one is killed
kill_one() {
    begin "$1" "$2" "${@:4}"
    kill -9 "$(pid_of "$3" "$2")"
    if wait $launcher; then fail 'a rank was killed, and all went well'; fi
    gone "--out $2"
}

step_resume() {
    local more=(--steps 400)
    "$heed" train "${run[@]}" "${more[@]}" --out straight --quiet || fail 'one process'
    kill_one 4 resumed 3 "${more[@]}"
    kill_one 2 resumed 0 "${more[@]}"
    by 8 resumed "${more[@]}" || fail "8 ranks go on: $(cat resumed.log)"
    compare straight resumed
}

# ---- faults --------------------------------------------------------------------------------------

# lost RUN SECONDS TEXT — all end, in about so many seconds, with one line about it
lost() {
    local rc=0 began=$SECONDS took
    wait $launcher || rc=$?
    took=$((SECONDS - began))
    [ $rc != 0 ] || fail "$1: exit 0"
    gone "--out $1"
    grep -qE "^heed: $3" "$1.log" || fail "$1: no '$3': $(cat "$1.log")"
    [ "$(grep -c '^heed: rank' "$1.log")" = 1 ] || fail "$1: not one line: $(cat "$1.log")"
    note "$1: all ended $took s later with $rc: $(grep '^heed: rank' "$1.log")"
    [ $took -le $(($2 * 10)) ] || fail "$1: that is far from $2 s"
}
long=(--steps 100000 --save-every 10 --keep 2)

step_kill() {
    begin 4 killed "${long[@]}"
    local victim
    victim=$(pid_of 2 killed)
    kill -9 "$victim"
    lost killed 5 "rank 2 on h2 \\(pid $victim\\) is gone"
}

step_stop() {
    begin 4 stopped "${long[@]}"
    local victim
    victim=$(pid_of 1 stopped)
    kill -STOP "$victim"
    lost stopped 15 "rank 1 on h1 \\(pid $victim\\) is silent since step [0-9]+"
}

step_cut() {
    begin 4 cut "${long[@]}"
    local victim
    victim=$(pid_of 3 cut)
    ip link set "heed$$-3" down
    lost cut 15 "rank 3 on h3 \\(pid $victim\\) is silent since step [0-9]+"
    ip link set "heed$$-3" up
}

# mpirun's own process on a machine: that it says so itself is all that can be asked for.
step_orted() {
    local victim rc=0 began
    begin 4 orted "${long[@]}"
    victim=$(pid_of 1 orted)
    began=$SECONDS
    kill -9 "$(awk '{ print $4 }' "/proc/$victim/stat")" # its parent
    wait $launcher || rc=$?
    [ $rc != 0 ] || fail 'orted: exit 0'
    gone '--out orted'
    note "orted: all ended $((SECONDS - began)) s later with $rc"
}

step_full() {
    local rc=0
    mkdir -p small
    mount -t tmpfs -o size=300k tmpfs small
    by 4 small/run || rc=$?
    [ $rc = 1 ] || fail "a full disk: exit $rc: $(cat small/run.log)"
    gone '--out small/run'
    [ "$(grep -c '^heed:' small/run.log)" = 1 ] || fail "not once: $(cat small/run.log)"
    note "a full disk: exit 1: $(grep '^heed:' small/run.log)"
    umount small
}

# Ranks that differ are refused, and one of them says why.
step_refuse() {
    # refused TEXT WORDS — what the rank on h3 makes of its words
    refused() {
        local rc=0
        {
            echo '#!/bin/bash'
            echo "if [ \"\$(uname -n)\" = h3 ]; then set -- $2; fi"
            echo 'exec "$@"'
        } >odd.sh
        chmod +x odd.sh
        spread 4 "$dir/odd.sh" "$heed" train "${run[@]}" --out refused >refused.log 2>&1 || rc=$?
        [ $rc = 2 ] || fail "$2: exit $rc: $(cat refused.log)"
        grep -qE "^heed: rank 3 .*$1" refused.log || fail "$2: $(cat refused.log)"
        [ "$(grep -c '^heed:' refused.log)" = 1 ] || fail "not once: $(cat refused.log)"
        note "$(grep '^heed:' refused.log)"
    }
    sed 's/a/e/' t.src >other.src
    # shellcheck disable=SC2016 # for the script
    refused 'another training data' '"${@/#t.src/other.src}"'
    # shellcheck disable=SC2016
    refused 'another processor or device' '"$@" --isa generic'
    # shellcheck disable=SC2016
    refused 'another training options' '"$@" --warmup 51'
}

set_up
for step in "$@"; do
    began=$SECONDS
    "step_$step"
    note "$step: passed after $((SECONDS - began)) s"
done

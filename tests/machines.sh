# shellcheck shell=bash
# machines.sh — four machines, or what looks like them: network namespaces with a name and an sshd
# each, joined by a bridge. Needs root, iproute2, util-linux, Open MPI and openssh-server. To be
# sourced after ranks.sh; set_up makes them, tear_down, also at the end of the script, ends them.
# Whoever sets door=nsenter before needs no sshd: mpirun enters the namespaces.
# shellcheck disable=SC2154 # whose $dir it is
[ "$(id -u)" = 0 ] || skip 'machines made of namespaces need root'
door=${door:-ssh}
tools=(ip nsenter unshare)
[ "$door" != ssh ] || tools+=(ssh ssh-keygen /usr/sbin/sshd)
for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || skip "no $tool here (iproute2, util-linux, openssh-server)"
done
bridge=heed-br$$ net=10.213.77
hosts=(h0 h1 h2 h3)
declare -A at # host -> process that holds its namespaces
nets=         # the network namespaces of all

# Ends whatever runs in the machines' namespaces, which only this script has started.
tear_down() {
    trap '' INT TERM
    local process
    for process in /proc/[0-9]*; do
        case $nets in *"$(readlink "$process/ns/net" 2>/dev/null || echo none)"*)
            kill -9 "${process#/proc/}" 2>/dev/null || true ;;
        esac
    done
    for n in 0 1 2 3; do ip link del "heed$$-$n" 2>/dev/null || true; done
    ip link del "$bridge" 2>/dev/null || true
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

# start_host NUMBER — a namespace with a name, an address and somebody at home
start_host() {
    local n=$1 host=${hosts[$1]} own home=(/usr/sbin/sshd -D -e -f "$dir/sshd_config")
    [ "$door" = ssh ] || home=(sleep infinity)
    # shellcheck disable=SC2016 # for the inner shell
    unshare --net --uts bash -c 'hostname "$0" && exec "$@"' "$host" "${home[@]}" \
        >>"$dir/sshd.log" 2>&1 &
    at[$host]=$!
    disown
    own=$(readlink /proc/self/ns/net)
    for _ in {1..200}; do
        [ "$(readlink "/proc/${at[$host]}/ns/net")" != "$own" ] && break
        sleep 0.05
    done
    nets+=" $(readlink "/proc/${at[$host]}/ns/net")"
    ip link add "heed$$-$n" type veth peer name eth0 netns "${at[$host]}"
    ip link set "heed$$-$n" master "$bridge" up
    on "$host" ip link set lo up
    on "$host" ip address add "$net.$((n + 10))/24" dev eth0
    on "$host" ip link set eth0 up
}

# Keys, and what sshd reads.
prepare_ssh() {
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
}

set_up() {
    [ "$door" != ssh ] || prepare_ssh
    ip link add "$bridge" type bridge
    ip link set "$bridge" up
    for n in 0 1 2 3; do start_host $n; done
    if [ "$door" = ssh ]; then wait_for_ssh; else write_agent; fi
}

wait_for_ssh() {
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

# What mpirun calls as it would ssh: an address and a command.
# shellcheck disable=SC2016 # for the agent's shell
write_agent() {
    {
        echo '#!/bin/sh'
        echo 'case $1 in'
        for n in 0 1 2 3; do echo "$net.$((n + 10))) process=${at[${hosts[$n]}]} ;;"; done
        echo 'esac'
        echo 'shift'
        echo 'exec nsenter -t "$process" --net --uts -- sh -c "$*"'
    } >"$dir/agent"
    chmod +x "$dir/agent"
}

ssh_words="-i $dir/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
-o LogLevel=ERROR -o BatchMode=yes"
# shellcheck disable=SC2086 # words
login() { on h0 ssh $ssh_words "$@"; }

# spread N COMMAND... — N ranks, as many on each machine, started from h0, as docs/cluster.md says
spread() {
    local n=$1 each how=(OMPI_MCA_plm_rsh_args="$ssh_words") list=
    [ "$door" = ssh ] || how=(OMPI_MCA_plm_rsh_agent="$dir/agent")
    shift
    each=$(((n + 3) / 4))
    for ((k = 0; k * each < n; k++)); do list+=${list:+,}$net.$((k + 10)):$each; done
    on h0 env OMPI_MCA_plm=rsh "${how[@]}" TEST_RANKS="$n" TEST_LOCAL=$each mpirun -n "$n" \
        --host "$list" -x TEST_RANKS -x TEST_LOCAL -x OMPI_MCA_mpi_yield_when_idle \
        --mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 \
        --mca oob_tcp_keepalive_probes 2 \
        --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" "$@"
}

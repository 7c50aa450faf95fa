# shellcheck shell=bash
# cluster_slurm.sh — a real Slurm on the machines of cluster.sh, which sources this: the controller
# on h0, a node on each of h1, h2 and h3, with four processors as far as Slurm can tell.
# shellcheck disable=SC2154,SC2034 # what cluster.sh has, and what it reads
slurm_state=unknown

# slurm_here — is it up? Starts it if it can be started, and says what is missing if not.
slurm_here() {
    local tool
    if [ $slurm_state = unknown ]; then
        slurm_state=up
        for tool in munged slurmctld slurmd srun salloc scancel sinfo; do
            command -v $tool >/dev/null || slurm_state="no $tool here (tools/deps.sh slurm)"
        done
        case $dir/ in /tmp/*) slurm_state='nodes have their own /tmp: set another TMPDIR' ;; esac
        [ "$slurm_state" != up ] || slurm_up
    fi
    [ "$slurm_state" = up ] || { skipped "slurm_*: $slurm_state" && return 1; }
}

slurm_up() {
    local home=$dir/slurm host
    mkdir -p "$home/state"
    # Whoever asks for work proves with a key who he is.
    head -c 1024 /dev/urandom >"$home/key" && chmod 400 "$home/key"
    on h0 munged -F --force --key-file="$home/key" --socket="$home/munge" \
        --pid-file="$home/munge.pid" --log-file="$home/munge.log" --seed-file="$home/seed" \
        >"$home/slurm-munged.log" 2>&1 &
    disown
    for _ in {1..300}; do
        [ ! -S "$home/munge" ] || break
        sleep 0.1
    done
    cat >"$home/slurm.conf" <<-END
	ClusterName=heed
	SlurmctldHost=h0($net.10)
	SlurmUser=root
	AuthType=auth/munge
	CredType=cred/munge
	AuthInfo=socket=$home/munge
	StateSaveLocation=$home/state
	SlurmdSpoolDir=$home/spool-%n
	SlurmctldPidFile=$home/slurmctld.pid
	SlurmdPidFile=$home/slurmd-%n.pid
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_CPU
	SlurmdParameters=config_overrides
	ReturnToService=2
	KillWait=2
	$(for n in 1 2 3; do echo "NodeName=h$n NodeAddr=$net.$((n + 10)) CPUs=4"; done)
	PartitionName=all Nodes=h[1-3] Default=YES MaxTime=INFINITE State=UP
	END
    # Where control groups are of the first kind, Slurm has to be told.
    [ -e /sys/fs/cgroup/cgroup.controllers ] || echo CgroupPlugin=cgroup/v1 >"$home/cgroup.conf"
    export SLURM_CONF=$home/slurm.conf
    on h0 slurmctld -D >"$home/slurmctld.log" 2>&1 &
    disown
    for host in h1 h2 h3; do
        mkdir -p "$home/tmp-$host"
        # PMIx names its files in /tmp after the job: nodes must not share it.
        # shellcheck disable=SC2016 # for the inner shell
        on $host unshare --mount bash -c 'mount --bind "$0" /tmp && exec slurmd -D -N "$1"' \
            "$home/tmp-$host" $host >"$home/slurmd-$host.log" 2>&1 &
        disown
    done
    slurm_ready
}

# slurm_ready — all nodes are there and have nothing to do, within a minute
slurm_ready() {
    local end=$((SECONDS + 60)) # sinfo takes its time where nobody answers
    while [ $SECONDS -lt $end ]; do
        [ "$(on h0 sinfo -h -t idle -o %D 2>/dev/null)" != 3 ] || return 0
        sleep 0.1
    done
    fail "Slurm has no three nodes: $(tail -n 5 "$dir"/slurm/slurm*.log)"
}

# slurm_on HOW N COMMAND... — N ranks on as many of the nodes as there are
tcp=(OMPI_MCA_oob_tcp_if_include="$net.0/24" OMPI_MCA_btl_tcp_if_include="$net.0/24")
slurm_on() {
    local how=$1 n=$2 nodes
    shift 2
    nodes=$((n < 3 ? n : 3))
    # shellcheck disable=SC2086 # words
    on h0 env -u OMPI_MCA_plm "${tcp[@]}" TEST_RANKS="$n" ${how/WHERE/-N $nodes -n $n} "$@"
}
with_srun() { slurm_on 'srun -K1 --mpi=pmix WHERE' "$@"; }
with_plain_srun() { slurm_on 'srun --mpi=pmix WHERE' "$@"; }
with_salloc() { slurm_on 'salloc -Q WHERE mpirun' "$@"; }

# ---- steps ---------------------------------------------------------------------------------------

# by_slurm HOW COMMAND... — as usual, but started by HOW
by_slurm() {
    local start=$1
    shift
    "$@"
}

step_slurm_same() {
    with_srun 3 uname -n >"$dir/names"
    [ "$(sort "$dir/names" | xargs)" = 'h1 h2 h3' ] || fail "ranks are on $(xargs <"$dir/names")"
    alone alone
    for how in with_srun with_salloc; do
        for n in 2 4 8; do
            by_slurm $how by $n "$how$n" || fail "$how, $n ranks: $(cat "$how$n.log")"
            compare alone "$how$n"
        done
    done
}

step_slurm_resume() { by_slurm with_srun resume slurm_resumed; }

step_slurm_faults() {
    local how
    for how in with_srun with_plain_srun with_salloc; do
        by_slurm $how begin 4 "killed_$how" "${long[@]}"
        harm "killed_$how" 2 kill -9
        lost "kill -9, ${how/_/ }" "killed_$how" 15 "rank 2 on h2 \\(pid $victim\\) is gone"
    done
    by_slurm with_srun begin 4 stopped_srun "${long[@]}"
    harm stopped_srun 1 kill -STOP
    lost 'SIGSTOP, with srun' stopped_srun 15 "rank 1 on h1 \\(pid $victim\\) is silent since"
    by_slurm with_srun begin 4 cut_srun "${long[@]}"
    harm cut_srun 3 unplug
    lost 'link down, with srun' cut_srun 15 "rank 3 on h3 \\(pid $victim\\) is silent since"
    ip link set "heed$$-3" up
    slurm_ready
}

# Without --mpi=pmix ranks do not find each other and say so; SIGUSR1 saves, and the run goes on
# from there.
step_slurm_orders() {
    local rc=0
    hit=$(now)
    slurm_on 'srun -K1 WHERE' 2 "$heed" train "${run[@]}" --out refused >refused.log 2>&1 || rc=$?
    grep -q '^heed: srun started 2 processes.*give it --mpi=pmix' refused.log ||
        fail "without pmix: exit $rc: $(cat refused.log)"
    row 'srun without --mpi=pmix' $rc "$(since "$hit")" "$(sed -n 's/^heed: //p;T;q' refused.log)"
    rc=0
    by_slurm with_srun begin 4 ordered "${long[@]}"
    hit=$(now)
    on h0 scancel --signal=USR1 "$(on h0 squeue -h -s -o %i | grep -m1 '\.0$')"
    wait $launcher || rc=$?
    gone '--out ordered'
    grep -q '^stopped; run the same command again' ordered.log || fail "$(cat ordered.log)"
    row 'scancel --signal=USR1' $rc "$(since "$hit")" "$(grep '^stopped' ordered.log)"
}

# shellcheck shell=bash
# ranks.sh — what scripts that start ranks share: mpirun on one machine that may be smaller than the
# number of ranks, used by root, and without ssh. To be sourced after shell.sh.
# shellcheck disable=SC2154 # whose $build it is
if sanitized; then skip 'MPI is not instrumented, and keeps memory to its end'; fi
if ! command -v mpirun >/dev/null; then skip 'no mpirun here (tools/deps.sh ranks)'; fi
if ! [ -e "$build/libheed-mpi.so" ]; then skip 'built without Open MPI: no libheed-mpi.so'; fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm=isolated

# ranks N COMMAND... — N of them, with their number in TEST_RANKS
ranks() { TEST_RANKS=$1 mpirun -n "$@"; }

# rank_pid RANK TEXT — that rank's process of those with the text in their command line, if it is
# there
rank_pid() {
    local process
    for process in /proc/[0-9]*/environ; do
        if tr '\0' '\n' 2>/dev/null <"$process" | grep -qx "PMIX_RANK=$1" &&
            tr '\0' ' ' 2>/dev/null <"${process%environ}cmdline" | grep -qF -- "$2"; then
            echo "${process//[^0-9]/}"
            return
        fi
    done
}

# gone TEXT — processes that have it in their command line end, within a minute
gone() {
    local process
    for _ in {1..600}; do
        for process in /proc/[0-9]*/cmdline; do
            if tr '\0' ' ' 2>/dev/null <"$process" | grep -qF -- "$1"; then
                sleep 0.1
                continue 2
            fi
        done
        return 0
    done
    fail "$1 (${process//[^0-9]/}) is still there"
}

# learns RUN — it has logged an update since it was resumed, within two minutes; its log is RUN.log
learns() {
    for _ in {1..4000}; do
        if awk '/"event":"resumed"/ { on = 1 } on && /"epoch"/ { ok = 1 } END { exit !ok }' \
            "$1/log.jsonl"; then return; fi
        sleep 0.03
    done
    fail "$1: no update: $(cat "$1.log")"
}

now() { echo "${EPOCHREALTIME/,/.}"; }
# since MOMENT — the seconds since that `now`
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.1f\n", to - from }'; }

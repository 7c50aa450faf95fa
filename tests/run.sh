#!/usr/bin/env bash
# run.sh — runs every test of every given program, each in a process of its own with a timeout.
#
#     tests/run.sh [-j JOBS] [-k PATTERN] [-x REGEX] [-o SUMMARY-FILE] PROGRAM...
#
# A program lists its tests with --list (see test.h); a *.sh program is one test, its timeout on a
# line `# timeout: SECONDS`. The exit status is the only verdict: 0 passed, 77 skipped, else failed.
# Also failed: a program that cannot list its tests or lists none, a test that is skipped without a
# line `skipped: WHY`. -k runs only tests whose `program:test` matches, -x leaves out those that
# match. TEST_SCALE multiplies all timeouts (sanitizer builds). Last line: `N passed, N failed[, N
# skipped]`.
set -uo pipefail

jobs=$(nproc) pattern='*' without='' summary_file=''
while getopts j:k:x:o: opt; do
    case $opt in
    j) jobs=$OPTARG ;;
    k) pattern="*$OPTARG*" ;;
    x) without=$OPTARG ;;
    o) summary_file=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
scale=${TEST_SCALE:-1}

tmp=$(mktemp -d "${TMPDIR:-/tmp}/heed-test.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM

# record VERDICT SECONDS NAME — one small write, so that parallel records do not mix.
record() { printf '%s %s %s\n' "$1" "$2" "$3" >>"$tmp/results"; }

# report NAME WHY OUTPUT-FILE
report() {
    record failed "${4:-0}" "$1"
    {
        flock 9
        printf 'FAILED %s: %s\n' "$1" "$2"
        tail -n 60 "$3" | sed 's/^/    /'
    } 9>"$tmp/lock"
}

# run_one ID NAME SECONDS COMMAND...
run_one() {
    local id=$1 name=$2 limit=$(($3 * scale)) out="$tmp/$1.out" begin=$EPOCHREALTIME status child
    shift 3
    export TEST_DIR="$tmp/$id.dir"
    mkdir "$TEST_DIR"
    timeout -k 5 "$limit" "$@" >"$out" 2>&1 </dev/null &
    child=$!
    trap 'kill "$child" 2>/dev/null; exit 130' TERM
    wait "$child"
    status=$?
    local took=$(((${EPOCHREALTIME/[.,]/} - ${begin/[.,]/}) / 1000))
    case $status in
    0) record passed "$took" "$name" ;;
    77)
        local reason
        reason=$(sed -n 's/^skipped: //p' "$out" | tail -n 1)
        if [ -n "$reason" ]; then
            record skipped "$took" "$name: $reason"
        else
            report "$name" "skipped without a word why" "$out" "$took"
        fi
        ;;
    *)
        local why="exit status $status"
        if [ "$took" -ge $((limit * 1000)) ]; then
            why="timed out after $limit s"
        elif [ "$status" -gt 128 ]; then
            why="killed by signal $((status - 128))"
        fi
        report "$name" "$why" "$out" "$took"
        ;;
    esac
    rm -rf "$TEST_DIR" "$out"
}

: >"$tmp/results"
n=0 running=0
for program in "$@"; do
    base=$(basename "$program")
    base=${base%.sh}
    list="$tmp/list"
    case $program in
    *.sh) echo "- $(sed -n 's/^# timeout: *\([0-9]*\).*/\1/p' "$program" | grep . || echo 60)" \
        >"$list" ;;
    *)
        if ! timeout 20 "$program" --list >"$list" 2>&1; then
            n=$((n + 1))
            report "$base" "cannot list its tests" "$list"
            continue
        elif ! [ -s "$list" ]; then
            n=$((n + 1))
            report "$base" "lists no tests" "$list"
            continue
        fi
        ;;
    esac
    while read -r test seconds <&3; do
        name=$base arg=
        if [ "$test" != - ]; then name="$base:$test" arg=$test; fi
        # shellcheck disable=SC2254 # the pattern is meant as one
        case $name in $pattern) ;; *) continue ;; esac
        if [ -n "$without" ] && [[ $name =~ $without ]]; then continue; fi
        if [ "$running" -ge "$jobs" ]; then wait -n; running=$((running - 1)); fi
        n=$((n + 1)) running=$((running + 1))
        # Only bash's own notices about crashed children go to /dev/null; the test's output is kept.
        run_one $n "$name" "$seconds" "$program" ${arg:+"$arg"} 2>/dev/null &
    done 3<"$list"
done
wait

echo "slowest:"
sort -k2,2nr "$tmp/results" | head -n 5 | awk '{ printf "    %8.2f s  %s\n", $2 / 1000, $3 }'
count() { grep -c "^$1 " "$tmp/results"; }
failed=$(count failed) skipped=$(count skipped) lost=$((n - $(wc -l <"$tmp/results")))
if [ "$lost" -ne 0 ]; then echo "$lost tests left no verdict"; fi
if [ "$n" -eq 0 ]; then echo "no test to run" && lost=1; fi
failed=$((failed + lost))
if [ "$skipped" -gt 0 ]; then
    echo "skipped:"
    sed -n 's/^skipped [0-9]* /    /p' "$tmp/results"
fi
summary="$(count passed) passed, $failed failed"
if [ "$skipped" -gt 0 ]; then summary="$summary, $skipped skipped"; fi
if [ -n "$summary_file" ]; then echo "$summary" >"$summary_file"; fi
echo "$summary"
[ "$failed" -eq 0 ]

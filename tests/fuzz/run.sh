#!/usr/bin/env bash
# run.sh — runs fuzz programs, each on its seeds and for a while beyond them.
#
#     tests/fuzz/run.sh SECONDS FOLDER PROGRAM...
#
# FUZZ_SEED repeats a sequence of inputs, else it is a new one; FUZZ_RUNS ends it after so many.
#
# Seeds are read from tests/fuzz/corpus/NAME; what the fuzzer finds worth keeping goes to
# FOLDER/NAME, where the next run begins, and an input that breaks a program to FOLDER/NAME-crash-*.
# Exit status 1 if one did.
set -uo pipefail
here=$(dirname "$0")
seconds=$1 folder=$2 failed=0
shift 2
for program in "$@"; do
    name=$(basename "$program")
    name=${name#fuzz_}
    mkdir -p "$folder/$name"
    seeds=()
    if [ -d "$here/corpus/$name" ]; then seeds=("$here/corpus/$name"); fi
    if "$program" -max_total_time="$seconds" -seed="${FUZZ_SEED:-0}" \
        -runs="${FUZZ_RUNS:--1}" -timeout=25 -rss_limit_mb=3000 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="$folder/$name-" "$folder/$name" "${seeds[@]}" \
        >"$folder/$name.log" 2>&1; then
        awk -v name="$name" '/number_of_executed_units/ { print name ": " $2 " inputs" }' \
            "$folder/$name.log"
    else
        echo "FAILED: $name"
        tail -n 40 "$folder/$name.log"
        failed=1
    fi
done
exit $failed

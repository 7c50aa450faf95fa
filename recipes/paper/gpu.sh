#!/usr/bin/env bash
# gpu.sh [PART...] — the recipes that want a GPU, as much of them as there is time for. Parts are
# table1, table2, table3, parsing and questions; without arguments all of them in this order.
# Parts joined by + run beside each other, as table3+parsing: a device that one of them leaves idle
# while it saves or searches is the other's, but the times they report are then those of a device
# that is shared.
#
#     MINUTES  how long all of it may take, more or less (25). What is being trained when time is
#              up is saved, and goes on the next time, if this machine's WORK is still there.
#     KEEP     a file (local/paper/keep.tar.gz) with the results and logs of what is finished, some
#              megabytes, written every minute. Where nothing of this machine stays, bring it along
#              to the next one, and that is not done again. Models and checkpoints, gigabytes, are
#              not in it.
#     DATA     folder with the corpora, as for data.sh, table2.sh and parsing.sh
#     WORK     where everything is done (local/paper)
#     DEVICE   to run on (cuda)
#     ROWS     of Table 2 (multi30k.en-de/tiny multi30k.en-fr/tiny all.en-de/base)
#     TABLE2, TABLE3, PARSING, QUESTIONS    settings of a recipe, NAME=VALUE and spaces between
#              them: TABLE3='STEPS=12000 SET=lr_scale=0.4'
#     HEED, PYTHON, PEER, TEXT    as for the other recipes
#
# Results and the report go to WORK/results and WORK/report; copy to docs/paper what is to stay.
# README.md says how long each part takes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export HEED=${HEED:-build/heed} PYTHON=${PYTHON:-python3} DEVICE=${DEVICE:-cuda}
work=${WORK:-local/paper} keep=${KEEP:-local/paper/keep.tar.gz}
minutes=${MINUTES:-25} corpora=$(realpath "${DATA:?the folder with the corpora}")
export RESULTS=$work/results REPORT=$work/report
[ $# -gt 0 ] || set -- table1 table2 table3 parsing questions
mkdir -p "$work" "$(dirname "$keep")"
[ ! -e "$keep" ] || tar -xzf "$keep" -C "$work" --keep-newer-files --warning=no-ignore-newer

# finished — the files that say so, without models
finished() {
    "$PYTHON" - "$work" <<'END'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
found = [p for folder in ("results", "report") for p in (work / folder).glob("*")
         if ".part" not in p.name]
found += work.glob("questions*/*.json")
for path in [*work.glob("*/results.json"), *work.glob("questions*/*/results.json")]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    kept = [path.parent / row["name"] / file for row in rows
            for file in ("config.json", "log.jsonl")]
    found += [path, *(p for p in kept if p.exists())]
for run in work.glob("table2/*.run"):  # the log of another row would say it is trained
    row = "-".join(run.name.removesuffix(".run").rsplit(".", 2))
    if (work / "results" / f"table2-{row}.json").exists():
        found += [run / "log.jsonl", run / "config.json"]
found += work.glob("parsing/*.run/log.jsonl")
print("\n".join(str(p.relative_to(work)) for p in sorted(found)))
END
}

# save — KEEP anew. A log that grows meanwhile (1) is no failure.
save() {
    local files
    files=$(finished) || return
    tar -czf "$keep.part" --ignore-failed-read -C "$work" -T - <<<"$files" || [ $? = 1 ] || return
    sync "$keep.part" && mv "$keep.part" "$keep"
}

# texts [SIZE] — those of data.sh, once
texts() {
    [ -e "$work/data${1:+-$1}/bpe.model" ] ||
        SIZE=${1:-} DATA=$corpora WORK=$work recipes/paper/data.sh
}

# shellcheck disable=SC2086 # settings and rows, one word each
part() {
    case $1 in
    table1)
        [ -e "$RESULTS/table1-cuda.json" ] || WORK=$work recipes/paper/table1.sh cuda
        ;;
    table2)
        env DATA="$corpora" WORK="$work/table2" ${TABLE2:-} recipes/paper/table2.sh \
            ${ROWS:-multi30k.en-de/tiny multi30k.en-fr/tiny all.en-de/base}
        ;;
    table3)
        texts mixed
        env DATA="$work/data-mixed" WORK="$work" ${TABLE3:-} recipes/paper/table3.sh \
            --device "$DEVICE" --device "$DEVICE"
        ;;
    parsing)
        env DATA="$corpora" WORK="$work/parsing" LIMIT=500 ${PARSING:-} recipes/paper/parsing.sh \
            --device "$DEVICE"
        ;;
    questions)
        texts
        env DATA="$work/data" WORK="$work" SIZE=full STEPS=3000 ${QUESTIONS:-} \
            recipes/paper/questions.sh
        ;;
    *) echo "gpu.sh: there is no part '$1'" >&2 && return 2 ;;
    esac
}

trap 'save || echo "gpu.sh: not saved" >&2' EXIT # however it ends
failed=0
for group in "$@"; do
    export MINUTES=$((minutes - SECONDS / 60))
    [ "$MINUTES" -gt 0 ] || break
    echo "gpu.sh: $group, $MINUTES minutes left"
    running=() seconds=0
    for one in ${group//+/ }; do
        (part "$one" || { echo "gpu.sh: $one failed" >&2 && exit 1; }) &
        running+=($!)
    done
    while [ -n "$(jobs -rp)" ]; do
        sleep 1
        ((++seconds % 60)) || save || echo "gpu.sh: not saved this time" >&2
    done
    for process in "${running[@]}"; do wait "$process" || failed=1; done
    save || { echo "gpu.sh: not saved this time" >&2 && failed=1; }
done
exit $failed

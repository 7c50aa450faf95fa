#!/usr/bin/env bash
# serve.sh — heed serve and LibreTranslate 1.9.6 with the same weights, on the same cores and texts.
#
#     bench/serve.sh [EN-DE DE-EN TEXT [HEED]]
#
# EN-DE, DE-EN: trained models, not rounded yet: both servers get them in int8. TEXT: English
# sentences, one a line, all different, 10,000 or more. Without them, models of the shape that is
# shipped, with random weights, whose translations both servers end at the length of the source.
# Needs a Python (PYTHON, python3) with libretranslate==1.9.6 and gunicorn==23.0.0. BEAM (1):
# LibreTranslate's length penalty cannot be turned into ours, so beam 1 is a fair race; at 4 both
# search without one. Its sentence splitter wants models from the network: it is taken out, and
# every request is one sentence, which flatters it. SERVERS picks of "heed waitress gunicorn" (the
# first two); REQUESTS (640), MEMORY_REQUESTS (10000), THREADS (all CPUs) and MEASURE are those of
# bench/serve_race.py, which prints the tables: figures, and bars, met or missed.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ] && [ $# -lt 3 ]; then
    echo "usage: bench/serve.sh [EN-DE DE-EN TEXT [HEED]]" >&2 && exit 2
fi
# shellcheck source=bench/box_student.sh
. bench/box_student.sh
heed=${4:-${HEED:-build/heed}} python=${PYTHON:-python3} beam=${BEAM:-1} text=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
card=(--set "beam=$beam" --set alpha=0)
declare -A folder=([en-de]=${1:-} [de-en]=${2:-})
if [ $# = 0 ]; then
    random_student "$heed" "$work/student"
    folder=([en-de]=$work/student/run [de-en]=$work/student/run)
    text=$work/text
    awk 'BEGIN { srand(1); for (i = 0; i < 12000; i++) {
        n = 6 + int(rand() * 30); s = ""
        for (k = 0; k < n; k++) s = s sprintf(" w%05d", 1 + int(rand() * rand() * 12497))
        print substr(s, 2) } }' >"$text"
    card+=(--set max_extra=0)
    export SOURCE_LENGTH=1
fi
name() { case $1 in en) echo English ;; de) echo German ;; esac }
for pair in en-de de-en; do
    from=${pair%-*} to=${pair#*-}
    "$heed" quantize --model "${folder[$pair]}" --out "$work/$pair" >/dev/null
    "$heed" describe "$work/$pair" --source "$from" --target "$to" "${card[@]}" >/dev/null
    package=$work/packages/${from}_$to
    mkdir -p "$package"
    "$heed" export --format ctranslate2 --precision int8 --model "${folder[$pair]}" \
        --out "$package/model" >/dev/null
    cp "$work/$pair/tokenizer.model" "$package/sentencepiece.model"
    cat >"$package/metadata.json" <<END
{"package_version": "1.0", "argos_version": "1.9",
 "from_code": "$from", "from_name": "$(name "$from")",
 "to_code": "$to", "to_name": "$(name "$to")"}
END
done
"$python" bench/serve_race.py --heed "$heed" --work "$work" --text "$text" --beam "$beam" \
    --threads "${THREADS:-$(nproc)}" --requests "${REQUESTS:-640}" \
    --memory-requests "${MEMORY_REQUESTS:-10000}" ${MEASURE:+--measure $MEASURE} \
    --servers ${SERVERS:-heed waitress}

#!/usr/bin/env bash
# serve.sh — heed serve and LibreTranslate 1.9.6 with the same weights, on the same cores and texts.
#
#     bench/serve.sh EN-DE DE-EN TEXT [HEED]
#
# EN-DE, DE-EN: trained models, not rounded yet: both servers get them in int8. TEXT: English
# sentences, one a line, all different, 3,000 or more. Needs a Python (PYTHON, python3) with
# libretranslate==1.9.6 and gunicorn==23.0.0. BEAM (1): LibreTranslate's length penalty cannot be
# turned into ours, so beam 1 is a fair race; at 4 both search without one. Its sentence splitter
# wants models from the network: it is taken out, and every request is one sentence, which flatters
# it. SERVERS picks of "heed waitress gunicorn"; REQUESTS (640), MEMORY_REQUESTS (10000), THREADS
# (all CPUs) and MEASURE are those of bench/serve_race.py, which prints the table.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 3 ]; then echo "usage: bench/serve.sh EN-DE DE-EN TEXT [HEED]" >&2 && exit 2; fi
heed=${4:-build/heed} python=${PYTHON:-python3} beam=${BEAM:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare -A folder=([en-de]=$1 [de-en]=$2)
name() { case $1 in en) echo English ;; de) echo German ;; esac }
for pair in en-de de-en; do
    from=${pair%-*} to=${pair#*-}
    "$heed" quantize --model "${folder[$pair]}" --out "$work/$pair" >/dev/null
    "$heed" describe "$work/$pair" --source "$from" --target "$to" \
        --set "beam=$beam" --set alpha=0 >/dev/null
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
"$python" bench/serve_race.py --heed "$heed" --work "$work" --text "$3" --beam "$beam" \
    --threads "${THREADS:-$(nproc)}" --requests "${REQUESTS:-640}" \
    --memory-requests "${MEMORY_REQUESTS:-10000}" ${MEASURE:+--measure $MEASURE} \
    --servers ${SERVERS:-heed waitress gunicorn}

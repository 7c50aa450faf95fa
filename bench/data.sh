#!/usr/bin/env bash
# data.sh — what a vocabulary and a tokenised corpus cost: a JSON line per corpus and vocabulary,
# which bench/tables.py makes a table of.
#
#     bench/data.sh FOLDER...        with train.en and train.de, plain, .gz or .xz
#
# Each corpus with vocabularies, bpe and unigram, learnt as `heed vocab` does by default, and a bpe
# one of all its lines, where the default samples: processor seconds of learning, tokens that the
# corpus then has, and what `heed bench data` says of tokenising and batching it.
# HEED=build/heed  SIZE=8000 (pieces)
set -euo pipefail
heed=${HEED:-build/heed} size=${SIZE:-8000}
[ $# -gt 0 ] || { echo 'usage: bench/data.sh FOLDER...' >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

side() { # FOLDER LANGUAGE
    for file in "$1/train.$2" "$1/train.$2".gz "$1/train.$2".xz; do
        if [ -e "$file" ]; then echo "$file" && return; fi
    done
    echo "data.sh: $1 has no train.$2, plain, .gz or .xz" >&2
    return 1
}

measure() { # FOLDER TYPE LINES [options]
    local src tgt took TIMEFORMAT='%U %S'
    src=$(side "$1" en) tgt=$(side "$1" de)
    took=$({ time "$heed" vocab --input "$src" "$tgt" --type "$2" --size "$size" --quiet \
        --out "$work/pieces" "${@:4}"; } 2>&1) || { echo "$took" >&2 && return 1; }
    "$heed" bench data --json --src "$src" --tgt "$tgt" --tokenizer "$work/pieces" |
        awk -v corpus="$(basename "$1")" -v type="$2" -v size="$size" -v lines="$3" \
            -v took="$took" '
            { split(took, s, " ")
              head = sprintf("{\"corpus\":\"%s\",\"type\":\"%s\",\"size\":%d,", corpus, type, size)
              head = head sprintf("\"learnt_from\":\"%s\",", lines)
              head = head sprintf("\"learn_cpu_s\":%.2f,", s[1] + s[2])
              sub(/^\{/, head)
              print }'
}

for folder in "$@"; do
    row=$(measure "$folder" bpe default)
    echo "$row"
    pairs=${row#*'"pairs":'}
    if [ "${pairs%%,*}" -gt 200000 ]; then # lines are twice as many, the default takes 400,000
        measure "$folder" bpe 'all lines' --sample 1000000000
    fi
    measure "$folder" unigram default
done

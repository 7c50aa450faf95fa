#!/usr/bin/env bash
# 1-clean.sh — raw text to $WORK/clean/CORPUS.{en,de}: what is broken, in another language, of odd
# lengths, a near-duplicate, or found in a held-out set is dropped (docs/data.md). Minutes on a CPU.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"

# Whatever is measured on must not be trained on. align/ is looked for, too.
held_out=()
: "${DATA:?set DATA to the folder that has the corpora}"
for set in tatoeba msdocs europarl newstest; do
    for file in "$DATA/$set-en-de"/{valid,test}.{en,de}.xz; do
        if [ -e "$file" ]; then held_out+=("$file"); fi
    done
done
for file in "$DATA"/align/*.{en,de}; do
    if [ -e "$file" ]; then held_out+=("$file"); fi
done

mkdir -p "$WORK/clean"
for corpus in "${CORPORA[@]}"; do
    out=$WORK/clean/$corpus
    if [ -e "$out.json" ]; then say "$out.json is there" && continue; fi
    "$HEED" clean --src "$(raw "$corpus" train en)" --tgt "$(raw "$corpus" train de)" \
        --src-lang en --tgt-lang de --exclude "${held_out[@]}" \
        --out-src "$out.en" --out-tgt "$out.de" --rejects "$out.rejects" --json >"$out.json.part"
    mv "$out.json.part" "$out.json"
done

# What training is watched on: some of all three, never trained on.
join_valid() { # LANGUAGE FILE
    local corpus
    for corpus in "${CORPORA[@]}"; do unpack "$(raw "$corpus" valid "$1")"; done >"$2"
}
for language in en de; do make_file "$WORK/valid.$language" join_valid $language; done

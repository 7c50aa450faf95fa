#!/usr/bin/env bash
# data.sh — the texts of the paper's recipes: English to German, all training text there is.
#
#     DATA   folder with tatoeba-en-de, msdocs-en-de, europarl-en-de and newstest-en-de, each with
#            train.{en,de}.xz, valid.{en,de}.xz or test.{en,de}.xz
#     WORK   where they go, as WORK/data (local/paper)
#     PIECES of the vocabulary (24000)
#
# WMT 2014 is not to be had whole; Europarl, the kind of text that is 40 % of it, is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK=${WORK:-local/paper} HEED=${HEED:-build/heed}
: "${DATA:?the folder with the corpora}"
mkdir -p "$WORK/data"
for side in en de; do
    # xz files one after another are an xz file
    for corpus in tatoeba msdocs europarl; do cat "$DATA/$corpus-en-de/train.$side.xz"; done \
        >"$WORK/data/train.$side.xz.part"
    mv "$WORK/data/train.$side.xz.part" "$WORK/data/train.$side.xz"
    cp "$DATA/europarl-en-de/valid.$side.xz" "$WORK/data/valid.$side.xz"
    cp "$DATA/newstest-en-de/test.$side.xz" "$WORK/data/test.$side.xz"
done
if [ ! -e "$WORK/data/bpe.model" ]; then
    "$HEED" vocab --input "$WORK/data/train.en.xz" "$WORK/data/train.de.xz" \
        --size "${PIECES:-24000}" --out "$WORK/data/bpe.model"
fi

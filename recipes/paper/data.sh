#!/usr/bin/env bash
# data.sh — the texts of the paper's recipes: English to German, all training text there is.
#
#     DATA   folder with tatoeba-en-de, msdocs-en-de, europarl-en-de and newstest-en-de, with
#            train.{en,de}.xz, valid.{en,de}.xz and test.{en,de}.xz of those that are taken
#     SIZE   mixed: tatoeba, and every 24th pair of msdocs and europarl; validation and test texts
#            of all three. For many models of the paper's size: half an hour of a GPU is enough for
#            each to see its text several times, as the paper's see theirs.
#            small: every fifth pair of tatoeba's training text and every sixth of its test, for
#            models that a CPU trains: few enough for models to overfit, as the paper's base does
#     WORK   where they go, as WORK/data, or WORK/data-mixed, WORK/data-small (local/paper)
#     PIECES of the vocabulary (24000; mixed: 16000; small: 4000)
#
# WMT 2014 is not to be had whole; Europarl, the kind of text that is 40 % of it, is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK=${WORK:-local/paper} HEED=${HEED:-build/heed}
: "${DATA:?the folder with the corpora}"
to=$WORK/data${SIZE:+-$SIZE}
case ${SIZE:-} in
'') pieces=24000 ;;
mixed) pieces=16000 ;;
small) pieces=4000 ;;
*) echo "data.sh: there is no size '$SIZE': mixed or small" >&2 && exit 2 ;;
esac
mkdir -p "$to"

# made NAME COMMAND... — what it prints becomes that file
made() {
    local file=$to/$1
    shift
    "$@" >"$file.part"
    mv "$file.part" "$file"
}

# every N FILE — the first line of every N
every() { xz -dc "$2" | awk -v n="$1" 'NR % n == 1 % n'; }

# parts SET N N N — one line of every N of tatoeba, of msdocs and of europarl
parts() {
    every "$2" "$DATA/tatoeba-en-de/$1.xz"
    every "$3" "$DATA/msdocs-en-de/$1.xz"
    every "$4" "$DATA/europarl-en-de/$1.xz"
}

for side in en de; do
    case ${SIZE:-} in
    small)
        made "train.$side" every 5 "$DATA/tatoeba-en-de/train.$side.xz"
        made "valid.$side" xz -dc "$DATA/tatoeba-en-de/valid.$side.xz"
        made "test.$side" every 6 "$DATA/tatoeba-en-de/test.$side.xz"
        continue
        ;;
    mixed)
        made "train.$side" parts "train.$side" 1 24 24
        made "valid.$side" parts "valid.$side" 3 4 4
        made "test.$side" parts "test.$side" 12 2 3
        continue
        ;;
    esac
    # xz files one after another are an xz file
    made "train.$side.xz" cat "$DATA"/{tatoeba,msdocs,europarl}-en-de/"train.$side.xz"
    made "valid.$side.xz" cat "$DATA/europarl-en-de/valid.$side.xz"
    made "test.$side.xz" cat "$DATA/newstest-en-de/test.$side.xz"
done
if [ ! -e "$to/bpe.model" ]; then
    texts=("$to"/train.*)
    "$HEED" vocab --input "${texts[1]}" "${texts[0]}" --size "${PIECES:-$pieces}" \
        --out "$to/bpe.model"
fi

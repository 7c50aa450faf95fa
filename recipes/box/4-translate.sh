#!/usr/bin/env bash
# 4-translate.sh PAIR — the teacher, or all teachers of this direction as an ensemble, translates
# the whole corpus, line by line beside $WORK/clean: $WORK/translated.PAIR/CORPUS.LANGUAGE.xz. What
# the student of this direction learns from (sequence-level distillation), and what the teacher of
# the other one gets as back-translation.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/4-translate.sh en-de|de-en}
read -r from to <<<"$(both "$pair")"

mapfile -t models < <(teachers "$pair")
translate() { # CORPUS FILE
    "$HEED" translate --device "$DEVICE" "${models[@]}" --beam 4 --alpha 1 --max-length 256 \
        --output "$2" "$WORK/clean/$1.$from"
}
for corpus in "${CORPORA[@]}"; do
    file=$WORK/translated.$pair/$corpus.$to
    if [ -e "$file.xz" ]; then say "$file.xz is there" && continue; fi
    make_file "$file" translate "$corpus"
    squeeze "$file"
done

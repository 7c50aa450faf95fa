#!/usr/bin/env bash
# 4-translate.sh PAIR — the teacher, or all teachers of this direction as an ensemble, translates
# the whole corpus, line by line beside $WORK/clean: $WORK/translated.PAIR/CORPUS.LANGUAGE.xz. What
# the student of this direction learns from (sequence-level distillation), and what the teacher of
# the other one gets as back-translation.
#
# Of everyday sentences and documentation, where a student is furthest behind its teacher, it gets
# not the best translation by score but, of the best few, the one most like the corpus's own
# (closest.py).
#
# Everyday sentences are few, and a student sees them often: where the other direction's teachers
# have translated theirs, that text is a source of its own, again.SOURCE with its translation
# again.TARGET. Run this for one direction, for the other, and for the first once more.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/4-translate.sh en-de|de-en}
read -r from to <<<"$(both "$pair")"

mapfile -t models < <(teachers "$pair")
translate() { # TEXT FILE [OPTIONS]
    "$HEED" translate --device "$DEVICE" "${models[@]}" --beam 4 --alpha 1 --max-length 256 \
        --output "$2" "$1" "${@:3}"
}
best() { # CORPUS BEAM FILE: its best translations
    translate "$WORK/clean/$1.$from" "$3" --beam "$2" --nbest "$2"
}
there() { # NAME
    local file=$WORK/translated.$pair/$1.$to.xz
    if [ -e "$file" ]; then say "$file is there"; else false; fi
}
# Whatever needs only a processor goes on while the device translates the next text.
jobs=()
later() {
    "$@" &
    jobs+=($!)
}
choose() { # CORPUS NBEST: of the best translations the one most like the corpus's own
    local file=$WORK/translated.$pair/$1.$to
    make_file "$file" recipes/box/closest.py "$2" "$WORK/clean/$1.$to"
    squeeze "$file"
    rm "$2"
}
all() { # NAME TEXT
    if there "$1"; then return; fi
    make_file "$WORK/translated.$pair/$1.$to" translate "$2"
    later squeeze "$WORK/translated.$pair/$1.$to"
}
nearest() { # CORPUS BEAM
    local nbest=$WORK/translated.$pair/$1.nbest
    if there "$1"; then return; fi
    make_file "$nbest" best "$1" "$2"
    later choose "$1" "$nbest"
}
back=$WORK/translated.$(opposite "$pair")/tatoeba.$from.xz
again=$WORK/translated.$pair/again.$from
if [ -e "$back" ]; then
    make_file "$again" unpack_to "$back"
    all again "$again"
fi
nearest tatoeba 8
nearest msdocs 4
all europarl "$WORK/clean/europarl.$from"
for job in "${jobs[@]}"; do wait "$job"; done

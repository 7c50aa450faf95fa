#!/usr/bin/env bash
# 2-vocab.sh — the tokenizers: $WORK/teacher.model with 24,000 pieces, $WORK/student.model with fewer,
# so that a student's embeddings fit the box. Both are joint, spell unknown characters in bytes and
# numbers in digits, so that names, emoji and figures can be copied. Minutes on a CPU.
. "$(dirname "$0")/common.sh"

learn() { # SIZE FILE
    local text=() corpus
    for corpus in "${CORPORA[@]}"; do text+=("$WORK/clean/$corpus".{en,de}); done
    "$HEED" vocab --input "${text[@]}" --size "$1" --byte-fallback --split-digits --coverage 0.9999 \
        --symbols '<bt>' --out "$2"
}
make_file "$WORK/teacher.model" learn "${TEACHER_PIECES:-24000}"
make_file "$WORK/student.model" learn "${STUDENT_PIECES:-14000}"

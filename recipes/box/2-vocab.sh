#!/usr/bin/env bash
# 2-vocab.sh — the tokenizers: $WORK/teacher.model with 24,000 pieces, $WORK/student.model with
# fewer, so that a student's embeddings fit the box. Both are joint, spell unknown characters in
# bytes and numbers in digits, so that names, emoji and figures can be copied. The student's is
# learnt from noisy text besides: the corpora have no addresses, braces or emoji. Minutes on a CPU.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"

text=()
for corpus in "${CORPORA[@]}"; do text+=("$WORK/clean/$corpus".{en,de}); done

learn() { # SIZE FILE, and the texts of $text
    "$HEED" vocab --input "${text[@]}" --size "$1" --byte-fallback --split-digits \
        --coverage 0.9999 --symbols '<bt>' --out "$2"
}
make_file "$WORK/teacher.model" learn "${TEACHER_PIECES:-24000}"

if [ ! -e "$WORK/student.model" ]; then
    for corpus in "${CORPORA[@]}"; do
        recipes/box/noise.py --langs en,de --copies 0.3 "$WORK/clean/$corpus".{en,de} \
            "$WORK/noisy.$corpus".{en,de}
        text+=("$WORK/noisy.$corpus".{en,de})
    done
    make_file "$WORK/student.model" learn "${STUDENT_PIECES:-12288}"
    rm "$WORK"/noisy.*
fi

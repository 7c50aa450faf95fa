#!/bin/bash
# test_data.sh — text to batches through the command line: the report, the errors, and memory that
# does not grow with the corpus.
# timeout: 240
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
export TMPDIR=$dir

# lines N SEED — N sentences of 3 to 10 words
lines() {
    awk -v n="$1" -v seed="$2" 'BEGIN {
        for (i = 0; i < 2000; i++) { # the same words for every seed
            h = (i * 7919 + 13) % 104729
            for (w = ""; length(w) < 3 + i % 5; h = int(h * 1.7) + i)
                w = w sprintf("%c", 97 + h % 26)
            word[i] = w
        }
        srand(seed)
        for (i = 0; i < n; i++) {
            k = 3 + int(rand() * 8); s = ""
            for (j = 0; j < k; j++) s = s (j ? " " : "") word[int(rand() * 2000)]
            print s
        } }'
}
field() { sed -n "s/.*\"$1\":\\([0-9.]*\\).*/\\1/p"; }

lines 40000 1 >"$dir/s.src"
lines 40000 2 >"$dir/s.tgt"
for side in src tgt; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$dir/s.$side"; done >"$dir/l.$side"
done
"$heed" vocab --input "$dir/s.src" "$dir/s.tgt" --size 500 --out "$dir/v.model" --quiet
data() { "$heed" bench data --tokenizer "$dir/v.model" --step-ms 1 --threads 2 "$@"; }

out=$(data --src "$dir/s.src" --tgt "$dir/s.tgt")
case $out in *'40,000 pairs read, 40,000 kept'*prefetched*) ;; *) fail "report: $out" ;; esac
small=$(data --src "$dir/s.src" --tgt "$dir/s.tgt" --json | field peak_mb)
json=$(data --src "$dir/l.src" --tgt "$dir/l.tgt" --json)
large=$(field peak_mb <<<"$json")
echo "peak: $small MB with 40,000 pairs, $large MB with 400,000"
if ! sanitized; then # sanitizers count their own memory
    awk -v s="$small" -v l="$large" 'BEGIN { exit !(l < 1.1 * s) }' ||
        fail "memory grew from $small to $large MB"
fi
[ "$(field kept <<<"$json")" = 400000 ] || fail "pairs: $json"
compgen -G "$dir/heed-bench-*" >/dev/null && fail 'a temporary cache is left'

# The same error whichever file is longer, and compressed text is text.
gzip -k "$dir/s.src"
data --src "$dir/s.src.gz" --tgt "$dir/s.tgt" --json >/dev/null || fail 'gzip'
expect 1 's.src has 40000 lines' data --src "$dir/s.src" --tgt "$dir/l.tgt"
has 'l.tgt has 400000'
expect 2 'tokens: 9 is smaller than the longest sentence' data --src "$dir/s.src" \
    --tgt "$dir/s.tgt" --tokens 9
expect 2 '--tgt is missing' data --src "$dir/s.src"
: >"$dir/e"
expect 1 'are empty' data --src "$dir/e" --tgt "$dir/e"

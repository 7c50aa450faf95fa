#!/usr/bin/env bash
# test_vocab.sh — `heed vocab` as users meet it: options, messages, compressed input, standard
# input, bounded memory, a kill at any time, and a file that SentencePiece's own tools open.
# timeout: 180
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
verb=(vocab)

# Made-up sentences, the same every time: corpus LINES
corpus() {
    awk -v lines="$1" 'BEGIN {
        srand(1); n = split("ba ke lim to sur ne qua x fo ri dem ol", part, " ")
        for (i = 0; i < lines; i++) {
            s = ""
            for (w = 3 + int(8 * rand()); w > 0; w--) {
                for (p = 1 + int(3 * rand()); p > 0; p--) s = s part[1 + int(n * rand())]
                if (w > 1) s = s " "
            }
            print s
        }
    }'
}
corpus 2000 >"$dir/a.txt"
printf 'm\303\274de K\303\244fer\r\nm\303\274de\000 \377Tiere\n' >"$dir/b.txt"

# ---- options and messages
expect 0 '--byte-fallback' -- --help
expect 0 '--input FILE...' -- --help
expect 2 '--input is missing' -- --out "$dir/m"
expect 2 '--input needs at least one value' -- --input --out "$dir/m"
expect 2 '--out is missing' -- --input "$dir/a.txt"
expect 2 "type: 'bytes' is not one of unigram, bpe, word, char" -- --input "$dir/a.txt" \
    --out "$dir/m" --type bytes
expect 2 '--coverage: 0.5 is not between 0.98 and 1' -- --input "$dir/a.txt" --out "$dir/m" \
    --coverage 0.5
expect 2 "normalization: 'x'" -- --input "$dir/a.txt" --out "$dir/m" --normalization x
expect 2 'size: 8000 is more than this corpus allows' -- --input "$dir/a.txt" --out "$dir/m" \
    --type unigram --size 8000
expect 2 'size: 10 is too small, the characters of this corpus alone need' -- --input "$dir/a.txt" \
    --out "$dir/m" --size 10
expect 1 'none.txt: No such file' -- --input "$dir/a.txt" "$dir/none.txt" --out "$dir/m" --size 100
expect 1 'is a directory' -- --input "$dir" --out "$dir/m" --size 100
expect 1 'no text to learn from' -- --input /dev/null --out "$dir/m" --size 100 --type unigram
expect 1 "$dir/none: No such file" -- --input "$dir/a.txt" --out "$dir/none/m" --size 100
expect 2 'threads: 200 is not between 0 and 128' -- --input "$dir/a.txt" --out "$dir/m" --size 100 \
    --threads 200
[ ! -e "$dir/m" ] || fail 'a failure left a file'
cp "$dir/a.txt" "$dir/same"
ln -s same "$dir/link"
expect 2 'is an input, which would be replaced' -- --input "$dir/b.txt" "$dir/same" \
    --out "$dir/same" --size 100
expect 2 'is an input, which would be replaced' -- --input "$dir/same" --out "$dir/link" --size 100
"$heed" vocab --input - --out "$dir/same" --size 100 <"$dir/same" 2>/dev/null &&
    fail 'standard input was replaced'
cmp "$dir/a.txt" "$dir/same" || fail 'an input was replaced'

# ---- the report, lists of files in both spellings
expect 0 'read 2,002 lines' -- --input "$dir/a.txt" "$dir/b.txt" --size 100 --out "$dir/m"
expect 0 'replaced: 2' -- --input "$dir/a.txt" --size 100 --input="$dir/b.txt" --out "$dir/m2"
expect 0 '100 pieces, bpe' -- --input "$dir/a.txt" "$dir/b.txt" --out "$dir/m" --size 100
cmp "$dir/m" "$dir/m2" || fail 'the spelling of the options matters'
expect 0 '' -- --input "$dir/a.txt" --size 100 --out "$dir/m" --quiet
[ -z "$out" ] || fail "--quiet prints: $out"

# ---- compressed and piped text are the same text
gzip -kn "$dir/a.txt"
"$heed" vocab --quiet --input "$dir/a.txt.gz" --size 100 --out "$dir/gz"
cmp "$dir/m" "$dir/gz" || fail 'gzip differs'
xz -k "$dir/a.txt"
"$heed" vocab --quiet --input "$dir/a.txt.xz" --size 100 --out "$dir/xz"
cmp "$dir/m" "$dir/xz" || fail 'xz differs'
head -c 300 "$dir/a.txt.xz" >"$dir/cut.xz"
expect 1 'cut.xz: xz: the file is truncated' -- --input "$dir/cut.xz" --size 100 --out "$dir/m3"
"$heed" vocab --quiet --input - --size 100 --out "$dir/piped" <"$dir/a.txt"
cmp "$dir/m" "$dir/piped" || fail 'standard input differs'
head -c 300 "$dir/a.txt.gz" >"$dir/cut.gz"
expect 1 'cut.gz: gzip: the file is truncated' -- --input "$dir/cut.gz" --size 100 --out "$dir/m3"

# ---- the same again is the same file, another sample another one
"$heed" vocab --quiet --input "$dir/a.txt" --size 100 --out "$dir/again"
cmp "$dir/m" "$dir/again" || fail 'not reproducible'
"$heed" vocab --quiet --input "$dir/a.txt" --size 100 --sample 200 --seed 1 --out "$dir/s1"
"$heed" vocab --quiet --input "$dir/a.txt" --size 100 --sample 200 --seed 2 --out "$dir/s2"
differ "$dir/s1" "$dir/s2" 'the seed does not matter'

# ---- memory is bounded by the sample: ten times the text, less than 10 % more memory
if [ "${TEST_SLOW:-1}" != 0 ] && command -v python3 >/dev/null; then
    peak() { # KB
        python3 - "$heed" "$1" "$dir/big.model" <<'END'
import resource, subprocess, sys
subprocess.run([sys.argv[1], 'vocab', '--quiet', '--input', sys.argv[2], '--size', '200',
                '--sample', '20000', '--out', sys.argv[3]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
END
    }
    corpus 100000 >"$dir/small"
    for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$dir/small"; done >"$dir/large"
    small=$(peak "$dir/small") large=$(peak "$dir/large")
    [ "$(stat -c %s "$dir/large")" -gt 30000000 ] || fail 'the large corpus is not large'
    [ $((large * 10)) -lt $((small * 11)) ] ||
        fail "memory grows with the text: $small KB, $large KB"
    rm "$dir/small" "$dir/large" "$dir/big.model"
fi

# ---- a kill at any time leaves the old file or a new one
cp "$dir/m" "$dir/k.model"
for ms in 1 5 10 20 30 40 50 60 80 100; do
    "$heed" vocab --quiet --input "$dir/a.txt" --size 90 --out "$dir/k.model" &
    pid=$!
    sleep "0.$(printf %03d "$ms")"
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    cmp -s "$dir/k.model" "$dir/m" && continue
    "$heed" vocab --quiet --input "$dir/a.txt" --size 90 --out "$dir/fresh"
    cmp "$dir/k.model" "$dir/fresh" || fail "a kill after $ms ms left half a file"
    cp "$dir/m" "$dir/k.model"
done

# ---- SentencePiece's own module opens the file
if python3 -c 'import sentencepiece' 2>/dev/null; then
    for type in bpe unigram word char; do
        "$heed" vocab --quiet --input "$dir/a.txt" "$dir/b.txt" --size 60 --type "$type" \
            --out "$dir/$type"
        python3 - "$dir/$type" <<'END' || fail "$type is not what SentencePiece expects"
import sys, sentencepiece
p = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
assert (p.unk_id(), p.bos_id(), p.eos_id(), p.pad_id()) == (0, 1, 2, -1)
assert p.get_piece_size() <= 60
if not sys.argv[1].endswith('word'):
    assert p.decode(p.encode('bake limto sur')) == 'bake limto sur'
END
    done
else
    echo 'python3-sentencepiece is not installed: that part was left out'
fi

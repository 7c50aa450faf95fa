#!/bin/bash
# test_paper.sh — the recipes of the paper's tables and figures, at toy size: that they run, resume
# and report, not what comes out. `make paper-smoke` is this test alone.
# timeout: 240
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'every recipe trains; too slow in sanitizer builds'
pairs x 30 3

# ---- texts
give() { # NAME FOLDER SET — both sides, compressed
    mkdir -p "corpora/$2-en-de"
    xz -c "$1.src" >"corpora/$2-en-de/$3.en.xz"
    xz -c "$1.tgt" >"corpora/$2-en-de/$3.de.xz"
}
for corpus in tatoeba msdocs europarl; do give t "$corpus" train; done
give v europarl valid
give x newstest test
export WORK=$dir/work HEED=$heed
DATA=$dir/corpora PIECES=200 "$tree/recipes/paper/data.sh" >out 2>&1 || fail "data.sh: $(cat out)"
[ "$(xz -dc work/data/train.de.xz | wc -l)" = 1200 ] || fail "not all training text"

# ---- Table 3
export DATA=$dir/work/data REPORT=$dir/table3.md STEPS=20 TOKENS=500 SMOKE=1
"$tree/recipes/paper/table3.sh" --quiet >out 2>err || fail "table3.sh: $(tail -3 err; cat out)"
[ "$(grep -c '^| [A-E]-' table3.md)" = 18 ] || fail "not all rows: $(cat table3.md)"
if grep -q 'not run' table3.md; then fail "a row was not run: $(cat table3.md)"; fi
grep -qE '^\| C \| 8 \| -?[01]\.[0-9]+ ' table3.md || fail "no rank correlation: $(cat table3.md)"
"$tree/recipes/paper/table3.sh" --quiet >out 2>err || fail "the second time: $(cat err)"

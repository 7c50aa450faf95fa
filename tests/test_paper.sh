#!/bin/bash
# test_paper.sh — the recipes of the paper's tables and figures, at toy size: that they run, resume
# and report, not what comes out. `make paper-smoke` is this test alone.
# timeout: 600
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'every recipe trains; too slow in sanitizer builds'
pairs x 30 3

# ---- texts
give() { # NAME FOLDER SET TARGET — both sides, compressed
    mkdir -p "corpora/$2"
    xz -c "$1.src" >"corpora/$2/$3.en.xz"
    xz -c "$1.tgt" >"corpora/$2/$3.$4.xz"
}
for corpus in tatoeba msdocs europarl; do give t "$corpus-en-de" train de; done
give v europarl-en-de valid de
give x newstest-en-de test de
give x newstest-en-fr test fr
for corpus in multi30k:de tatoeba-en-fr:fr; do
    give t "${corpus%:*}" train "${corpus#*:}"
    give v "${corpus%:*}" valid "${corpus#*:}"
    give x "${corpus%:*}" test "${corpus#*:}"
done
peer=
if python3 -c 'import torch, sentencepiece' 2>/dev/null; then peer=1; fi
export WORK=$dir/work HEED=$heed
DATA=$dir/corpora PIECES=200 "$tree/recipes/paper/data.sh" >out 2>&1 || fail "data.sh: $(cat out)"
[ "$(xz -dc work/data/train.de.xz | wc -l)" = 1200 ] || fail "not all training text"

for corpus in tatoeba msdocs europarl; do
    give v "$corpus-en-de" valid de
    give x "$corpus-en-de" test de
done
SIZE=mixed DATA=$dir/corpora PIECES=200 "$tree/recipes/paper/data.sh" >out 2>&1 ||
    fail "data.sh, mixed: $(cat out)"
for corpus in tatoeba:1 msdocs:24 europarl:24; do
    xz -dc "corpora/${corpus%:*}-en-de/train.en.xz" | awk "(NR - 1) % ${corpus#*:} == 0"
done | cmp - work/data-mixed/train.en || fail "not all of tatoeba and every 24th of the others"
SIZE=small DATA=$dir/corpora PIECES=200 "$tree/recipes/paper/data.sh" >out 2>&1 ||
    fail "data.sh, small: $(cat out)"
xz -dc corpora/tatoeba-en-de/train.de.xz | awk 'NR % 5 == 1' | cmp - work/data-small/train.de ||
    fail "not every fifth line"

# ---- Table 1
export RESULTS=$dir/results REPORT=$dir/report SMOKE=1
"$tree/recipes/paper/table1.sh" cpu --n-max 128 --d 64 --n 128 --batch 8 --d-max 128 --seconds 1 \
    >out 2>err || fail "table1.sh: $(cat err out)"
for text in '^| recurrent .* 32 | 1.00 | O(n) | 8, 16, 32, 64 |$' \
    '^| convolutional .* 7, 15, 31, 63; dilated: 2, 3, 4, 4 |$' \
    '^| self-attention .* 1, 1, 1, 1 |$' '^| restricted .* 2, 4, 8, 16 |$' \
    '^    recipes/paper/table1.sh cpu --n-max 128 '; do
    grep -q "$text" report/README.md || fail "no '$text' in $(cat report/README.md)"
done
for svg in report/table1-cpu-n.svg report/table1-cpu-d.svg; do
    [ "$(tail -n 1 $svg)" = '</svg>' ] || fail "$svg is no picture"
    [ "$(grep -c '<circle' $svg)" -ge 45 ] || fail "$svg: not all points"
done

# ---- Table 2
table2() {
    DATA=$dir/corpora WORK=$dir/table2 STEPS=20 TOKENS=300 WARMUP=10 PIECES=200 CHOOSE=5 RATE=0.5 \
        BEAMS='1 2' ALPHAS='0.2 1.0' THREADS=1 PEER=$peer \
        "$tree/recipes/paper/table2.sh" multi30k.en-de/tiny tatoeba.en-fr/base >out 2>&1 ||
        fail "table2.sh: $(cat out)"
}
MINUTES=0 table2
grep -q 'time is up in table2-multi30k.en-de-tiny-20:' out || fail "a row without time: $(cat out)"
[ ! -e results/table2-multi30k.en-de-tiny-20.json ] || fail 'a row that was not run has a result'
table2
cp -r results first
table2
diff -r results first || fail "the second time there are other results"
python3 - "$tree/recipes/paper" <<'END' || fail "Table 2: $(cat results/table2-*)"
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import table2
base = table2.SHAPES["base"]  # by hand
assert table2.flops(base, 1, 0, 0, 0) == 6 * (6 * (4 * 512**2 + 2 * 512 * 2048) + 6 * 2 * 512**2)
assert table2.flops(base, 0, 1, 0, 0) == 6 * (6 * (6 * 512**2 + 2 * 512 * 2048) + 512 * 37000)
assert table2.flops(base, 0, 1, 7, 10) - table2.flops(base, 0, 1, 0, 0) == 6 * 6 * 1024 * 12
r = json.load(open("results/table2-tatoeba.en-fr-base-20.json"))
assert list(r["scores"]) == ["newstest", "tatoeba"] and len(r["grid"]) == 3
assert max(r["grid"], key=lambda x: x[2])[:2] == list(r["chosen"].values())
assert abs(r["flops_paper"] - r["seconds"] * 5e11) < 1 and 0 < r["flops"] < 1e10
END
rows=$(grep -cE '^\| (tiny|base) \| (heed|PyTorch), cpu \|' report/README.md) || fail 'no rows'
[ "$rows" = $((2 + 2 * ${peer:-0})) ] || fail "not all rows: $(cat report/README.md)"

# ---- Table 3
export DATA=$dir/work/data-mixed STEPS=20 TOKENS=500
page=report/README.md
"$tree/recipes/paper/table3.sh" --quiet >out 2>err || fail "table3.sh: $(tail -3 err; cat out)"
[ "$(grep -c '^| [A-E]-' $page)" = 18 ] || fail "not all rows: $(cat $page)"
if grep -q '| not run' $page; then fail "a row was not run: $(cat $page)"; fi
grep -qE '^\| C \| 8 \| -?[01]\.[0-9]+ ' $page || fail "no rank correlation: $(cat $page)"
[ "$(grep -c '<text.*: perplexity<' report/table3.svg)" = 5 ] || fail "not all groups are drawn"
grep -q '^!\[.*\](table3.svg)$' $page || fail "the curves are not shown"
# two rows for a CPU, with the time of their updates
SMOKE='' SIZE=small DATA=$dir/work/data-small STEPS=10 "$tree/recipes/paper/table3.sh" --quiet \
    --only base.1 --only C-N2 --only A-h1 >out 2>err ||
    fail "table3.sh, small: $(tail -3 err; cat out)"
SMOKE='' SIZE=small HEAD_WIDTH=paper NAME=table3-small-wide DATA=$dir/work/data-small STEPS=10 \
    "$tree/recipes/paper/table3.sh" --quiet --only base.1 --only A-h1 >out 2>err ||
    fail "table3.sh, wide heads: $(tail -3 err; cat out)"
grep -qE "^\| A-h1 \| 1 x 512 \| [+-][0-9.]+ \| [+-][0-9.]+ \| \+0\.37 \|" $page ||
    fail "no wide heads: $(cat $page)"
grep -q "^### A quarter of the paper.s width" $page || fail "no small table: $(cat $page)"
grep -qE '^\| C-N2 \| 0\.[0-9] M .* [0-9.]+ ms \|$' $page || fail "no time: $(cat $page)"
rm results/table3-small.json results/table3-small-wide.json
# again, as on a machine that has only what another one kept
gpu() { # PART
    DATA=$dir/corpora DEVICE=cpu TABLE3=STEPS=20 KEEP=$dir/keep.tar.gz ROWS=multi30k.en-de/tiny \
        TABLE2='STEPS=10 TOKENS=300 WARMUP=10 PIECES=200 CHOOSE=5 RATE=0.5 BEAMS=1 THREADS=1' \
        "$tree/recipes/paper/gpu.sh" "$1" >out 2>err
}
program() { # NAME — from stdin
    mkdir -p programs
    cat >"programs/$1"
    chmod +x "programs/$1"
}
gpu table3 || fail "gpu.sh: $(cat out err)"
cmp work/results/table3.json results/table3.json || fail "gpu.sh: another Table 3"
mv work/table3 table3
# a row of Table 2 that is trained, but not finished, when the machine goes
program heed <<END
#!/bin/sh
[ "\$1" != translate ] || exit 1
exec "$heed" "\$@"
END
if HEED=$dir/programs/heed gpu table2; then fail "without translations: $(cat out err)"; fi
[ -e work/table2/multi30k.en-de.tiny.10.run/model.safetensors ] ||
    fail "not trained: $(cat out err)"
rm -r work/results work/table2
# both beside each other; minutes fly, and what is finished cannot be kept the first time
program sleep <<END
#!/bin/sh
exec /bin/sleep 0.01
END
program python <<END
#!/bin/sh
[ "\$1" != - ] || ! mkdir "$dir/programs/once" 2>/dev/null || exit 1
exec python3 "\$@"
END
PATH=$dir/programs:$PATH PYTHON=$dir/programs/python gpu table3+table2 ||
    fail "gpu.sh, the second time: $(cat out err)"
grep -q 'gpu.sh: not saved this time' err || fail "it was saved: $(cat out err)"
cmp work/results/table3.json results/table3.json || fail "gpu.sh, the second time: another Table 3"
[ -s work/table3/base.1/log.jsonl ] || fail "no logs in what was kept: $(tar -tzf keep.tar.gz)"
[ ! -e work/table3/base.1/model.safetensors ] || fail "a finished row was run again"
program bench <<END
#!/bin/sh
echo '{"cpu_ms_per_step": 1}'
END
python3 "$tree/recipes/paper/table3.py" result work/table3.json work/table3/results.json \
    --size smoke --heed programs/bench --command '' >/dev/null ||
    fail 'kept rows cannot be measured'
tar -tzf keep.tar.gz >kept
grep -q '^results/table2-multi30k.en-de-tiny-10.json$' kept ||
    fail "no Table 2 in what was kept: $(cat kept)"
# what PyTorch's row needs of heed's
grep -q '^table2/multi30k.en-de.tiny.10.run/config.json$' kept || fail "no shape: $(cat kept)"
[ "$(python3 "$tree/recipes/paper/table2.py" chosen work/results/table2-*.json)" = '1 0.2' ] ||
    fail "beam and alpha of $(cat work/results/table2-*.json)"
echo >>work/results/table3.json # since it was last saved, and the machine is still there
MINUTES=0 gpu table3 || fail "gpu.sh without time: $(cat out err)"
[ ! -s err ] || fail "gpu.sh without time: $(cat err)"
[ "$(tail -n 1 work/results/table3.json)" = '' ] || fail 'an older result in place of a newer one'
rm -r work/table3
mv table3 work

# ---- Figures 3 to 5
cat >trees <<'TREES'
(S (NP (DT ba) (NN dodo)) (VP (VBD kili) (NP (PRP$ ba) (NN mumo) (NN repo) (NN tusi))) (. .))
(S (NP (NN lada)) (VP (VBZ gila) (NP (NN dodo) (NN mumo) (NN repo) (NN tusi) (NN kili))) (. .))
TREES
MODEL=$dir/work/table3/base.1 TREES=$dir/trees "$tree/recipes/paper/figures.sh" \
    --threads 1 >out 2>&1 || fail "figures.sh: $(cat out)"
grep -q '^All heads of base.1 over 42 sentences' $page || fail "no figures: $(cat $page)"
[ -s report/figure-structure-1.svg ] || fail "no picture: $(ls report)"

# ---- questions
unset DATA
for i in first second; do
    SIZE=smoke DEVICE=cpu "$tree/recipes/paper/questions.sh" >out 2>&1 ||
        fail "questions.sh, the $i time: $(cat out)"
done
[ "$(grep -c '^!\[.*](question-.*\.svg)$' report/questions.md)" = 10 ] ||
    fail "not all questions have pictures: $(cat report/questions.md)"
if grep -q 'Not run' report/questions.md; then fail "$(cat report/questions.md)"; fi

# ---- Table 4
mkdir -p treebanks/craft-treebank treebanks/gum
some() { xz -dc "$tree/tests/data/parseval/ref.tree.xz" | awk 'length < 700' | sed -n "$1p" | xz; }
some 1,150 >treebanks/craft-treebank/train.tree.xz
some 151,165 >treebanks/craft-treebank/valid.tree.xz
some 166,180 >treebanks/craft-treebank/test.tree.xz
some 181,195 >treebanks/gum/test.tree.xz
for _ in 1 2 3 4 5; do
    echo "It's small (I don't see it), and the half-full cup isn't."
done >more.txt
smoke() {
    DATA=$dir/treebanks TEXT=$dir/more.txt WORK=$dir/parsing PEER=$peer FREE=1 \
        LAYERS=1 D_MODEL=16 D_FF=16 HEADS=2 PIECES=400 STEPS=10 TOKENS=400 EVERY=2 EXTRA=30 \
        "$tree/recipes/paper/parsing.sh" --threads 1 >out 2>&1 || fail "parsing.sh: $(cat out)"
}
smoke
cp results/parsing.json first.json
smoke
cmp results/parsing.json first.json || fail "the second time there is another result"
python3 - <<'END' || fail "not every parser, or not only trees: $(cat results/parsing.json)"
import json
runs = {r["name"]: r for r in json.load(open("results/parsing.json"))["runs"]}
assert {"heed", "semi"} <= set(runs)
for name in "heed", "semi":
    assert [s["repaired"] for s in runs[name]["sets"].values()] == [0, 0, 0]
    assert [s["sentences"] for s in runs[name]["sets"].values()] == [15, 15, 15]
free = runs["free"]  # which has learnt next to nothing
assert sum(s["repaired"] for s in free["sets"].values()) > 0
assert free["parameters"] == runs["heed"]["parameters"]
END
grep -q '^| heed, CRAFT and trees of its own ' $page || fail "no parser in the report: $(cat $page)"

# ---- the report: what is committed is what the committed results give
report=$tree/recipes/paper/report.py
"$report" --check || fail "docs/paper is not what its results give: run recipes/paper/report.py"
"$report" --check --results results --out report || fail "the report was not written"
for svg in $(sed -n 's/^!\[.*](\(.*\.svg\))$/\1/p' "$tree"/docs/paper/*.md); do
    [ -s "$tree/docs/paper/$svg" ] || fail "the report shows $svg, which is not there"
done
echo >>$page
if "$report" --check --results results --out report 2>err; then fail "a changed page passes"; fi
grep -q README.md err || fail "no page is named: $(cat err)"

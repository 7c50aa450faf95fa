#!/bin/bash
# test_sweep.sh — `heed sweep`: a table of runs is trained, tested and compared; stopped and started
# again it goes on, and gives what an uninterrupted one gives; a row that fails leaves the others
# alone; one clear error for each mistake.
# timeout: 240
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'rows are processes of their own; tables take too long in sanitizer builds'
pairs x 20 3

table() { # OUT STEPS ROWS — a file
    cat <<END
{"out": "$1", "average": 2, "translate": {"beam": 2},
 "train": {"src": ["t.src"], "tgt": ["t.tgt"], "valid_src": "v.src", "valid_tgt": "v.tgt",
  "preset": "tiny", "n_layer": 1, "d_model": 32, "n_head": 2, "d_ff": 64, "vocab_size": 200,
  "tokens": 400, "max_length": 40, "threads": 1, "warmup": 50, "steps": $2, "save_every": 20,
  "valid_every": 20, "log_every": 10, "cache": "cache"},
 "tests": [{"name": "held-out", "src": "x.src", "ref": "x.tgt"}],
 "rows": [$3]}
END
}
rows='{"name": "base", "seeds": [1, 2]}, {"name": "h1", "group": "A", "train": {"n_head": 1}}'
table one 200 "$rows" >one.json

# ---- what a table gives
"$heed" sweep one.json --dry-run >out || fail "a good file was refused"
[ "$(grep -c 'not run' out)" = 3 ] || fail "not three rows: $(cat out)"
"$heed" sweep one.json >out 2>err || fail "the sweep failed: $(cat err)"
for row in base.1 base.2 h1; do
    grep -qE "^$row +[0-9,]+ +200 +[0-9.]+ +[0-9:]+ +[0-9.]+$" out || fail "no row $row: $(cat out)"
    [ -d "one/$row.average" ] || fail "$row was not averaged"
done
cp one/results.json first.json
"$heed" sweep one.json --json >again 2>err
cmp -s one/results.json first.json || fail "finished rows were run again"
python3 - again <<'END' || fail "results.json: $(cat again)"
import json, sys
rows = {r["name"]: r for r in json.load(open(sys.argv[1]))}
assert set(rows) == {"base.1", "base.2", "h1"}
assert rows["h1"]["group"] == "A" and rows["h1"]["train"]["n_head"] == 1
assert rows["base.2"]["train"]["seed"] == 2 and rows["base.2"]["train"]["n_head"] == 2
for r in rows.values():
    assert r["steps"] == 200 and r["parameters"] > 10000 and r["valid_ppl"] > 1
    assert "BLEU" in r["scores"]["held-out"] and "chrF2" in r["scores"]["held-out"]
assert rows["base.1"]["valid_ppl"] != rows["base.2"]["valid_ppl"]
END

# ---- what is said of a row before it has figures of its own: those of its log, whatever they are
table wild 20 '{"name": "base"}' >wild.json
mkdir -p wild/base
for loss in '"loss":1e300,"nll":1e300' '"valid_loss":1e300,"valid_nll":1e300,"valid_ppl":1e300'; do
    echo "{\"step\":5,\"epoch\":0,$loss,\"ppl\":1e300,\"lr\":1,\"tok_s\":1,\"time\":1}"
done >wild/base/log.jsonl
"$heed" sweep wild.json >out 2>err || fail "a wild log: $(cat err)"
if grep -q ' step 5 ' err && ! grep -q ' loss 1[0-9]* valid ppl 1[0-9]* time' err; then
    fail "figures of a wild log: $(cat err)"
fi

# ---- stopped and started again: the same figures
table two 200 "$rows" >two.json
for row in base.1 base.2 h1; do # each as soon as it is training
    "$heed" sweep two.json >/dev/null 2>&1 &
    until [ -s "two/$row/log.jsonl" ]; do sleep 0.01; done
    kill "$!"
    wait "$!" && fail "$row was finished before it was stopped"
    # not by pgrep, which small machines lack; the brackets keep grep from finding itself
    if grep -qsz '^[t]wo/.*[.]json$' /proc/[0-9]*/cmdline; then fail "a run outlived its sweep"; fi
done
"$heed" sweep two.json >out2 2>err || fail "the sweep failed: $(cat err)"
figures() { python3 -c 'import json, sys
for r in json.load(open(sys.argv[1])):
    print(r["name"], r["steps"], r["valid_ppl"], r["scores"])' "$1"; }
figures one/results.json | sort >one.figures
figures two/results.json | sort >two.figures
cmp one.figures two.figures || fail "an interrupted sweep gave other figures"

# ---- two at a time, a row that fails, and one row alone
table three 20 '{"name": "good"}, {"name": "bad", "train": {"n_head": 7}}, {"name": "other"}' \
    >three.json
if "$heed" sweep three.json --device cpu --device cpu >out 2>err; then
    fail "a failed row went unnoticed"
fi
grep -q '1 of 3 rows failed' err || fail "no word about the failure: $(cat err)"
grep -qE '^bad +failed: .*(7|n_head|heads)' out || fail "no reason: $(cat out)"
[ "$(grep -c ' 20 ' out)" = 2 ] || fail "the others did not run: $(cat out)"
table four 20 "$rows" >four.json
"$heed" sweep four.json --only h1 --quiet >out || fail "--only failed"
[ -n "$(steps four/h1)" ] || fail "checkpoints went without being asked to"
sed 's/"average": 2/"average": 2, "tidy": true/; s/"four"/"tidy"/' four.json >tidy.json
"$heed" sweep tidy.json --only h1 --quiet >tidied || fail "a tidy sweep failed"
[ -z "$(steps tidy/h1)" ] || fail "checkpoints stayed: $(ls tidy/h1)"
for model in tidy/h1 tidy/h1.average; do
    [ -s $model/model.safetensors ] || fail "more than checkpoints went: $(ls $model)"
done
[ "$(wc -l <out)" = 2 ] || fail "--only h1 ran more: $(cat out)"

# ---- mistakes
refuses() { # WHAT MESSAGE FILE [OPTION...]
    local what=$1 message=$2
    shift 2
    if "$heed" sweep "$@" >out 2>err; then fail "$what was accepted"; fi
    grep -qF -- "$message" err || fail "$what: '$(cat err)' has no '$message'"
}
sed 's/"steps": 200/"steps": 201/' one.json >bad.json
refuses 'a result of other options' "row 'base.1' has a result of other options" bad.json
table five 20 '{"name": "a", "train": {"n_haed": 1}}' >bad.json
refuses 'an unknown option' "bad.json: a: heed train has no option 'n_haed'" bad.json
table five 20 '{"name": "a", "train": {"out": "x"}}' >bad.json
refuses 'an option of its own' "'out' is set by heed sweep" bad.json
table five 20 '{"name": "../a"}' >bad.json
refuses 'a path for a name' "'../a' cannot be a file's name" bad.json
table five 20 '{"name": "a"}, {"name": "a"}' >bad.json
refuses 'two rows of a name' "two rows are called 'a'" bad.json
table five 20 '{"name": "a"}' | sed 's/x.ref/none/; s/x.src/none.src/' >bad.json
refuses 'a test without a file' "there is no file 'none.src'" bad.json
refuses 'an unknown row' "--only: there is no row 'zz'" one.json --only zz
[ ! -e five ] || fail "a refused table left something behind"

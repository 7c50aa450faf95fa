#!/usr/bin/env bash
# test_tables.sh — the tables of README.md and docs/benchmarks.md are those that the figures in
# bench/results give, and a new figure finds its way into both.
# timeout: 300
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
command -v python3 >/dev/null || skip 'python3 is not installed'
export PYTHONDONTWRITEBYTECODE=1

"$tree/bench/tables.py" --check || fail 'tables and results differ: run bench/tables.py'

# ---- a copy, to change
mkdir -p "$dir/docs" "$dir/bench"
cp "$tree/README.md" "$dir/"
cp "$tree/docs/benchmarks.md" "$dir/docs/"
cp -r "$tree/bench/results" "$dir/bench/"
tables=("$tree/bench/tables.py" --root "$dir")
"${tables[@]}" --check || fail 'the copy differs'
sed -i 's/\("dtype": "bf16", .*"tgt_tokens_per_s": \)[0-9.]*/\112345/' \
    "$dir/bench/results/zen4.json"
expect 1 'README.md is not what bench/results gives' "${tables[@]}" --check
"${tables[@]}"
"${tables[@]}" --check || fail 'writing the tables does not make them right'
for page in README.md docs/benchmarks.md; do
    grep -q '12,345' "$dir/$page" || fail "$page does not have the new figure"
done
sed -i 's/12,345/12,346/' "$dir/docs/benchmarks.md"
expect 1 'docs/benchmarks.md is not what' "${tables[@]}" --check

# ---- what was measured elsewhere, and what a table's command prints here
rows() { # SENTENCES
    echo 'not a row'
    echo "{\"what\": \"sentences\", \"n\": $1, \"ms\": 1.5, \"us_per_token\": 2.5}"
    for n in 1024 8192; do
        printf '{"what": "length", "n": %d, "fwd_ms": 1, "bwd_ms": 2, "kb_per_token": 5, ' $n
        echo '"fwd_ns_per_pair": 3, "bwd_ns_per_pair": 4}'
    done
}
rows 7 | "${tables[@]}" --record zen4 scale
grep -qx '| 7 | 1.5 | 2.5 |' "$dir/docs/benchmarks.md" || fail 'not recorded'
grep -q 'over 8,192 tokens | 5.0 KiB' "$dir/README.md" || fail 'README.md is of other rows'
expect 1 'no JSON lines' "${tables[@]}" --record zen4 scale
rows 9 >"$dir/printed"
python3 - "$dir" <<'END'
import json, sys

path = sys.argv[1] + "/bench/results/zen4.json"
machine = json.load(open(path))
machine["tables"]["scale"] |= {"command": f"cat {sys.argv[1]}/printed", "note": "Old."}
json.dump(machine, open(path, "w"))
END
"${tables[@]}" --run zen4 scale >/dev/null
grep -qx '| 9 | 1.5 | 2.5 |' "$dir/docs/benchmarks.md" || fail 'not measured'
absent 'Old\.' "$dir/docs/benchmarks.md"

# ---- a command that makes rows
mkdir "$dir/few"
for language in en de; do
    xz -dc "$tree/demo/train.$language.xz" | sed -n 1,3000p >"$dir/few/train.$language"
done
export HEED=$heed SIZE=500
"$tree/bench/data.sh" "$dir/few" >"$dir/printed" || fail 'bench/data.sh'
"${tables[@]}" --record zen4 data <"$dir/printed"
for type in bpe unigram; do
    grep -q "^| few | 3,000 | 500 $type | [0-9.]* | [0-9,]* | [0-9,]* | [0-9,]* |\$" \
        "$dir/docs/benchmarks.md" || fail "no row of $type: $(cat "$dir/printed")"
done
expect 1 'has no train.en' "$tree/bench/data.sh" "$dir"

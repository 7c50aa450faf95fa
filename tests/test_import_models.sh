#!/usr/bin/env bash
# test_import_models.sh — small models of other engines become ours and compute what they did:
# every NAME.tsv of tests/data/import, which tools/import_models.py wrote.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$dir"
longest=8 # tools/import_models.py: LONGEST

# check NAME DTYPE TOLERANCE OPTION... — imports the model, and compares
check() {
    local name=$1 dtype=$2 tolerance=$3 from found=0
    shift 3
    for from in "$tree/tests/data/import/$name" "$tree/tests/data/import/$name".[a-z]*; do
        case $from in *.tsv) continue ;; esac
        [ ! -e "$from" ] || { found=1 && break; }
    done
    [ $found = 1 ] || fail "$name: no model beside $name.tsv"
    rm -rf model
    expect 0 '' -- import "$from" --out model --dtype "$dtype"
    "$heed" score --model model --src src --tgt tgt --token-scores --threads 2 --quiet "$@" \
        >scores 2>log || fail "$name: score: $(cat log)"
    [ "$(wc -l <scores)" = "$(wc -l <src)" ] || fail "$name: not a score for each pair"
    paste scores want | awk -F '\t' -v most="$tolerance" -v name="$name as $dtype" '{
        n = split($2, got, " ")
        if (n != split($3, want, " ") || !n) { print name ": " NR ": " n " tokens: " $0; bad = 1 }
        for (i = 1; i <= n; i++) {
            d = got[i] - want[i]; if (d < 0) d = -d
            if (!(d <= most)) { print name ": " NR ", " i ": " got[i] ", not " want[i]; bad = 1 }
            if (d > worst) worst = d
        } } END { if (!bad) print name ": within " worst + 0; exit bad }' ||
        fail "$name: other numbers"
    # Rounded weights may choose other words; these must be the very ones.
    if awk -v t="$tolerance" 'BEGIN { exit !(t < 0.05) }'; then
        # A language that is forced to stand first is a token more.
        "$heed" translate --model model --beam 1 --max-extra 100 --quiet \
            --max-length $((longest + $(grep -c before_target model/config.json))) \
            "$@" <src >out 2>log || fail "$name: translate: $(cat log)"
        diff out greedy || fail "$name as $dtype: another translation"
    fi
}

n=0
for file in "$tree"/tests/data/import/*.tsv; do
    name=$(basename "$file" .tsv)
    read -ra options <<<"$(sed -n 's/^# options //p' "$file")"
    while read -r dtype tolerance which; do
        awk -F '\t' -v at="${which:+5}" '!/^#/ { print $1 >"src"; print $2 >"tgt"
            if (!at) at = 3
            print $at >"want"; print $(at + 1) >"greedy" }' "$file"
        check "$name" "$dtype" "$tolerance" "${options[@]}"
        n=$((n + 1))
    done < <(sed -n 's/^# run //p' "$file")
done
[ "$n" -ge 20 ] || fail "only $n models"
note "$n imports compute what their engines did"

#!/bin/bash
# test_eval.sh — `heed eval`: every score that sacreBLEU computed for tests/data/eval
# (tools/eval_oracle.py), to the last printed character; resampling; files of all kinds; one clear
# error for each mistake.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
verb=(eval)

# ---- sacreBLEU's numbers and signatures
cd "$tree/tests/data/eval"
n=0
while IFS=$'\t' read -r args refs want; do
    # shellcheck disable=SC2086 # options and files are words
    got=$("$heed" eval $args --hyp hyp.txt --ref $refs)
    case $args in
    *--sentence*) got=$(echo "$got" | paste -sd ' ') ;;
    *) got=$(echo "$got" | sed 's/|version:heed-[0-9.]* = / = /') ;;
    esac
    [ "$got" = "$want" ] || fail "$args --ref $refs: got '$got', want '$want'"
    n=$((n + 1))
done <expected.tsv
[ "$n" -ge 90 ] || fail "only $n expected values"

# ---- resampling: sacreBLEU draws otherwise, so means, intervals and p-values agree but for chance
"$heed" eval --hyp hyp.txt hyp_other.txt --ref ref0.txt --paired --samples 20000 --width 6 \
    --json >"$dir/paired"
[ "$(wc -l <"$dir/paired")" = 4 ] || fail "not four results: $(cat "$dir/paired")"
field() { # FILE METRIC SYSTEM KEY
    grep "\"name\":\"$2\"" "$1" | grep "\"system\":\"$3\"" |
        sed -n "s/.*\"$4\":\([0-9.e-]*\).*/\1/p"
}
near() { awk -v a="$1" -v b="$2" -v t="$3" \
    'BEGIN { exit !(a != "" && a - b <= t && b - a <= t) }'; }
while IFS=$'\t' read -r metric system score mean half p; do
    near "$(field "$dir/paired" "$metric" "$system" score)" "$score" 0.000001 ||
        fail "$metric $system: score"
    near "$(field "$dir/paired" "$metric" "$system" confidence_mean)" "$mean" 0.2 ||
        fail "$metric $system: mean"
    near "$(field "$dir/paired" "$metric" "$system" confidence_var)" "$half" 0.3 ||
        fail "$metric $system: interval"
    case $p in
    -*) [ -z "$(field "$dir/paired" "$metric" "$system" p_value)" ] ||
        fail 'the first system has a p-value' ;;
    *) near "$(field "$dir/paired" "$metric" "$system" p_value)" "$p" 0.02 ||
        fail "$metric $system: p" ;;
    esac
done <resampled.tsv
"$heed" eval --hyp hyp.txt --ref ref0.txt --confidence --threads 1 >"$dir/one"
"$heed" eval --hyp hyp.txt --ref ref0.txt --confidence --threads 3 >"$dir/three"
cmp "$dir/one" "$dir/three" || fail 'threads change the result'
grep -q 'nrefs:1|bs:1000|seed:12345|rng:philox|case:mixed' "$dir/one" ||
    fail "signature: $(cat "$dir/one")"
grep -q ' (μ = [0-9.]* ± [0-9.]*) [0-9.]*/' "$dir/one" || fail "no interval: $(cat "$dir/one")"
"$heed" eval --hyp hyp.txt --ref ref0.txt --confidence --seed 7 --width 6 >"$dir/seven"
"$heed" eval --hyp hyp.txt --ref ref0.txt --confidence --seed 8 --width 6 |
    sed 's/seed:8/seed:7/' >"$dir/eight"
differ "$dir/seven" "$dir/eight" 'the seed does not matter'
"$heed" eval --hyp hyp.txt ref0.txt --ref ref0.txt --paired >"$dir/table"
grep -q '^ref0.txt  *100.0 (100.0 ± 0.0) (p = 0.00[0-9]*)\*' "$dir/table" ||
    fail "table: $(cat "$dir/table")"
# No difference is never exceeded: the smallest p there is, 1 / (samples + 1), as sacreBLEU has it.
expect 0 'p = 0.0010' -- --hyp hyp.txt hyp.txt --ref ref0.txt --paired --metric bleu

# ---- the ways in and out
want=$("$heed" eval --hyp hyp.txt --ref ref0.txt)
[ "$("$heed" eval --ref ref0.txt <hyp.txt)" = "$want" ] || fail 'standard input differs'
gzip -c hyp.txt >"$dir/hyp.gz"
[ "$("$heed" eval --ref ref0.txt --hyp "$dir/hyp.gz")" = "$want" ] || fail 'gzip differs'
xz -c ref0.txt >"$dir/ref.xz"
[ "$("$heed" eval --ref "$dir/ref.xz" --hyp hyp.txt)" = "$want" ] || fail 'xz differs'
sed 's/$/\r/' hyp.txt >"$dir/crlf"
[ "$("$heed" eval --ref ref0.txt --hyp "$dir/crlf")" = "$want" ] || fail 'CR LF differs'
expect 0 'BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-' -- --ref ref0.txt \
    --hyp hyp.txt
expect 0 'chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:heed-' -- --ref ref0.txt \
    --hyp hyp.txt
expect 0 '= 100.0 100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000' -- --ref ref0.txt \
    --hyp ref0.txt
[ "$("$heed" eval --ref ref0.txt --hyp ref0.txt --score-only | paste -sd ' ')" = '100.0 100.0' ] ||
    fail 'score-only'
[ "$("$heed" eval --ref ref0.txt --hyp hyp.txt --sentence | wc -l)" = "$(wc -l <hyp.txt)" ] ||
    fail 'sentences'
[ "$("$heed" eval --ref ref0.txt --hyp hyp.txt --sentence --json | grep -c '"line":30')" = 2 ] ||
    fail 'sentence JSON'
expect 0 'hyp_other.txt  ' -- --ref ref0.txt --hyp hyp.txt hyp_other.txt

# ---- mistakes
expect 2 '--ref is missing' -- --hyp hyp.txt
expect 2 'standard input can be read once' -- --ref -
expect 2 "--metric: 'ter' is not one of bleu, chrf, chrf++" -- --ref ref0.txt --hyp hyp.txt \
    --metric bleu,ter
expect 2 'BLEU is given twice' -- --ref ref0.txt --hyp hyp.txt --metric bleu,bleu
expect 2 "--tokenize: 'zh' is not one of 13a, intl, char, none" -- --ref ref0.txt --hyp hyp.txt \
    --tokenize zh
expect 2 "--smooth: 'x' is not one of exp, floor, add-k, none" -- --ref ref0.txt --hyp hyp.txt \
    --smooth x
expect 2 '--smooth exp does not use one' -- --ref ref0.txt --hyp hyp.txt --smooth-value 1
expect 2 "--smooth-value: -1 is not between 0 and 1,000,000" -- --ref ref0.txt --hyp hyp.txt \
    --smooth floor --smooth-value=-1
expect 2 '--paired: needs two' -- --ref ref0.txt --hyp hyp.txt --paired
expect 2 '--sentence: takes only one' -- --ref ref0.txt --hyp hyp.txt hyp_other.txt --sentence
expect 2 'cannot be resampled' -- --ref ref0.txt --hyp hyp.txt --sentence --confidence
expect 1 'no-such' -- --ref no-such --hyp hyp.txt
head -n 7 hyp.txt >"$dir/short"
expect 1 'short has 7 lines, ref0.txt has 30' -- --ref ref0.txt --hyp "$dir/short"
expect 1 'hyp.txt has 30 lines, ' -- --ref ref0.txt "$dir/short" --hyp hyp.txt
expect 1 'standard input has 0 lines, ref0.txt has 30' -- --ref ref0.txt
: >"$dir/empty"
expect 1 'empty: has no lines' -- --ref "$dir/empty" --hyp "$dir/empty"
printf 'good\nb\377d \303\n' >"$dir/bad"
printf 'good\nb\357\277\275d \357\277\275\n' >"$dir/repaired"
expect 0 'bad: bad UTF-8 sequences and NUL bytes replaced: 2' -- --ref "$dir/bad" \
    --hyp "$dir/repaired"
expect 0 '= 100.0 ' -- --ref "$dir/bad" --hyp "$dir/repaired" --metric bleu --effective-order
head -c 70000 /dev/zero | tr '\0' x >"$dir/long"
expect 1 'long: line 1 is longer than 65,536 bytes' -- --ref "$dir/long" --hyp "$dir/long"
printf '\n\n' >"$dir/blank"
expect 0 '= 0.0 0.0/0.0/0.0/0.0 (BP = 1.000 ratio = 0.000 hyp_len = 0 ref_len = 0)' -- \
    --ref "$dir/blank" --hyp "$dir/blank"

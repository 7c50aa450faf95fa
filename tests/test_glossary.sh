#!/usr/bin/env bash
# test_glossary.sh — heed translate --glossary: terms are there, once per occurrence, and lines
# without any are as they were.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
train run --steps 150 --save-every 50 --quiet || fail 'no model'
"$heed" quantize --model run --out model >/dev/null
t() { "$heed" translate --model model --threads 1 --quiet "$@"; }
verb=(translate --model model --threads 1)

# The most frequent word of the text becomes another; so does a pair of words.
word=$(tr ' ' '\n' <v.src | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
pair=$(sed -n 5p v.src | cut -d ' ' -f 2,3)
cat >terms <<END
# terms for a test
$word	kuku mimi
$pair	lolo
END
t v.src >plain
t --glossary terms v.src >got
paste -d '\t' v.src plain got | awk -F '\t' -v word="$word" -v pair="$pair" '
    function count(text, what) { return gsub(" " what " ", "&&", text) }
    {
        text = " " $1 " "; gsub(" ", "  ", text) # words may be neighbours
        out = " " $3 " "; gsub(" ", "  ", out)
        n = gsub("  ?" word " ", "&", text)
        one = (" " $1 " ") ~ (" " pair " ")
        if (n == 0 && !one && $2 != $3) { print "changed: " $0; exit 1 }
        if (gsub("(^| )[Kk]uku +mimi ", "&", out) < n) { print "lacks it: " $0; exit 1 }
        if (one && out !~ /[Ll]olo/) { print "lacks the pair: " $0; exit 1 }
        with += n + one
    }
    END { if (with < 2) { print "no terms"; exit 1 } }' || fail 'terms'
differ plain got 'no term changed anything'
for how in '--threads 2' '--batch-sentences 1' '--look-ahead 7' '--format text'; do
    # shellcheck disable=SC2086 # two words
    t --glossary terms $how v.src | cmp - got || fail "$how"
done
t --glossary terms --beam 1 v.src >greedy
[ "$(grep -ci 'kuku mimi' greedy)" = "$(grep -ci 'kuku mimi' got)" ] || fail 'with a beam of 1'
t --model model --glossary terms v.src >ensemble
[ "$(grep -ci 'kuku mimi' ensemble)" = "$(grep -ci 'kuku mimi' got)" ] || fail 'of an ensemble'
out=$(printf '<p>%s <b>%s</b></p>' "$pair" "$word" | t --html --glossary terms)
has '<b>'
case ${out,,} in *lolo*) ;; *) fail "HTML: $out" ;; esac
case ${out,,} in *kuku*mimi*) ;; *) fail "HTML: $out" ;; esac

# The other way round, and by language.
awk -F '\t' 'NF == 2 { print $2 "\t" $1 }' terms >back
t --glossary back --glossary-reverse v.src | cmp - got || fail '--glossary-reverse'
"$heed" describe model --source xx --target yy
(printf '#yy\txx\n' && cat back) >named
t --glossary named v.src | cmp - got || fail 'columns by their languages'
xz -k named && t --glossary named.xz v.src | cmp - got || fail 'compressed'
expect 2 'which decide; there is nothing to reverse' -- --glossary named --glossary-reverse v.src
"$heed" describe model --target zz
expect 2 'named: its first line names no column for zz' -- --glossary named v.src

# What is wrong, and what cannot be done.
expect 1 'nothing: No such file' -- --glossary nothing v.src
expect 2 '--glossary: needs a file' -- --glossary - v.src
expect 2 'glossary: terms can be searched for, not sampled' -- --glossary terms --sample v.src
printf 'a\tb\nbad line\n' >bad
expect 1 'bad:2: no tab' -- --glossary bad v.src
printf '%s\t語\n' "$word" >foreign
expect 0 'without a term of the glossary; the first is line' -- --glossary foreign v.src
t --glossary foreign v.src | cmp - plain || fail 'a term that cannot be written changes something'
printf '%s\n:quit\n' "$(grep -m 1 "\b$word\b" v.src)" |
    t --glossary terms --interactive 2>/dev/null >talk.out || fail 'interactive'
grep -qi 'kuku mimi' talk.out || fail "interactive: $(cat talk.out)"
seq 100000 | awk '{ print "term" $1 "\tmany" $1 }' >large
cat terms >>large
t --glossary large v.src | cmp - got || fail '100,000 terms'

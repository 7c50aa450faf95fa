#!/bin/bash
# test_trees.sh — `heed trees` and `heed eval --metric parseval`: trees to rows and back, repairs,
# what EVALB printed for 2,000 parses (tools/parseval_oracle.py), and one clear error for each
# mistake.
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$dir"
data=$tree/tests/data/parseval
is() { # WHAT WANT — standard input against it
    local got
    got=$(cat)
    [ "$got" = "$2" ] || fail "$1: got '$got', want '$2'"
}

# ---- there and back
t='(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))'
echo "$t" | "$heed" trees linearise | is linearise '(S (NP XX XX )NP (VP XX )VP XX )S'
echo "$t" | "$heed" trees linearise --tags | is tags '(S (NP DT NN )NP (VP VBZ )VP . )S'
echo "$t" | "$heed" trees words | is words 'The cat sleeps .'
echo 'The cat sleeps .' >words
echo '(S (NP XX XX )NP (VP XX )VP XX )S' >row
"$heed" trees restore --input row --words words 2>err |
    is restore '(S (NP (XX The) (XX cat)) (VP (XX sleeps)) (. .))'
[ ! -s err ] || fail "a whole row was repaired: $(cat err)"
echo "$t" >like
"$heed" trees restore --input row --words words --like like --strict | is like "$t"
echo '(S (NP CD CD )NP (VP CD )VP , )S' >tagged
"$heed" trees restore --input tagged --words words |
    is 'own tags' '(S (NP (CD The) (CD cat)) (VP (CD sleeps)) (, .))'
"$heed" trees restore --input tagged --words words --like like | is 'tags of others' "$t"
echo '( (S (NP-SBJ-1 (NP (NN x))) (VP (VB y) (NP=2 (-NONE- *))) (ADJP (-NONE- *))))' |
    "$heed" trees clean | is clean '(ROOT (S (NP (NN x)) (VP (VB y))))'
xz -dc "$data/ref.tree.xz" >ref
"$heed" trees check --input ref 2>/dev/null || fail "a treebank is not whole"
"$heed" trees words --input ref >ref.words
"$heed" trees linearise --input ref >ref.rows
"$heed" trees restore --strict --input ref.rows --words ref.words --like ref | cmp - ref

# ---- repairs: one tree with all words, whatever the row is
repaired() { # ROW WANT
    echo "$1" | "$heed" trees restore --words words 2>err | is "repair of '$1'" "$2"
    grep -q 'repaired 1 of 1 trees' err || fail "no word about the repair of '$1'"
}
repaired '(S (NP XX XX (VP XX )VP XX' '(S (NP (XX The) (XX cat) (VP (XX sleeps)) (. .)))'
repaired '(S XX XX )S (S XX XX )S )S' '(S (XX The) (XX cat) (S (XX sleeps) (. .)))'
repaired 'XX XX XX' '(ROOT (XX The) (XX cat) (XX sleeps) (. .))'
repaired '' '(ROOT (XX The) (XX cat) (XX sleeps) (. .))'
repaired '(S XX XX (X )X XX XX XX )S' '(S (XX The) (XX cat) (XX sleeps) (. .))'
repaired '(S (NP XX )VP XX )S XX XX' '(S (NP (XX The) (XX cat)) (XX sleeps) (. .))'

# ---- EVALB's figures
n=0
while IFS=$'\t' read -r params sentences errors skipped _ r p f exact crossing none few tags; do
    want="$f P = $p R = $r exact = $exact crossing = $crossing (none = $none few = $few)"
    want="$want tags = $tags (sentences = $sentences errors = $errors skipped = $skipped)"
    "$heed" eval --metric parseval --width 2 --evalb-params "$data/$params.prm" \
        --ref "$data/ref.tree.xz" --hyp "$data/hyp.tree.xz" |
        sed 's/^PARSEVAL|.* = \([0-9.]* P\)/\1/' | is "EVALB with $params.prm" "$want"
    n=$((n + 1))
done <"$data/expected.tsv"
[ "$n" = 4 ] || fail "$n parameter files, not 4"
"$heed" eval --metric parseval --ref ref --hyp ref --score-only | is itself 100.0
"$heed" eval --metric parseval --ref ref --hyp ref "$data/hyp.tree.xz" --paired --samples 50 |
    grep -q 'PARSEVAL' || fail "no table"

# ---- mistakes
refuses() { # WHAT MESSAGE COMMAND...
    local what=$1 message=$2
    shift 2
    if "$heed" "$@" >out 2>err; then fail "$what was accepted"; fi
    grep -qF -- "$message" err || fail "$what: '$(cat err)' has no '$message'"
}
echo '(S (NP a b))' >bad
refuses 'two words' 'line 1: column 10: a word and something else in one bracket' \
    trees linearise --input bad
echo '(S (NP (X a))' >bad
refuses 'an open bracket' 'never closed: 1' trees words --input bad
echo '(S (X a)))' >bad
refuses 'a closed bracket' 'column 10: a bracket is closed that was not opened' \
    trees clean --input bad
printf '%s\n(S (X a)) (S (X a))\n(S (NP) (X a))\n' "$t" >bad
refuses 'broken trees' '2 of 3 lines are no trees' trees check --input bad
is 'the list of them' "2: 2 trees, not one
3: the phrase 'NP' is empty" <out
echo '(S XX )NP' >bad
refuses 'a wrong label' "column 7: ')NP' closes no bracket" \
    trees restore --strict --input bad --words words
echo '(S XX )S' >bad
refuses 'too few words' '4 words, but the tree has 1' \
    trees restore --strict --input bad --words words
: >none
refuses 'files of different lengths' 'none ends after 0 lines, before row' \
    trees restore --input row --words none
refuses 'two references' 'parseval takes one reference, not 2' \
    eval --metric parseval --ref ref ref --hyp ref
echo 'DELETE_LABLE X' >odd.prm
refuses 'an unknown parameter' "odd.prm: line 1: 'DELETE_LABLE' is no parameter of EVALB" \
    eval --metric parseval --evalb-params odd.prm --ref ref --hyp ref

#!/usr/bin/env bash
# test_completion.sh — what bash, zsh and fish offer after `heed ...`: commands, options, values,
# files, directories; and the manual page. Where zsh or fish is not installed it is reported as
# skipped, though bash was tried.
# timeout: 60
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$dir"
mkdir -p models/one 'models/a b' shelf/{two,twin,other} shelf/$'two\nlines'
for model in shelf/*; do touch "$model/config.json"; done
rm shelf/other/config.json
touch data.txt 'my data'
ln -s "$build" build
PATH=$build:$PATH

# ---- bash
"$heed" completion >heed.bash
bash -n heed.bash || fail 'not valid bash'
"$heed" completion bash | cmp - heed.bash || fail 'bash is not the default'
# offers WORDS... — what bash offers for the last word, sorted, in one line
offers() {
    bash --norc -c '. ./heed.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _heed
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@" | sort | paste -sd ' '
}
# want TEXT WORDS... — exactly that
want() {
    local text=$1 got
    shift
    got=$(offers "$@")
    [ "$got" = "$text" ] || fail "bash offers '$got' after '$*', not '$text'"
}
want 'train translate trees' heed tr
want 'train translate trees' build/heed tr
want 'gemm' heed bench ge
want '--tokenizer --tokens' heed train --token
want '--tokens' heed bench train --to
want 'base big' heed train --preset b
want 'base big' heed train --preset = b
want '--preset=base --preset=big' heed train --preset=b
want 'post pre' heed bench train --norm ''
want 'stop' heed train --on-divergence st
want 'cpu cuda' heed translate --device c
want 'models' heed translate --model mod
want 'models/a b models/one' heed translate --model models/
want 'data.txt' heed translate --model models/one da
export HEED_MODELS=$dir/shelf
want 'twin two' heed translate --model tw
want 'twin two' heed inspect tw
want '--model=twin --model=two' heed score --model=tw
want '' heed translate --model o
want '' heed quantize --out tw
want 'data.txt' heed train --src x da
want 'data.txt' heed train --src da
want '' heed train --steps da
want 'models' heed inspect m
want 'zsh' heed completion z
want 'train translate trees' heed help tr
want 'gemm' heed help bench ge
want '' heed help train ''
want 'bleu,chrf bleu,chrf++' heed eval --metric bleu,c
want '--metric=bleu,chrf --metric=bleu,chrf++' heed eval --metric=bleu,c
out=" $(offers heed bench '') "
has ' train '
out=" $(offers heed bench train '') "
has ' --tokens '
# As bash itself calls it, by the name behind a path.
bash --norc -c '. ./heed.bash; complete -p heed' | grep -q -- '-F _heed heed' ||
    fail 'not registered'

# ---- fish
left_out=
if command -v fish >/dev/null; then
    "$heed" completion fish >heed.fish
    # fish_offers LINE — the words, without their descriptions
    fish_offers() { HOME=$dir fish --no-config -c "source heed.fish; complete -C '$1'" | cut -f 1 |
        sort | paste -sd ' '; }
    for pair in 'heed tr=train translate trees' 'heed bench ge=gemm' \
        'heed train --preset b=base big' \
        'heed bench train --norm =post pre' 'heed translate --model mod=models/' \
        'heed translate --model tw=twin two' \
        'build/heed bench tr=train translate'; do
        got=$(fish_offers "${pair%%=*}")
        [ "$got" = "${pair#*=}" ] || fail "fish offers '$got' after '${pair%%=*}', not '${pair#*=}'"
    done
else
    left_out="$left_out fish"
fi

# ---- zsh
if command -v zsh >/dev/null; then
    mkdir -p functions
    "$heed" completion zsh >functions/_heed
    zsh -n functions/_heed || fail 'not valid zsh'
    # zsh_offers LINE — a shell in a terminal of its own, which writes down what _heed would add
    zsh_offers() {
        zsh -f -c '
            zmodload zsh/zpty
            zpty z zsh -f -i
            zpty -w z "PROMPT=; cd $1; fpath=($1/functions \$fpath)"
            zpty -w z "autoload -Uz compinit; compinit -D -u"
            zpty -w z "compadd() { local -a w; builtin compadd -O w \"\$@\";" \
                "print -rl -- \$w >>$1/zsh.out; builtin compadd \"\$@\"; }"
            zpty -w z "bindkey \"^I\" complete-word; zle_done() { touch $1/zsh.done; }"
            zpty -w z "zle -N zle_done; bindkey \"^X\" zle_done; touch $1/zsh.up"
            for i in {1..200}; do [[ -e $1/zsh.up ]] && break; sleep 0.05; done
            zpty -w -n z "$2"$'"'\\t\\x18'"'
            for i in {1..200}; do [[ -e $1/zsh.done ]] && break; sleep 0.05; done
            zpty -d z' zsh "$dir" "$1"
        [ -e zsh.done ] || return 1
        sort -u zsh.out | grep -v '^$' | paste -sd ' '
        rm -f zsh.out zsh.done zsh.up
    }
    for pair in 'heed tr=train translate trees' 'heed bench ge=gemm' \
        'heed train --preset b=base big' \
        'build/heed bench train --norm =post pre' 'heed translate --model tw=twin two'; do
        : >zsh.out
        got=$(zsh_offers "${pair%%=*}") || fail "zsh does not answer to '${pair%%=*}'"
        [ "$got" = "${pair#*=}" ] || fail "zsh offers '$got' after '${pair%%=*}', not '${pair#*=}'"
    done
else
    left_out="$left_out zsh"
fi

# ---- the manual page
"$heed" manual >heed.1
for section in NAME SYNOPSIS DESCRIPTION COMMANDS EXAMPLES FILES ENVIRONMENT 'EXIT STATUS'; do
    grep -qx ".SH $section" heed.1 || fail "the manual has no $section"
done
grep -q HEED_ISA heed.1 || fail 'the manual does not know HEED_ISA'
if command -v groff >/dev/null; then
    groff -man -ww -z heed.1 2>groff.err || fail 'the manual is not roff'
    [ ! -s groff.err ] || fail "the manual: $(cat groff.err)"
fi
[ -z "$left_out" ] || skip "bash is fine; not installed:$left_out"

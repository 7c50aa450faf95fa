# shellcheck shell=bash
# shell.sh — what the test scripts share: where things are, and checks that a crash cannot pass. To
# be sourced.
#
# A pipe fails when any part of it fails. Even so `a | b && fail` passes when a crashes, and so does
# `[ -z "$(a)" ]`: keep what a printed, then look at it with lacks, absent or differ. (lint looks
# for both.)
# shellcheck disable=SC2034 # the scripts use what is set here
set -euo pipefail
tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
build=$(realpath "${BUILD:-build}")
heed=$build/heed
dir=${TEST_DIR:-$(mktemp -d)}
verb=() # the command that `expect ... -- ARGUMENT...` gives its arguments to

fail() { echo "FAILED: $*"; exit 1; }
note() { echo "$*"; }
skip() { echo "skipped: $*"; exit 77; } # the runner wants to know why
# slow WHY — leaves the test out in sanitizer builds
slow() { [ "${TEST_SLOW:-1}" != 0 ] || skip "$*"; }
sanitized() { grep -qs fsanitize "$build/flags"; } # what is packed has none

# expect CODE TEXT COMMAND... — the exit status and a part of what it says, which is left in $out
# expect CODE TEXT -- ARGUMENT... — the same for heed; an error must begin with "heed: "
expect() {
    local code=$1 text=$2 rc=0 ours=
    shift 2
    if [ "${1:-}" = -- ]; then
        shift && ours=1
        set -- "$heed" "${verb[@]}" "$@"
    fi
    out=$("$@" 2>&1 </dev/null) || rc=$?
    [ "$rc" = "$code" ] || fail "$*: exit $rc instead of $code: $out"
    case $out in *"$text"*) ;; *) fail "$*: no '$text' in: $out" ;; esac
    if [ "$code" != 0 ] && [ -n "$ours" ]; then
        case $'\n'$out in
        *$'\n'heed:\ * | $'\n'heed\ 0*) ;;
        *) fail "$*: not 'heed: ...': $out" ;;
        esac
    fi
}
has() { case $out in *"$1"*) ;; *) fail "no '$1' in: $out" ;; esac; }
lacks() { case $out in *"$1"*) fail "'$1' in: $out" ;; esac; }

same() { cmp "$1" "$2" || fail "$1 and $2 differ${3:+: $3}"; }
# differ A B [WHY] — both are there, and they are not the same
differ() {
    local rc=0
    cmp -s "$1" "$2" || rc=$?
    [ $rc = 1 ] || fail "$1 and $2 are the same, or not there${3:+: $3}"
}
# absent PATTERN FILE [WHY] — the file is there, and no line of it matches
absent() {
    local rc=0
    grep -qE -e "$1" "$2" || rc=$?
    [ $rc = 1 ] || fail "'$1' in $2, or no $2${3:+: $3}: $(head -c 1000 "$2")"
}

#!/usr/bin/env bash
# test_lint.sh — proves that lint can fail: a small clean tree passes, and each single offence is found.
# timeout: 120
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh --check lint >/dev/null 2>&1 || { echo 'skipped: the tools of lint are not here' && exit 77; }
tree=${TEST_DIR:-$(mktemp -d)}/tree
mkdir -p "$tree"/src/{base,backend,model} "$tree"/include "$tree"/build
# Only what src/base implements: the tree has no more.
sed '/^\/\* ---- models/,/^#ifdef __cplusplus/ { /^#ifdef/!d }' include/heed.h >"$tree/include/heed.h"
cp .clang-format "$tree"
cp src/base/err.[ch] "$tree/src/base"
unset BUILD

# library SOURCE-LINE — both libraries of the tree, with one more line of code
library() {
    { cat "$tree/src/base/err.c" && echo "$1"; } |
        cc -xc -c -fPIC -fvisibility=hidden -I"$tree/include" -I"$tree/src" - -o "$tree/build/err.o"
    cc -shared -o "$tree/build/libheed.so" "$tree/build/err.o"
    objcopy --localize-hidden "$tree/build/err.o"
    rm -f "$tree/build/libheed.a"
    ar rcs "$tree/build/libheed.a" "$tree/build/err.o"
}

# offends WORDS — lint fails, and says so in these words
offends() {
    if out=$(tools/lint.sh "$tree" 2>&1); then echo "not found: $1" && exit 1; fi
    case $out in *"$1"*) ;; *) printf 'lint does not say "%s":\n%s\n' "$1" "$out" && exit 1 ;; esac
}

# offence FILE LINE WORDS — the same for a file of one line, which is removed again
offence() {
    printf '%s\n' "$2" >"$tree/$1"
    offends "$3"
    rm "$tree/$1"
}

library ''
tools/lint.sh "$tree" || { echo "lint finds fault with a clean tree" && exit 1; }

touch "$tree"/src/{backend,model}/seam.h
offence src/base/x.c '#include "model/seam.h"' "includes point downwards only"
offence src/backend/x.c '#include "model/seam.h"' "includes point downwards only"
offence src/model/x.c '#include "../backend/seam.h"' "not relative"
offence src/model/x.c '#include <immintrin.h>' "stay in src/backend"
offence src/model/x.c 'void x(void) { exit(1); }' "only src/cli prints and exits"
offence src/model/x.c 'void x(void) { fprintf(stderr, "x"); }' "only src/cli prints and exits"
offence src/model/x.cc 'void x() { exit(1); }' "only src/cli prints and exits"
offence src/model/x.c 'void x(void) { getenv("HEED_X"); }' "only src/cli reads the environment"
offence src/model/x.c '/* TODO: later */' "a TODO names its issue"
offence src/model/x.h 'int x(size_t n);' "headers stand on their own"
offence src/model/x.c 'int  x ;' "format"
offence src/model/x.c 'int x(void) { int a[2]; return a[2]; }' "cppcheck"

library '__attribute__((visibility("default"))) int stray; int stray;'
offends "against libheed.so"

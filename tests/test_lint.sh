#!/usr/bin/env bash
# test_lint.sh — proves that lint can fail: a small clean tree passes, and each single offence is
# found.
# timeout: 120
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh --check lint >/dev/null 2>&1 || { echo 'skipped: the tools of lint are not here' &&
    exit 77; }
tree=${TEST_DIR:-$(mktemp -d)}/tree
mkdir -p "$tree"/src/{base,backend,model} "$tree"/{include,build,tests}
# Only what src/base implements: the tree has no more.
sed '/^\/\* ---- models/,/^#ifdef __cplusplus/ { /^#ifdef/!d }' include/heed.h \
    >"$tree/include/heed.h"
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

printf '%s\n' '__global__ void x(int a, int b, int c, int d, int e, int f, int g) {' '}' \
    >"$tree/src/model/kernel.cu" && clang-format -i "$tree/src/model/kernel.cu"
tools/lint.sh "$tree" || { echo "lint finds fault with a kernel" && exit 1; }
rm "$tree/src/model/kernel.cu"

touch "$tree"/src/{backend,model}/seam.h
offence src/base/x.c '#include "model/seam.h"' "includes point downwards only"
offence src/backend/x.c '#include "model/seam.h"' "includes point downwards only"
offence src/model/x.c '#include "../backend/seam.h"' "not relative"
offence src/model/x.c '#include <immintrin.h>' "stay in src/backend"
offence src/model/x.c 'void x(void) { exit(1); }' "only src/cli and src/bench print and exit"
offence src/model/x.c 'void x(void) { fprintf(stderr, "x"); }' \
    "only src/cli and src/bench print and exit"
offence src/model/x.cc 'void x() { exit(1); }' "only src/cli and src/bench print and exit"
offence src/model/x.c 'void x(void) { getenv("HEED_X"); }' "only src/cli reads the environment"
offence src/model/x.c '/* TODO: later */' "a TODO names its issue"
offence src/model/x.h 'int x(size_t n);' "headers stand on their own"
offence src/model/x.c 'int  x ;' "format"
offence src/model/x.cu 'int  x ;' "format"
wide=$(printf '%0101d' 0)
for file in src/model/x.c tests/x.py Makefile; do
    offence $file "# $wide" "lines have at most 100 columns"
done
offence tests/x.sh "#!/bin/bash
set -euo pipefail
# $wide" "lines have at most 100 columns"
offence src/model/x.c "int x(void) {
$(yes '    ;' | head -n 79 || true)
}" "functions have at most 80 lines"
offence src/model/x.c 'int x(int a, int b, int c, int d, int e, int f, int g) {
    return a + b + c + d + e + f + g;
}' "7 parameters: int x(int a"
offence src/model/x.cu 'static void x(int a, int b, int c, int d, int e,
              int f, int g) {
}' "7 parameters: static void x"
offence tests/x.sh '#!/bin/bash
set -eu' "scripts set pipefail"
pass='#!/bin/bash
set -euo pipefail'
offence tests/x.sh "$pass
a | grep -q b && fail 'b'" "a crash passes"
offence tests/x.sh "$pass"'
[ -z "$("$heed" x)" ] || exit 1' "a crash passes"
offence src/model/x.c 'int x(void) { int a[2]; return a[2]; }' "cppcheck"

library '__attribute__((visibility("default"))) int stray; int stray;'
offends "against libheed.so"

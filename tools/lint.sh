#!/usr/bin/env bash
# lint.sh — the rules of this house that a compiler does not know. `make lint` runs it, and clang-tidy.
#
# Errors: includes that point upwards, intrinsics outside src/backend, printing, exiting or reading the
# environment below src/cli and src/bench, headers that need another one first, format, cppcheck, shellcheck, symbols
# exported by accident, TODO without an issue. Long files and functions are only reported.
#
#     tools/lint.sh [FOLDER]     of another tree, for the test of this script
set -uo pipefail
shopt -s lastpipe # `... | bad` sets failed in this shell
cd "${1:-$(dirname "$0")/..}" || exit 1
build=${BUILD:-build}
failed=0

# bad RULE — reports the lines on stdin, if any, as violations of the rule
bad() {
    local lines
    lines=$(cat)
    if [ -n "$lines" ]; then
        printf 'lint: %s\n' "$1"
        printf '%s\n' "$lines" | sed 's/^/    /'
        failed=1
    fi
}

mapfile -t sources < <(find include src tests bench tools -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' 2>/dev/null | sort)
mapfile -t below_cli < <(find src \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' \) -not -path 'src/cli/*' -not -path 'src/bench/*' | sort)
# Kernel headers are templates: the file that includes them says for which vector width. The GPU's are C++.
mapfile -t headers < <(find include src -name '*.h' -not -name vec.h -not -name '*_body.h' \
    -not -path 'src/backend/cpu/gemm_*' -not -path 'src/backend/cpu/rows_*' -not -path 'src/backend/cpu/tiled_*' -not -path 'src/backend/cuda/*' | sort)

# Prints file:line: text of lines matching $1 that are not in a comment. The rest are files.
code() {
    local pattern=$1
    shift
    grep -nHE "$pattern" "$@" | grep -vE '^[^:]*:[0-9]+: *(\*|/\*|//)'
}

# Includes point downwards: base <- {data, io, backend} <- {model, eval} <- {search, train}
# <- {viz, serve, api} <- cli <- bench. A folder may include itself and any lower layer.
grep -nHE '^ *# *include +"[a-z]+/' "${sources[@]}" | awk -F: '
    BEGIN {
        split("base:0 data:1 io:1 backend:1 model:2 eval:2 search:3 train:3 viz:4 serve:4 api:4 cli:5 bench:6", all, " ")
        for (i in all) { split(all[i], pair, ":"); layer[pair[1]] = pair[2] }
    }
    $1 ~ /^src\// {
        split($1, path, "/"); from = path[2]
        to = $3; sub(/^[^"]*"/, "", to); sub(/\/.*/, "", to)
        if (!(from in layer) || !(to in layer)) print $0 "   (unknown folder)"
        else if (from != to && layer[to] >= layer[from]) print
    }' | bad "includes point downwards only"
code '# *include +".*\.\./' "${sources[@]}" | bad "includes are written from src/, not relative"
code '# *include +["<](immintrin|x86intrin|.*mmintrin|amx.*|cuda.*|cublas.*|nccl.*)\.h' "${sources[@]}" |
    grep -vE '^(src/backend|tests|bench)/' | bad "instruction sets and devices stay in src/backend"

code '\b(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort)\(|\b(std(out|err)\b)' \
    "${below_cli[@]}" | grep -vE '^src/base/err\.c:[0-9]+: +(fprintf\(stderr, "heed: bug|abort\(\);)' |
    bad "only src/cli and src/bench print and exit (bug() in base/err.c excepted)"
code '\b(secure_)?getenv\(' "${below_cli[@]}" |
    grep -vE '^src/backend/(backend\.c:[0-9]+:.*getenv\("HEED_|cuda/cuda\.cu:)' |
    bad "only src/cli reads the environment (HEED_* in backend.c and the GPU's plug-in excepted)"

grep -rnE '\b(TODO|FIXME|XXX)\b' include src tests/*.[ch] bench Makefile 2>/dev/null |
    grep -vE 'TODO\(#[0-9]+\)' | bad "a TODO names its issue: TODO(#12)"

for header in "${headers[@]}"; do
    cc -std=gnu11 -Wall -Wextra -Werror -Wno-unused-function -Iinclude -Isrc -x c -fsyntax-only \
        -include "$header" /dev/null 2>&1 | grep -m 3 'error:'
done | bad "headers stand on their own"
clang -x c++ -Wall -Wextra -Werror -fsyntax-only -include include/heed.h /dev/null 2>&1 |
    bad "heed.h is also C++"

# In characters, not bytes. clang-format leaves long comments alone, or breaks the code around them.
LC_ALL=C.UTF-8 grep -nHE '^.{101,}' "${sources[@]}" | cut -c 1-100 | bad "lines have at most 100 columns"
clang-format --dry-run -Werror "${sources[@]}" 2>&1 | grep -o '^[^:]*:[0-9]*:.*error:' |
    awk -F: '{ if (!n[$1]++) at[$1] = $2 } END { for (f in n) print f ":" at[f] ": and " n[f] - 1 " more" }' |
    sort | bad "format (make format rewrites)"

# invalidPointerCast: memory whose type is known at run time is addressed as bytes, then cast.
cppcheck -j "$(nproc)" --quiet --enable=warning,performance,portability --inline-suppr --std=c11 \
    --suppress=invalidPointerCast --library=posix --template='{file}:{line}: {id}: {message}' -Iinclude -Isrc src 2>&1 | bad "cppcheck"

mapfile -t scripts < <(grep -lE '^#!.*\b(ba)?sh$' tests/*.sh tools/*.sh bench/*.sh .ci/run 2>/dev/null)
if [ "${#scripts[@]}" -gt 0 ]; then shellcheck -x --severity=warning --format=gcc "${scripts[@]}" | bad "shellcheck"; fi

# Both libraries export the functions heed.h marks, and nothing else.
marked=$(grep -oE '^HEED_API [^(]*\(' include/heed.h | grep -oE '\w+\($' | tr -d '(' | sort)
shared=$(nm -D --defined-only "$build/libheed.so" | awk '{ print $3 }' | sort)
static=$(nm -g --defined-only "$build/libheed.a" | awk 'NF == 3 { print $3 }' | sort)
diff <(echo "$marked") <(echo "$shared") | grep '^[<>]' | bad "HEED_API (<) against libheed.so (>)"
diff <(echo "$marked") <(echo "$static") | grep '^[<>]' | bad "HEED_API (<) against libheed.a (>)"

wc -l "${sources[@]}" | awk '$2 != "total" && $1 > 800 { print "note: " $2 " has " $1 " lines" }'
awk 'FNR == 1 { begin = 0 }
    /^[a-z].*\) \{$/ || /^[a-z ].*\) \{$/ && !/^ / { begin = FNR; name = $0 }
    /^}/ && begin { if (FNR - begin > 60)
        printf "note: %s:%d has %d lines: %s\n", FILENAME, begin, FNR - begin, name; begin = 0 }' \
    "${sources[@]}"
exit $failed

#!/usr/bin/env bash
# lint.sh — the rules of this house that a compiler does not know. `make lint` runs it, and
# clang-tidy.
#
# Errors: includes that point upwards, intrinsics outside src/backend, printing, exiting or reading
# the environment below src/cli and src/bench, headers that need another one first, functions of
# more than 80 lines or 6 parameters (kernels excepted), lines of more than 100 columns, format,
# cppcheck, shellcheck, scripts whose pipes cannot fail, symbols exported by accident, TODO without
# an issue. Long files, and how long src/cli is, are only reported.
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

# found FOLDER... EXPRESSION... — the C, C++ and CUDA files below
found() { find "$@" 2>/dev/null | grep -E '\.(c|h|cc|cu)$' | sort; }
mapfile -t sources < <(found include src tests bench tools)
mapfile -t below_cli < <(found src -not -path 'src/cli/*' -not -path 'src/bench/*')
mapfile -t scripts < <(find tests tools bench demo recipes .ci -type f \
    -exec grep -lE '^#!.*\b(ba)?sh$|^# shellcheck shell=' {} + 2>/dev/null | sort)
mapfile -t others < <(find tests tools bench recipes Makefile -name '*.py' -o -name Makefile \
    2>/dev/null)
# Kernels: files compiled for an instruction set and the bodies they include.
isas='generic|avx2|avx512|avx512vnni|avx512bf16|amx'
kernels="^src/backend/cpu/(.*_($isas)\\.c|(rows|gemm|tiled)_.*\\.h|.*_body\\.h|vec\\.h|gemm\\.c)"
mapfile -t plain < <(printf '%s\n' "${sources[@]}" | grep -vE "$kernels")
# Kernel headers are templates: the file that includes them says for which vector width. The GPU's
# are C++.
mapfile -t headers < <(printf '%s\n' "${plain[@]}" | grep -E '^(include|src)/.*\.h$' |
    grep -v '^src/backend/cuda/')

# Prints file:line: text of lines matching $1 that are not in a comment. The rest are files.
code() {
    local pattern=$1
    shift
    grep -nHE "$pattern" "$@" | grep -vE '^[^:]*:[0-9]+: *(\*|/\*|//)'
}

# Includes point downwards: base <- {comm, data, io, backend} <- {model, eval} <- {search, convert}
# <- {train, text} <- viz <- {serve, api} <- cli <- bench. A folder may include itself and any lower
# layer.
grep -nHE '^ *# *include +"[a-z]+/' "${sources[@]}" | awk -F: '
    BEGIN {
        split("base:0 comm:1 data:1 io:1 backend:1 model:2 eval:2 search:3 convert:3 train:4 " \
            "text:4 viz:5 serve:6 api:6 cli:7 bench:8", all, " ")
        for (i in all) { split(all[i], pair, ":"); layer[pair[1]] = pair[2] }
    }
    $1 ~ /^src\// {
        split($1, path, "/"); from = path[2]
        to = $3; sub(/^[^"]*"/, "", to); sub(/\/.*/, "", to)
        if (!(from in layer) || !(to in layer)) print $0 "   (unknown folder)"
        else if (from != to && layer[to] >= layer[from]) print
    }' | bad "includes point downwards only"
code '# *include +".*\.\./' "${sources[@]}" | bad "includes are written from src/, not relative"
code '# *include +["<](immintrin|x86intrin|.*mmintrin|amx.*|cuda.*|cublas.*|nccl.*)\.h' \
    "${sources[@]}" |
    grep -vE '^(src/backend|src/comm/nccl|tests|bench)/' |
    bad "instruction sets and devices stay in src/backend, NCCL in src/comm/nccl"

output='\b(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort)\('
code "$output|\\b(std(out|err)\\b)" "${below_cli[@]}" |
    grep -vE '^src/base/err\.c:[0-9]+: +(fprintf\(stderr, "heed: bug|abort\(\);)' |
    bad "only src/cli and src/bench print and exit (bug() in base/err.c excepted)"
code '\b(secure_)?getenv\(' "${below_cli[@]}" |
    grep -vE '^src/(backend/backend|api/model)\.c:[0-9]+:.*getenv\("HEED_' |
    grep -v '^src/backend/cuda/cuda\.cu:' |
    bad "only src/cli reads the environment (HEED_* where a device or a model is opened excepted)"

grep -rnE '\b(TODO|FIXME|XXX)\b' include src tests/*.[ch] bench Makefile 2>/dev/null |
    grep -vE 'TODO\(#[0-9]+\)' | bad "a TODO names its issue: TODO(#12)"

for header in "${headers[@]}"; do
    cc -std=gnu11 -Wall -Wextra -Werror -Wno-unused-function -Iinclude -Isrc -x c -fsyntax-only \
        -include "$header" /dev/null 2>&1 | grep -m 3 'error:'
done | bad "headers stand on their own"
clang -x c++ -Wall -Wextra -Werror -fsyntax-only -include include/heed.h /dev/null 2>&1 |
    bad "heed.h is also C++"

# In characters, not bytes. clang-format leaves long comments alone, or breaks the code around them.
LC_ALL=C.UTF-8 grep -nHE '^.{101,}' "${sources[@]}" "${scripts[@]}" "${others[@]}" |
    cut -c 1-100 | bad "lines have at most 100 columns"

# A definition begins in the first column and ends with a } there. The GPU's kernels say what they
# are, and what launches them takes any number of parameters.
awk 'FNR == 1 { head = ""; begin = 0 }
    !begin && head == "" && /^[A-Za-z_]/ { at = FNR }
    !begin && (head != "" || /^[A-Za-z_]/) {
        head = head $0 " "
        if (/\) \{$/ && head !~ / = /) {
            begin = at; n = 1; depth = 0; name = head; gsub(/  +/, " ", name)
            for (i = index(head, "("); i <= length(head); i++) {
                c = substr(head, i, 1)
                depth += (c == "(") - (c == ")")
                n += c == "," && depth == 1
            }
        }
        if (/[;{}]$/ || /^$/) head = ""
    }
    /^}/ && begin {
        lines = FNR - begin + 1
        if (FILENAME ~ /^tests\/emulated\//) n = 0 # as many as in CUDA
        if (name !~ /__global__|__device__|class\.\.\./ && (lines > 80 || n > 6))
            printf "%s:%d: %d lines, %d parameters: %.60s\n", FILENAME, begin, lines, n, name
        begin = 0
    }' "${plain[@]}" | bad "functions have at most 80 lines and 6 parameters, kernels excepted"

clang-format --dry-run -Werror "${sources[@]}" 2>&1 | grep -o '^[^:]*:[0-9]*:.*error:' |
    awk -F: '{ if (!n[$1]++) at[$1] = $2 }
        END { for (f in n) print f ":" at[f] ": and " n[f] - 1 " more" }' |
    sort | bad "format (make format rewrites)"

# invalidPointerCast: memory whose type is known at run time is addressed as bytes, then cast.
cppcheck -j "$(nproc)" --quiet --enable=warning,performance,portability --inline-suppr --std=c11 \
    --suppress=invalidPointerCast --library=posix --template='{file}:{line}: {id}: {message}' \
    -Iinclude -Isrc src 2>&1 | bad "cppcheck"

if [ "${#scripts[@]}" -gt 0 ]; then
    shellcheck -x --severity=warning --format=gcc "${scripts[@]}" | bad "shellcheck"
    sets='^set -[eu]+o pipefail|^(\.|source) .*/(shell|train)\.sh"?$|^# shellcheck shell='
    grep -LE "$sets" "${scripts[@]}" | bad "scripts set pipefail"
    # A crash passes these: nothing was found in what was never printed.
    code '[^|]\|[^|].*&& fail\b|\[ -z "\$\("\$heed"' "${scripts[@]}" |
        grep -vE '^(tools/lint|tests/test_lint).sh:|^[^:]*:[0-9]*: *#' |
        bad "checks that a crash passes: keep what was printed, then look (tests/shell.sh)"
fi

# Both libraries export the functions heed.h marks, and nothing else.
marked=$(grep -oE '^HEED_API [^(]*\(' include/heed.h | grep -oE '\w+\($' | tr -d '(' | sort)
shared=$(nm -D --defined-only "$build/libheed.so" | awk '{ print $3 }' | sort)
static=$(nm -g --defined-only "$build/libheed.a" | awk 'NF == 3 { print $3 }' | sort)
diff <(echo "$marked") <(echo "$shared") | grep '^[<>]' | bad "HEED_API (<) against libheed.so (>)"
diff <(echo "$marked") <(echo "$static") | grep '^[<>]' | bad "HEED_API (<) against libheed.a (>)"

wc -l "${sources[@]}" | awk '$2 != "total" && $1 > 800 { print "note: " $2 " has " $1 " lines" }'
find src/cli -name '*.[ch]' -exec cat {} + 2>/dev/null | wc -l |
    awk '$1 > 0 { print "note: src/cli has " $1 " lines" ($1 > 7500 ? "; 7,500 were meant" : "") }'
exit $failed

#!/usr/bin/env bash
# test_dist.sh — the folder of `make dist` runs from anywhere, with its own libraries and nothing
# else in its way.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$tree"
if sanitized; then skip 'a sanitizer build is not for shipping'; fi

make --no-print-directory dist-built BUILD="$build" DIST="$dir/made" >"$dir/log" 2>&1 ||
    { cat "$dir/log" && exit 1; }
mkdir "$dir/elsewhere"
tar -C "$dir/elsewhere" -xzf "$dir"/made/heed-*.tar.gz
rm -r "$dir/made"
heed=$(echo "$dir"/elsewhere/heed-*/bin/heed)
version=$(env -i "$heed" --version)
[ "$version" = "$("$build/heed" --version)" ] || fail "it says it is '$version'"

# Its libraries are those it brought; only the C library is the machine's.
outside=$(env -i ldd "$heed" | awk '/=> \// { print $3 }' | grep -v "^$dir/" |
    grep -vE '/lib(c|m|dl|rt|pthread)\.so' || true)
[ -z "$outside" ] || fail "it loads $outside"

# It works: three steps of training on the CPU, and an honest word about the GPU.
(cd "$dir" && env -i "$heed" bench train --preset tiny --tokens 64 --length 8 --seconds 0 \
    --n_vocab 100 >"$dir/bench") ||
    fail "bench train"
grep -q 'ms per step' "$dir/bench" || fail "bench train printed nothing"
if [ -e "${heed%/bin/heed}/lib/heed/libheed-cuda.so" ] &&
    ! "$heed" bench train --device cuda --preset tiny --tokens 64 \
    --length 8 --seconds 0 --n_vocab 100 >"$dir/gpu" 2>&1; then
    if grep -q 'was not found' "$dir/gpu"; then fail \
        "the plug-in was not found: $(cat "$dir/gpu")"; fi
    grep -q '^heed: cuda: ' "$dir/gpu" || fail "without a GPU it says: $(cat "$dir/gpu")"
fi

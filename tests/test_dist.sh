#!/usr/bin/env bash
# test_dist.sh — the folder of `make dist` runs from anywhere, with its own libraries and nothing
# else in its way.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$tree"
if sanitized; then skip 'a sanitizer build is not for shipping'; fi

unset HEED_MODELS
seq 1000 | sed 's/./& /g' >"$dir/numbers"
"$build/heed" train --src "$dir/numbers" --tgt "$dir/numbers" --out "$dir/run" --preset tiny \
    --n-layer 1 --d-model 16 --d-ff 32 --n-head 2 --vocab-size 20 --steps 20 --tokens 400 \
    --threads 1 --quiet
"$build/heed" quantize --model "$dir/run" --out "$dir/shelf/xx-yy" >/dev/null
"$build/heed" describe "$dir/shelf/xx-yy" --source xx --target yy
ln -s xx-yy "$dir/shelf/default"
make --no-print-directory dist-built BUILD="$build" DIST="$dir/made" MODELS="$dir/shelf" \
    >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
mkdir "$dir/elsewhere"
tar -C "$dir/elsewhere" -xzf "$dir"/made/heed-*.tar.gz
echo '1 2 3' | "$build/heed" translate --model "$dir/run" --precision int8 --quiet >"$dir/want"
rm -r "$dir/made" "$dir/shelf"
heed=$(echo "$dir"/elsewhere/heed-*/bin/heed)
version=$(env -i "$heed" --version)
[ "$version" = "$("$build/heed" --version)" ] || fail "it says it is '$version'"

# Its libraries are those it brought; only the C library is the machine's.
outside=$(env -i ldd "$heed" | awk '/=> \// { print $3 }' | grep -v "^$dir/" |
    grep -vE '/lib(c|m|dl|rt|pthread)\.so' || true)
[ -z "$outside" ] || fail "it loads $outside"

# Its model is found beside it, and says what it said here.
(cd "$dir" && echo '1 2 3' | env -i "$heed" translate --from xx >"$dir/said" 2>"$dir/err")
same "$dir/said" "$dir/want"
grep -qF "translating from xx to yy with the model ${heed%/bin/heed}/share/heed/models/xx-yy" \
    "$dir/err" || fail "it says $(cat "$dir/err")"

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

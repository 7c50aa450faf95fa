#!/usr/bin/env bash
# test_install.sh — installs into a folder, builds programs against it the way a user would
# (pkg-config, shared and static), runs them (examples/translate.c with a model trained for the
# purpose), and uninstalls without a trace.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$tree"
root=$dir
if sanitized; then skip 'a sanitizer build is not for installing'; fi

# In a home directory, with the commands of docs/api.md. It is make that expands the ~.
home=$root/home
# shellcheck disable=SC2088 # not the shell's
HOME=$home make --no-print-directory install-built BUILD="$build" PREFIX='~/.local' >/dev/null
grep -qx "prefix=$home/.local" "$home/.local/lib/pkgconfig/heed.pc"
# What eval expands.
static="\$(pkg-config --static --cflags --libs heed | sed 's/-lheed/-l:libheed.a/')"
# shellcheck disable=SC2016
for line in 'cc program.c -o program $(pkg-config --cflags --libs heed)' \
    "cc program.c -o program $static"; do
    grep -qxF "$line" docs/api.md
    (cd "$home" && cp "$OLDPWD/examples/translate.c" program.c && \
        PKG_CONFIG_PATH=$home/.local/lib/pkgconfig eval "$line")
    { LD_LIBRARY_PATH=$home/.local/lib "$home/program" 2>&1 || true; } | grep -q usage
done
if ldd "$home/program" | grep -q libheed; then exit 1; fi # the last one is static
# shellcheck disable=SC2088
HOME=$home make --no-print-directory uninstall BUILD="$build" PREFIX='~/.local' >/dev/null
left=$(find "$home/.local" -not -type d)
[ -z "$left" ] || { echo "left behind: $left" && exit 1; }

# install-built: other tests use the build right now, it must not change under them.
make --no-print-directory install-built BUILD="$build" PREFIX=/opt/heed DESTDIR="$root"
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root/opt/heed/lib/pkgconfig

cat >"$root/user.c" <<'END'
#include <heed.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    printf("%s\n", heed_version());
    return strcmp(heed_version(), HEED_VERSION) != 0;
}
END
version=$(pkg-config --modversion heed)
# shellcheck disable=SC2046 # pkg-config prints words
cc "$root/user.c" -o "$root/shared" $(pkg-config --cflags --libs heed)
readelf -d "$root/shared" >"$root/needed"
grep -qE 'NEEDED.*libheed\.so\.[0-9]+\]' "$root/needed" ||
    fail "not linked to libheed: $(cat "$root/needed")"
[ "$(LD_LIBRARY_PATH=$root/opt/heed/lib "$root/shared")" = "$version" ]

# shellcheck disable=SC2046
cc "$root/user.c" -o "$root/static" $(pkg-config --cflags heed) "$root/opt/heed/lib/libheed.a" \
    $(PKG_CONFIG_SYSROOT_DIR='' pkg-config --static --libs-only-l heed | sed 's/-lheed//') -pthread
[ "$("$root/static")" = "$version" ]

# The example, with a model that the installed program trains in a second.
seq 1000 | sed 's/./& /g' >"$root/numbers"
"$root/opt/heed/bin/heed" train --src "$root/numbers" --tgt "$root/numbers" --out "$root/model" \
    --preset tiny \
    --n-layer 1 --d-model 16 --d-ff 32 --n-head 2 --vocab-size 20 --steps 20 --tokens 400 \
    --threads 1 --quiet
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror examples/translate.c -o "$root/example" $(pkg-config --cflags --libs heed)
# shellcheck disable=SC2046
cc examples/translate.c -o "$root/example-static" $(pkg-config --cflags heed) \
    "$root/opt/heed/lib/libheed.a" \
    $(PKG_CONFIG_SYSROOT_DIR='' pkg-config --static --libs-only-l heed | sed 's/-lheed//') -pthread
LD_LIBRARY_PATH=$root/opt/heed/lib "$root/example" "$root/model" '1 2 3' '' '4 5' >"$root/answers"
"$root/example-static" "$root/model" '1 2 3' '' '4 5' | cmp - "$root/answers"
printf '1 2 3\n\n4 5\n' | "$root/opt/heed/bin/heed" translate --model "$root/model" --quiet |
    cmp - <(grep -v '^    ' "$root/answers")
expect 1 nowhere env LD_LIBRARY_PATH="$root/opt/heed/lib" "$root/example" "$root/nowhere" x

exported=$(nm -D --defined-only "$root/opt/heed/lib/libheed.so" | awk '$3 !~ /^heed_/')
[ -z "$exported" ] || fail "exported by accident: $exported"

[ -s "$root/opt/heed/share/man/man1/heed.1" ]
bash -n "$root/opt/heed/share/bash-completion/completions/heed"
for f in zsh/site-functions/_heed fish/vendor_completions.d/heed.fish; do
    [ -s "$root/opt/heed/share/$f" ] || fail "no $f"
done
expect 0 "$version" "$root/opt/heed/bin/heed" --version

make --no-print-directory uninstall BUILD="$build" PREFIX=/opt/heed DESTDIR="$root"
left=$(find "$root/opt" -not -type d)
[ -z "$left" ] || fail "left behind: $left"

#!/usr/bin/env bash
# test_install.sh — installs into a folder, builds programs against it the way a user would
# (pkg-config, shared and static), runs them (examples/translate.c and the README's program, with
# models trained for the purpose), and uninstalls without a trace.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$tree"
root=$dir
if sanitized; then skip 'a sanitizer build is not for installing'; fi
unset HEED_MODELS

# A model that comes with the source, as far as make knows, and a link to it.
seq 1000 | sed 's/./& /g' >"$root/numbers"
"$build/heed" train --src "$root/numbers" --tgt "$root/numbers" --out "$root/model" \
    --preset tiny \
    --n-layer 1 --d-model 16 --d-ff 32 --n-head 2 --vocab-size 20 --steps 20 --tokens 400 \
    --threads 1 --quiet
mkdir "$root/shelf"
"$build/heed" average --last 1 --out "$root/shelf/en-de" "$root/model" >/dev/null
"$build/heed" describe "$root/shelf/en-de" --source en --target de
echo 'A model of numbers.' >"$root/shelf/en-de/README.md"
touch "$root/shelf/en-de/notes.txt" "$root/shelf/README.md"
ln -s en-de "$root/shelf/default"

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
make --no-print-directory install-built BUILD="$build" PREFIX=/opt/heed DESTDIR="$root" \
    MODELS="$root/shelf"
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

# The installed models, found from anywhere: exactly what was named.
models=$root/opt/heed/share/heed/models
out=$(cd "$models" && find . -not -type d | sort | paste -sd ' ')
[ "$out" = './default ./en-de/README.md ./en-de/config.json ./en-de/model.safetensors '\
'./en-de/tokenizer.model' ] || fail "installed: $out"
cd "$root"
(PATH=$root/opt/heed/bin:$PATH && heed models >listed) # by its name alone
grep -qE "^en-de +\* en +de .* $models/en-de\$" listed || fail "it lists $(cat listed)"
echo '1 2 3' | "$root/opt/heed/bin/heed" translate 2>err >said
grep -qF "translating from en to de with the model $models/en-de" err || fail "it says $(cat err)"
cd "$tree"

# The program of the README, on models/en-de if that is there already.
awk '/^## From C/ { on = 1 } on && /^```$/ { exit } on && c { print } on && /^```c$/ { c = 1 }' \
    README.md >"$root/readme.c"
[ "$(wc -l <"$root/readme.c")" -gt 10 ] || fail "the README's program: $(cat "$root/readme.c")"
# shellcheck disable=SC2016
line='cc program.c $(pkg-config --cflags --libs heed)'
grep -qF "$line" README.md
# shellcheck disable=SC2046
(mkdir "$root/readme" && cd "$root/readme" && cp ../readme.c program.c && eval "$line" &&
    gcc -std=c99 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags heed) -c -o x.o program.c)
printf 'Where is my book?\nTom is here.\n' >"$root/text"
# readme_says FOLDER HEED_MODELS — what it prints there must be what heed translate says
readme_says() {
    (cd "$1" && HEED_MODELS=$2 LD_LIBRARY_PATH=$root/opt/heed/lib "$root/readme/a.out" \
        >"$root/readme.out") || fail "the README's program in $1"
    [ "$(wc -l <"$root/readme.out")" = 2 ] || fail "it says: $(cat "$root/readme.out")"
    (cd "$1" && HEED_MODELS=$2 "$root/opt/heed/bin/heed" translate --quiet --model en-de \
        "$root/text") | cmp - "$root/readme.out"
}
readme_says "$root/readme" ''             # the installed one
readme_says "$root/readme" "$root/shelf" # another one
if [ -e models/en-de/config.json ]; then
    readme_says "$tree" ''
    grep -qx 'Wo ist mein Buch?' "$root/readme.out" ||
        fail "models/en-de: $(cat "$root/readme.out")"
else
    note 'there is no models/en-de yet: the README is tried with a stand-in'
fi

# The example.
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

# A model of the user's stays, and so does what the user added to ours.
cp -r "$root/shelf/en-de" "$models/mine"
make --no-print-directory uninstall BUILD="$build" PREFIX=/opt/heed DESTDIR="$root" \
    MODELS="$root/shelf"
left=$(find "$root/opt" -not -type d -not -path "$models/mine/*")
[ -z "$left" ] || fail "left behind: $left"
[ -e "$models/mine/notes.txt" ] && [ ! -e "$models/en-de" ] || fail "$models: $(ls "$models")"
rm -r "$models/mine"
make --no-print-directory uninstall BUILD="$build" PREFIX=/opt/heed DESTDIR="$root" \
    MODELS="$root/shelf"
[ ! -e "$root/opt/heed/share/heed" ] || fail 'share/heed is left behind'
# Without any models there is nothing to install or to remove.
mkdir "$root/none"
for folder in "$root/none" "$root/nowhere"; do
    for goal in install-built uninstall; do
        make --no-print-directory $goal BUILD="$build" PREFIX=/opt/heed DESTDIR="$root" \
            MODELS="$folder" >/dev/null
    done
    [ ! -e "$root/opt/heed/share/heed" ] || fail "installed from $folder"
done

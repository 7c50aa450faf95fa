#!/usr/bin/env bash
# dist.sh — gathers a built heed into a folder that runs on a machine where nothing can be
# installed.
#
#     tools/dist.sh BUILD OUT VERSION WITH-CUBLAS MODELS LIBRARY...
#                                                       (`make dist` calls it; OUT/heed is linked)
#
# OUT/heed-VERSION/bin/heed, lib/ with libheed, every shared library the program and the plug-ins
# need beside the C library, the GPU's driver, MPI and NCCL, lib/heed/ with the plug-ins, include/,
# share/ with the models of the folder MODELS and the licences of what is taken along; and
# OUT/heed-VERSION.tar.gz. WITH-CUBLAS 1 takes cuBLASLt (half a gigabyte), 0 leaves it to the
# machine. LIBRARIES are those that the program loads when it needs them.
set -euo pipefail
build=$1 out=$2 version=$3 with_cublas=$4 models=$5 loaded=("${@:6}")
# unpacked, without cuBLASLt and models; TLS and zip archives bring 11 MiB of libraries
most_mib=40
root=$out/heed-$version
rm -rf "$root" "$root.tar.gz"
mkdir -p "$root"/{bin,include,lib/heed,share/licenses,share/man/man1} \
    "$root"/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}

mv "$out/heed" "$root/bin/heed"
cp "$build/libheed.so.$version" "$root/lib/"
ln -s "libheed.so.$version" "$root/lib/libheed.so.${version%%.*}"
ln -s "libheed.so.$version" "$root/lib/libheed.so"
for plugin in "$build"/libheed-*.so; do
    if [ -e "$plugin" ]; then cp "$plugin" "$root/lib/heed/"; fi
done
cp include/heed.h "$root/include/"
cp "$build/heed.1" "$root/share/man/man1/"
cp "$build/heed.bash" "$root/share/bash-completion/completions/heed"
cp "$build/heed.zsh" "$root/share/zsh/site-functions/_heed"
cp "$build/heed.fish" "$root/share/fish/vendor_completions.d/heed.fish"
cp LICENSE README.md "$root/"
MAKEFLAGS='' make --no-print-directory install-models MODELS="$models" DESTDIR='' PREFIX="$root" \
    >/dev/null

# needed FILE... — paths of the libraries these files load, without those every machine must have
# its own of
needed() {
    ldd "$@" | awk '/=> \// { print $3 }' | sort -u |
        grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|cuda|nvidia-ml))\.so' || true
}
files=("$root/bin/heed" "$root/lib/libheed.so.$version")
# Ranks need the MPI and NCCL that start them on the machine itself, so those stay there.
if [ -e "$root/lib/heed/libheed-cuda.so" ]; then files+=("$root/lib/heed/libheed-cuda.so"); fi
missing=$(ldd "${files[@]}" "${loaded[@]}" | grep 'not found' | grep -v cublasLt || true)
if [ -n "$missing" ]; then
    echo "dist: libraries are missing on this machine:$missing" >&2 && exit 1
fi
while read -r library; do
    case $library in
    */libcublasLt.so*) [ "$with_cublas" = 1 ] || continue ;;
    esac
    cp -L "$library" "$root/lib/"
    package=$(dpkg -S "$(readlink -f "$library")" 2>/dev/null | sed 's/:.*//' | head -n 1) || true
    if [ -n "$package" ] && [ -e "/usr/share/doc/$package/copyright" ]; then
        cp -L "/usr/share/doc/$package/copyright" "$root/share/licenses/$package"
    fi
done < <({ printf '%s\n' "${loaded[@]}" && needed "${files[@]}" "${loaded[@]}"; } | sort -u)

find "$root/bin" "$root/lib" -type f -exec chmod u+w {} + -exec strip --strip-unneeded {} +
tar -C "$out" -czf "$root.tar.gz" "heed-$version"
size=$(du -sm --exclude='libcublasLt*' --exclude=models "$root" | cut -f1)
beside=$(($(du -sm "$root" | cut -f1) - size)) # models, and cuBLASLt where it was asked for
echo "$root: $size MiB and $beside of models and cuBLASLt, packed $(du -m "$root.tar.gz" | cut -f1)"
if [ "$size" -gt "$most_mib" ]; then
    echo "dist: $size MiB without cuBLASLt and models; $most_mib were meant to be enough" >&2
    exit 1
fi

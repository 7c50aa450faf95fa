#!/usr/bin/env bash
# bare.sh — proves that the two commands of the README are all that a bare machine needs.
#
#     tools/bare.sh [TARGET...]     `make test-bare` calls it; the targets are demo and test
#
# Builds a minimal Debian 12 with make and git in a temporary folder, clones the last commit of this
# tree into it and makes the targets there, in a chroot. TESTS=pattern picks tests, as in `make
# test`; ROOT=folder takes that folder instead and keeps it: a second run finds there what the first
# one installed, so it is quicker and proves less. Needs root. What apt-get needs to reach its
# archive (proxy, certificates, name servers) is taken from this machine; MIRROR names another one.
set -euo pipefail
here=$(realpath "$(dirname "$0")/..")
[ $# -gt 0 ] || set -- demo test
if [ "$(id -u)" -ne 0 ]; then echo "bare.sh: chroot needs root" >&2 && exit 1; fi
if [ -n "$(git -C "$here" status --porcelain)" ]; then
    echo "bare.sh: note: what is not committed is not tested" >&2
fi

# The settings of this machine's apt, in the words of a configuration file.
setting() { apt-config dump --format '%f "%v";%n' "$1" 2>/dev/null | sed '/ "";$/d'; }
proxy=$(setting Acquire::http::Proxy | sed -n 's/^Acquire::http::Proxy "\(.*\)";$/\1/p')
archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' \
    2>/dev/null | sed -n 1p || true)
archive=${MIRROR:-${archive:-http://deb.debian.org/debian}}

root=${ROOT:-$(mktemp -d "${TMPDIR:-/var/tmp}/heed-bare.XXXXXX")}
if [ -z "${ROOT:-}" ]; then trap 'rm -rf --one-file-system "$root"' EXIT; fi
trap 'exit 130' INT TERM

if ! [ -e "$root/ready" ]; then
    mkdir -p "$root"
    http_proxy=${http_proxy:-$proxy} debootstrap --variant=minbase --include=make,git bookworm \
        "$root" "$archive"
    echo "deb $archive bookworm main" >"$root/etc/apt/sources.list"
    for key in http https Check-Valid-Until Retries; do setting "Acquire::$key"; done \
        >"$root/etc/apt/apt.conf.d/90host"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
        mkdir -p "$root/etc/ssl/certs"
        cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    fi
    touch "$root/ready"
fi
rm -rf "$root/tree.git" "$root/srv/heed"
git clone --quiet --bare "$here" "$root/tree.git"
# inside COMMAND — in the root, with mounts that nobody else sees and that end with it
inside() {
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount --propagation private bash -c '
        mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
        exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "${@:2}" \
            chroot "$0" /bin/bash -c "$1"' \
        "$root" "$1" TESTS="${TESTS:-}" ${http_proxy:+http_proxy="$http_proxy"}
}
inside 'git clone --quiet /tree.git /srv/heed'
for target in "$@"; do
    echo "== make $target"
    began=$SECONDS
    inside "cd /srv/heed && make $target"
    echo "== make $target: passed after $((SECONDS - began)) s"
done

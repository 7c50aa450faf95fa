#!/usr/bin/env bash
# deps.sh — makes sure that what heed needs is installed.
#
#     tools/deps.sh [--check] GROUP
#
# Each group but bare includes build; all but build and bare include test, slurm cluster. Missing
# packages are installed with apt-get, as root or through sudo without a password; where neither is
# possible, and always with --check, the one command to run is printed and the exit status is 1.
# Quick and silent when nothing is missing.
set -uo pipefail

# group  probe                  Debian and Ubuntu package
needs="
build    command:cc             gcc
build    header:stdio.h         libc6-dev
build    command:make           make
build    command:pkg-config     pkg-config
build    command:c++            g++
build    module:jansson         libjansson-dev
build    module:sentencepiece   libsentencepiece-dev
build    module:zlib            zlib1g-dev
build    module:liblzma         liblzma-dev
build    module:libxxhash       libxxhash-dev
build    module:libedit         libedit-dev
build    module:libzip          libzip-dev
build    module:yaml-0.1        libyaml-dev
build    module:gnutls          libgnutls28-dev
build    header:cld2/public/encodings.h  libcld2-dev
test     module:cmocka          libcmocka-dev
test     command:xz             xz-utils
test     command:python3        python3
test     command:openssl        openssl
ranks    module:ompi-c          libopenmpi-dev
ranks    command:mpirun         openmpi-bin
cluster  command:/usr/sbin/sshd openssh-server
cluster  command:ip             iproute2
slurm    command:slurmctld      slurmctld
slurm    command:slurmd         slurmd
slurm    command:srun           slurm-client
slurm    command:munged         munge
oracle   module:gumbo           libgumbo-dev
browser  command:chromium       chromium
browser  command:chromedriver   chromium-driver
browser  python:selenium        python3-selenium
slow     command:slowhttptest   slowhttptest
bare     command:debootstrap    debootstrap
bare     command:git            git
fuzz     command:clang          clang
fuzz     runtime:fuzzer         libclang-rt-14-dev
lint     command:clang          clang
lint     command:clang-format   clang-format
lint     command:clang-tidy     clang-tidy
lint     command:cppcheck       cppcheck
lint     command:shellcheck     shellcheck
"

check=
if [ "${1:-}" = --check ]; then check=1 && shift; fi
case ${1:-} in
build) groups=" build " ;;
test) groups=" build test " ;;
ranks) groups=" build test ranks " ;;
cluster) groups=" build test ranks cluster " ;;
slurm) groups=" build test ranks cluster slurm " ;;
oracle) groups=" build test oracle " ;;
browser) groups=" build test browser " ;;
slow) groups=" build test slow " ;;
fuzz) groups=" build test fuzz " ;;
lint) groups=" build test lint " ;;
bare) groups=" bare " ;;
*)
    echo "usage: tools/deps.sh [--check] GROUP, one of build test ranks cluster slurm oracle" \
        "browser slow fuzz lint bare" >&2
    exit 2
    ;;
esac

present() {
    case $1 in
    command:*) command -v "${1#*:}" ;;
    python:*) /usr/bin/python3 -c "import ${1#*:}" ;;
    module:*) pkg-config --exists "${1#*:}" ;;
    runtime:*) echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize="${1#*:}" -x c - -o /dev/null ;;
    header:*) echo "#include <${1#*:}>" | cc -E - ;;
    esac >/dev/null 2>&1
}

missing() {
    while read -r group probe package; do
        case $groups in *" $group "*) present "$probe" || echo "$package" ;; esac
    done <<<"$(sed '/^$/d' <<<"$needs")"
}

packages=$(missing | xargs)
[ -n "$packages" ] || exit 0

if [ -z "$check" ] && command -v apt-get >/dev/null; then
    as_root=
    if [ "$(id -u)" -ne 0 ]; then as_root="sudo -n"; fi
    install() {
        # shellcheck disable=SC2086 # lists of words
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq -o DPkg::Lock::Timeout=120 -o APT::Install-Recommends=false \
            install -y $packages </dev/null >&2
    }
    if [ -z "$as_root" ] || sudo -n true 2>/dev/null; then
        echo "installing: $packages" >&2
        # The package lists are fetched only when the first try shows that they are stale or absent.
        install 2>/dev/null || { $as_root apt-get -qq update >&2 && install; }
        packages=$(missing | xargs)
        [ -n "$packages" ] || exit 0
    fi
fi

echo "heed: missing packages: $packages" >&2
echo "hint: sudo apt-get install $packages" >&2
exit 1

# shellcheck shell=bash
# common.sh — what all stages share: where things are, and how a stage leaves files. To be sourced.
#
#     DATA   folder with tatoeba-en-de, msdocs-en-de, europarl-en-de, each with train.{en,de}.xz and
#            valid.{en,de}.xz (required by the stages that read raw text)
#     WORK   where stages leave their results (local/box)
#     HEED   the program (build/heed)
#     DEVICE what trains and decodes (auto)
# shellcheck disable=SC2034 # for whom it is sourced
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
WORK=${WORK:-local/box}
HEED=${HEED:-build/heed}
DEVICE=${DEVICE:-auto}
CORPORA=(tatoeba msdocs europarl)
mkdir -p "$WORK"

fail() { echo "recipes/box: $*" >&2 && exit 1; }
say() { echo "== $*" >&2; }

raw() { # CORPUS SPLIT LANGUAGE — its text
    local path=${DATA:?set DATA to the folder that has the corpora}/$1-en-de/$2.$3.xz
    [ -e "$path" ] || fail "$path is not there"
    echo "$path"
}
both() { # PAIR — its source and target language, from en-de or de-en
    case $1 in en-de) echo en de ;; de-en) echo de en ;; *) fail "$1: en-de or de-en" ;; esac
}
# All teachers of a direction, as options of heed translate: several are an ensemble.
teachers() { # PAIR
    local config
    for config in "$WORK/teacher.$1"/config.json "$WORK/teacher.$1".*/config.json; do
        if [ -e "$config" ]; then printf -- '--model\n%s\n' "${config%/*}"; fi
    done
}
opposite() { case $1 in en-de) echo de-en ;; *) echo en-de ;; esac }

# make FILE COMMAND... — runs it unless FILE is there; the command writes FILE.part, which gets its
# name when it is whole. So a stage that is stopped anywhere begins again where it was.
make_file() {
    local file=$1
    shift
    if [ -e "$file" ]; then say "$file is there" && return; fi
    mkdir -p "$(dirname "$file")"
    "$@" "$file.part"
    mv "$file.part" "$file"
}

# noisy STEM OPTIONS... FILE.$from.part — noisy copies of STEM.{$from,$to} (noise.py); FILE.$to, the
# target's, gets its name first. For make_file, which gives the source's its own.
# shellcheck disable=SC2154 # from and to are the stage's
noisy() {
    local part=${!#}
    recipes/box/noise.py --langs "$from,$to" "${@:2:$#-2}" "$1."{"$from","$to"} "$part" "$part.$to"
    mv "$part.$to" "${part%".$from.part"}.$to"
}

# squeeze FILE... — FILE becomes FILE.xz, on all cores; with Python where there is no xz.
squeeze() {
    if command -v xz >/dev/null; then xz -T0 --force "$@" && return; fi
    python3 - "$@" <<'END'
import lzma, multiprocessing, os, sys

def blocks(path, size=16 << 20):
    with open(path, "rb") as file:
        while block := file.read(size):
            yield block

for path in sys.argv[1:]:
    # Streams after one another are a file of xz.
    with multiprocessing.Pool() as pool, open(path + ".xz.part", "wb") as out:
        for block in pool.imap(lzma.compress, blocks(path)):
            out.write(block)
    os.rename(path + ".xz.part", path + ".xz")
    os.remove(path)
END
}
unpack() { # FILE.xz — its text
    python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1"
}
unpack_to() { unpack "$1" >"$2"; } # FILE.xz FILE

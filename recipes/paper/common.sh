# shellcheck shell=bash
# common.sh — what recipes share: that they may be told how many MINUTES they have, and the model
# in PyTorch beside heed's. To be sourced.

# left — seconds until MINUTES are over, counted from the recipe's start
left() { echo $((${MINUTES:-100000} * 60 - SECONDS)); }

# limited COMMAND... — runs it until it ends or time is up, when SIGTERM asks it to save and stop:
# the status is then 124.
limited() {
    local left
    left=$(left)
    [ "$left" -gt 0 ] || return 124
    timeout --foreground -s TERM "$left" "$@" # to it alone: a second signal would end it unsaved
}

# stop WHAT — ends the recipe, as there is no time for it
stop() { echo "${0##*/}: time is up in $1: run it again to go on" && exit; }

# ended STATUS WHAT — ends the recipe after a limited command that did not succeed: for want of
# time, or because it failed, having said why
ended() { [ "$1" != 124 ] || stop "$2" && exit "$1"; }

# peer FILE OPTION... — peer.py until it ends or time is up; what it prints becomes FILE
peer() {
    local file=$1 limit=()
    shift
    [ ! -e "$file" ] || return 0
    [ "$(left)" -gt 0 ] || stop "PyTorch's model"
    [ -z "${MINUTES:-}" ] || limit=(--seconds "$(left)")
    "$PYTHON" recipes/paper/peer.py "$@" "${limit[@]}" >"$file.part"
    [ -s "$file.part" ] || stop "PyTorch's model"
    mv "$file.part" "$file"
}

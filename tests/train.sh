# train.sh — what the test_train_*.sh share: a small corpus, a model that trains in a second, and
# checks. Not a test. Source it: it leaves the corpus in $dir as t.src, t.tgt (training) and v.src,
# v.tgt (validation), and t.links, v.links: which words translate which.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts that source this use what it sets
# shellcheck source=tests/shell.sh
. "$(dirname "${BASH_SOURCE[0]}")/shell.sh"
cd "$dir"

# pairs NAME N SEED — N sentences of 3 to 10 words in NAME.src; NAME.tgt has their words backwards,
# NAME.links says so
pairs() {
    awk -v name="$1" -v n="$2" -v seed="$3" 'BEGIN {
        srand(seed)
        for (i = 0; i < n; i++) {
            k = 3 + int(rand() * 8); s = t = l = ""
            for (j = 0; j < k; j++) {
                for (w = ""; length(w) < 4;) {
                    w = w substr("bdgklmnprst", 1 + int(rand() * 11), 1)
                    w = w substr("aeiou", 1 + int(rand() * 5), 1)
                }
                s = s (j ? " " : "") w
                t = w (j ? " " : "") t
                l = l (j ? " " : "") j "-" k - 1 - j
            }
            print s >(name ".src")
            print t >(name ".tgt")
            print l >(name ".links")
        } }'
}
pairs t 400 1
pairs v 60 2

data=(--src t.src --tgt t.tgt --valid-src v.src --valid-tgt v.tgt)
model=(--preset tiny --n-layer 1 --d-model 32 --n-head 2 --d-ff 64 --vocab-size 200)
small=("${model[@]}" --tokens 400 --max-length 40 --threads 1 --warmup 50)
# train OUT [OPTION...] — the usual data and model
train() { "$heed" train "${data[@]}" "${small[@]}" --out "$@"; }

steps() { # the steps of a run's checkpoints, in one line
    local s=
    for c in "$1"/ckpt-????????; do [ -d "$c" ] && s="$s $((10#${c##*-}))"; done
    echo "${s# }"
}
newest() { printf '%s/ckpt-%08d' "$1" "$(steps "$1" | awk '{ print $NF }')"; }

# The numbers of a log: without notes, times and ranks, which differ between runs that are the same.
log_lines() {
    grep -v '"event"' "$1" |
        sed -e 's/,"\(tok_s\|time\|valid_time\|ranks\|slowest\|sent\)":[0-9.e+-]*//g'
}
log_steps() { sed -n 's/^{"step":\([0-9]*\),"epoch".*/\1/p' "$1"; }

# same_states CHECKPOINT CHECKPOINT — all tensors and values of their states but for times
same_states() {
    command -v python3 >/dev/null || return 0
    python3 - "$1" "$2" <<'END' || fail "states of $1 and $2"
import json, struct, sys
def load(path):
    data = open(path + "/state.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    meta = head.pop("__metadata__")
    del head["crc32c"]  # sums over the header, which holds times
    # the log has notes of every resume, and a stop's checkpoint goes with the next one
    for key in "seconds", "window.seconds", "log_size", "spent":
        del meta["state." + key]
    at = {k: [8 + n + x for x in v["data_offsets"]] for k, v in head.items()}
    return meta, {k: data[begin:end] for k, (begin, end) in at.items()}
a, b = load(sys.argv[1]), load(sys.argv[2])
assert a[0] == b[0], (a[0], b[0])
assert len(a[1]) > 10 and a[1] == b[1], [k for k in a[1] if a[1][k] != b[1].get(k)]
assert any(any(v) for v in a[1].values())
END
}

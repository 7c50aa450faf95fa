#!/usr/bin/env bash
# gpu_experiments.sh — what the switches of experiments on a GPU (docs/notes/gpu.md) are worth, and
# whether they change results.
#
#     bench/gpu_experiments.sh [PART...]    parts: train, decode, natural, same (all of them)
#
# Every workload runs as it is and with each switch, in turns, ROUNDS times (3); the table has
# medians, and the spread of the runs as they are. `train` and `decode` have random weights and
# forced lengths; `natural` translates text with a model in the box, as bf16; `same` trains with and
# without a second stream and compares the weights, and compares translations. Exit status 1: a run
# failed, weights differ, or fewer than 98 of 100 translations are the same.
#
# Figures are added to WORK/rows (WORK: HOME_GPU/experiments), and the table is of all that are
# there: parts may run one after the other. With OUT, a folder, a copy of the rows goes there. All
# parts take some ten minutes, `train same` four of them.
#
# HOME_GPU: where heed and its libraries are (local/gpu, as `bench/gpu.sh pack` leaves it; a build
# folder will do). SECONDS_EACH: how long an update is timed (1). DEVICE: cuda.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
home=${HOME_GPU:-local/gpu}
out=${WORK:-$home/experiments} rounds=${ROUNDS:-3} device=${DEVICE:-cuda} failed=0
[ $# -gt 0 ] || set -- train decode natural same
rm -rf "$out"/run-*
mkdir -p "$out"
. bench/gpu_home.sh

# once WORKLOAD FIGURE SWITCHES COMMAND... — adds a line to the table's rows, with the last line of
# JSON that the command prints, in which the figure is
once() {
    local workload=$1 figure=$2 switches=$3
    shift 3
    # shellcheck disable=SC2086 # NAME=VALUE NAME=VALUE
    if env $switches "$@" >"$out/last.json" 2>"$out/last.err"; then
        printf '{"workload":"%s","figure":"%s","switches":"%s","json":%s}\n' "$workload" \
            "$figure" "$switches" "$(tail -n 1 "$out/last.json")" >>"$out/rows"
    else
        failed=1
        echo "FAILED: $workload with ${switches:-nothing}: $(tail -n 2 "$out/last.err")"
    fi
}
# turns WORKLOAD FIGURE SWITCHES;SWITCHES;... COMMAND... — as it is and with each of them
turns() {
    local workload=$1 figure=$2 list k s
    IFS=';' read -ra list <<<"$3"
    shift 3
    for ((k = 0; k < rounds; k++)); do
        once "$workload" "$figure" '' "$@"
        for s in "${list[@]}"; do once "$workload" "$figure" "$s" "$@"; done
    done
}

beside=HEED_CUDA_BESIDE=1
few='HEED_CUDA_EDGES=1;HEED_CUDA_FEW=256;HEED_CUDA_EDGES=1 HEED_CUDA_FEW=256'
update=("$heed" bench train --device "$device" --dtype bf16 --json --seconds "${SECONDS_EACH:-1}")
search=("$heed" bench translate --device "$device" --precision bf16 --json)

train() {
    turns tiny ms_per_step "$beside" "${update[@]}" --preset tiny --tokens 8192 --n-vocab 10000
    turns 'base, 4,096 tokens' ms_per_step "$beside" "${update[@]}" --preset base --tokens 4096
    turns base ms_per_step "$beside" "${update[@]}" --preset base --tokens 25000
    turns 'base, bucketed' ms_per_step "$beside" "${update[@]}" --preset base --tokens 25000 \
        --bucketed
    turns 'big, bucketed' ms_per_step "$beside" "${update[@]}" --preset big --tokens 25000 \
        --bucketed
}

decode() {
    local batch
    for batch in 1 4 8 32 64 256; do
        turns "decoding, batch $batch" tokens_per_s "$few" "${search[@]}" --preset base \
            --n-vocab 37000 --beam 4 --length 32 --force-length 32 --batch "$batch" \
            --sentences $((batch < 8 ? 64 : 4 * batch))
    done
}

# box NAME — a model in the box with plain weights: one update that changes next to nothing
box() {
    [ -e "$out/$1.model/model.safetensors" ] ||
        "$heed" train --init "models/$1" --src demo/valid.en.xz --tgt demo/valid.de.xz --steps 1 \
            --lr-scale 1e-9 --tokens 1000 --device "$device" --quiet --out "$out/$1.model"
}
# prepared — that model, and English lines for it to translate
prepared() {
    [ -s "$out/text" ] || python3 -c 'import lzma, sys
for name in sys.argv[1:]: sys.stdout.buffer.write(lzma.open(name).read())' \
        demo/{msdocs,tatoeba,train}.en.xz >"$out/text"
    [ -s "$out/text" ] && box en-de && return
    failed=1
    return 1
}

# rate MODEL LINES OPTION... — one line of JSON with the target tokens per second of a translation
rate() {
    local model=$1 lines=$2
    shift 2
    head -n "$lines" "$out/text" | "$heed" translate --model "$model" --device "$device" \
        --precision bf16 --quiet --stats "$@" 2>"$out/stats" >"$out/translation" || return
    printf '{"tokens_per_s":%s}\n' \
        "$(grep -oE '[0-9.]+ target tokens/s' "$out/stats" | head -n 1 | cut -d' ' -f1)"
}
export -f rate
export heed device out

natural() {
    prepared || return
    turns 'text, line by line' tokens_per_s "$few" bash -c 'rate "$@"' - "$out/en-de.model" 200 \
        --batch-sentences 1 --lanes 1
    turns 'text, 20,000 lines' tokens_per_s "$few" bash -c 'rate "$@"' - "$out/en-de.model" 20000
}

same() {
    local one two k
    for one in '' "$beside"; do
        for two in f32 bf16; do
            # shellcheck disable=SC2086
            env $one "$heed" train --config demo/train.json --device "$device" --dtype $two \
                --src demo/train.en.xz --tgt demo/train.de.xz --steps 100 --save-every 100 --quiet \
                --valid-src demo/valid.en.xz --valid-tgt demo/valid.de.xz --seed 3 \
                --out "$out/run${one:+-beside}-$two" 2>"$out/train.err" ||
                { tail -n 2 "$out/train.err" && failed=1; }
        done
    done
    for two in f32 bf16; do
        cmp "$out/run-$two/model.safetensors" "$out/run-beside-$two/model.safetensors" || failed=1
    done
    prepared || return
    k=0
    while read -r one; do
        for two in 1 32; do
            # shellcheck disable=SC2086
            env $one bash -c 'rate "$@"' - "$out/en-de.model" 500 --batch-sentences $two \
                >/dev/null || failed=1
            mv "$out/translation" "$out/translation-$k-$two"
        done
        ((++k))
    done < <(printf '\n%s\n' "${few//;/$'\n'}")
    for one in 1 2 3; do
        for two in 1 32; do
            paste -d $'\001' "$out/translation-0-$two" "$out/translation-$one-$two" |
                awk -F '\001' -v what="translations, switches $one, batches of $two" '
                    { n++; same += $1 == $2 }
                    END { printf "%s: %d of %d as without\n", what, same, n
                          exit !(n && same >= 0.98 * n) }' || failed=1
        done
    done
}

# table — medians of all rows, also where time runs out before the last part
table() {
    [ -e "$out/rows" ] || return 0
    [ -z "${OUT:-}" ] || cp "$out/rows" "$OUT/experiments.jsonl"
    python3 - "$out/rows" <<'END'
import json, statistics, sys
rows, order = {}, []
for line in open(sys.argv[1], encoding="utf-8"):
    r = json.loads(line)
    key = r["workload"], r["figure"]
    if key not in rows:
        order.append(key)
    rows.setdefault(key, {}).setdefault(r["switches"], []).append(r["json"][r["figure"]])
for key in order:
    plain = rows[key].pop("", None)
    if not plain:
        continue
    middle = statistics.median(plain)
    print(f"{key[0]:22} {key[1]:14} {middle:12,.2f}  ({min(plain):,.2f} to {max(plain):,.2f})")
    for switches, values in rows[key].items():
        value = statistics.median(values)
        gain = middle / value if key[1].startswith("ms") else value / middle
        print(f"{'':37} {value:12,.2f}  x {gain:.3f}  "
              f"{switches.replace('HEED_CUDA_', '').replace('=1', '')}")
END
}
trap table EXIT
trap 'exit 1' TERM INT

for part in "$@"; do
    case $part in
    train) train ;;
    decode) decode ;;
    natural) natural ;;
    same) same ;;
    *) echo "gpu_experiments.sh: there is no part '$part'" >&2 && exit 2 ;;
    esac
done
exit $failed

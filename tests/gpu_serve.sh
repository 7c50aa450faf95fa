#!/usr/bin/env bash
# gpu_serve.sh — heed serve on a GPU: answers under load as `heed translate` has them, and as the
# CPU does (tests/serve/gpu.py). Ends with a table. About half a minute.
#
#     tests/gpu_serve.sh FOLDER     of the build, or what `bench/gpu.sh pack` left
#
# The model is trained first, on the device, in a few seconds: of the shape that is shipped, 6 + 2
# layers of 256, it learns to write words backwards. DEVICE (cuda), STEPS (4000) and SHAPE, options
# of heed train, are for trying it where there is no GPU: DEVICE=cpu STEPS=60 SHAPE=.
set -euo pipefail
home=$(realpath "${1:-build}")
# shellcheck source=bench/gpu_home.sh
. "$(dirname "$0")/../bench/gpu_home.sh"
export BUILD=$home
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
trap 'rm -rf "$dir"' EXIT
command -v python3 >/dev/null || skip 'no python3 here'
device=${DEVICE:-cuda}
read -ra shape <<<"${SHAPE---n-layer-enc 6 --n-layer-dec 2 --d-model 256 --n-head 8 --d-ff 1536}"
pairs t 20000 1
pairs q "${SENTENCES:-1000}" 3
train run "${shape[@]}" --device "$device" --threads 0 --steps "${STEPS:-4000}" --warmup 2000 \
    --tokens 8000 --save-every 100000 --quiet
"$heed" quantize --model run --out rounded >/dev/null
python3 "$tree/tests/serve/gpu.py" "$heed" "$device" run rounded q.src || {
    tail -n 5 serve.log
    fail 'see above'
}

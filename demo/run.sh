#!/usr/bin/env bash
# run.sh — the demo: English and German, with the models that come with heed.
#
#     demo/run.sh [HEED [OUT-DIR [MODELS]]]
#
# `make demo` calls it. It shows a dozen sentences with the words that each word came from, scores
# text that no model was trained on, beside the figures of the model's card, and ends with a prompt
# where there is a terminal. It only runs commands anybody can type, and prints them. Where there
# are no models it trains a small one (train.sh).
set -euo pipefail
heed=${1:-build/heed} out=${2:-build/demo} demo=$(dirname "$0")
models=${3:-$demo/../models}

directions=()
for direction in en-de de-en; do
    if [ -e "$models/$direction/config.json" ]; then directions+=("$direction"); fi
done
if [ ${#directions[@]} = 0 ]; then
    echo "There is no model in $models: training a small one instead."
    exec "$demo/train.sh" "$heed" "$out"
fi
mkdir -p "$out"
export HEED_MODELS=$models # `heed translate --model en-de` finds them there

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\e[1m' plain=$'\e[0m'
fi
show() { printf '\n$ %s\n' "$*"; }
seconds() { echo "${EPOCHREALTIME/[.,]/}"; } # millionths of one

# ---- sentences, and where their words came from

# sentences DIRECTION
sentences() {
    show "$heed translate --model $1 --interactive --alignment <<<SENTENCE"
    while IFS= read -r sentence; do
        printf '\n%s%s%s\n' "$bold" "$sentence" "$plain"
        "$heed" translate --model "$1" --interactive --alignment <<<"$sentence"
    done <"$demo/sentences.${1%-*}"
}
echo "English and German; below each word the one that it came from."
for direction in "${directions[@]}"; do sentences "$direction"; done

# ---- scores

# card DIRECTION TEXT — what the model's card says: the numbers of the first two columns in the row
# of its table that begins with the name of the text
card() {
    awk -F ' *[|] *' -v text="$2" 'index($2, text " ") == 1 && $3 + 0 && $4 + 0 {
        print $3 " / " $4
        exit }' "$models/$1/README.md" 2>/dev/null || true
}

# score DIRECTION TEXT — a row of the table
score() {
    local from=${1%-*} to=${1#*-} figures said
    "$heed" translate --model "$1" --quiet "$demo/$2.$from.xz" --output "$out/$2.$to"
    figures=$("$heed" eval --ref "$demo/$2.$to.xz" --hyp "$out/$2.$to" --score-only --confidence |
        sed 's/ (.* \([0-9.]*\))$/ \1/' | xargs)
    said=$(card "$1" "$2")
    # shellcheck disable=SC2086 # four numbers
    printf '  %-5s  %-7s  %4s ± %-3s  %4s ± %-3s   %s\n' "$1" "$2" $figures "${said:--}"
    words=$((words + $(wc -w <"$out/$2.$to")))
}
read -r from to <<<"${directions[0]/-/ }"
show "$heed translate --model ${directions[0]} $demo/msdocs.$from.xz |" \
    "$heed eval --ref $demo/msdocs.$to.xz"
cat <<'END'

A third of 3,003 sentences of Tatoeba and a quarter of 2,000 of software
documentation, which no model was trained on. Beside their scores (± is the
95 % interval) what the models' cards say of all of them:

                       BLEU       chrF     the card
END
words=0 begin=$(seconds)
for direction in "${directions[@]}"; do
    for text in tatoeba msdocs; do score $direction $text; done
done
took=$(($(seconds) - begin))
printf '\n%d thousand words in %d.%d s, scoring included.\n' $(((words + 500) / 1000)) \
    $((took / 1000000)) $((took / 100000 % 10))

# ---- your turn

cat <<END

How the models were made, and what they are good for: $models/${directions[0]}/README.md
To translate a file, one sentence per line:
    $heed translate --model ${directions[-1]} FILE
To train a small model from nothing, in a minute or two:
    make demo-train
END
show "$heed translate --model ${directions[0]} --interactive"
if [ -t 0 ] && [ -t 1 ]; then
    set -m # a process group of its own: its Ctrl-C is not for make
    "$heed" translate --model "${directions[0]}" --interactive
else
    echo '(left out: it asks for one line after another, which wants a terminal)'
fi

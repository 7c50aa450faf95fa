#!/usr/bin/env bash
# test_demo.sh — both demos from one end to the other with models too small to be good. One trains,
# stops, continues, averages and translates, one line out for each line in; the other shows
# sentences with their words, scores held-out text, and asks for more where there is a terminal.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
demo=$tree/demo
cd "$dir"

# A short run, then more of it.
small=(--d-model 16 --d-ff 32 --n-head 2 --n-layer 1 --vocab-size 300 --save-every 1 --threads 1)
out=$("$demo/train.sh" "$heed" "$dir/run" "${small[@]}" --steps 5 2>&1) || fail "the demo: $out"
has 'training data: 30,021 pairs read, 30,021 kept'
has 'average of 5 checkpoints, steps 1 to 5'
has 'BLEU|nrefs:1|'
[ "$(grep -c '^    -> ' <<<"$out")" = 10 ] || fail "not ten translations: $out"
out=$("$demo/train.sh" "$heed" "$dir/run" "${small[@]}" --steps 8 2>&1) || fail "again: $out"
has 'continuing'
has 'steps 4 to 8'

# Ctrl-C while it trains: it says that it can continue, shows nothing, and does not claim to have
# finished.
set -m # a process group of its own, so that all of it gets the signal, as from a terminal
: >log
"$demo/train.sh" "$heed" "$dir/run" "${small[@]}" --steps 1000000 >log 2>&1 &
child=$!
set +m
for _ in $(seq 100); do
    grep -q continuing log && break
    sleep 0.2
done
sleep 0.5
kill -INT -- "-$child"
wait "$child" && fail 'a stopped demo went on as if it had finished'
grep -q 'run the same command again to continue' log || fail "no word about continuing: $(cat log)"
absent BLEU log 'a stopped demo went on'

# What it wrote is a model like any other.
[ "$(wc -l <run/heldout.de)" = 500 ] || fail 'not a translation for every sentence'
echo 'Tom is here.' | "$heed" translate --model run/average --quiet >/dev/null ||
    fail 'the model does not translate'

# ---- make demo: the models that come with heed; here they are the same one
# without any, it trains
set -m
: >log # or the line waited for may be the last one's
"$demo/run.sh" "$heed" "$dir/none" "$dir/models" >log 2>&1 &
child=$!
set +m
for _ in $(seq 100); do
    grep -q 'training data' log && break
    sleep 0.2
done
kill -INT -- "-$child"
wait "$child" && fail 'a stopped demo went on as if it had finished'
grep -q "no model in $dir/models: training" log || fail "no word about training: $(cat log)"

mkdir models
"$heed" quantize --model run/average --out models/en-de >/dev/null
# a model that learnt nothing goes on and on
sed -i 's/^{/{"translate": {"beam": 1, "max_extra": 2},/' models/en-de/config.json
cp -r models/en-de models/de-en
if command -v python3 >/dev/null; then # the card as it is made
    cat >scores.json <<'END'
{"quality": {"en-de": {"newstest2014": {"bleu": 21, "chrf2": 53},
                       "tatoeba": {"bleu": 38.3, "chrf2": 60.4}}},
 "teachers": {"en-de": {"tatoeba": {"bleu": 39.1, "chrf2": 61.2}}}}
END
    python3 "$tree/recipes/box/card.py" --model models/en-de --scores scores.json
else
    cat >models/en-de/README.md <<'END'
| test set | BLEU | chrF2 | teacher |
|---|--:|--:|--:|
| tatoeba test, first 3,003 (everyday sentences) | 38.3 | 60.4 | 39.1 / 61.2 |
END
fi
"$demo/run.sh" "$heed" "$dir/box" "$dir/models" >log 2>&1 </dev/null || fail "$(cat log)"
out=$(cat log)
while IFS= read -r sentence; do has "$sentence"; done < <(cat "$demo"/sentences.{en,de})
[ "$(cat "$demo"/sentences.{en,de} | wc -l)" = 12 ] || fail 'not a dozen sentences'
# each with its translation, and the translation's words
while IFS= read -r sentence; do
    want=$("$heed" translate --model models/en-de --quiet <<<"$sentence")
    has "$sentence"$'\n'"$want"$'\n  '"${want%% *}"
done <"$demo/sentences.en"
want=$("$heed" translate --model models/en-de --quiet "$demo/tatoeba.en.xz" |
    "$heed" eval --ref "$demo/tatoeba.de.xz" --score-only | sed -n 1p)
grep -qE "^  en-de  tatoeba +$want ± .*38\.3 / 60\.4$" log || fail "not $want and the card's: $out"
grep -qE '^  de-en  msdocs .* -$' log || fail "a figure from no card: $out"
has 'wants a terminal'

# one direction alone is shown alone
mkdir half && cp -r models/de-en half
out=$("$demo/run.sh" "$heed" "$dir/box" "$dir/half" 2>&1 </dev/null) || fail "$out"
has 'heed translate --model de-en --interactive'
lacks 'en-de'

# on a terminal it asks
printf 'Tom is here.\n:quit\n' |
    TERM=xterm NO_COLOR=1 XDG_STATE_HOME=$dir script -qec \
        "$demo/run.sh $heed $dir/box $dir/models" /dev/null >log || fail "$(cat log)"
out=$(cat log)
lacks 'wants a terminal'
has 'en-de> Tom is here.'
has "$("$heed" translate --model models/en-de --quiet <<<'Tom is here.')"

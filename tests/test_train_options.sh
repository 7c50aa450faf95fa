#!/bin/bash
# test_train_options.sh — heed train as users call it: where a run ends, what it keeps, --config,
# --dry-run, memory, odd text, progress; and that memory does not grow with the corpus.
# timeout: 240
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
"$heed" vocab --input t.src t.tgt --size 200 --out tok.model --quiet
only=(--src t.src --tgt t.tgt --tokenizer tok.model --cache cache)
# bare OPTION... — no validation, a tokenizer that is there
bare() { "$heed" train "${only[@]}" "${small[@]}" "$@"; }
valid=(--valid-src v.src --valid-tgt v.tgt)

# ---- wrong use
expect 2 '--src is missing' "$heed" train --out run
expect 2 '--out is missing' "$heed" train --src t.src --tgt t.tgt
expect 2 '2 files for --src but 1 for --tgt' bare --out run --src v.src
expect 2 '2 numbers for 1 --src file; give' bare --out run --weights 1 2
expect 2 'belong together' bare --out run --valid-src v.src
expect 2 '--tokens: 30 is smaller than one sentence of --max-length 40' bare --out run --tokens 30
expect 2 'needs validation text' bare --out run --patience 2
expect 2 "--dtype: 'f16'" bare --out run --dtype f16
expect 2 '--rounding: it is the bf16 copy of the weights that is rounded, and f32 has none' \
    bare --out run --rounding int8 --device cpu
lacks 'pairs read' # before anything is tokenised
expect 2 'the tokenizer decides the vocabulary' bare --out run --n-vocab 300
expect 2 "more than the model's --max-len 1024" bare --out run --max-length 2000 --tokens 4000
# A message begins with an option that was given, and marks a default as such.
loose() { "$heed" train "${only[@]}" "${model[@]}" --out run "$@"; }
expect 2 '--max-len: 64 positions are too few for pairs of up to 256 tokens; give --max-length 64' \
    loose --max-len 64
expect 2 "--max-length: 99 is more than the model's --max-len 64" loose --max-len 64 --max-length 99
lacks default
expect 2 "the model's --max-len 1024 (the default)" bare --out run --max-length 2000 --tokens 4000
expect 2 '--tokens: 30 is smaller than one sentence of --max-length 256 (the default)' \
    loose --tokens 30
expect 2 '--max-length: 60000 is more than --tokens 25000 (the default)' loose --max-length 60000
expect 2 '--bleu-every: 7 is not a multiple of --valid-every 500 (the default)' \
    bare --out run "${valid[@]}" --bleu-every 7
for made in '--out=-' '--out=run --cache=-'; do
    # shellcheck disable=SC2086 # two options
    expect 2 ': what is written here needs a name; - (standard output) is none' bare $made
done
[ ! -e - ] || fail 'a file called -'
expect 2 "0 is not a number above 0" bare --out run --weights 0
expect 1 'nothing.src: No such file' "$heed" train --src nothing.src --tgt t.tgt "${small[@]}" \
    --out run
expect 1 't.src: not a SentencePiece model' "$heed" train --src t.src --tgt t.tgt "${small[@]}" \
    --out run --tokenizer t.src
[ ! -e run ] || fail "wrong use left $(ls run)"
mkdir own && cp t.src own/log.jsonl
expect 2 '--out: the run would replace its own text, own/log.jsonl' "$heed" train --out own \
    --src own/log.jsonl --tgt t.tgt "${small[@]}"
same own/log.jsonl t.src
# early CODE TEXT OPTION... — found out before the vocabulary is learnt or anything is tokenised or
# written
early() {
    expect "$1" "$2" "$heed" train --src t.src --tgt t.tgt "${small[@]}" --out run "${@:3}"
    lacks 'learning the vocabulary'
    lacks 'pairs read'
    [ ! -e run ] || fail "$*: left $(ls run)"
}
early 2 "--preset: 'large'" --preset large
early 2 '33 is not divisible by the number of heads, 2' --d-model 33
early 2 'is not divisible by the number of heads, 5' --n-head 5
early 2 "more than the model's --max-len 30" --max-len 30
early 2 "0 is not a number above 0" --weights 0
early 2 "x is not a number above 0" --weights x
early 1 'none.src: No such file' --valid-src none.src --valid-tgt v.tgt
early 1 'none.tgt: No such file' --valid-src v.src --valid-tgt none.tgt
early 1 'none.src: No such file' --src none.src --tgt t.tgt
early 1 'none.tgt: No such file' --src v.src --tgt none.tgt
early 2 'not a regular file' --valid-src . --valid-tgt v.tgt
printf 'a\0b\0' | sed 's/^/\xff\xfe/' >utf16
early 1 'utf16: this is UTF-16' --valid-src utf16 --valid-tgt v.tgt
early 1 'none.model: No such file' --tokenizer none.model
early 2 "device: 'tpu'" --device tpu
touch file
early 1 'file: not a directory' --out file

# ---- the vocabulary: neither a dry run nor a run that fails decides about the next one
learn() { "$heed" train --src t.src --tgt t.tgt "${small[@]}" --out run --steps 2 "$@"; }
expect 0 'learnt from the texts, 150 pieces' learn --vocab-size 150 --dry-run
[ "$(ls run)" = cache ] || fail "a dry run leaves $(ls run)"
yes '' | head -n 50 >blank || :
expect 1 'no usable pair' learn --vocab-size 160 --valid-src blank --valid-tgt blank
[ ! -e run/tokenizer.model ] || fail 'a failed run leaves a tokenizer'
expect 0 'learnt from the texts, 150 pieces (cached)' learn --vocab-size 150 --dry-run
lacks 'learning the vocabulary'
expect 2 '--vocab-size: 9000 is more than this corpus allows' learn --vocab-size 9000
expect 0 'learnt from the texts, 170 pieces' learn --vocab-size 170
grep -q '"n_vocab_tgt": 170' run/config.json || fail 'a vocabulary of another size'
expect 0 '--vocab-size 180 is ignored' learn --vocab-size 180 --steps 3
expect 0 'learnt from the texts, 180 pieces' learn --vocab-size 180 --overwrite
rm -rf run && mkdir run && cp tok.model run/tokenizer.model
expect 0 'tokenizer: run/tokenizer.model, 200 pieces' "$heed" train --src t.src --tgt t.tgt \
    --out run --preset tiny --tokens 400 --max-length 40 --threads 1 --steps 1 --dry-run
lacks 'is ignored' # nobody gave --vocab-size
has '1 step: about'
expect 2 '--vocab-size: 150, but run/tokenizer.model has 200 pieces' learn --vocab-size 150
expect 0 'tokenizer: run/tokenizer.model, 200 pieces' learn --tokenizer run/tokenizer.model \
    --vocab-size 150
rm -rf run

# ---- where it ends, what it keeps
rm -rf run
expect 0 'done: step' bare --out run --epochs 2 --save-every 1000
n=$(steps run | awk '{ print $NF }')
line=$(grep '"epoch"' run/log.jsonl | tail -n 1)
case $line in "{\"step\":$n,\"epoch\":2,"*) ;; *) fail "two epochs end at: $line" ;; esac
[ "$(sed 's/.*"tokens":\([0-9]*\).*/\1/' <<<"$line")" = \
    $((2 * $(sed -n 's/.* and \([0-9,]*\) target tokens.*/\1/p' <<<"$out" | tr -d ,))) ] ||
    fail "two epochs are not twice the tokens of one: $line; $out"
expect 0 "done: step $n," bare --out run --epochs 2 --save-every 1000
expect 0 'done: step' bare --out run --epochs 3 --save-every 1000
[ "$(steps run | awk '{ print $NF }')" -gt "$n" ] || fail 'a third epoch did nothing'
rm -rf run
expect 0 'done: step' bare --out run --minutes 0.01 --save-every 100000 --log-every 1000
awk -v n="$(steps run | awk '{ print $NF }')" 'BEGIN { exit !(n > 0) }' ||
    fail 'a minute does nothing'
# A validation that cannot get better: another language than the one that is learnt. Patience ends
# it, the best one is published and kept beside the last two.
pairs far 60 7
tr abdegiklmnoprstu lkjihgfedcbaxyzw <far.src >far.enc
rm -rf run
expect 0 'no further improvement: step' bare --out run --valid-src far.enc --valid-tgt far.tgt \
    --valid-every 10 \
    --save-every 5 --keep 2 --patience 3 --steps 2000 --warmup 20 --lr-scale 2
last=$(steps run | awk '{ print $NF }')
best=$(sed -n 's/^{"step":\([0-9]*\),"valid.*"best":true}/\1/p' run/log.jsonl | tail -n 1)
[ "$last" = $((best + 30)) ] || fail "patience 3: best at $best, ended at $last"
[ "$(steps run)" = "$best $((last - 5)) $last" ] ||
    fail "kept $(steps run) of best $best, last $last"
same run/model.safetensors "$(printf 'run/ckpt-%08d' "$best")/model.safetensors" \
    'the best is published'
differ run/model.safetensors "$(newest run)/model.safetensors" 'best and last do not differ'
lowest=$(sed -n 's/.*"valid_loss":\([0-9.]*\).*/\1/p' run/log.jsonl | sort -g | head -n 1)
grep -q "^{\"step\":$best,\"valid_loss\":$lowest," run/log.jsonl ||
    fail "step $best is not the best"
before=$(cksum run/log.jsonl run/model.safetensors)
expect 0 'no further improvement' bare --out run --valid-src far.enc --valid-tgt far.tgt \
    --valid-every 10 \
    --save-every 5 --keep 2 --patience 3 --steps 2000 --warmup 20 --lr-scale 2
[ "$before" = "$(cksum run/log.jsonl run/model.safetensors)" ] ||
    fail 'out of patience, but something changed'
expect 0 'average of 2 checkpoints' "$heed" average --out mean --last 2 run
expect 0 "steps done   $last" "$heed" inspect mean
expect 0 "best         step $best" "$heed" inspect run --curves run.svg
grep -q '<svg' run.svg || fail 'no curves'

# ---- several corpora: the same again is the same, and weights matter
two=(--src v.src --tgt v.tgt --steps 20 --quiet)
bare --out w1 "${two[@]}" --weights 1 2.5
bare --out w2 "${two[@]}" --weights 1 2.5 --prefetch 0
bare --out w3 "${two[@]}" --weights 1 1
same w1/model.safetensors w2/model.safetensors 'two corpora'
differ w1/model.safetensors w3/model.safetensors 'weights do nothing'

# ---- no standard error: progress must not end up in the first file that is opened, the lock
bare --out closed --steps 3 2>&- || fail 'no standard error'
[ "$(wc -c <closed/lock)" -lt 20 ] || fail "progress in the lock: $(cat closed/lock)"

# ---- --config
cat >options.json <<'END'
{"src": ["t.src"], "tgt": "t.tgt", "weights": [1], "valid_src": "v.src", "valid-tgt": "v.tgt",
 "tokenizer": "tok.model", "cache": "cache", "preset": "tiny", "n_layer": 1, "d_model": 32,
 "n_head": 2, "d-ff": "64", "tokens": 400, "max_length": 40, "threads": 1, "warmup": 50,
 "steps": 500, "dropout": 0.2, "quiet": true}
END
"$heed" train --config options.json --out c1 --steps 20
bare --out c2 "${valid[@]}" --weights 1 --steps 20 --dropout 0.2 --quiet
same c1/model.safetensors c2/model.safetensors '--config'
sed -e 's/"c1"/"c2"/' -e '/"config"/d' -e '/"vocab_size"/d' c1/config.json >c1.json
sed -e '/"config"/d' -e '/"vocab_size"/d' c2/config.json >c2.json
diff c1.json c2.json || fail 'the effective options differ'
grep -q '"steps": 20' c1/config.json || fail 'the command line does not win'
"$heed" train --config c1/config.json --out c4 # a run's own config repeats the run
same c1/model.safetensors c4/model.safetensors 'the config.json of a run'
# ... but not what was asked of that call alone.
"$heed" train --config c1/config.json --out c5 --overwrite --quiet
if grep -q '"overwrite"\|"quiet"' c5/config.json; then fail 'a run keeps --overwrite'; fi
sed 's/"training": {/&"overwrite": true, "dry_run": true,/' c5/config.json >c5.json
expect 0 'nothing left to do: the run is at step 20' "$heed" train --config c5.json
# Lists of the command line replace the file's, they do not add to them.
"$heed" train --config options.json --src v.src --tgt v.tgt --weights 2 --out c3 --steps 1
[ "$(tr -d ' \n' <c3/config.json | sed 's/.*"training"://; s/,"tags.*//')" = \
    '{"src":["v.src"],"tgt":["v.tgt"],"weights":["2"]' ] || fail "lists: $(cat c3/config.json)"
# wrong TEXT JSON — a file that is refused, by its name and the key's
wrong() {
    echo "$2" >wrong.json
    expect "${3:-2}" "wrong.json: $1" "$heed" train --config wrong.json "${only[@]}" --out run
}
wrong 'stepz: there is no such option' '{"stepz": 1}'
wrong "steps: 'x' is not a whole number" '{"steps": "x"}'
wrong 'steps: neither a string nor a number' '{"steps": [1]}'
wrong 'quiet: neither true nor false' '{"quiet": 1}'
wrong "d_model: 'x' is not a whole number" '{"d_model": "x"}'
wrong 'seed: -1 is not between 0 and 2,000,000,000' '{"seed": -1}'
wrong 'expected a JSON object' '[]'
echo '{"src": [], "tgt": []}' >empty.json
expect 2 '--src names no file' "$heed" train --config empty.json --out run
echo '{"steps":' >wrong.json
expect 1 'wrong.json' "$heed" train --config=wrong.json "${only[@]}" --out run
expect 1 'absent.json' "$heed" train --config absent.json "${only[@]}" --out run

# ---- --dry-run
rm -rf run
expect 0 'parameters' bare "${valid[@]}" --out run --dry-run --epochs 3 --steps 70
has 'of memory (training and validation)'
has 'target tokens per epoch'
has 'target tokens/s'
has '70 steps: about'
has '3 epochs: about'
compgen -G 'run/ckpt-*' >/dev/null && fail 'a dry run left a checkpoint'
[ -e run/log.jsonl ] && fail 'a dry run left a log'

# ---- memory: what does not fit says what would, and that does
if ! sanitized; then
    short() { (ulimit -v 400000 && bare --d-model 256 --d-ff 1024 --n-layer 2 --out run \
        --steps 1 "$@"); }
    expect 1 'would fit' short --tokens 30000
    fits=$(sed -n 's/.*; --tokens \([0-9]*\) would fit.*/\1/p' <<<"$out")
    compgen -G 'run/ckpt-*' >/dev/null && fail 'no memory, but a checkpoint'
    expect 0 'done: step 1' short --tokens "$fits"
    expect 1 'even for a single sentence' short --overwrite --tokens 400 --d-model 768 --d-ff 3072 \
        --n-head 8
fi

# ---- odd text
: >empty
printf '\n%.0s' $(seq 50) >blank
head -n 399 t.tgt >t399.tgt
{ head -n 10 t.src; printf 'ab\xff\xfecd\n'; printf 'a\0b\n'; tail -n +13 t.src; } >bad.src
sed 's/$/\r/' t.src >crlf.src
{ head -c 1000000 /dev/zero | tr '\0' a; echo; tail -n +2 t.src; } >mb.src
gzip -k t.src
xz -k t.tgt
head -c 500 t.src.gz >cut.src.gz
# text SRC TGT — trains on these texts for a moment
text() { rm -rf run &&
    "$heed" train --src "$1" --tgt "$2" --tokenizer tok.model "${small[@]}" --steps 5 --out run; }
expect 1 'empty and empty are empty' text empty empty
expect 1 'no usable pair: 50 pairs read, 0 kept; dropped: 50 empty' text blank blank
expect 1 't.src has 400 lines and t399.tgt has 399' text t.src t399.tgt
expect 1 'gzip: the file is truncated' text cut.src.gz t.tgt
expect 2 'not a regular file' text . t.tgt
expect 0 '400 kept; 3 bad UTF-8 sequences replaced (first: line 11)' text bad.src t.tgt
expect 0 '399 kept; dropped: 1 too long (first: line 1)' text mb.src t.tgt
expect 0 '400 kept' text t.src t.tgt
cp run/model.safetensors plain.safetensors
expect 0 '400 kept' text crlf.src t.tgt
same run/model.safetensors plain.safetensors 'CRLF'
expect 0 '400 kept' text t.src.gz t.tgt.xz
same run/model.safetensors plain.safetensors 'gzip and xz'
rm -rf run
expect 0 'learning the vocabulary from 799 lines' "$heed" train --src mb.src \
    --tgt t.tgt "${small[@]}" --steps 1 --out run

# ---- progress: lines for files, a bar for people
rm -rf run
expect 0 'done: step 60' bare --out run --steps 60 --log-every 20
line='^step [0-9]*  epoch [0-9]*  loss [0-9.]*  ppl [0-9.]*  lr [0-9.e+-]*  [0-9,]* tok/s'
[ "$(grep -c "$line  [0-9:]* left\$" <<<"$out")" = 3 ] ||
    fail "plain lines: $out"
lacks $'\r'
lacks $'\033'
if command -v script >/dev/null; then
    # bar COLUMNS OPTION... — the lines with a bar that a terminal of that width shows
    bar() {
        rm -rf run
        out=$(script -qec "stty cols $1; '$heed' train ${only[*]} ${small[*]} --out run ${*:2}" \
            /dev/null </dev/null)
        out=$(tr '\r' '\n' <<<"$out" | sed 's/\x1b\[K//g' | grep '^\[')
        awk -v n="$1" 'length >= n { bad = 1 } END { exit bad }' <<<"$out" ||
            fail "wider than the terminal: $out"
    }
    bar 60 --minutes 0.02
    grep -Eq '^\[=+>? *\]  step [0-9]+  loss [0-9.]+  .*[0-9]:[0-9]+ left$' <<<"$out" ||
        fail "60 columns: $out"
    bar 80 --steps 700
    grep -Eq '^\[=*>? *\]  step [0-9]+/700  loss [0-9.]+  [0-9,]+ tok/s  [0-9]:[0-9]+ left$' \
        <<<"$out" || fail "80 columns: $out"
    bar 120 --steps 700
    line='^\[=*>? *\]  step [0-9]+/700  epoch [0-9]+  loss [0-9.]+  ppl [0-9.]+  lr [0-9.e+-]+'
    grep -Eq "$line  [0-9,]+ tok/s  [0-9]:[0-9]+ left\$" <<<"$out" ||
        fail "120 columns: $out"
else
    note 'not tested: the bar (no script(1))'
fi

# ---- ten times the corpus, the same memory
if ! sanitized && command -v python3 >/dev/null; then
    pairs s 30000 3
    for side in src tgt; do for _ in 1 2 3 4 5 6 7 8 9 10; do cat "s.$side"; done >"l.$side"; done
    peak() { # OPTION... — KiB at most in use by a fresh run and by one that finds the cache
        rm -rf run
        python3 -c '
import resource, subprocess, sys
for _ in range(2):
    subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' \
            "$heed" train "$@" --tokenizer tok.model "${small[@]}" --tokens 4000 --steps 5 \
            --out run --quiet
    }
    a=$(peak --src s.src --tgt s.tgt)
    b=$(peak --src l.src --tgt l.tgt)
    echo "peak: $a KiB with 30,000 pairs, $b KiB with 300,000"
    [ $((b * 10)) -lt $((a * 11)) ] || fail "memory grew from $a to $b KiB"
else
    note 'not tested: peak memory'
fi

#!/usr/bin/env bash
# test_translate.sh — heed translate as a filter: a line for every line and in order, whatever the
# lines hold and however they come; formats; what is refused; the same bytes for every batch size,
# thread and instruction set.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'

train run --steps 300 --save-every 300 --max-len 64 --quiet || fail 'no model to translate with'
m=(translate --model run --threads 1 --min-length 3)
t() { "$heed" "${m[@]}" "$@"; }
# --max-extra 2: a model that learnt this little goes on and on
t --max-extra 2 --quiet v.src >want || fail 'translating a file'
[ "$(wc -l <want)" = 60 ] || fail "60 lines in, $(wc -l <want) out"
[ "$(sort -u want | wc -l)" -gt 50 ] ||
    fail 'the model says the same to everything: these tests would not see much'

# ---- one line per line, in order
t --max-extra 2 --quiet <v.src | cmp - want || fail 'standard input is not like a file'
t --max-extra 2 --quiet - <v.src | cmp - want || fail '- is not like standard input'
gzip -k v.src
t --max-extra 2 --quiet v.src.gz - v.src <t.src >all || fail 'three files'
cmp <(head -n 60 all) want && cmp <(tail -n 60 all) want || fail 'files out of order'
printf '%s\n\n%s\r\n   \t \n%s' "$(sed -n 1p v.src)" "$(sed -n 2p v.src)" "$(sed -n 3p v.src)" >odd
t --max-extra 2 --quiet odd >got
cmp <(sed -n '1p;3p;5p' got) <(head -n 3 want) || fail 'empty lines changed their neighbours'
[ "$(wc -l <got)" = 5 ] || fail 'not five lines'
[ -z "$(sed -n '2p;4p' got)" ] || fail 'an empty line became text'
t </dev/null >got || fail 'nothing to translate is an error'
[ ! -s got ] || fail 'text from nothing'
t --max-extra 2 --quiet --output out v.src && cmp out want || fail '--output'
t --max-extra 2 --quiet --output - v.src | cmp - want || fail '--output -'
[ ! -e - ] || fail '--output - is a file'

# ---- text as people write it: all but the sentences is kept, byte for byte
mapfile -t src < <(head -n 3 v.src)
mapfile -t tgt < <(head -n 3 want)
printf '  %s \r\n\r\n- %s\n***\n2) %s' "${src[@]}" >prose.txt
printf '  %s \r\n\r\n- %s\n***\n2) %s' "${tgt[@]}" >kept
t --max-extra 2 --quiet --format text prose.txt | cmp - kept ||
    fail '--format text changes the form'
t --max-extra 2 --quiet --format text --language de v.src | cmp - want ||
    fail '--format text changes lines of one sentence'
printf '%s? \t%s\n' "${src[0]}" "X${src[1]}" >prose.txt
printf '%s?\n%s\n' "${src[0]}" "X${src[1]}" | t --max-extra 2 --quiet >two
t --max-extra 2 --quiet --format text prose.txt >got
cmp got <(printf '%s \t%s\n' "$(sed -n 1p two)" "$(sed -n 2p two)") || fail 'two sentences'
t --format prose <prose.txt 2>err && fail '--format prose'
grep -q "'prose' is not one of lines, text, html" err || fail "says: $(cat err)"

# ---- the same bytes, whatever the batches and threads
for p in f32 bf16 int8; do
    t --max-extra 2 --quiet --precision $p v.src >want.$p || fail "precision $p"
    for how in '--batch-sentences 1' '--batch-sentences 7 --threads 2' \
        '--batch-sentences 64 --look-ahead 3' \
        '--batch-tokens 20' '--beam 4 --nbest 0 --threads 2' \
        '--lanes 3 --batch-sentences 2 --look-ahead 4'; do
        # shellcheck disable=SC2086 # words
        t --max-extra 2 --quiet --precision $p $how v.src | cmp - want.$p ||
            fail "$p $how changes the result"
    done
done
cmp want.f32 want || fail 'a trained model is not run in f32'

# ---- one answer: texts and scores are the same on every instruction set, but for f32 without fused
# multiply-add and bf16 with instructions for bf16
cat v.src t.src >all.src
cat v.tgt t.tgt >all.tgt
isas=0
for isa in generic avx2 avx512 avx512vnni avx512bf16 amx; do
    t --isa $isa </dev/null >/dev/null 2>&1 || continue # not on this machine
    isas=$((isas + 1))
    for p in int8 bf16 f32; do
        { t --max-extra 2 --quiet --precision $p --isa $isa --threads 2 --nbest 2 all.src &&
            "$heed" score --model run --src all.src --tgt all.tgt --precision $p --isa $isa \
            --token-scores --quiet; } \
            >answers || fail "$p on $isa"
        [ "$(wc -l <answers)" = 1380 ] ||
            fail "$p on $isa: $(wc -l <answers) lines, not 460 twice and 460"
        case $p.$isa in f32.generic | bf16.avx512bf16 | bf16.amx) continue ;; esac
        [ -e answers.$p ] || cp answers answers.$p
        cmp answers answers.$p || fail "$p differs on $isa"
    done
done
[ $isas -gt 0 ] || fail 'no instruction set works'

# ---- streaming: answers come before the input ends, and half a line waits for its other half
mkfifo in.fifo
"$heed" "${m[@]}" --max-extra 2 <in.fifo >stream 2>/dev/null &
child=$!
exec 5>in.fifo
until_lines() { for _ in $(seq 100); do [ "$(wc -l <stream)" -ge "$1" ] &&
    return; sleep 0.1; done; fail "no line $1 yet"; }
sed -n 1p v.src >&5
until_lines 1
sed -n 2p v.src >&5
until_lines 2
line=$(sed -n 3p v.src)
printf '%s' "${line:0:5}" >&5
sleep 0.3
[ "$(wc -l <stream)" = 2 ] || fail 'half a line was translated'
printf '%s\n%s\n' "${line:5}" "$(sed -n 4p v.src)" >&5
until_lines 4
exec 5>&-
wait "$child" || fail 'the stream did not end well'
cmp stream <(head -n 4 want) || fail 'a stream is not like a file'

# ---- signals: no partial line, the conventional status
: >stream # or the line waited for may be the last one's
"$heed" "${m[@]}" <in.fifo >stream 2>err &
child=$!
exec 5>in.fifo
sed -n 1p v.src >&5
until_lines 1
kill -INT $child
rc=0
wait $child || rc=$?
[ $rc = 130 ] || fail "SIGINT while waiting: exit $rc"
[ ! -s err ] || fail "SIGINT is not quiet: $(cat err)"
exec 5>&-
for signal in HUP PIPE; do # what was finished stays
    rm -f stream.part
    "$heed" "${m[@]}" --quiet --output stream <in.fifo 2>err &
    child=$!
    exec 5>in.fifo
    sed -n 1p v.src >&5
    for _ in $(seq 50); do [ -s "$(compgen -G 'stream.*.tmp')" ] && break; sleep 0.1; done
    kill -$signal $child
    rc=0
    wait $child || rc=$?
    exec 5>&-
    [ $rc = $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit $rc"
    cmp stream.part <(head -n 1 want) || fail "SIG$signal: the finished line is lost"
done
expect 1 'limited: File too large' bash -c 'ulimit -f 0; exec "$0" "$@"' "$heed" "${m[@]}" \
    --output limited v.src
: >stream
yes "$(cat v.src | tr '\n' ' ' | head -c 200)" | "$heed" "${m[@]}" >stream 2>err &
for _ in $(seq 50); do [ -s stream ] && break; sleep 0.1; done
kill -TERM $!
rc=0
wait $! || rc=$?
[ $rc = 143 ] || fail "SIGTERM while translating: exit $rc"
[ ! -s stream ] || [ -z "$(tail -c 1 stream)" ] || fail 'SIGTERM left half a line'
{ yes 'ba da ga' || :; } | { "$heed" "${m[@]}" --max-extra 2 2>err || echo $? >rc; } |
    head -n 3 >three
[ "$(cat rc)" = 141 ] || fail "a closed pipe: exit $(cat rc)"
[ "$(wc -l <three)" = 3 ] || fail 'not three lines from the pipe'
[ ! -s err ] || fail "a closed pipe is not quiet: $(cat err)"

# ---- endless input in bounded memory
mem() { (ulimit -v 600000; "$heed" "${m[@]}" --quiet --beam 1 --max-extra 0 >/dev/null); }
awk 'BEGIN { for (i = 0; i < 3000000; i++) print "" }' | mem || fail 'three million empty lines'
head -c 900000 /dev/zero | tr '\0' ' ' | mem || fail 'a line of spaces'

# ---- odd text
printf 'ba \xff\xfe da\nba da\nba \xc3\n' >bad
out=$(t --max-extra 2 bad 2>&1 >got) || fail 'bad UTF-8'
has '2 lines contained bytes that are not UTF-8'
printf 'ba\xff\n' >badpre
sed -n 1p v.src >one
out=$(t --prefix badpre one 2>&1 >/dev/null)
has '1 line has a prefix with bytes that are not UTF-8'
has 'the first is line 1'
[ "$(wc -l <got)" = 3 ] || fail 'not three lines'
out=$(t --max-extra 2 --quiet bad 2>&1 >got)
[ -z "$out" ] || fail "--quiet says: $out"
head -c 1100000 /dev/zero | tr '\0' 'a' >huge
expect 1 'line 2: longer than 1,048,576 bytes' "$heed" "${m[@]}" --quiet \
    --max-extra 0 <(sed -n 1p v.src; cat huge)
expect 1 'line 1: longer than 1,048,576 bytes' timeout 60 "$heed" "${m[@]}" --quiet \
    --max-extra 0 <(tr '\0' a </dev/zero)

# ---- long lines: split, or refused after what comes before them
for _ in 1 2 3 4 5 6; do tr '\n' ' ' <v.src | head -c 80; printf '. '; done >long
echo >>long
sed -n 1p v.src >>long
out=$(t --max-extra 2 long 2>&1 >got) || fail 'a long line'
has '1 line was split: too many tokens for the model'
[ "$(wc -l <got)" = 2 ] || fail 'a long line did not stay one line'
cmp <(tail -n 1 got) <(head -n 1 want) || fail 'a long line changes its neighbour'
{ sed -n 1p v.src; cat long; } >long2
rc=0
out=$(t --max-extra 2 --long refuse long2 2>&1 >got) || rc=$?
[ $rc = 1 ] || fail "--long refuse: exit $rc"
has 'line 2: '
has 'tokens, and 63 at most'
cmp got <(head -n 1 want) || fail 'what comes before a refused line is lost'

# ---- lanes: an error ends all of them, after what was read before
{ cat v.src && sed -n 2p long2 && cat v.src v.src v.src v.src; } >long3
for lanes in 1 2 4; do
    out=$(t --max-extra 2 --long refuse --lanes $lanes --batch-sentences 2 --look-ahead 2 \
        long3 2>&1 >got) && fail "--lanes $lanes: a line that is too long is no error"
    [[ $out == *"line $(($(wc -l <v.src) + 1)): "* ]] || fail "--lanes $lanes: $out"
    cmp got want.f32 || fail "--lanes $lanes: not all lines before the refused one, or more"
done
out=$(t --max-source 9 --max-extra 2 v.src 2>&1 >got) || fail '--max-source'
has 'split'
[ "$(wc -l <got)" = 60 ] || fail '--max-source: not 60 lines'

# ---- formats
t --max-extra 2 --quiet --scores odd >got
[ "$(grep -cE '^.+ \|\|\| -[0-9]+\.[0-9]{6}$' got)" = 3 ] || fail "--scores: $(cat got)"
t --max-extra 2 --quiet --nbest 3 --alignment odd >got
[ "$(grep -c '^0 ||| ' got)" = 3 ] || fail "--nbest 3: $(cat got)"
[ "$(grep -c '^1 ||| ' got)" = 1 ] || fail "--nbest of an empty line: $(cat got)"
t --max-extra 2 --quiet --nbest 6 odd >wide # more than the beam is wide, if nobody says
[ "$(grep -c '^4 ||| ' wide)" = 6 ] || fail "--nbest 6: $(cat wide)"
t --max-extra 2 --quiet --beam 6 --nbest 6 odd | cmp - wide || fail "--nbest 6 without --beam 6"
grep '^0' got | grep -qE '^0 \|\|\| [^|]+ \|\|\| -[0-9.]+ \|\|\|( [0-9]+-[0-9]+)+$' ||
    fail "--alignment: $(cat got)"
cmp <(grep '^0' got | head -n 1 | sed 's/^0 ||| //; s/ |||.*//') <(head -n 1 want) ||
    fail 'the first of the n-best is not the best'
# A candidate as long as the model has positions (64) has no place for an end mark, and an alignment
# all the same.
t --min-length 64 --max-extra 64 --quiet --nbest 2 --alignment pieces odd >got ||
    fail 'aligning the longest candidates'
sed -n 1p got | awk -F'[|][|][|]' '{ exit split($4, link, " ") != 64 }' ||
    fail "links of 64 tokens: $(sed -n 1p got)"
t --max-extra 2 --quiet --json --nbest 2 --alignment pieces odd >got
t --max-extra 2 --quiet --json --nbest 2 --alignment words odd >words
t --max-extra 2 --quiet --json --nbest 2 odd --alignment | cmp - words ||
    fail '--alignment alone is not --alignment words'
# A text in parts: words are counted through all of it.
t --max-extra 2 --quiet --json --nbest 2 --max-source 5 --alignment=words odd >parts
[ "$(wc -l <got)" = 5 ] || fail '--json: not five lines'
if command -v python3 >/dev/null; then
    python3 - got want words parts <<'END' || fail '--json'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
want = open(sys.argv[2]).read().split('\n')
assert [l["line"] for l in lines] == [1, 2, 3, 4, 5]
assert [l["text"] for l in lines] == [want[0], "", want[1], "", want[2]]
for l in lines[::2]:
    assert l["nbest"][0]["text"] == l["text"] and len(l["nbest"]) == 2
    assert l["nbest"][0]["score"] >= l["nbest"][1]["score"] and l["log_prob"] < 0
    assert len(l["pieces"]) == l["tokens"]
    for i, j in l["alignment"]:
        assert 0 <= i < len(l["source_pieces"]) and 0 <= j < l["tokens"]
for name in sys.argv[3:]:
    lines = [json.loads(line) for line in open(name)]
    for l in lines:
        for best in l.get("nbest", [l]):
            assert "".join(best["words"]) == best["text"].replace(" ", ""), best
            found = [tuple(link) for link in best["alignment"]]
            assert found == sorted(set(found))
            assert len({j for _, j in found}) == len(found) # at most one link of each target word
            assert all(i < len(l["source_words"]) and j < len(best["words"]) for i, j in found)
    assert any(l["alignment"] for l in lines)
assert any("parts" in l and max(i for i, _ in l["alignment"]) > 5 for l in lines), lines
END
fi
t --quiet --json --stats --max-extra 2 v.src 2>err >/dev/null
grep -q '"tokens_per_s":' err || fail "--stats: $(cat err)"
grep -qE '"steps":[1-9].*"rows":[1-9].*"read_seconds":[0-9.]+}$' err || fail "--stats: $(cat err)"
expect 0 'batches p50 0.000 ms, p99 0.000 ms' "$heed" "${m[@]}" --stats /dev/null

# ---- search options arrive
t --quiet --max-length 4 v.src --json >got
[ "$(grep -cE '"tokens":[1-4],' got)" = 60 ] || fail "--max-length: $(cat got)"
out=$(t --max-length 4 v.src 2>&1 >/dev/null)
has 'a length limit cut off'
t --quiet --force-length 9 v.src --json >got
[ "$(grep -cE '"tokens":9,' got)" = 60 ] || fail "--force-length: $(cat got)"
t --quiet --sample --seed 3 --max-extra 2 v.src >s1
t --quiet --sample --seed 3 --max-extra 2 --batch-sentences 3 v.src | cmp - s1 ||
    fail 'samples depend on batches'
t --quiet --sample --seed 4 --max-extra 2 v.src >s2
differ s1 s2 'the seed does nothing'
sed 's/ .*//' want >pre
t --quiet --prefix pre --max-extra 20 v.src >got || fail '--prefix'
paste -d '|' pre got | awk -F '|' 'substr($2, 1, length($1)) != $1 { exit 1 }' ||
    fail 'a prefix is not there'
head -n 5 pre >pre5
expect 1 'no line for it; it ends after 5' "$heed" "${m[@]}" --quiet --max-extra 2 \
    --prefix pre5 v.src
{ cat pre; echo x; } >pre61
expect 1 "more lines than the input, which has 60" "$heed" "${m[@]}" --quiet --max-extra 20 \
    --prefix pre61 v.src
"$heed" translate --model run --model run --min-length 3 --max-extra 2 --quiet v.src >got ||
    fail 'an ensemble'
cmp got want || fail 'a model with itself is not itself'

# ---- files are replaced when all is well, and never an input
cp v.src both
expect 2 '--output: both is also an input' "$heed" "${m[@]}" --output both both
cmp both v.src || fail 'an input was touched'
expect 2 'is also an input' "$heed" "${m[@]}" --output both --prefix both v.src
for name in config.json model.safetensors tokenizer.model log.jsonl; do
    cp "run/$name" was
    expect 2 "run/$name is a file of the model" "$heed" "${m[@]}" --output "run/$name" v.src
    same "run/$name" was
done
echo old >out
expect 1 'nothing.txt' "$heed" "${m[@]}" --output out nothing.txt
[ "$(cat out)" = old ] || fail 'a file was emptied for nothing'
expect 1 'finished are in out.part' "$heed" "${m[@]}" --max-extra 2 --output out v.src nothing.txt
[ "$(cat out)" = old ] && cmp out.part want || fail 'what was finished is lost'
t --quiet --max-extra 2 --output out v.src || fail '--output'
cmp out want || fail '--output differs from standard output'
compgen -G 'out.*.tmp' >/dev/null && fail 'a temporary file is left'
chmod 600 out
ln -sf out link
t --quiet --max-extra 2 --output link v.src || fail '--output through a link'
[ -L link ] && cmp out want || fail 'a link was replaced'
[ "$(stat -c %a out)" = 600 ] || fail 'the mode of a replaced file is lost'
ln -s /proc/self/fd/1 stdout # as /dev/stdout, which is better not tried by root
{
    echo first
    t --quiet --max-extra 2 --output stdout v.src || fail '--output to an open file'
} >got
[ -L stdout ] && { echo first; cat want; } | cmp - got || fail 'an open file was replaced'

# ---- descriptors that are closed: an error, no hang, nothing written elsewhere
expect 1 'standard input: Bad file descriptor' bash -c '"$0" "$@" <&-' "$heed" "${m[@]}"
expect 1 'standard output: Bad file descriptor' bash -c '"$0" "$@" >&-' "$heed" "${m[@]}" v.src
rc=0
timeout 20 "$heed" "${m[@]}" <&- >&- 2>&- || rc=$?
[ $rc = 1 ] || fail "all descriptors closed: exit $rc"
t --max-extra 2 --output out v.src 2>&- || fail 'no standard error'
cmp out want || fail 'messages went into the output'

# ---- refused
expect 1 'nowhere' "$heed" translate --model nowhere
expect 1 'nothing.txt' "$heed" "${m[@]}" nothing.txt
expect 1 'heed: seed: No such file' "$heed" "${m[@]}" seed # not --seed
expect 2 "'f64'" "$heed" "${m[@]}" --precision f64
expect 2 "--long: 'cut'" "$heed" "${m[@]}" --long cut
expect 2 '--nbest: 5 is more than the beam of 4' "$heed" "${m[@]}" --beam 4 --nbest 5
expect 2 '64 tokens the model has positions for' "$heed" "${m[@]}" --max-source 65
expect 2 '--alignment-layer: there is no such layer; the decoder has 1' "$heed" "${m[@]}" \
    --alignment \
    --alignment-layer 2
expect 2 '--alignment-head: there is no such head; a layer has 2' "$heed" "${m[@]}" --alignment \
    --alignment-head 3
t --quiet --max-extra 2 --alignment v.src >a0
t --quiet --max-extra 2 --alignment --alignment-layer 1 --alignment-row output v.src | cmp - a0 ||
    fail 'layers do not count from 1'
expect 2 "device: 'tpu'" "$heed" "${m[@]}" --device tpu
expect 2 '--force-length: 1000000 is more than the 64 tokens' "$heed" "${m[@]}" \
    --force-length 1000000
expect 2 '--min-length: 65 is more than the 64 tokens' "$heed" "${m[@]}" --min-length 65
expect 2 '--min-length: 5 is more than the greatest length allowed, 4' "$heed" "${m[@]}" \
    --min-length 5 --max-length 4
expect 2 '--max-extra: -1 is not between 0 and 2,147,483,647' "$heed" "${m[@]}" --max-extra -1
expect 1 'no/such/dir' "$heed" "${m[@]}" --output no/such/dir/file v.src
if [ -w /dev/full ]; then expect 1 'No space left' "$heed" "${m[@]}" --max-extra 2 --quiet \
    --output /dev/full v.src; fi
cp -r run other
"$heed" vocab --input t.src --size 150 --out other/tokenizer.model --quiet
expect 1 'is not the tokenizer that this model was trained with' "$heed" translate \
    --model other v.src
forget() { sed -i 's/xxh128:[0-9a-f]*//' "$1/config.json"; } # as older models, which do not say
forget other
for command in 'translate' 'score --src v.src --tgt v.tgt' 'attend --src x --out x.svg'; do
    # shellcheck disable=SC2086 # words
    expect 1 '150 pieces, but the model' "$heed" $command --model other
done
"$heed" vocab --input v.tgt --size 200 --out other/tokenizer.model --quiet
expect 2 'different tokenizers' "$heed" translate --model run --model other v.src
cp run/config.json other
for command in 'translate' 'score --src v.src --tgt v.tgt' 'attend --src x --out x.svg' \
    'bench translate' \
    'average --out x run' 'quantize --out x'; do
    with=--model
    [ "${command%% *}" = average ] && with=
    # shellcheck disable=SC2086 # words
    expect 1 'other: tokenizer.model is not the tokenizer' "$heed" $command $with other
done

# ---- BLEU while training is that of translating and scoring afterwards
train bleu --steps 300 --save-every 300 --max-len 64 --valid-every 50 --bleu-every 100 \
    --bleu-lines 60 --quiet || fail '--bleu-every'
[ "$(grep -c '"valid_bleu":' bleu/log.jsonl)" = 3 ] || fail 'not three measurements'
[ "$(grep -c '"valid_loss":' bleu/log.jsonl)" = 6 ] || fail 'not six validations'
cmp bleu/model.safetensors run/model.safetensors ||
    cmp bleu/ckpt-00000300/model.safetensors run/ckpt-00000300/model.safetensors ||
    fail 'measuring BLEU changes what is learnt'
want=$("$heed" translate --model bleu/ckpt-00000300 --quiet v.src | "$heed" eval --ref v.tgt \
    --metric bleu --score-only --width 4)
got=$(sed -n 's/.*"step":300,.*"valid_bleu":\([0-9.e-]*\).*/\1/p' bleu/log.jsonl)
awk -v a="$want" -v b="$got" 'BEGIN { exit !(a == 0 && b == 0 || b - a < 1e-4 && a - b < 1e-4) }' ||
    fail "BLEU $got in the log, $want by translating"
expect 2 'not a multiple of --valid-every' "$heed" train "${data[@]}" --out x --valid-every 50 \
    --bleu-every 60

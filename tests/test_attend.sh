#!/usr/bin/env bash
# test_attend.sh — heed attend: pictures that are well-formed whatever the text, pages whose data
# are the probabilities, 200 tokens in seconds and megabytes.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
echo '<svg/onload=alert(1)> &amp; "quotes" '"'"'single'"'"' </script> \ ]]> <!-- {x}' >nasty
{
    printf 'a\tb\x01c\x7f \xe2\x80\xae\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d'
    printf ' \xe2\x80\xa8 \xe6\x97\xa5\xe6\x9c\xac \xef\xbf\xbf\n'
} >>nasty
for _ in $(seq 20); do cat nasty; done >mixed
cat t.src >>mixed
"$heed" vocab --input mixed --size 100 --type char --normalization identity --out char.model \
    --quiet || fail 'vocab'
"$heed" train --src t.src --tgt t.tgt --tokenizer char.model --preset tiny --n-layer 6 \
    --d-model 64 --n-head 8 --d-ff 64 \
    --max-len 300 --tokens 400 --steps 1 --warmup 50 --threads 1 --quiet --out m || fail 'training'
"$heed" vocab --input mixed --size 120 --type word --normalization identity --out word.model \
    --quiet || fail 'vocab'
"$heed" train --src t.src --tgt t.tgt --tokenizer word.model "${model[@]:0:10}" --tokens 400 \
    --steps 1 --warmup 50 \
    --threads 1 --quiet --out w || fail 'training'
attend() { "$heed" attend --model m "$@"; }

# Is it XML, is it a page that opens nothing, are its numbers probabilities? Python tells, where
# there is one.
xml() { [ -z "$python" ] ||
    python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1" ||
    fail "$1 is not XML"; }
python=$(command -v python3 || true)
cat >page.py <<'END'
import base64, html.parser, json, sys, zlib
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.data, self.ids, self.scripts = [], '', [], 0
    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert not {'src', 'href'} & set(attrs), (tag, attrs)       # nothing from elsewhere
        assert not any(a.startswith('on') for a in attrs), attrs
        self.scripts += tag == 'script'
        if tag not in ('meta', 'br', 'input', 'link', 'img'):
            self.open.append((tag, attrs.get('id')))
    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag, tag
    def handle_data(self, text):
        if self.open and self.open[-1] == ('script', 'data'): self.data += text
text = open(sys.argv[1], encoding='utf-8', newline='').read()
page = Page()
page.feed(text)
page.close()
assert page.scripts == 2 and not page.open, (page.scripts, page.open)
assert not any(ord(c) < 32 and c != '\n' or c in '\x7f\u202e\u2028\uffff' for c in text)
d = json.loads(page.data)
q = zlib.decompress(base64.b64decode(d['data'], validate=True))
at = 0
for k in d['kinds']:
    nq, nk = len(k['query']), len(k['key'])
    for row in range(k['layers'] * d['heads'] * nq):
        p = [(b / 255) ** 2 for b in q[at:at + nk]]
        at += nk
        # each byte is within half a step of sqrt(p): |dp| <= sqrt(p) / 255
        room = sum(2 * x ** 0.5 + 1 / 255 for x in p) / 510 + 1e-3
        assert abs(sum(p) - 1) <= room, (k['kind'], row, sum(p), room)
        if k['kind'] == 'dec': assert not any(p[row % nq + 1:]), row  # nobody looks ahead
assert at == len(q), (at, len(q))
want = sys.argv[2:]
got = [k['kind'] for k in d['kinds']]
assert got == want, got
END
check_page() { [ -z "$python" ] || python3 page.py "$@" || fail "page $*"; }

# Every kind of picture.
src=$(head -n 1 v.src) tgt=$(head -n 1 v.tgt)
for kind in enc dec cross; do
    attend --src "$src" --tgt "$tgt" --kind $kind --out $kind.svg || fail "$kind"
    attend --src "$src" --tgt "$tgt" --kind $kind --layer 6 --out $kind-6.svg ||
        fail "$kind, layer 6"
    xml $kind.svg
    xml $kind-6.svg
    [ "$(grep -c '<image' $kind.svg)" = 48 ] || fail 'not a heat map for every layer and head'
    [ "$(grep -c '<title>head' $kind-6.svg)" = 8 ] || fail 'not eight heads'
done
attend --src "$src" --tgt "$tgt" --layer 2 --head 3 --out one.svg
[ "$(grep -c '<title>head 3' one.svg)" = 1 ] || fail 'not one head'
differ cross-6.svg enc-6.svg 'all kinds look the same'
attend --src "$src" --tgt "$tgt" --out all.html 2>said
grep -qE '^wrote all.html: [0-9]+ source and [0-9]+ target tokens, 144 heads$' said ||
    fail "said $(cat said)"
attend --src "$src" --tgt "$tgt" --out all.html --quiet 2>said
[ ! -s said ] || fail "not quiet: $(cat said)"
check_page all.html enc dec cross
attend --src "$src" --tgt "$tgt" --kind cross --layer 2 --head 3 --out one.html
check_page one.html cross
attend --src-file v.src --tgt-file v.tgt --line 1 --out file.html
cmp all.html file.html || fail 'text from files is drawn differently'
attend --src "$src" --out own.html || fail "the model's own translation"
check_page own.html enc dec cross
for f in all.html cross.svg; do # both sentences stand above the picture
    grep -qF "$src" $f && grep -qF "$tgt" $f || fail "$f lacks a sentence"
done
# One layer's heads never mix: lines are opaque. Maps have their tokens beside them; a long title is
# wrapped.
grep -q 'opacity' cross-6.svg && fail 'lines are transparent: where heads cross, colours mix'
attend --src abde --tgt bad --out short.svg
[ "$(grep -c "rotate(-60" short.svg)" -ge 32 ] || fail 'no tokens beside the maps'
attend --src "$(head -n 20 t.src | tr '\n' ' ' | head -c 250)" --tgt "$tgt" --layer 1 --head 1 \
    --out wide.svg
[ "$(grep -c "font-size='16'" wide.svg)" -ge 4 ] || fail 'a long title is not wrapped'
attend --src '' --tgt '' --out empty.html
check_page empty.html enc dec cross
attend --src '' --tgt '' --layer 1 --out empty.svg
xml empty.svg

# Text that would like to be markup, script or trouble.
for line in 1 2; do
    for m in m w; do # tokens that are characters, and whole words
        "$heed" attend --model $m --src-file nasty --tgt-file nasty --line $line \
            --out $m$line.html || fail "hostile line $line"
        "$heed" attend --model $m --src-file nasty --tgt-file nasty --line $line --layer 1 \
            --out $m$line.svg || fail "hostile line $line"
        check_page $m$line.html enc dec cross
        xml $m$line.svg
    done
done
[ "$(grep -c '&lt;svg/onload=alert(1)&gt;' w1.svg)" = 4 ] ||
    fail 'titles and columns should show the word, escaped'
[ "$(grep -o 'u003csvg/onload=alert(1)' w1.html | wc -l)" -ge 4 ] ||
    fail 'the page should show the word, escaped'
for f in w1.html w1.svg; do absent '<svg/onload' $f 'markup got through'; done
grep -q 'U+202E' w2.svg || fail 'a mark that reverses text is not spelled out'
if command -v node >/dev/null; then
    sed -n '/^<script>$/,/^<\/script>$/p' w1.html | sed '1d;$d' >page.js
    node --check page.js || fail 'the script does not parse'
fi

# 200 tokens, 144 heads.
awk 'BEGIN { for (i = 0; i < 200; i++)
    printf "%s", substr("abdegiklmnoprstu", 1 + (i * i * 7 + i % 13) % 16, 1) }' >long
begin=$(date +%s%N)
attend --src-file long --tgt-file long --out long.html || fail '200 tokens'
ms=$((($(date +%s%N) - begin) / 1000000))
size=$(stat -c %s long.html)
note "200 tokens: $size bytes in $ms ms"
[ "$size" -lt 5000000 ] || fail "a page of 200 tokens has $size bytes"
[ "$ms" -lt 10000 ] || [ -n "${TEST_SCALE:-}" ] || fail "200 tokens took $ms ms"
attend --src-file long --tgt-file long --out long.svg && xml long.svg
[ "$(stat -c %s long.svg)" -lt 3000000 ] || fail 'a grid of 200 tokens is too large'
attend --src-file long --tgt-file long --layer 3 --out long-3.svg && xml long-3.svg
[ "$(stat -c %s long-3.svg)" -lt 3000000 ] || fail 'lines of 200 tokens are too large'

# Wrong usage, and files that cannot be.
try=("$heed" attend --model m --src x --tgt y)
expect 2 'ends neither in .svg nor in .html' "${try[@]}" --out x.png
expect 2 '--out is missing' "${try[@]}"
expect 0 'warning: the source contained bytes that are not UTF-8' "$heed" attend --model m \
    --src $'a\xff' --out bad.svg
expect 2 'give either --src or --src-file' "$heed" attend --model m --out x.svg
expect 2 "'all' is not one of enc, dec, cross" "${try[@]}" --out x.svg --kind all
expect 2 '--layer 7: the decoder has 6 layers' "${try[@]}" --out x.svg --layer 7
expect 2 '--head 9: the model has 8 heads' "${try[@]}" --out x.svg --head 9
expect 2 '--line 61: v.src has only 60 lines' "$heed" attend --model m --src-file v.src --line 61 \
    --out x.svg
expect 1 'positions for 300' "$heed" attend --model m --src "$(head -c 400 t.src | tr '\n' ' ')" \
    --tgt x --out x.svg
cp v.src text.svg
expect 2 'text.svg is an input' "$heed" attend --model m --src-file text.svg --out text.svg
cmp v.src text.svg || fail 'a picture replaced its text'
expect 1 'nodir/x.svg' "${try[@]}" --out nodir/x.svg
[ ! -e x.svg ] || fail 'a failed command left a file'

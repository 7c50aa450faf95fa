#!/usr/bin/env bash
# test_html.sh — heed translate --html: paragraphs are translated as lines are, everything else is
# the same bytes; what is refused.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'

train run --steps 100 --save-every 100 --max-len 64 --quiet || fail 'no model to translate with'
m=(translate --model run --threads 1 --min-length 3 --max-extra 2 --quiet)
grep -E '^[a-z ]+$' v.src >lines || true
[ "$(wc -l <lines)" -gt 5 ] || fail 'no plain lines to make a document of'
"$heed" "${m[@]}" lines >want || fail 'translating lines'
head='<!DOCTYPE html><title>1</title><style>p>b{}</style>
<script>if (a<b) x("<p>one</p>")</script><!-- one two -->'
# document — around the lines of standard input
document() {
    echo "$head"
    sed 's|.*|<p class="a\&amp;b">  <b>&</b>\n</p>|'
    printf '<pre>a b</pre>'
}
document <lines >doc
sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g' want | document >want.doc
"$heed" "${m[@]}" --html doc >got || fail '--html'
same got want.doc 'paragraphs are not translated as lines are'
"$heed" "${m[@]}" --html <doc | cmp - got || fail 'standard input is not like a file'
"$heed" "${m[@]}" --html --output out doc - <doc || fail 'two documents'
cat got got | cmp - out || fail 'two documents are not one after the other'

# ---- no tag is lost, and nothing becomes a tag
sed 's|^\([a-z]*\) \([a-z]*\)|<p>\1 <a href="x">\2</a><img src="y"> \&lt;b\&gt;|' lines >inline
"$heed" "${m[@]}" --html inline >got || fail 'inline tags'
for tag in '<a href="x">' '</a>' '<img src="y">' '<p>'; do
    [ "$(grep -oF "$tag" got | wc -l)" = "$(grep -oF "$tag" inline | wc -l)" ] || fail "$tag lost"
done
absent '<b>' got 'text became a tag'
printf '' | "$heed" "${m[@]}" --html >got || fail 'an empty document'
[ ! -s got ] || fail 'something from nothing'

# ---- plain text: what the model would lose is kept
sed 's/^\([a-z]*\) /\1 {name} /; 3s/$/ %1$s./' lines >held
"$heed" "${m[@]}" --format text held >got || fail 'placeholders'
[ "$(grep -cF '{name}' got)" = "$(grep -cF '{name}' held)" ] || fail '{name} lost'
sed -n 3p got | grep -qF '%1$s' || fail '%1$s lost'
cat lines held | "$heed" "${m[@]}" --format text >both || fail 'lines with and without placeholders'
"$heed" "${m[@]}" --format text lines | cat - got | cmp - both || fail 'their order'

verb=("${m[@]}")
expect 2 '--html and --nbest do not go together' -- --html --nbest 2 doc
expect 2 '--html and --alignment do not go together' -- --html --alignment words doc
expect 2 '--interactive and --html do not go together' -- --html --interactive
expect 1 'no-such-file' -- --html no-such-file
printf '<p>sch\xf6n</p>' >latin
expect 1 'line 1 is not UTF-8' -- --html latin

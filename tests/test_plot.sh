#!/bin/bash
# test_plot.sh — heed plot: charts from JSON.
# timeout: 60
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$dir"
chart() { # X_SCALE SCALE CURVES
    printf '{"title": "a <b> & c", "x": "tokens", "x_scale": "%s", "panels": [
        {"title": "time", "scale": "%s", "curves": [%s]}]}' "$1" "$2" "$3"
}
one='{"name": "one", "x": [16, 64, 8192], "y": [0.00001, 1, 100000000], "marked": true}'
two='{"name": "two", "x": [16, 64, 8192], "y": [1, null, 3]}'
chart log2 log "$one, $two" >c.json
expect 0 '' -- plot c.json --out c.svg
[ "$(head -c 5 c.svg)" = '<svg ' ] && [ "$(tail -n 1 c.svg)" = '</svg>' ] || fail 'not an SVG'
grep -q 'a &lt;b&gt; &amp; c' c.svg || fail 'the title is not escaped'
for tick in 16 64 4,096 8,192; do grep -q ">$tick</text>" c.svg || fail "no $tick on log2"; done
for tick in 10⁻⁵ 1 1,000 10⁸; do grep -q ">$tick</text>" c.svg || fail "no $tick on log"; done
# marked points, and those beside a gap
[ "$(grep -c '<circle' c.svg)" = 5 ] || fail 'not five dots'
# as far from 16 to 64 as from 64 to 256: places are logarithmic
place() { sed -n "s/.*<text class='t' x='\([0-9.]*\)'[^>]*middle'>$1<.*/\1/p" c.svg; }
awk -v a="$(place 16)" -v b="$(place 64)" -v c="$(place 256)" \
    'BEGIN { d = (b - a) - (c - b); exit !(b > a && d < 0.3 && d > -0.3) }' ||
    fail 'the horizontal axis is not logarithmic'
grep -q 'prefers-color-scheme:dark' c.svg || fail 'no dark colours'
# many names go below the title, and the picture grows
names=
for i in 1 2 3 4 5 6 7 8; do
    names+="${names:+, }{\"name\": \"curve number $i\", \"x\": [1], \"y\": [$i]}"
done
chart linear linear "$names" >many.json
expect 0 '' -- plot many.json --out many.svg
tall() { sed -n "s/.*viewBox='0 0 860 \([0-9]*\)'.*/\1/p" "$1"; }
[ "$(tall many.svg)" -gt "$(tall c.svg)" ] || fail 'no room for the legend'

bad() { # MESSAGE TEXT
    echo "$2" >bad.json
    expect 1 "$1" -- plot bad.json --out bad.svg
    [ ! -e bad.svg ] || fail "a picture of $2"
}
bad 'expected an object' '[]'
bad "title: expected a string" '{"x": "a", "panels": []}'
bad "panels: expected a list of 1 to 16" '{"title": "", "x": "a", "panels": []}'
bad "x_scale: expected linear, log or log2" "$(chart cubic log "$one")"
bad "panel 1: scale: expected linear, log or log2" "$(chart log x "$one")"
bad 'curves: expected a list of 1 to 24' "$(chart log log '')"
bad 'curve 1: y[1] is neither a number nor null' \
    "$(chart log log '{"name": "", "x": [1, 2], "y": [1, "2"]}')"
bad 'curve 1: x has 2 numbers, y has 1' "$(chart log log '{"name": "", "x": [1, 2], "y": [1]}')"
bad 'curve 1: x[1] is less than' "$(chart log log '{"name": "", "x": [2, 1], "y": [1, 2]}')"
bad "colour" "$(chart log log '{"name": "", "x": [], "y": [], "colour": 1}')"
expect 2 'out' -- plot c.json
expect 1 'there.json' -- plot there.json --out x.svg
if python3 -c 'import xml.dom.minidom' 2>/dev/null; then
    for svg in c.svg many.svg; do
        python3 - $svg <<<'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' ||
            fail "$svg is no XML"
    done
fi

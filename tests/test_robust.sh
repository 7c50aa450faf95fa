#!/bin/bash
# test_robust.sh — what `make scores` says about robustness, and the noise that makes models robust:
# the measures of bench/robust.py tell good translations from bad ones; recipes/box/noise.py does to
# pairs what it says, whatever the number of processes, and knows nothing of the test's sentences.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
command -v python3 >/dev/null || skip 'no python3'
export PYTHONDONTWRITEBYTECODE=1
cd "$tree"

python3 tests/robust/check.py measures || fail 'bench/robust.py'

# ---- noise: the demo's sentences, and some that have numbers, names, quotation marks and dashes
while IFS=$'\t' read -r en de; do
    echo "$en" >>"$dir/en"
    echo "$de" >>"$dir/de"
done <<'PAIRS'
The bridge is 1,250 metres long.	Die Brücke ist 1.250 Meter lang.
It costs 12.50 euros in 2019.	Es kostet 2019 12,50 Euro.
About 40% of the 80 000 voters stayed at home.	Etwa 40 % der 80 000 Wähler blieben zu Hause.
Chapter 14 begins on page 231.	Kapitel 14 beginnt auf Seite 231.
We met on 28 February 2005.	Wir trafen uns am 28. Februar 2005.
Tom has 300 books and Mary has 35.	Tom hat 300 Bücher und Maria hat 35.
File 0042 is 3.5 MB.	Datei 0042 ist 3,5 MB groß.
The 17 boxes weigh 450 kilograms.	Die 17 Kisten wiegen 450 Kilogramm.
Gate 22 is closed until 2031.	Tor 22 ist bis 2031 geschlossen.
She said "no" – and left.	Sie sagte „nein“ – und ging.
The word "heed" is old.	Das Wort „heed“ ist alt.
He called it a "joke"...	Er nannte es einen „Witz“...
My uncle - a baker - sings.	Mein Onkel - ein Bäcker - singt.
"Why not?" asked Tom.	"Warum nicht?", fragte Tom.
The old town – it is small – is pretty.	Die Altstadt – sie ist klein – ist hübsch.
That is "fine", I said.	Das ist „gut“, sagte ich.
The "Blue Room" is here.	Das „Blaue Zimmer“ ist hier.
He whispered: "Come in."	Er flüsterte: „Komm herein.“
PAIRS
for lang in en de; do cat demo/heldout.$lang >>"$dir/$lang"; done
python3 tests/robust/check.py noise "$dir/en" "$dir/de" || fail 'recipes/box/noise.py'

# ---- one result, whoever computes it; another seed, another result; files of all kinds
noise=(python3 recipes/box/noise.py --langs 'en,de')
"${noise[@]}" demo/train.en.xz demo/train.de.xz "$dir/a.en" "$dir/a.de" --threads 1
"${noise[@]}" demo/train.en.xz demo/train.de.xz "$dir/b.en.gz" "$dir/b.de.xz" --threads 3
gzip -d "$dir/b.en.gz"
xz -d "$dir/b.de.xz"
for lang in en de; do same "$dir/a.$lang" "$dir/b.$lang" 'the number of processes matters'; done
lines=$(wc -l <"$dir/a.en")
[ "$lines" = "$(wc -l <"$dir/a.de")" ] || fail 'the sides have different numbers of lines'
[ "$lines" -gt 14000 ] && [ "$lines" -lt 16000 ] || fail "$lines copies of half of 30,021 pairs"
"${noise[@]}" demo/train.en.xz demo/train.de.xz "$dir/c.en" "$dir/c.de" --seed 2
differ "$dir/a.en" "$dir/c.en" 'the seed does not matter'

# ---- addresses are made of words of both languages, or those of one would be translated in them
"${noise[@]}" demo/train.en.xz demo/train.de.xz "$dir/d.en" "$dir/d.de" --kinds insert
for word in house water haus wasser; do
    grep -qE "(//|@|/)[^ ]*$word" "$dir/d.en" || fail "no address has '$word' in it"
done

# ---- mistakes
head -n 5 "$dir/en" >"$dir/short"
expect 1 'differ in length after 5 lines' "${noise[@]}" "$dir/short" "$dir/de" "$dir/x" "$dir/y"
expect 2 "no kind is called 'loud'" "${noise[@]}" "$dir/en" "$dir/de" --show 1 --kinds caps,loud
expect 2 "'en,fr' is neither" "${noise[@]}" "$dir/en" "$dir/de" --show 1 --langs en,fr
expect 2 'OUT-SOURCE' "${noise[@]}" "$dir/en" "$dir/de"

#!/usr/bin/env bash
# test_clean.sh — `heed clean` as users meet it: options, the report, rejects, order, compressed and
# piped input, files of unequal length, outputs that are whole or not there.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
verb=(clean)

cat >"$dir/src" <<'END'
Where is my book?

I think the first thing you might want to do is to put some fuel into your car.
It was built in 1954.
Where is my book?
WHERE IS MY BOOK!
Where is my book?
The weather is fine.
See	the tab.
I have two cats.
END
cat >"$dir/tgt" <<'END'
Wo ist mein Buch?
Leer.
Tanke.
Es wurde 1945 gebaut.
Wo ist mein Buch?
Wo ist mein Buch?
Wo liegt mein Buch?
Das Wetter ist schön.
Siehe	den	<b>Tabulator</b>.
Ich habe zwei Katzen.
END
echo 'the weather is FINE' >"$dir/held"
in=(--src "$dir/src" --tgt "$dir/tgt")
to=(--out-src "$dir/o.src" --out-tgt "$dir/o.tgt")
files=("${in[@]}" "${to[@]}")

# ---- options and messages
expect 0 '--exclude FILE...' -- --help
help=$(tr -s ' \n' ' ' <<<"$out")
expect 2 '--src is missing' -- --tgt "$dir/tgt" "${to[@]}"
expect 2 '--out-tgt is missing' -- "${in[@]}" --out-src "$dir/o.src"
expect 2 "--keep: 'number' is not one of empty, broken" -- "${files[@]}" --keep number
expect 2 "--src-lang: 'english' is not the code of a language" -- "${files[@]}" --src-lang english
expect 2 '--letters: 2 is not between 0 and 1' -- "${files[@]}" --letters 2
expect 2 'files of --exclude can be standard input' -- --src - --tgt - "${to[@]}"
expect 2 'files of --exclude can be standard input' -- --src - --tgt "$dir/tgt" "${to[@]}" \
    --exclude "$dir/held" -
expect 2 '--min-words: 5 is more than --max-words 3' -- "${files[@]}" --min-words 5 --max-words 3
expect 1 'none: No such file' -- --src "$dir/none" --tgt "$dir/tgt" "${to[@]}"
expect 1 'none: No such file' -- "${files[@]}" --exclude "$dir/none"
expect 1 "$dir/none/x: cannot write: No such file" -- "${in[@]}" --out-tgt "$dir/o.tgt" \
    --out-src "$dir/none/x"
expect 2 'is also an input' -- "${in[@]}" --out-src "$dir/src" --out-tgt "$dir/o.tgt"
expect 2 '--out-tgt: ' -- "${in[@]}" --out-src "$dir/o.src" --out-tgt "$dir/o.src"
has 'is also another output'
expect 2 '--out-tgt: ' -- "${in[@]}" --out-src "$dir/o.src" --out-tgt "$dir/./o.src"
has 'is also another output'
ln -s o.src "$dir/link"
expect 2 '--rejects: ' -- "${files[@]}" --rejects "$dir/link"
has 'is also another output'
expect 2 '--rejects: ' -- "${files[@]}" --exclude "$dir/held" --rejects "$dir/held"
expect 2 'is a name for compressed text' -- "${in[@]}" --out-src "$dir/o.gz" --out-tgt "$dir/o.tgt"
for file in o.src o.tgt o.gz; do [ ! -e "$dir/$file" ] || fail "a failure left $file"; done

# ---- the report, what is kept and in which order, what is not
expect 0 '10 pairs read, 3 kept (30.00 %); dropped:' -- "${files[@]}" --exclude "$dir/held" \
    --rejects "$dir/rejects" --src-lang en --tgt-lang de --quiet
[ "$(wc -l <<<"$out")" = 8 ] || fail "the report: $out"
grep -qE '^  duplicate +1  \(first: line 5\)$' <<<"$out" || fail "no duplicate in: $out"
grep -qE '^  near-duplicate +1  \(first: line 6\)$' <<<"$out" || fail "no near one in: $out"
paste "$dir/o.src" "$dir/o.tgt" >"$dir/kept"
printf '%s\t%s\n' 'Where is my book?' 'Wo ist mein Buch?' 'Where is my book?' \
    'Wo liegt mein Buch?' 'I have two cats.' 'Ich habe zwei Katzen.' >"$dir/want"
same "$dir/kept" "$dir/want"
cut -f 1-3 "$dir/rejects" >"$dir/why"
printf '%s\t%s\t%s\n' 2 empty source 3 ratio source 4 numbers pair 5 duplicate pair \
    6 near-duplicate pair 8 excluded source 9 markup target >"$dir/want"
same "$dir/why" "$dir/want"
columns=$(sed -n 7p "$dir/rejects")
[ "$columns" = $'9\tmarkup\ttarget\tSee the tab.\tSiehe den <b>Tabulator</b>.' ] ||
    fail "the columns: $columns"

expect 0 '' -- "${files[@]}" --exclude "$dir/held" --json --quiet
case $out in
'{"read":10,"kept":3,"dropped":{"empty":{"pairs":1,"first_line":2},"broken":'*) ;;
*) fail "--json: $out" ;;
esac
[ "$(wc -l <<<"$out")" = 1 ] || fail "--json is not one line: $out"
for reason in $(grep -oE '"[a-z-]+":\{"pairs"' <<<"$out" | cut -d '"' -f 2); do
    case $help in *" $reason,"* | *" $reason."*) ;; *) fail "--help does not name $reason" ;; esac
done
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; r = json.loads(sys.argv[1])
assert r["kept"] + sum(d["pairs"] for d in r["dropped"].values()) == r["read"]' "$out" ||
        fail "--json does not add up: $out"
fi

expect 0 '10 pairs read, 10 kept (100.00 %)' -- "${files[@]}" --quiet \
    --keep empty,ratio,numbers,duplicate,near-duplicate,markup
same "$dir/o.src" "$dir/src" 'what is kept is not changed'
same "$dir/o.tgt" "$dir/tgt" 'what is kept is not changed'
expect 0 'repeated-side' -- "${files[@]}" --max-per-source 1

# ---- the same from compressed files and a pipe, with any number of threads
awk 'BEGIN { srand(3); for (i = 0; i < 30000; i++)
    print "The number of line " i % 20000 " is " int(10 * rand()) " and " i % 7 " thereafter." }' \
    >"$dir/many.src"
sed 's/The number of line/Die Nummer von Zeile/; s/is/ist/; s/and/und/; s/thereafter/danach/' \
    "$dir/many.src" | awk 'NR % 97 { print; next } { print "" }' >"$dir/many.tgt"
many=(--keep near-duplicate --max-per-source 1000 --quiet --src-lang en --tgt-lang de)
"$heed" clean --src "$dir/many.src" --tgt "$dir/many.tgt" --out-src "$dir/1.src" \
    --out-tgt "$dir/1.tgt" --threads 1 "${many[@]}" --rejects "$dir/1.rejects" >"$dir/1.report"
xz -k "$dir/many.src"
gzip -kn "$dir/many.tgt"
"$heed" clean --src "$dir/many.src.xz" --tgt - --out-src "$dir/2.src" --out-tgt "$dir/2.tgt" \
    --threads 3 "${many[@]}" --rejects "$dir/2.rejects" >"$dir/2.report" <"$dir/many.tgt.gz"
for what in src tgt rejects report; do same "$dir/1.$what" "$dir/2.$what"; done
kept=$(wc -l <"$dir/1.src")
[ "$kept" -gt 1000 ] || fail "only $kept lines left"
[ "$kept" = "$(wc -l <"$dir/1.tgt")" ] || fail 'the outputs are not parallel'
[ $((kept + $(wc -l <"$dir/1.rejects"))) = 30000 ] || fail 'pairs were lost'
# Lines come in the order of the input, and are those of the same place.
awk -F '\t' 'NR == FNR { drop[$1] = 1; next } !(FNR in drop)' "$dir/1.rejects" "$dir/many.tgt" \
    >"$dir/want"
same "$dir/1.tgt" "$dir/want"

# ---- an error or a kill leaves the old files and no others
echo old >"$dir/o.src"
echo old >"$dir/o.tgt"
old() {
    [ "$(cat "$dir/o.src" "$dir/o.tgt")" = $'old\nold' ] || fail "$1 changed the old files"
    left=$(find "$dir" -name 'o.src?*' -o -name 'o.tgt?*')
    [ -z "$left" ] || fail "$1 left $left"
}
head -n 9 "$dir/tgt" >"$dir/short"
expect 1 "src has 10 lines and $dir/short has 9: line i must translate line i" -- \
    --src "$dir/src" --tgt "$dir/short" "${to[@]}"
old 'an unequal number of lines'
head -c 300 "$dir/many.src.xz" >"$dir/cut.xz"
expect 1 'xz: the file is truncated' -- --src "$dir/cut.xz" --tgt "$dir/many.tgt" "${to[@]}"
old 'a damaged file'
awk 'BEGIN { for (i = 0; i < 3000; i++) print "a" i }' >"$dir/less"
sed 's/$/ and a good deal more/' "$dir/less" >"$dir/more"
(
    ulimit -f 40 # KiB: room for one of the two
    "$heed" clean --src "$dir/less" --tgt "$dir/more" "${to[@]}" --quiet --keep near-duplicate,ratio
) >"$dir/said" 2>&1 && fail 'a full disk went unnoticed'
grep -q 'o.tgt: ' "$dir/said" || fail "of a full disk it says $(cat "$dir/said")"
old 'a full disk'
exec 7> >(:)
wait $!
rc=0
"$heed" clean --src "$dir/many.tgt" --tgt "$dir/many.src" --out-src /dev/stdout --quiet \
    --out-tgt /dev/null --keep empty >&7 || rc=$?
exec 7>&-
[ $rc = 141 ] || fail "a reader that went away: $rc"
expect 1 'no pair passes the filters; nothing is written' -- "${files[@]}" --min-words 50
old 'an empty result'
expect 1 'nothing is written but the rejects' -- "${files[@]}" --min-words 50 --rejects "$dir/all"
[ "$(wc -l <"$dir/all")" = 10 ] || fail 'the rejects of an empty result'
expect 1 'no pair passes' -- --src /dev/null --tgt /dev/null "${to[@]}"
old 'an empty corpus'
mkfifo "$dir/pipe"
"$heed" clean --src "$dir/pipe" --tgt "$dir/many.tgt" "${to[@]}" >"$dir/log" 2>&1 &
pid=$!
exec 3>"$dir/pipe"
head -n 9000 "$dir/many.src" >&3
kill -TERM "$pid"
tail -n +9001 "$dir/many.src" >&3 2>/dev/null || true # all of it: only the signal stops it
exec 3>&-
rc=0
wait "$pid" || rc=$?
[ "$rc" = 143 ] || fail "SIGTERM: exit $rc: $(cat "$dir/log")"
old 'a signal'

# ---- duplicates and held-out lines of a real corpus, by a program that shares no code
command -v python3 >/dev/null || { note 'no python3: that part was left out' && exit 0; }
for l in en de; do # and some of its lines again: as they are, and otherwise
    xz -dc "$tree/demo/train.$l.xz" >"$dir/all.$l"
    (cat "$dir/all.$l" && head -n 300 "$dir/all.$l" &&
        sed -n '200,600{s/[.!]$//;p;}' "$dir/all.$l" | tr '[:lower:]' '[:upper:]') >"$dir/train.$l"
done
sed -n '500,550p' "$dir/all.de" | tr -d ' ' >"$dir/unseen"
"$heed" clean --src "$dir/train.en" --tgt "$dir/train.de" "${to[@]}" --rejects "$dir/rejects" \
    --exclude "$dir/unseen" --quiet >"$dir/report"
python3 - "$dir" <<'END' || fail 'Python finds other pairs'
import sys
import unicodedata
folder = sys.argv[1] + '/'


def lines(name):
    with open(folder + name, encoding='utf-8', newline='\n') as file:
        return file.read().split('\n')[:-1]


def key(line):
    kinds = [(c, unicodedata.category(c)[0]) for c in line.lower() if not c.isspace()]
    return ''.join('0' if k == 'N' else c for c, k in kinds if k not in 'PS') or line


unseen = {key(line) for line in lines('unseen')}
reasons = {int(row.split('\t')[0]): row.split('\t')[1] for row in lines('rejects')}
kept, counts = {}, {}
for number, pair in enumerate(zip(lines('train.en'), lines('train.de')), 1):
    keys, got = tuple(map(key, pair)), reasons.get(number, 'kept')
    if got not in ('kept', 'excluded', 'duplicate', 'near-duplicate'):
        continue
    want = ('excluded' if unseen & set(keys) else 'kept' if keys not in kept
            else 'duplicate' if kept[keys] == pair else 'near-duplicate')
    kept.setdefault(keys, pair) if want == 'kept' else None
    counts[want] = counts.get(want, 0) + 1
    assert got == want, (number, pair, got, want)
assert counts['kept'] > 10000 and min(counts.values()) > 40 and len(counts) == 4, counts
END

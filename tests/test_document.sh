#!/usr/bin/env bash
# test_document.sh — heed translate of documents: texts are translated as lines are, and archives
# are whole afterwards, as Python reads them; what is refused.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
command -v python3 >/dev/null || skip 'no Python to make documents with'

train run --steps 100 --save-every 100 --max-len 64 --quiet || fail 'no model to translate with'
m=(translate --model run --threads 1 --min-length 3 --max-extra 2 --quiet)
grep -E '^[a-z ]+$' v.src | head -n 6 >lines || true
"$heed" "${m[@]}" lines >want || fail 'translating lines'
[ "$(sort -u lines want | wc -l)" -gt 6 ] || fail 'translations are like their sources'

cat >make.py <<'P'
"""make.py make NAME < LINES: a document with a paragraph for each line.
make.py read NAME: its paragraphs, one a line; the archive must be whole and its XML well-formed."""
import sys, zipfile, xml.etree.ElementTree as tree
verb, name = sys.argv[1:]
W = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main'
T = 'urn:oasis:names:tc:opendocument:xmlns:text:1.0'
part = 'word/document.xml' if name.endswith('docx') else 'content.xml'
if verb == 'make':
    lines = sys.stdin.read().splitlines()
    if name.endswith('docx'):
        body = ''.join('<w:p><w:pPr><w:jc w:val="center"/></w:pPr><w:r><w:rPr><w:b/></w:rPr>'
                       f'<w:t>{line}</w:t></w:r></w:p>' for line in lines)
        xml = f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    else:
        body = ''.join(f'<text:p text:style-name="P1">{line}</text:p>' for line in lines)
        xml = f'<office xmlns:text="{T}">{body}</office>'
    with zipfile.ZipFile(name, 'w', zipfile.ZIP_DEFLATED) as z:
        z.writestr('mimetype', 'x', zipfile.ZIP_STORED)
        z.writestr(part, xml)
        z.writestr('media/image.png', bytes(range(256)))
else:
    z = zipfile.ZipFile(name)
    assert z.testzip() is None and z.namelist() == ['mimetype', part, 'media/image.png']
    assert z.getinfo('mimetype').compress_type == zipfile.ZIP_STORED
    assert z.read('media/image.png') == bytes(range(256))
    root = tree.fromstring(z.read(part))
    for p in root.iter(f'{{{W}}}p' if part[0] == 'w' else f'{{{T}}}p'):
        print(''.join(p.itertext()))
        assert part[0] != 'w' or len(p.findall(f'.//{{{W}}}b')) == 1
P
for kind in docx odt; do
    python3 make.py make "in.$kind" <lines || fail "making in.$kind"
    "$heed" "${m[@]}" --output "out.$kind" "in.$kind" || fail "$kind"
    python3 make.py read "out.$kind" >got || fail "out.$kind is broken"
    same got want "texts of $kind are not translated as lines are"
    "$heed" "${m[@]}" --document "in.$kind" | cmp - "out.$kind" || fail "--document $kind"
done

# around FORMAT — a document of lines
around() {
    case $1 in
    txt) sed 's/.*/  &\r/' ;;
    srt) awk '{ printf "%d\n00:00:0%d,000 --> 00:00:0%d,500\n<i>%s</i>\n\n", NR, NR, NR, $0 }' ;;
    md) printf -- '---\ntitle: one two\n---\n' && sed 's/.*/- **&**\n/' ;;
    esac
}
for kind in txt srt md; do
    around $kind <lines >"in.$kind"
    around $kind <want >want.doc
    "$heed" "${m[@]}" --document "in.$kind" >got || fail "--document $kind"
    same got want.doc "$kind is not as it was but for its texts"
done

verb=("${m[@]}")
echo '%PDF-1.7' >paper.pdf
expect 2 'paper.pdf: .pdf cannot be translated' -- --document paper.pdf
expect 2 'one FILE at a time' -- in.docx in.odt
expect 2 '--document and --nbest do not go together' -- --document --nbest 2 in.txt
expect 2 '--document and --html do not go together' -- --html in.docx
echo 'no zip' >broken.docx
expect 1 'broken.docx: this is not a zip archive' -- broken.docx

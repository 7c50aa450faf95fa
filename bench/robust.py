#!/usr/bin/env python3
"""robust.py — how models stand what people really type: the 200 sentences of tests/robust.

    bench/robust.py [--heed build/heed] [--models models] [--verbose] [--check] [--json FILE]
    bench/robust.py --outputs FILE       measures 200 translations in the order of sentences.tsv

The measures, for every kind of sentence and for all of them (docs/box.md has the bars):

  copied        of the names, numbers, addresses, code and emoji that sentences.tsv lists, the share
                that the translation contains. Numbers may change their separators (1,234.5 and
                1.234,5), names take a genitive; in kinds lower and caps case does not count.
  empty         translations without a letter, digit or symbol
  loops         translations that repeat themselves as their source does not (looping)
  untranslated  the share of the source's words that stand in the translation as they are; what is
                to be copied, words of one letter and those of shared.tsv are left out
  form          what else a kind should keep: no final mark where the source has none (nofinal, and
                wherever the source ends so), ALL CAPS (caps), quotations (quotes), as many
                sentences (several)
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
FOLDER = HERE.parent / "tests" / "robust"
BARS = {"copied": 95.0, "empty": 0, "loops": 0, "untranslated": 5.0}
COPIED = "name", "number", "url"  # what the bar of copying is about
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SENTENCE_END = re.compile(r"[.!?…]+[\"”“»«’‘)]*(?=\s|$)")
QUOTATION = re.compile(
    r'"[^"]+"|“[^“”]+”|„[^„“”]+[“”]|»[^«»]+«|«[^«»]+»'
    r"|(?<!\w)[‘‚'][^‘’']+(?:['’]\w[^‘’']*)*[’‘'](?!\w)"
)
SPELLED = {
    "5": ("five", "fünf"), "7": ("seven", "sieben"), "10": ("ten", "zehn"),
}  # fmt: skip


class Sentence(collections.namedtuple("Sentence", "lang kind text reference items")):
    """A line of sentences.tsv; items are (type, text)."""


def read_tsv(name):
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def sentences():
    return [
        Sentence(lang, kind, text, reference, [tuple(item.split(":", 1)) for item in items])
        for lang, kind, text, reference, *items in read_tsv("sentences.tsv")
    ]


def shared():
    return {(lang, word) for lang, word in read_tsv("shared.tsv")}


# ---- the measures, each of one sentence and its translation --------------------------------------


def plain(text):
    """Without the invisible sign that asks for a coloured picture, and with single spaces."""
    return re.sub(r"\s+", " ", text.replace("\ufe0f", ""))


def number_forms(text, lang):
    """The ways a number may be written in a translation, as a pattern."""
    thousands, point = ",." if lang == "en" else ".,"
    whole, _, fraction = text.partition(point)
    groups = whole.split(thousands)
    forms = [r"[.,\s’']?".join(map(re.escape, groups)) + (r"[.,]" + fraction if fraction else "")]
    return "|".join(forms + list(SPELLED.get(text, ())))


def item_pattern(item, lang):
    kind, text = item
    if kind == "number":
        return rf"(?<!\d)(?<!\d[.,])(?:{number_forms(text, lang)})(?![.,]?\d)"
    before = r"(?<!\w)" if re.match(r"\w", text) else ""
    after = r"(?!\w)" if re.search(r"\w$", text) else ""
    if kind == "name" and after:
        after = r"(?=s?(?!\w))"
    return before + re.escape(plain(text)) + after


def copied(sentence, output):
    """How many of each type of item the translation contains, and how many there are."""
    flags = re.IGNORECASE if sentence.kind in ("lower", "caps") else 0
    output = plain(output)
    result = []
    for item in sentence.items:
        found = len(re.findall(item_pattern(item, sentence.lang), output, flags))
        result.append((item[0], item[1], found >= sentence.items.count(item)))
    return result


def empty(output):
    return not re.search(r"[^\W_]|[^\s\w!-/:-@[-`{-~]", output)


def longest_run(words, n):
    """How often one sequence of n words stands in a row, at most."""
    best = run = 0
    for i in range(n, len(words)):
        run = run + 1 if words[i] == words[i - n] else 0
        best = max(best, run // n + 1)
    return best


def looping(source, output):
    """Whether a translation is caught in a loop: a sequence of up to eight words three times in a
    row, four words three times anywhere, or a few characters eight times in a row, though the
    source has nothing of the kind; or three times as many words as the source and ten more."""
    src, out = source.casefold().split(), output.casefold().split()
    if len(out) > 3 * len(src) + 10:
        return True
    if any(longest_run(out, n) >= 3 > longest_run(src, n) for n in range(1, 9)):
        return True
    fours = lambda w: collections.Counter(zip(w, w[1:], w[2:], w[3:]))  # noqa: E731
    most = lambda words: max(fours(words).values(), default=0)  # noqa: E731
    if most(out) >= 3 > most(src):
        return True
    again = re.compile(r"(\S{1,6}?)\1{7}")
    return bool(again.search(output) and not again.search(source))


def untranslated(sentence, output, common):
    """The source's words that the translation still has, and all that count."""
    text, out = plain(sentence.text), plain(output)
    for item in sorted(sentence.items, key=lambda item: -len(item[1])):
        text, out = text.replace(plain(item[1]), " "), out.replace(plain(item[1]), " ")
    left = {w.casefold() for w in WORD.findall(out)}
    words = [w.casefold().replace("ẞ", "ss") for w in WORD.findall(text) if len(w) > 1]
    words = [w for w in words if (sentence.lang, w) not in common]
    return [w for w in words if w in left], len(words)


def final_mark(text):
    found = re.search(r"([.!?…])[\"”“»«’‘)]*$", text.strip())
    return found.group(1) if found else ""


def all_caps(sentence, output):
    for _, text in sentence.items:
        output = output.replace(text, "")
    letters = [c for c in output if c.isalpha()]
    return sum(c.isupper() for c in letters) >= 0.9 * len(letters) if letters else False


def keeps_form(sentence, output):
    """Whether the translation keeps what its kind is about; None where there is nothing to keep."""
    text = sentence.text
    if sentence.kind == "caps" and not all_caps(sentence, output):
        return False
    if sentence.kind == "quotes":
        n = len(QUOTATION.findall(text))
        return len(QUOTATION.findall(output)) >= n if n else None
    if sentence.kind == "several":
        return len(SENTENCE_END.findall(output)) == len(SENTENCE_END.findall(text))
    if sentence.kind == "nofinal":
        return final_mark(output) == ""
    return True if sentence.kind == "caps" else None


# ---- all sentences -------------------------------------------------------------------------------


def measure(lines, outputs):
    """One record per sentence: what was copied, what went wrong."""
    if len(lines) != len(outputs):
        raise SystemExit(f"robust.py: {len(outputs)} translations of {len(lines)} sentences")
    common = shared()
    records = []
    for sentence, output in zip(lines, outputs):
        left, words = untranslated(sentence, output, common)
        records.append({
            "lang": sentence.lang, "kind": sentence.kind, "source": sentence.text,
            "output": output, "items": copied(sentence, output), "empty": empty(output),
            "loop": looping(sentence.text, output), "left": left, "words": words,
            "form": keeps_form(sentence, output),
        })  # fmt: skip
    return records


def percent(part, whole):
    return 100.0 * part / whole if whole else None


def summary(records):
    items = [item for r in records for item in r["items"]]
    barred = [item for item in items if item[0] in COPIED]
    forms = [r["form"] for r in records if r["form"] is not None]
    left, words = sum(len(r["left"]) for r in records), sum(r["words"] for r in records)
    types = collections.Counter(item[0] for item in items)
    good = collections.Counter(item[0] for item in items if item[2])
    return {
        "sentences": len(records),
        "copied": percent(sum(item[2] for item in barred), len(barred)),
        "items": {t: [good[t], types[t]] for t in sorted(types)},
        "empty": sum(r["empty"] for r in records),
        "loops": sum(r["loop"] for r in records),
        "untranslated": percent(left, words),
        "form": percent(sum(forms), len(forms)),
    }


def summaries(records):
    """By kind, by language and over all."""
    groups = {"all": records}
    for lang in "en", "de":
        groups[lang] = [r for r in records if r["lang"] == lang]
    for r in records:
        groups.setdefault(r["kind"], []).append(r)
    return {name: summary(group) for name, group in groups.items() if group}


def meets(total):
    """Which bars the summary of all sentences meets."""
    return {
        name: total[name] is None or
        (total[name] >= bar if name == "copied" else total[name] <= bar)
        for name, bar in BARS.items()
    }  # fmt: skip


def table(results):
    """The summaries as a Markdown table."""
    out = ["| sentences | n | names | numbers | addresses | code | emoji | empty | loops "
           "| untranslated | form kept |", "|---|" + "--:|" * 10]  # fmt: skip
    show = lambda x: "–" if x is None else f"{x:.1f} %"  # noqa: E731
    order = [k for k in results if k not in ("en", "de", "all")] + ["en", "de", "all"]
    for name in order:
        s = results.get(name)
        if not s:
            continue
        cells = ["/".join(map(str, s["items"][t])) if t in s["items"] else "–"
                 for t in ("name", "number", "url", "code", "emoji")]  # fmt: skip
        label = {"en": "en→de", "de": "de→en", "all": "**all**"}.get(name, name)
        out.append(
            f"| {label} | {s['sentences']} | {' | '.join(cells)} | {s['empty']} | {s['loops']} "
            f"| {show(s['untranslated'])} | {show(s['form'])} |"
        )
    return "\n".join(out)


def complaints(records):
    """The lines at which something went wrong, with what it was."""
    for r in records:
        wrong = [f"{kind} {text} not copied" for kind, text, ok in r["items"] if not ok]
        wrong += ["empty"] * r["empty"] + ["loop"] * r["loop"]
        wrong += [f"left: {' '.join(r['left'])}"] if r["left"] else []
        wrong += ["form"] if r["form"] is False else []
        if wrong:
            where = f"[{r['lang']} {r['kind']}] {'; '.join(wrong)}"
            yield f"{where}\n    {r['source']}\n    {r['output']}"


def translate(heed, model, texts, *options):
    run = subprocess.run(
        [heed, "translate", "--model", str(model), "--quiet", *options],
        input="".join(t + "\n" for t in texts),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return run.stdout.splitlines()


def translations(heed, models, lines, *options):
    """By the models en-de and de-en; sentences without a model are left out of both lists."""
    kept, outputs = [], []
    for lang, name in ("en", "en-de"), ("de", "de-en"):
        model = pathlib.Path(models) / name
        if not (model / "config.json").exists():
            print(f"robust.py: no model {model}: its half is left out", file=sys.stderr)
            continue
        half = [s for s in lines if s.lang == lang]
        kept += half
        outputs += translate(heed, model, [s.text for s in half], *options)
    if not kept:
        raise SystemExit(f"robust.py: no model in {models}")
    return kept, outputs


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heed", default="build/heed", help="the program (build/heed)")
    parser.add_argument("--models", default="models", help="folder with en-de and de-en (models)")
    parser.add_argument("--outputs", help="translations of all sentences instead, one per line")
    parser.add_argument("--verbose", action="store_true", help="show what went wrong where")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    parser.add_argument("--json", help="write the summaries there")
    options = parser.parse_args()

    lines = sentences()
    if options.outputs:
        outputs = pathlib.Path(options.outputs).read_text(encoding="utf-8").splitlines()
    else:
        lines, outputs = translations(options.heed, options.models, lines)
    records = measure(lines, outputs)
    results = summaries(records)
    if options.verbose:
        print(*complaints(records), "", sep="\n")
    print(table(results))
    met = meets(results["all"])
    total = results["all"]
    print(f"\nnames, numbers and addresses copied: {total['copied']:.1f} % (bar 95)" +
          "".join(f"; {name} missed its bar" for name, ok in met.items() if not ok))  # fmt: skip
    if options.json:
        text = json.dumps(results, indent=1) + "\n"
        pathlib.Path(options.json).write_text(text, encoding="utf-8")
    return int(options.check and not all(met.values()))


if __name__ == "__main__":
    sys.exit(main())

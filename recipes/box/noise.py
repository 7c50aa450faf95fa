#!/usr/bin/env python3
"""noise.py — noisy copies of sentence pairs, from which a student learns what people really type.

    noise.py --langs en,de SOURCE TARGET OUT-SOURCE OUT-TARGET [--copies 0.5] [--seed 1]
    noise.py --langs en,de SOURCE TARGET --show 100 [--kinds caps,names]

Reads aligned files (plain, .gz, .xz; - is standard input, for one of them) and writes noisy copies
only: train on them beside the clean pairs. On average every pair is copied --copies times. A copy
has one kind of noise, sometimes two or three, drawn by the weights of KINDS; a kind that does not
fit a pair gives way to another. The result depends on the input, the options and the seed, never on
--threads, and memory on neither: text is handled in chunks that carry their own random numbers.

What a kind does to the source (s) and to the target (t):

  final    s and t lose their final mark                 "Where is it" - "Wo ist es"
  lower    s is lower case, or begins with it; t as it was
  caps     s and t are ALL CAPS; a German ß becomes SS in t, and any of SS, ẞ, ß in s
  title    s Has Capitals on Its Words; t as it was
  typo     a few letters of s are swapped, lost, doubled; umlauts are spelled out, spaces go wrong
  marks    s has other quotation marks, apostrophes, dashes; t has those of its language: „…“ in
           German, whatever s has; in English those it had, straight ones where noise adds them
  wrap     s and t are quoted, in parentheses, in bold, or behind a bullet, number or label; or a
           name both sides share is
  names    a name both sides share becomes a made-up one; or somebody is addressed or speaks
  numbers  numbers both sides share become others, written as each language does
  insert   addresses, paths, code and placeholders: for a name both sides share, in parentheses, or
           in a sentence of templates.tsv before or after
  emoji    before, behind, or between sentences
  join     two to four pairs in one line
  sample   a sentence of templates.tsv alone, or a bare thing that is to be copied

Nothing here knows the sentences that tests/robust measures with.
"""

import argparse
import contextlib
import gzip
import lzma
import multiprocessing
import os
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import things  # noqa: E402

CHUNK = 20000  # pairs that share a stream of random numbers
LONGEST = 400  # characters of a side; ALL CAPS take more pieces than other text, so half of it

WORD = re.compile(r"[^\W\d_]+")
NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0]\d{3})+(?!\d)|\d+(?:[.,:]\d+)*")
PERCENT = re.compile(r"\s?(?:%|per ?cent|Prozent)")
FINAL = re.compile(r"[.!?…]+$")
END = ".!?…"
# What keeps its letters whatever happens to the rest: addresses, paths, code, placeholders; and
# besides, where the rest loses its capitals, names that have them inside.
VERBATIM = re.compile(
    r"`[^`]*`|\S+://\S+|www\.\S+|\S+@\S+|@\w+|\{\{[^{}]*\}\}|\{[^{} ]*\}|%\S*\w|\$\S+|<[^<> ]+>"
    r"|\S*[\\/_]\S*|--\w\S*|\S+\(\)|#\w+|\w+\.[a-z]\w*(?:\(\S*)?|&\w+;|\w+->\w+|\d+\w+"
)
CAPITALS = re.compile(VERBATIM.pattern + r"|\w+[a-z][A-Z]\w*|[A-Z]+\d\w*|[A-Z]\w*-\d\w*")
SMALL = set("a an and as at but by for from in into is it of on or the to with der die das".split())


class Pair:
    """A source with its translation on the way to becoming noisy."""

    def __init__(self, src, tgt, langs, common):
        self.text = [src, tgt]
        self.langs = langs  # of source and target
        self.common = common  # English words seen in lower case: not names
        self.kinds = []

    def apply(self, change):
        """Changes both sides the same way."""
        self.text = [change(side) for side in self.text]
        return True

    def local(self, thing):
        """A thing as each side writes it."""
        return [thing[g] if isinstance(thing, dict) else thing for g in self.langs]

    def shared_names(self):
        """Names that both sides have equally often, longest first; German ones may end in -s."""
        english, german = self.text if self.langs[0] == "en" else self.text[::-1]
        english, german = WORD.findall(english), WORD.findall(german)
        found = {
            w for w in english
            if w[0].isupper() and len(w) > 2 and w.lower() not in self.common
            and english.count(w) == german.count(w) + german.count(w + "s") > 0
        }  # fmt: skip
        return sorted(found, key=lambda w: (-len(w), w))

    def put_for(self, old, new):
        for i, lang in enumerate(self.langs):
            ending = r"(?=s?\b)" if lang == "de" else r"\b"
            self.text[i] = re.sub(rf"\b{re.escape(old)}{ending}", lambda _: new, self.text[i])


def outside(verbatim, text, change):
    """Applies change to what lies between the verbatim parts."""
    out, at = [], 0
    for match in verbatim.finditer(text):
        out += [change(text[at : match.start()]), match.group()]
        at = match.end()
    return "".join(out) + change(text[at:])


def final(rng, pair):
    src, tgt = pair.text
    if not src or src[-1] not in END or tgt[-1:] not in END or src.endswith(" ?"):
        return False
    return pair.apply(lambda side: FINAL.sub("", side).rstrip())


def lower(rng, pair):
    src = pair.text[0]
    r = rng.random()
    if r < 0.2:
        changed = src if src[1:2].isupper() else src[:1].lower() + src[1:]
    elif r < 0.5 and not MADE_UP & set(pair.kinds):
        changed = src.lower()  # what the translation capitalises too: PowerShell, EU
    else:
        changed = outside(CAPITALS, src, str.lower)
    if changed == src:
        return False
    pair.text[0] = changed
    return True


def caps(rng, pair):
    if max(map(len, pair.text)) > LONGEST // 2 or not WORD.search(pair.text[0]):
        return False
    if pair.langs[0] == "de":
        sharp = rng.choice(("SS", "SS", "ẞ", "ß"))
        raised = lambda s: "".join(sharp if c == "ß" else c.upper() for c in s)  # noqa: E731
    else:
        raised = str.upper
    pair.text = [
        outside(VERBATIM, side, up) for side, up in zip(pair.text, (raised, str.upper))
    ]
    return True


def title(rng, pair):
    src = pair.text[0]
    if len(src) > 100 or (pair.langs[0] == "de" and rng.random() < 0.7):
        return False
    every = rng.random() < 0.4
    capital = lambda m: m.group().capitalize() if m.group().islower() and (  # noqa: E731
        every or m.group() not in SMALL) else m.group()  # fmt: skip
    changed = outside(VERBATIM, src, lambda s: re.sub(r"[^\W\d_][\w'’]*", capital, s))
    pair.text[0] = changed
    return changed != src


NEAR = {c: n for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
        for c, n in zip(row[1:-1], zip(row, row[2:]))}  # fmt: skip
SPELLED = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
BARE = str.maketrans("äöüÄÖÜß", "aouAOUs")


def misspell(rng, word):
    i = rng.randrange(1, len(word) - 1)
    r = rng.random()
    if r < 0.35:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    if r < 0.6:
        return word[:i] + word[i + 1 :]
    if r < 0.8:
        return word[:i] + word[i] + word[i:]
    return word[:i] + rng.choice(NEAR.get(word[i], word[i])) + word[i + 1 :]


def typo(rng, pair):
    src = pair.text[0]
    r = rng.random()
    if pair.langs[0] == "de" and r < 0.4 and any(c in src for c in SPELLED):
        if r < 0.3:
            changed = "".join(SPELLED.get(c, c) for c in src)
        else:
            changed = src.translate(BARE)
    elif r < 0.5 and re.search(r"\w['’]\w", src):
        changed = re.sub(r"(?<=\w)['’](?=\w)", "", src)
    elif r < 0.6 and ", " in src:
        changed = src.replace(", ", rng.choice((",", " ,", " , ", " ")), 1)
    elif r < 0.65 and " " in src:
        at = rng.choice([i for i, c in enumerate(src) if c == " "])
        changed = src[:at] + rng.choice(("  ", "   ", "")) + src[at + 1 :]
    elif r < 0.72 and src[-1] in "?!.":
        changed = src[:-1] + " " + src[-1]
    else:
        spots = [m for m in WORD.finditer(src) if m.end() - m.start() > 3 and m.group().islower()]
        if not spots:
            return False
        spots = rng.sample(spots, min(len(spots), 1 + (rng.random() < 0.25) + len(src) // 120))
        changed = src
        for m in sorted(spots, key=lambda m: -m.start()):
            changed = changed[: m.start()] + misspell(rng, m.group()) + changed[m.end() :]
    pair.text[0] = changed
    return changed != src


QUOTED = re.compile(r'"([^"]+)"|“([^“”]+)”|„([^„“”]+)[“”]|»([^«»]+)«|(?<!\w)‘([^‘’]+)’(?!\w)')
STYLES = {
    "en": "“{}” “{}” “{}” \"{}\" \"{}\" ‘{}’ '{}' «{}»".split(),
    "de": "„{}“ „{}“ „{}“ \"{}\" \"{}\" »{}« »{}« «{}» „{}” “{}” ‚{}‘ ,,{}''".split(),
}
OWN = {"en": '"{}"', "de": "„{}“"}  # what a translation is quoted with
APOSTROPHE = re.compile(r"(?<=[^\W\d_])['’](?=[^\W\d_])")
DASH = re.compile(r"(?<= )[–—-](?=[ ,])")


def requote(text, style):
    return QUOTED.sub(lambda m: style.format(next(g for g in m.groups() if g is not None)), text)


def marks(rng, pair):
    src, tgt = pair.text
    changed = requote(src, rng.choice(STYLES[pair.langs[0]]))
    changed = APOSTROPHE.sub(rng.choice("'’’’´"), changed)
    changed = DASH.sub(rng.choice(("–", "–", "—", "-", "--")), changed)
    if pair.langs[0] == "en" and rng.random() < 0.5:
        changed = changed.replace(" — ", "—")
    changed = changed.replace("...", "…") if rng.random() < 0.5 else changed.replace("…", "...")
    if changed != src and rng.random() < 0.1:
        changed = changed.replace(" ", "\u00a0", 1)
    if pair.langs[1] == "de":
        tgt = DASH.sub("–", requote(tgt, OWN["de"]))
    pair.text = [changed, tgt]
    return changed != src


TAGS = "<b>{}</b>|<i>{}</i>|<code>{}</code>|**{}**|`{}`|*{}*|<a href=\"#\">{}</a>|[{}]".split("|")
BULLETS = "- |- |* |• |– |> |→ |# |## |### |+ |~ |· |◦ |✓ |[ ] |[x] |… || ".split("|")[:-2]
LABELS = [
    pair.split("=") for pair in
    "Note=Hinweis;Warning=Warnung;Important=Wichtig;Tip=Tipp;Example=Beispiel;Question=Frage;"
    "Answer=Antwort;Update=Update;Attention=Achtung;PS=PS;Re=AW;Subject=Betreff;TODO=TODO;Q=F;"
    "Comment=Kommentar;Step {n}=Schritt {n};Chapter {n}=Kapitel {n};Figure {n}=Abbildung {n};"
    "Table {n}=Tabelle {n};Day {n}=Tag {n};No. {n}=Nr. {n};Error {n}=Fehler {n}".split(";")
]  # fmt: skip
WRAPS = (
    "({}) ({}) [{}] **{}** *{}* _{}_ <b>{}</b> <p>{}</p> <i>{}</i> <li>{}</li> {}: {}!!!".split()
)


def wrap(rng, pair):
    r = rng.random()
    if r < 0.35:
        if any(c in pair.text[0] for c in "\"“”„»‘"):
            return False
        styles = rng.choice(STYLES[pair.langs[0]]), OWN[pair.langs[1]]
        pair.text = [style.format(side) for style, side in zip(styles, pair.text)]
        return True
    if r < 0.5:
        shared = pair.shared_names()
        if shared and rng.random() < 0.7:
            name = rng.choice(shared)
            pair.put_for(name, rng.choice(TAGS).format(name))
            return True
        outer = rng.choice(WRAPS)
        if outer[-1] in ":!":
            if pair.text[0][-1] not in "." + outer[-1] or pair.text[1][-1] not in ".!":
                return False
            pair.apply(lambda side: side[:-1])
        return pair.apply(outer.format)
    if r < 0.7:
        n = rng.choice((rng.randint(1, 9), rng.randint(1, 30)))
        letter = rng.choice("abcdefgh")
        numbered = (f"{n}. ", f"{n}. ", f"{n}) ", f"({n}) ", f"{n}.{n % 4 + 1} ", f"{letter}) ",
                    f"({letter}) ", f"{n} ", f"[{n}] ", f"{n}: ")  # fmt: skip
        return pair.apply(lambda side, b=rng.choice(numbered): b + side)
    if r < 0.85:
        return pair.apply(lambda side, b=rng.choice(BULLETS): b + side)
    n = rng.randint(1, 40)
    english, german = (w.format(n=n) for w in rng.choice(LABELS))
    colon = rng.choice((": ", ": ", " – "))
    if rng.random() < 0.2:
        english, german = english.upper(), german.upper()
    pair.text = [side for side in map(
        str.__add__, [w + colon for w in pair.local(things.both(english, german))], pair.text)]
    return True  # fmt: skip


def names(rng, pair):
    shared = pair.shared_names()
    if shared and rng.random() < 0.85:
        for old in rng.sample(shared, min(len(shared), rng.choice((1, 2)))):
            whole = old.isupper()
            new = things.acronym(rng) if whole else things.surname(rng)
            if not whole and rng.random() < 0.25:
                new = rng.choice((things.firm, things.name, things.name))(rng)
            if new[-1] in "sxzß." or new.endswith("ce"):
                new = things.surname(rng).rstrip("sxzß") + "a"
            pair.put_for(old, new)
        return True
    src, tgt = pair.text
    who = things.name(rng)
    if rng.random() < 0.5:  # somebody says it
        return len(src) < 100 and pair.apply(lambda side: f"{who}: {side}")
    calm = src.count(" ") < 10 and FINAL.search(src) and FINAL.search(tgt) and "," not in src + tgt
    if not calm or src[-2:-1] in END or tgt[-2:-1] in END or src[-1] != tgt[-1]:
        return False
    return pair.apply(lambda side: f"{side[:-1]}, {who}{side[-1]}")  # or it is said to somebody


def value_of(text, lang):
    """The digits of a number with its decimal point, or None where they are something else."""
    thousands, point = ",." if lang == "en" else ".,"
    text = re.sub(r"[ \u00a0]", thousands, text)
    if re.fullmatch(rf"\d{{1,3}}(\{thousands}\d{{3}})+(\{point}\d+)?", text):
        return text.replace(thousands, "").replace(point, ".")
    if re.fullmatch(rf"\d+(\{point}\d+)?", text):
        return text.replace(point, ".")
    return None


def another(rng, old, percent):
    """A number like the old one (as value_of gives it): a day, a year, as many digits."""
    whole, _, fraction = old.partition(".")
    digits = lambda n: "".join(rng.choices("0123456789", k=n))  # noqa: E731
    if fraction:
        return f"{rng.randint(0, 10 ** len(whole) - 1)}.{digits(len(fraction))}"
    if whole[0] == "0":
        return digits(len(whole))
    n = int(whole)
    if n < 32:
        return str(rng.randint(2, 31))
    if percent:
        return str(rng.randint(2, 99))
    if 1900 <= n < 2100 and len(whole) == 4:
        return str(rng.randint(1930, 2045))
    size = max(2, len(whole) + rng.choice((-1, 0, 0, 1, 2)))
    return str(rng.randint(32 if size == 2 else 10 ** (size - 1), 10**size - 1))


def rewritten(value, old, lang):
    """A value with the separators of the number whose place it takes."""
    space = re.search(r"\d([ \u00a0])\d{3}", old)
    if not space and not re.search(r"\d[.,]\d{3}(?!\d)", old):
        return things.local(value)[lang]
    whole, dot, fraction = value.partition(".")
    grouped = f"{int(whole):,}"
    if space:
        return grouped.replace(",", space.group(1)) + things.local(dot + fraction)[lang]
    return things.local(grouped + dot + fraction)[lang]


def numbers(rng, pair):
    found = [list(NUMBER.finditer(side)) for side in pair.text]
    values = [[value_of(m.group(), g) for m in side] for side, g in zip(found, pair.langs)]
    if not values[0] or None in values[0] or sorted(values[0]) != sorted(map(str, values[1])):
        return False
    new = {
        v: another(rng, v, PERCENT.match(pair.text[0], m.end()))
        for v, m in zip(values[0], found[0]) if v.strip("0.") not in ("", "1")
    }  # fmt: skip
    for i, lang in enumerate(pair.langs):
        for value, m in reversed(list(zip(values[i], found[i]))):
            if value in new:
                text = rewritten(new[value], m.group(), lang)
                pair.text[i] = pair.text[i][: m.start()] + text + pair.text[i][m.end() :]
    return bool(new)


def templates():
    path = pathlib.Path(__file__).parent / "templates.tsv"
    lines = [s for s in path.read_text(encoding="utf-8").splitlines() if not s.startswith("#")]
    return [things.both(*line.split("\t")) for line in lines]


TEMPLATES = templates()
ADDRESSES = things.url, things.url, things.mail, things.path, things.file
SYMBOLS = things.code, things.code, things.hole, things.identifier


def filled(rng, langs):
    template = rng.choice(TEMPLATES)
    return things.fill(rng, [template[g] for g in langs], langs)


def insert(rng, pair):
    shared = pair.shared_names()
    thing = rng.choice(rng.choice((ADDRESSES, SYMBOLS)))(rng)
    r = rng.random()
    if shared and r < 0.5:
        old = rng.choice(shared)
        if old[1:].islower() and rng.random() < 0.6:  # most likely a person
            thing = things.hole(rng)
        if re.search(rf"\b{re.escape(old)}(['’]|s\b|-)", pair.text[0] + " " + pair.text[1]):
            return False
        pair.put_for(old, thing)
        return True
    if r < 0.6:
        ends = [FINAL.search(side) for side in pair.text]
        cut = [m.start() if m else len(side) for m, side in zip(ends, pair.text)]
        pair.text = [
            f"{side[:at]} ({thing}){side[at:]}" for side, at in zip(pair.text, cut)
        ]  # fmt: skip
        return True
    if r < 0.75:
        if pair.text[0][-1] in END and pair.text[1][-1] in END:
            return pair.apply(lambda side: f"{side} {thing}")
        colon = rng.choice((": ", " - ", " "))
        return pair.apply(lambda side: f"{side}{colon}{thing}")
    other = filled(rng, pair.langs)
    both_end = lambda texts: all(text[-1] in END for text in texts)  # noqa: E731
    first, second = (pair.text, other) if rng.random() < 0.6 else (other, pair.text)
    if not both_end(first):
        return False
    pair.text = [f"{a} {b}" for a, b in zip(first, second)]
    return True


def emoji(rng, pair):
    text = things.emoji(rng)
    if rng.random() < 0.2:
        text = text * rng.randint(2, 3) if rng.random() < 0.5 else text + things.emoji(rng)
    r = rng.random()
    if r < 0.15:
        return pair.apply(lambda side: f"{text} {side}")
    parts = [re.split(r"(?<=[.!?]) (?=[^\W\d_])", side) for side in pair.text]
    if r < 0.4 and len(parts[0]) == len(parts[1]) > 1:
        at = rng.randrange(1, len(parts[0]))
        pair.text = [" ".join(p[:at] + [text] + p[at:]) for p in parts]
        return True
    if pair.text[0][-1] in END and pair.text[1][-1] in END and rng.random() < 0.25:
        pair.apply(lambda side: FINAL.sub("", side))
    space = "" if rng.random() < 0.1 and not text.isascii() else " "
    return pair.apply(lambda side: side + space + text)


def join(rng, pair, others):
    """Adds pairs of the same chunk: the next ones, or any."""
    added = 0
    for src, tgt in others:
        together = [f"{pair.text[0]} {src}", f"{pair.text[1]} {tgt}"]
        ended = pair.text[0][-1] in END and pair.text[1][-1] in END
        if not ended or src in pair.text[0] or max(map(len, together)) > LONGEST:
            break
        pair.text, added = together, added + 1
    return added > 0


def sample(rng, pair):
    if rng.random() < 0.8:
        pair.text = list(filled(rng, pair.langs))
    else:
        make = rng.choice(ADDRESSES + SYMBOLS + (things.emoji, things.count, things.name,
                          things.identity, things.decimal, things.money, things.date))  # fmt: skip
        pair.text = pair.local(make(rng))
    return True


# In the order in which they are applied, with how often they are drawn.
KINDS = {
    join: 14, sample: 4, names: 14, numbers: 8, insert: 13, final: 12, wrap: 6, marks: 12, typo: 7,
    lower: 13, caps: 8, title: 2, emoji: 6,
}  # fmt: skip
# Drawn several times as often for pairs that have what they change: few do.
LIKELY = {numbers: re.compile(r"\d"), marks: re.compile(r"[\"'„“”‘’»–—…]| - ")}
CASES = {lower, caps, title}
MADE_UP = {"sample", "names", "insert"}
ORDER = list(KINDS)


def draw(rng, kinds, weights):
    """One to three kinds, in order; one change of case at most, and little else on a sample."""
    chosen = set(rng.choices(kinds, weights, k=rng.choice((1, 1, 1, 1, 1, 2, 2, 3))))
    if len(chosen & CASES) > 1:
        chosen -= CASES - {rng.choice(sorted(chosen & CASES, key=ORDER.index))}
    if sample in chosen:
        chosen &= CASES | {sample, final, emoji, wrap}
    return sorted(chosen, key=ORDER.index)


def noisy(rng, at, pairs, langs, common, kinds):
    """A noisy copy of pairs[at], or None where nothing fits in a few tries."""
    likely = {k for k, sign in LIKELY.items() if sign.search(pairs[at][0])}
    if Pair(*pairs[at], langs, common).shared_names():
        likely.add(names)
    weights = [KINDS[k] * (3 if k in likely else 1) for k in kinds]
    for _ in range(6):
        pair = Pair(*pairs[at], langs, common)
        for kind in draw(rng, kinds, weights):
            before = list(pair.text)
            if kind is join:
                n = rng.choice((1, 1, 2, 3))
                others = (pairs[at + 1 : at + 1 + n] if rng.random() < 0.5
                          else [pairs[rng.randrange(len(pairs))] for _ in range(n)])  # fmt: skip
                done = join(rng, pair, others)
            else:
                done = all(pair.text) and kind(rng, pair)
            if done:
                pair.kinds.append(kind.__name__)
            else:
                pair.text = before
        if pair.kinds and all(pair.text) and max(map(len, pair.text)) <= 2 * LONGEST:
            return pair
    return None


def words_of(pairs):
    """Words of both sides that an address could be made of, each once."""
    found = {w.lower() for pair in pairs for side in pair for w in WORD.findall(side)}
    return sorted(w for w in found if 2 < len(w) < 15)


def chunk_noise(job):
    """The noisy copies of one chunk: kinds, source, target."""
    number, pairs, langs, options = job
    rng = random.Random(f"{options.seed}:{number}")
    english = langs.index("en")
    common = {w for pair in pairs for w in WORD.findall(pair[english]) if w.islower()}
    things.borrow(words_of(pairs))
    kinds = [k for k in ORDER if not options.kinds or k.__name__ in options.kinds]
    out = []
    for at in range(len(pairs)):
        copies = int(options.copies) + (rng.random() < options.copies % 1)
        for _ in range(copies):
            pair = noisy(rng, at, pairs, langs, common, kinds)
            if pair:
                out.append(("+".join(pair.kinds), *pair.text))
    return out


def opened(path, mode):
    if path == "-":
        return contextlib.nullcontext(sys.stdin)
    if path.endswith(".xz"):
        settings = {"preset": 1} if mode == "w" else {}
        return lzma.open(path, mode + "t", encoding="utf-8", newline="\n", **settings)
    if path.endswith(".gz"):
        return gzip.open(path, mode + "t", encoding="utf-8", newline="\n")
    return open(path, mode, encoding="utf-8", newline="\n")


def chunks(sources, targets, langs, options):
    """Jobs for chunk_noise; pairs with an empty side are left out."""
    pairs, number, n = [], 0, 0
    missing = object()
    while True:
        src, tgt = next(sources, missing), next(targets, missing)
        if src is missing or tgt is missing:
            if src is not tgt:
                sys.exit(f"noise.py: source and target differ in length after {n} lines")
            break
        n += 1
        src, tgt = src.strip(), tgt.strip()
        if src and tgt:
            pairs.append((src, tgt))
        if len(pairs) == CHUNK:
            yield number, pairs, langs, options
            pairs, number = [], number + 1
    if pairs:
        yield number, pairs, langs, options


def parallel(jobs, n):
    """chunk_noise of every job, in order, with no more than a few chunks in memory."""
    if n == 1:
        yield from map(chunk_noise, jobs)
        return
    with multiprocessing.Pool(n) as pool:
        waiting = []
        for job in jobs:
            waiting.append(pool.apply_async(chunk_noise, (job,)))
            if len(waiting) > 2 * n:
                yield waiting.pop(0).get()
        for result in waiting:
            yield result.get()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="SOURCE TARGET [OUT-S. OUT-T.]")
    parser.add_argument("--langs", default="en,de", help="of source and target (en,de)")
    parser.add_argument("--copies", type=float, default=0.5, help="noisy copies of a pair (0.5)")
    parser.add_argument("--seed", default="1", help="of the random numbers (1)")
    parser.add_argument("--kinds", type=lambda s: s.split(","), help="only these, by commas")
    parser.add_argument("--threads", type=int, default=0, help="processes; 0: all CPUs")
    parser.add_argument("--show", type=int, default=0, help="print N copies with their kinds")
    options = parser.parse_args()
    langs = options.langs.split(",")
    if sorted(langs) != ["de", "en"]:
        parser.error(f"--langs: '{options.langs}' is neither en,de nor de,en")
    unknown = set(options.kinds or ()) - {k.__name__ for k in KINDS}
    if unknown:
        parser.error(f"--kinds: no kind is called '{sorted(unknown)[0]}'")
    if len(options.files) != (2 if options.show else 4):
        parser.error("SOURCE and TARGET are wanted, and OUT-SOURCE and OUT-TARGET without --show")

    with contextlib.ExitStack() as stack:
        sources, targets = (stack.enter_context(opened(p, "r")) for p in options.files[:2])
        jobs = chunks(iter(sources), iter(targets), langs, options)
        results = parallel(jobs, 1 if options.show else options.threads or os.cpu_count())
        if options.show:
            for result in results:
                for line in result[: options.show]:
                    print(*line, sep="\t")
                return
        outs = [stack.enter_context(opened(p, "w")) for p in options.files[2:]]
        n = 0
        for result in results:
            for out, side in zip(outs, (1, 2)):
                out.writelines(line[side] + "\n" for line in result)
            n += len(result)
        print(f"{n} noisy pairs", file=sys.stderr)


if __name__ == "__main__":
    main()

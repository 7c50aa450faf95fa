"""check.py — that bench/robust.py tells good translations from bad ones, and that
recipes/box/noise.py keeps its promises. Run by tests/test_robust.sh.

    check.py measures
    check.py noise EN DE      the pairs of these files, in both directions
"""

import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path += [str(TREE / "bench"), str(TREE / "recipes" / "box")]
import noise  # noqa: E402
import robust  # noqa: E402

failures = 0


def want(what, got, wanted):
    global failures
    if got != wanted:
        print(f"{what}: {got!r} instead of {wanted!r}")
        failures += 1


def sentence(lang, kind, text, *items):
    return robust.Sentence(lang, kind, text, "", [tuple(i.split(":", 1)) for i in items])


def copies(lang, kind, item, output):
    return [ok for _, _, ok in robust.copied(sentence(lang, kind, item, item), output)] == [True]


def check_copying():
    for lang, kind, item, output, good in (
        ("en", "names", "number:1,234.5", "Es sind 1.234,5 Liter.", True),
        ("en", "names", "number:1,234.5", "Es sind 1234,5 Liter.", True),
        ("en", "names", "number:1,234.5", "Es sind 1 234,5 Liter.", True),
        ("en", "names", "number:1,234.5", "Es sind 1.234 Liter.", False),
        ("en", "names", "number:1,234.5", "Es sind 11.234,5 Liter.", False),
        ("en", "names", "number:1,234.5", "Es sind 1.234,56 Liter.", False),
        ("de", "names", "number:2.300", "2,300 people", True),
        ("de", "names", "number:2.300", "2.3 people", False),
        ("de", "names", "number:14", "platform 14.", True),
        ("de", "names", "number:14", "platform 145.", False),
        ("de", "names", "number:14", "platform 3.14", False),
        ("en", "caps", "number:7", "VON SIEBEN BIS ACHT", True),
        ("en", "names", "name:Vexalor", "Das ist Vexalors Auto.", True),
        ("de", "names", "name:Vexalor", "This is Vexalor's car.", True),
        ("en", "names", "name:Vexalor", "Das ist Vexalorin.", False),
        ("en", "names", "name:Vexalor", "Das ist vexalor.", False),
        ("en", "lower", "name:vexalor", "Das ist Vexalor.", True),
        ("en", "names", "name:Vexalor", "Das ist Vexalar.", False),
        ("en", "urls", "url:www.a-b.de/c", "Siehe www.a-b.de/c.", True),
        ("en", "urls", "url:www.a-b.de/c", "Siehe www.a-b.de/ c.", False),
        ("en", "urls", "url:www.a-b.de/c", "Siehe www.a-b.de/cc.", False),
        ("en", "code", "code:<b>", "Auf <b>Speichern</b> klicken", True),
        ("en", "code", "code:%d", "%d Dateien", True),
        ("en", "code", "code:%d", "% d Dateien", False),
        ("en", "emoji", "emoji:❤️", "Danke ❤", True),
        ("en", "emoji", "emoji:🎂", "Alles Gute! 🥳", False),
    ):
        want(f"{item} in '{output}'", copies(lang, kind, item, output), good)
    twice = sentence("en", "names", "5 and 5", "number:88", "number:88")
    want("once of twice", [ok for *_, ok in robust.copied(twice, "88")], [False, False])
    want("twice", [ok for *_, ok in robust.copied(twice, "88 und 88")], [True, True])


def check_failing():
    for output in "", "  ", ".":
        want(f"empty '{output}'", robust.empty(output), True)
    for output in "Ja", "7", "🎂", "€":
        want(f"empty '{output}'", robust.empty(output), False)
    source = "The dog barks at the cat."
    for output, loops in (
        ("Der Hund bellt die Katze an.", False),
        ("Der Hund Hund Hund bellt.", True),
        ("Der Hund Hund bellt.", False),
        ("der Hund bellt der Hund bellt der Hund bellt", True),
        ("der Hund bellt der Hund bellt", False),
        ("Es ist so gut wie, es ist so gut wo, es ist so gut wann", True),
        ("Daaaaaaaas ist gut.", True),
        ("-.-.-.-.-.-.-.-.-.", True),
        (" ".join(f"wort{i}" for i in range(40)), True),
    ):
        want(f"loop '{output}'", robust.looping(source, output), loops)
    want("loop of the source", robust.looping("no no no no", "nein nein nein nein"), False)
    common = {("en", "hotel")}
    for text, items, output, left in (
        ("The dog sleeps in a hotel.", [], "Der Hund schläft in einem Hotel.", ["in"]),
        ("The dog sleeps.", [], "Der dog sleeps.", ["dog", "sleeps"]),
        ("I don’t know Vexalor.", ["name:Vexalor"], "Ich kenne Vexalor nicht.", []),
        ("THE DOG", [], "der dog", ["dog"]),
        ("mail me: me@x.de", ["url:me@x.de"], "schreib mir: me@x.de", []),
    ):
        got = robust.untranslated(sentence("en", "x", text, *items), output, common)[0]
        want(f"left of '{text}'", got, left)


def check_form():
    for kind, text, output, kept in (
        ("caps", "GO HOME!", "GEH NACH HAUSE!", True),
        ("caps", "GO HOME!", "Geh nach Hause!", False),
        ("nofinal", "Go home", "Geh nach Hause", True),
        ("nofinal", "Go home", "Geh nach Hause.", False),
        ("nofinal", "Go home", "„Geh nach Hause.“", False),
        ("quotes", "He said “yes”.", "Er sagte „ja“.", True),
        ("quotes", "He said “yes”.", 'Er sagte "ja".', True),
        ("quotes", "He said ‘yes’.", "Er sagte »ja«.", True),
        ("quotes", "He said “yes”.", "Er sagte ja.", False),
        ("quotes", "He said “yes”.", "Er sagte „ja.", False),
        ("quotes", "It’s mine.", "Das ist meins.", None),
        ("several", "Yes. No? Oh!", "Ja. Nein? Oh!", True),
        ("several", "Yes. No? Oh!", "Ja, nein. Oh!", False),
        ("several", "In version 1.5 it works. Yes.", "In Version 1.5 geht es. Ja.", True),
        ("lower", "go home", "Geh nach Hause", None),
    ):
        got = robust.keeps_form(sentence("en", kind, text), output)
        want(f"form of '{output}'", got, kept)


def check_sentences():
    """The set is what it says, and its measures are perfect for perfect translations only."""
    lines = robust.sentences()
    want("sentences", len(lines), 200)
    want("English ones", sum(s.lang == "en" for s in lines), 100)
    want("different ones", len({s.text for s in lines}), 200)
    kinds = {s.kind for s in lines}
    want("kinds", len(kinds), 9)
    for kind in kinds:
        n = sum(s.kind == kind for s in lines)
        want(f"{kind} ones", 22 <= n <= 24, True)
    for s in lines:
        for item in s.items:
            want(f"'{item[1]}' is in its sentence", item[1] in s.text, True)
    good = robust.summaries(robust.measure(lines, [s.reference for s in lines]))
    for name, s in good.items():
        want(f"references of {name}", (s["copied"] in (100.0, None), s["empty"], s["loops"],
             s["untranslated"], s["form"] in (100.0, None)), (True, 0, 0, 0.0, True))  # fmt: skip
    want("bars met", set(robust.meets(good["all"]).values()), {True})
    for spoilt, bar in (
        ([s.text for s in lines], "untranslated"),
        ([s.reference for s in lines[1:]] + ["x"], "copied"),
        ([""] + [s.reference for s in lines[1:]], "empty"),
        (["ja ja ja ja"] + [s.reference for s in lines[1:]], "loops"),
    ):
        met = robust.meets(robust.summaries(robust.measure(lines, spoilt))["all"])
        want(f"{bar} noticed", met[bar], False)
    told = list(robust.complaints(robust.measure(lines, [""] + [s.reference for s in lines[1:]])))
    want("one complaint", len(told), 1)


def check_unknown():
    """Training noise knows neither the sentences nor what they ask to be copied."""
    files = [p for p in (TREE / "recipes").rglob("*") if p.is_file()]
    recipe = "".join(p.read_text(encoding="utf-8", errors="replace") for p in files)
    want("recipes read", len(recipe) > 1000, True)
    for s in robust.sentences():
        want(f"recipes have '{s.text}'", s.text in recipe or s.reference in recipe, False)
        for kind, text in s.items:
            if kind in ("name", "url") and len(text) > 4:
                want(f"recipes have '{text}'", text in recipe, False)
    want("recipes read tests/robust", "robust/sentences" in recipe, False)


def shown(files, langs, *options):
    command = [sys.executable, str(TREE / "recipes/box/noise.py"), "--langs", langs, *files,
               "--show", "100000", "--copies", "1", *options]  # fmt: skip
    out = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    return [line.split("\t") for line in out.splitlines()]


VERBATIM = re.compile(r"`[^`]+`|https?://[\w./?=&#-]+[\w/]|[\w.-]+@[\w.-]+\w|\{\w+\}|0x[0-9A-F]+")


def check_noise(files, langs):
    """Every kind does what noise.py says it does, and is drawn often enough to be seen doing it."""
    clean = {tuple(pair) for pair in zip(*[pathlib.Path(f).read_text("utf-8").splitlines()
                                           for f in files])}  # fmt: skip
    targets = {tgt for _, tgt in clean}
    everything = shown(files, langs)
    seen = {kind for kinds, _, _ in everything for kind in kinds.split("+")}
    want(f"{langs}: kinds seen", seen, {k.__name__ for k in noise.KINDS})
    want(f"{langs}: lines of their own", all((s, t) not in clean for _, s, t in everything), True)
    for kinds, src, tgt in everything:
        if "typo" not in kinds and "caps" not in kinds:
            want(f"{kinds} {src}", sorted(VERBATIM.findall(src)), sorted(VERBATIM.findall(tgt)))
    tests = {
        "final": lambda s, t: s[-1] not in ".!?" and t[-1] not in ".!?",
        "lower": lambda s, t: s[:1].islower() or not s[:1].isalpha() and t in targets,
        "caps": lambda s, t: not re.search("[a-zäöü]", s + t) and "ß" not in t,
        "title": lambda s, t: t in targets,
        "typo": lambda s, t: t in targets,
        "marks": lambda s, t: "“" not in t or "„" in t or langs == "de,en",
        "join": lambda s, t: any(t.startswith(x) and t != x for x in targets),
        "numbers": lambda s, t: re.findall(r"\d", s) and sorted(re.findall(r"\d", s))
        == sorted(re.findall(r"\d", t)),
        "emoji": lambda s, t: [c for c in s if c > "\u2500"] == [c for c in t if c > "\u2500"],
    }  # fmt: skip
    for kind, good in tests.items():
        lines = shown(files, langs, "--kinds", kind)
        want(f"{langs} {kind}: lines", len(lines) >= 8, True)
        for kinds, src, tgt in lines:
            want(f"{langs} {kinds}: {src} | {tgt}", bool(good(src, tgt)), True)


def main():
    if sys.argv[1] == "measures":
        check_copying()
        check_failing()
        check_form()
        check_sentences()
        check_unknown()
    else:
        english, german = sys.argv[2:]
        check_noise([english, german], "en,de")
        check_noise([german, english], "de,en")
    if failures:
        print(f"{failures} checks failed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""card.py — writes the README.md of a model in the box.

    recipes/box/card.py --model models/en-de --scores scores.json [--out models/en-de/README.md]

What is said comes from three places: the model's own config.json (its shape, its languages),
recipes/box/facts.json (data with the attribution their owners ask for, recipe, limits, licence) and
the figures that `make scores SCORES='--json scores.json'` wrote. Nothing is made up here: a figure
that is not there is not printed.
"""

import argparse
import json
import pathlib
import sys
import textwrap

LANGUAGES = {"en": "English", "de": "German"}
EXAMPLE = {"en": "The early bird catches the worm.", "de": "Der frühe Vogel fängt den Wurm."}
SETS = {
    "newstest2014": "newstest2014 (news; none of it like the training text)",
    "europarl": "europarl test (debates, October to December 2010)",
    "tatoeba": "tatoeba test, first 3,003 (everyday sentences)",
    "msdocs": "msdocs test (software documentation)",
}


def wrap(text, first="", rest=""):
    return textwrap.fill(text, 120, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def texts(items, pair):
    """Of a list in which an item may be for one direction only: {"en-de": text}."""
    given = [i.get(pair) if isinstance(i, dict) else i for i in items]
    return [text for text in given if text]


def bullets(items, pair=None):
    return "\n".join(wrap(text, "- ", "  ") for text in texts(items, pair))


def numbered(items, pair):
    return "\n".join(wrap(text, f"{i}. ", "   ") for i, text in enumerate(texts(items, pair), 1))


def head(pair, licence):
    source, target = (LANGUAGES[lang] for lang in pair.split("-"))
    what = wrap(
        f"A small {source}-{target} translator that comes with heed, and was made by heed alone: "
        "vocabulary, training, distillation, quantisation, evaluation "
        "([recipes/box](../../recipes/box))."
    )
    terms = wrap(
        f"Licence: [{licence['name']}]({licence['url']}). Attribution: {licence['attribution']}. "
        "What the owners of the text ask for stands under [Data](#data)."
    )
    example = f"    echo '{EXAMPLE[pair[:2]]}' | heed translate --model {pair}"
    return f"# {pair}: {source} to {target}\n\n{what}\n\n{example}\n\n{terms}\n"


def readable(size):
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def shape(config, files):
    m = config["model"]
    heads = f"{m['n_head']} heads, {m['activation']}, layer normalisation {m['norm']}"
    rows = [
        ("encoder, decoder", f"{m['n_layer_enc']} and {m['n_layer_dec']} layers"),
        ("width, feed-forward", f"{m['d_model']}, {m['d_ff']}; {heads}"),
        ("vocabulary", f"{m['n_vocab_src']:,} pieces, for both languages"),
        ("longest sentence", f"{m['max_len']} pieces; longer lines are split"),
        ("files", ", ".join(f"{p.name} {readable(p.stat().st_size)}" for p in files)),
    ]
    return "## The model\n\n| | |\n|---|---|\n" + "".join(f"| {a} | {b} |\n" for a, b in rows)


def data(facts):
    out = ["## Data", ""]
    for d in facts["data"]:
        licence = f"[{d['licence']}]({d['licence_url']})" if "licence_url" in d else d["licence"]
        text = f"**{d['name']}** ({d['what']}, {d['pairs']:,} pairs before cleaning): {d['source']}"
        out += [wrap(f"{text}. Licence: {licence}.", "- ", "  "), f"  - {d['attribution']}"]
    cites = [c for d in facts["data"] for c in d.get("cite", [])]
    if cites:
        out += ["", "To be cited with it:", "", bullets(cites)]
    out += ["", "The newstest sets were measured with only, never trained on."]
    return "\n".join(out) + "\n"


def scores_part(pair, scores):
    quality = scores.get("quality", {}).get(pair)
    teachers = scores.get("teachers", {}).get(pair, {})
    if not quality:
        return ""
    out = ["## Scores", "", "| test set | BLEU | chrF2 | teacher |", "|---|--:|--:|--:|"]
    for name, label in SETS.items():
        if name in quality:
            q, t = quality[name], teachers.get(name)
            other = f"{t['bleu']:.1f} / {t['chrf2']:.1f}" if t else "–"
            out.append(f"| {label} | {q['bleu']:.1f} | {q['chrf2']:.1f} | {other} |")
    signatures = "; ".join(f"{n} `{s}`" for n, s in scores.get("signatures", {}).items())
    note = (
        f"By `make scores`, the same as sacreBLEU's: {signatures}. newstest2014 is the test set of "
        "the paper, whose models had other and more training data."
    )
    return "\n".join(out + ["", wrap(note)]) + "\n"


ITEMS = {"name": "names", "number": "numbers", "url": "addresses", "code": "pieces of code",
         "emoji": "emoji"}  # fmt: skip


def robust_part(pair, scores):
    r = scores.get("robust", {}).get(pair[:2])
    if not r:
        return ""
    counts = {t: r["items"][t] for t in ITEMS if t in r["items"]}
    items = [f"{good} of {n} {ITEMS[t]}" for t, (good, n) in counts.items()]
    text = (
        f"On {r['sentences']} sentences as people type them, none of which it was trained on "
        f"([docs/box.md](../../docs/box.md)): {', '.join(items)} copied; empty translations: "
        f"{r['empty']}; repetition loops: {r['loops']}; words of the source left untranslated: "
        f"{r['untranslated']:.1f} %."
    )
    return f"## Robustness\n\n{wrap(text)}\n"


def figures_part(pair, scores):
    wanted = ("one sentence of 20 words, p50, 2 threads", "batch, 2 threads",
              "start to first translation, median", "resident after")  # fmt: skip
    rows = [f for f in scores.get("figures", []) if f["pair"] == pair
            and f["name"].startswith(wanted) and "CTranslate2" not in f["name"]]  # fmt: skip
    if not rows:
        return ""
    host = scores["machine"]
    out = ["## Speed", "", f"On {host['cpu']}, {host['cpus']} CPUs:", "", "| | |", "|---|--:|"]
    for f in rows:
        value = f"{f['value']:,.0f}" if f["value"] >= 100 else f"{f['value']:.1f}"
        out.append(f"| {f['name']} | {value} {f['unit']} |")
    digest = [f["value"] for f in scores["figures"]
              if f["pair"] == pair and f["name"].startswith("sha256")]  # fmt: skip
    if digest:
        same = "The same bytes on every CPU: translations of tests/robust with the SHA-256"
        out += ["", f"{same} {digest[0]}…."]
    return "\n".join(out) + "\n"


def card(model, pair, facts, scores):
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    files = sorted(p for p in model.iterdir() if p.is_file() and p.suffix != ".md")
    parts = [
        head(pair, facts["licence"]),
        shape(config, files),
        scores_part(pair, scores),
        robust_part(pair, scores),
        figures_part(pair, scores),
        "## How it was made\n\n" + numbered(facts["recipe"], pair) + "\n",
        data(facts),
        "## Limits\n\n" + bullets(facts["limits"], pair) + "\n",
        "## Use\n\n" + bullets(facts["use"], pair) + "\n",
    ]
    return "\n".join(part for part in parts if part)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = pathlib.Path(__file__).parent
    parser.add_argument("--model", type=pathlib.Path, required=True, help="its directory")
    parser.add_argument("--pair", help="en-de or de-en (the directory's name)")
    parser.add_argument("--facts", type=pathlib.Path, default=here / "facts.json")
    parser.add_argument("--scores", type=pathlib.Path, help="what make scores wrote with --json")
    parser.add_argument("--out", type=pathlib.Path, help="where to write (its README.md)")
    options = parser.parse_args()
    pair = options.pair or options.model.name
    if pair not in ("en-de", "de-en"):
        parser.error(f"--pair: '{pair}' is neither en-de nor de-en")
    facts = json.loads(options.facts.read_text(encoding="utf-8"))
    scores = json.loads(options.scores.read_text(encoding="utf-8")) if options.scores else {}
    out = options.out or options.model / "README.md"
    out.write_text(card(options.model, pair, facts, scores), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""figures.py — the paper's Figures 3 to 5: texts for `heed attend --find`, and what it found.

    figures.py texts --trees FILE --out DIR     DIR/trees, DIR/anaphora.en, DIR/anaphora.links
    figures.py collect HEADS.json --model NAME  > docs/paper/results/figures.json

Trees of 8 to 36 words are taken, which can be measured and drawn. anaphora.txt beside this file
has sentences written for this: {its} stands for the [cat].
"""
import argparse
import json
import lzma
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORD = re.compile(r"[\w'-]+|[^\w\s]")
KINDS = ("rests", "itself", "positional", "points", "parent", "child", "punctuation", "same",
         "local", "broad", "mixed")


def texts(args):
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(args.trees)
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        trees = [line for line in file if 8 <= len(re.findall(r"\([^() ]+ [^() ]+\)", line)) <= 36]
    (out / "trees").write_text("".join(trees), encoding="utf-8")
    plain, links = [], []
    for line in (HERE / "anaphora.txt").read_text(encoding="utf-8").splitlines():
        words = WORD.findall(re.sub(r"[\[{](\w+)[\]}]", r"\1", line))
        [(before, noun)] = re.findall(r"^(.*)\[(\w+)\]", line)
        [(until, pronoun)] = re.findall(r"^(.*)\{(\w+)\}", line)
        at = [len(WORD.findall(re.sub(r"[\[\]{}]", "", text))) for text in (until, before)]
        if [words[i] for i in at] != [pronoun, noun]:
            sys.exit(f"figures.py: anaphora.txt: {line}")
        plain.append(re.sub(r"[\[\]{}]", "", line))
        links.append(f"{at[0]}-{at[1]}")
    (out / "anaphora.en").write_text("\n".join(plain) + "\n", encoding="utf-8")
    (out / "anaphora.links").write_text("\n".join(links) + "\n", encoding="utf-8")


def rounded(value):
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def collect(args):
    found = rounded(json.load(open(args.heads, encoding="utf-8")))
    found = {"command": args.command, "model": args.model, **found}
    json.dump(found, sys.stdout, indent=None, ensure_ascii=False)
    print()


def percent(value):
    return "–" if value is None else f"{100 * value:.0f} %"


def name(head):
    return f"{head['attention']} {head['layer']}.{head['head']}"


def kinds_table(found):
    heads = [h for h in found["heads"] if h["attention"] == "enc"]
    used = [k for k in KINDS if any(h["kind"] == k for h in heads)]
    lines = ["| layer | " + " | ".join(used) + " |", "|---|" + "---:|" * len(used)]
    for layer in sorted({h["layer"] for h in heads}):
        counts = [sum(h["layer"] == layer and h["kind"] == k for h in heads) for k in used]
        lines.append(f"| {layer} | " + " | ".join(str(c) if c else "" for c in counts) + " |")
    return lines


def best_table(found):
    """The three best encoder heads of each relation, beside the best fixed offset."""
    heads = [h for h in found["heads"] if h["attention"] == "enc"]
    what = {"parent": "the word it depends on", "child": "a word that depends on it",
            "far": "the same, 5 or more words away", "link": "what a pronoun stands for"}
    lines = ["| looks most at | best heads (layer.head) | fixed offset |", "|---|---|---:|"]
    for key, text in what.items():
        ranked = sorted((h for h in heads if h["measures"][key] is not None),
                        key=lambda h: -h["measures"][key])[:3]
        if ranked:
            shown = ", ".join(f"{h['layer']}.{h['head']} ({percent(h['measures'][key])})"
                              for h in ranked)
            lines.append(f"| {text} | {shown} | {percent(found['fixed'][key])} |")
    return lines


def verdict(found):
    """What the figures say, and where it is not what the paper's pictures suggest."""
    heads = [h for h in found["heads"] if h["attention"] == "enc"]
    lines = []
    for key, figure, does in (("far", 3, "follows long-distance dependencies"),
                              ("link", 4, "resolves pronouns"),
                              ("parent", 5, "follows the structure of the sentence")):
        values = [h["measures"][key] for h in heads if h["measures"][key] is not None]
        if not values:
            lines.append(f"- Figure {figure}: not measured.")
            continue
        over = max(values) - found["fixed"][key]
        best = max((h for h in heads if h["measures"][key] is not None),
                   key=lambda h: h["measures"][key])
        says = (f"{percent(best['measures'][key])} of the words, a fixed offset "
                f"{percent(found['fixed'][key])}")
        if over >= 0.1:
            lines.append(f"- Figure {figure}: head {best['layer']}.{best['head']} {does}: {says}.")
        else:
            lines.append(f"- Figure {figure}: single words can be found that show it, but over "
                         f"many sentences **no head {does}** better than one that always looks at "
                         f"the same offset: the best is {best['layer']}.{best['head']} with "
                         f"{says}.")
    return lines


CAPTION = {"far.svg": "As Figure 3: what *{word}* looks at, all heads of layer {layer}.",
           "link.svg": "As Figure 4, above: head {heads} of layer {layer}, all words.",
           "link-word.svg": "As Figure 4, below: heads {heads} of layer {layer}, from *{word}* "
                            "only.",
           "structure-1.svg": "As Figure 5: head {heads} of layer {layer}.",
           "structure-2.svg": "The same sentence: head {heads} of layer {layer}."}


def section(files):
    found = files["figures"]
    lines = [f"All heads of {found['model']} over {found['sentences']:,} sentences "
             f"({found['words']:,} words): trees of the CRAFT treebank "
             "(github.com/UCDenver-ccp/CRAFT, CC BY 3.0), and 40 sentences written for this, in "
             "which a pronoun stands for one noun. Which word depends on which follows from the "
             "trees by rules. The measures are in [attention.md](../attention.md#finding-heads). "
             "Biomedical text is far from what the model was trained on, and the treebank has no "
             "coreference, which is why the pronouns have sentences of their own.", "",
             "Encoder heads by what they mostly do:", ""]
    lines += kinds_table(found)
    lines += ["", "Agreement with syntax and with pronouns, encoder heads:", ""]
    lines += best_table(found) + [""] + verdict(found)
    for figure in found.get("figures", []):
        heads = " and ".join(map(str, figure["heads"])) if len(figure["heads"]) < 3 else "all"
        text = CAPTION[figure["file"]].format(word=figure.get("word"), layer=figure["layer"],
                                              heads=heads)
        lines += ["", f"![{figure['sentence']}](figure-{figure['file']})", "", text]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("texts")
    one.add_argument("--trees", required=True)
    one.add_argument("--out", required=True)
    one.set_defaults(run=texts)
    two = commands.add_parser("collect")
    two.add_argument("heads")
    two.add_argument("--model", required=True)
    two.add_argument("--command", required=True)
    two.set_defaults(run=collect)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

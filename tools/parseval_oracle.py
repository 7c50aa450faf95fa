#!/usr/bin/env python3
"""parseval_oracle.py — what EVALB makes of trees, for tests/data/parseval.

    tools/parseval_oracle.py EVALB GOLD.tree OUT    EVALB: the program of Sekine and Collins, built

Takes 2,000 trees of a treebank that EVALB's arrays can hold, makes parses of them with all kinds
of mistakes (labels, brackets, tags, words, lines that are no trees), lets EVALB score them under
several parameter files, and writes ref.tree.xz, hyp.tree.xz, the parameter files and expected.tsv.
Everything random comes from one seed. Compare with `heed eval`: tests/test_trees.sh.
"""
import lzma
import pathlib
import random
import re
import subprocess
import sys

PARAMS = {
    "plain": ["LABELED 1"],
    "unlabelled": ["LABELED 0", "DELETE_LABEL ROOT"],
    "collins": ["LABELED 1"]
    + ["DELETE_LABEL " + label for label in "TOP ROOT -NONE- , : `` '' .".split()]
    + ["DELETE_LABEL_FOR_LENGTH -NONE-", "EQ_LABEL ADVP PRT"],
    "quotes": ["LABELED 1"]
    + ["DELETE_LABEL " + label for label in "TOP ROOT S1 -NONE- , : `` '' . ? !".split()]
    + ["QUOTE_LABEL " + label for label in "`` '' POS NN CD VBZ SYM :".split()]
    + ["EQ_LABEL ADVP PRT", "EQ_LABEL NP NML", "EQ_WORD the a"],
}


def read(line):
    """Nested lists: [label, child...] or [tag, word]."""
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", line):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0][0]


def show(tree):
    return "(" + " ".join(x if isinstance(x, str) else show(x) for x in tree) + ")"


def phrases(tree):
    if isinstance(tree[1], str):
        return []
    return [tree] + [p for child in tree[1:] for p in phrases(child)]


def leaves(tree):
    if isinstance(tree[1], str):
        return [tree]
    return [leaf for child in tree[1:] for leaf in leaves(child)]


def damage(rng, line):
    tree = read(line)
    for _ in range(rng.choice([0, 0, 1, 2, 4, 8, 16])):
        phrase = rng.choice(phrases(tree))
        kind = rng.randrange(10)
        if kind == 0:
            phrase[0] = rng.choice("NP VP PP ADVP PRT NML NP-SBJ S=2 -X".split())
        elif kind == 1 and len(phrase) > 2:
            at = rng.randrange(1, len(phrase))
            end = rng.randrange(at + 1, len(phrase) + 1)
            phrase[at:end] = [[rng.choice("NP VP PP ADVP".split())] + phrase[at:end]]
        elif kind == 2:
            at = rng.randrange(1, len(phrase))
            if not isinstance(phrase[at][1], str):
                phrase[at : at + 1] = phrase[at][1:]
        elif kind == 3:
            leaf = rng.choice(leaves(tree))
            leaf[0] = rng.choice("NN , . POS '' DT".split() if rng.random() < 0.3 else ["NN"])
        elif kind == 4:
            quotes = [x for x in leaves(tree) if x[1] in ("'", '"', "/")]
            if quotes:
                rng.choice(quotes)[0] = rng.choice(["POS", "''", "``", ":"])
        elif kind == 5:
            phrase[:] = [phrase[0], phrase[:]]
        elif kind == 6 and rng.random() < 0.1:
            rng.choice(leaves(tree))[1] = rng.choice(["the", "a", "other"])
        elif kind == 7 and rng.random() < 0.1 and len(phrase) > 2:
            del phrase[rng.randrange(1, len(phrase))]
        elif kind > 7:  # a word or phrase goes to its neighbour: brackets cross
            inner = [i for i in range(1, len(phrase) - 1)
                     if not isinstance(phrase[i][1], str) and len(phrase[i]) > 2
                     and not isinstance(phrase[i + 1], str)
                     and not isinstance(phrase[i + 1][1], str)]
            if inner:
                at = rng.choice(inner)
                phrase[at + 1].insert(1, phrase[at].pop())
    line = show(tree)
    chance = rng.random()
    if chance < 0.01:
        return line[:-1]
    if chance < 0.015:
        return ""
    return line


def main(evalb, gold, out):
    rng = random.Random(7)
    out = pathlib.Path(out)
    lines = [line.strip() for line in open(gold, encoding="utf-8")]
    # EVALB has room for 200 words, 200 brackets, words of 99 bytes and lines of 4,999
    lines = [x for x in lines if len(x.encode()) < 700]
    lines = [x for x in lines if max(map(len, x.encode().split())) < 60]
    ref = rng.sample(lines, 2000)
    hyp = [damage(rng, line) for line in ref]
    for name, text in (("ref", ref), ("hyp", hyp)):
        (out / name).write_text("".join(x + "\n" for x in text), encoding="utf-8")
        (out / f"{name}.tree.xz").write_bytes(lzma.compress((out / name).read_bytes(), preset=9))
    with open(out / "expected.tsv", "w", encoding="utf-8") as expected:
        for name, params in PARAMS.items():
            path = out / f"{name}.prm"
            path.write_text("".join(x + "\n" for x in params))
            text = subprocess.run(
                [evalb, "-e", "100000", "-p", path, out / "ref", out / "hyp"],
                capture_output=True, check=True, errors="replace").stdout
            summary = text.split("-- All --")[1].split("-- len")[0]
            values = re.findall(r"= +([0-9.]+)", summary)
            print(name, *values, sep="\t", file=expected)
    for name in ("ref", "hyp"):
        (out / name).unlink()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

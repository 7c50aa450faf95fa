#!/usr/bin/env python3
"""make_demo_data.py — chooses the sentence pairs of both demos.

    tools/make_demo_data.py TATOEBA MSDOCS [DEMO-FOLDER]

TATOEBA and MSDOCS are folders with {train,valid,test}.{en,de}.xz, one sentence per line.

{tatoeba,msdocs}.{en,de} are samples of their test parts, for the scores of models that were trained
on the training parts: every third pair of the first 3,003, and every fourth of 2,000.

{train,valid,heldout}.{en,de} are for training from nothing: short pairs of common words of TATOEBA,
because that is what a tiny model can learn in a minute or two:

  - 2 to MAX_WORDS words on both sides;
  - every word occurs at least MIN_COUNT times on its side among the short pairs of the corpus'
    training part;
  - one translation per English sentence, the one whose SHA-256 is smallest;
  - training pairs are shuffled (by SHA-256 again), since the corpus is sorted by length;
  - valid and heldout come from the corpus' valid and test parts by the same rules, and no English
    sentence of theirs, compared without case and punctuation, is in the demo's training data, or in
    the other's.

The result depends on nothing but the corpora.
"""

import collections
import hashlib
import lzma
import pathlib
import sys

MAX_WORDS = 6
MIN_COUNT = 20
N_VALID, N_HELDOUT = 500, 500
SAMPLE = {"tatoeba": (3003, 3), "msdocs": (2000, 4)}  # of how many pairs every which one


def words(sentence):
    """The sentence's words without case and punctuation."""
    kept = "".join(
        c if c.isalnum() or c == "'" else " " for c in sentence.lower().replace("’", "'")
    )
    return kept.split()


def read(corpus, part):
    sides = []
    for language in "en", "de":
        with lzma.open(
            corpus / f"{part}.{language}.xz", "rt", encoding="utf-8", newline="\n"
        ) as file:
            sides.append(file.read().splitlines())
    if len(sides[0]) != len(sides[1]):
        sys.exit(f"{corpus}: {part}.en and {part}.de have different numbers of lines")
    return list(zip(*sides))


def order(pair):
    return hashlib.sha256("\t".join(pair).encode()).digest()


def one_per_source(pairs):
    """Shuffled, and only the first pair of each English sentence."""
    first = {}
    for pair in sorted(pairs, key=order):
        first.setdefault(" ".join(words(pair[0])), pair)
    return first


def choose(corpus):
    def short(pair):
        return all(2 <= len(words(side)) <= MAX_WORDS for side in pair)

    train = [pair for pair in read(corpus, "train") if short(pair)]
    count = [collections.Counter(w for pair in train for w in words(pair[side])) for side in (0, 1)]

    def common(pair):
        return all(count[side][w] >= MIN_COUNT for side in (0, 1) for w in words(pair[side]))

    parts = {"train": one_per_source(filter(common, train))}
    seen = set(parts["train"])
    for name, part, most in ("valid", "valid", N_VALID), ("heldout", "test", N_HELDOUT):
        fitting = one_per_source(p for p in read(corpus, part) if short(p) and common(p))
        new = [key for key in fitting if key not in seen][:most]
        seen.update(new)
        parts[name] = {key: fitting[key] for key in new}
    return {name: list(pairs.values()) for name, pairs in parts.items()}


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    corpora = dict(zip(SAMPLE, map(pathlib.Path, sys.argv[1:3])))
    folder = pathlib.Path(
        sys.argv[3] if len(sys.argv) == 4 else pathlib.Path(__file__).parent.parent / "demo"
    )
    folder.mkdir(parents=True, exist_ok=True)
    parts = choose(corpora["tatoeba"])
    for name, (first, step) in SAMPLE.items():
        parts[name] = read(corpora[name], "test")[:first:step]
    for name, pairs in parts.items():
        for side, language in enumerate(("en", "de")):
            path = folder / f"{name}.{language}"
            data = "".join(pair[side] + "\n" for pair in pairs).encode()
            if name != "heldout":  # which is shown beside translations, by commands that read text
                path = path.with_name(path.name + ".xz")
                data = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
            path.write_bytes(data)
            print(f"{path}: {len(pairs)} lines, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""closest.py — of several translations of each line, the one most like what a person wrote.

    closest.py NBEST REFERENCE OUTPUT [--within 1]

NBEST is what `heed translate --nbest N` prints (INDEX ||| TEXT ||| SCORE), REFERENCE has a line for
each index; both may be .xz. A student learns more from these than from the best by score alone:
they are still a teacher's words, but closer to the truth (Kim and Rush 2016, sequence-level
interpolation). Likeness is sentence BLEU, every n-gram precision with one added to both counts; of
equals the better score wins. A translation whose score is more than --within below the best is left
out: at the end of a beam there are broken sentences that share a word more with the reference.
Memory does not depend on the length of the files.
"""

import argparse
import itertools
import math
import multiprocessing
import re
from collections import Counter

from noise import opened

CHUNK = 2000  # lines that a process gets at a time
TOKEN = re.compile(r"\w+|[^\w\s]")


def grams(text):
    """The n-grams of a text, a count for each length from 1 to 4."""
    words = TOKEN.findall(text)
    return len(words), [Counter(zip(*(words[i:] for i in range(n)))) for n in range(1, 5)]


def likeness(text, reference):
    length, counts = grams(text)
    wanted, those = reference
    logs = 0.0
    for n, (mine, others) in enumerate(zip(counts, those)):
        same = sum(min(k, others[gram]) for gram, k in mine.items())
        logs += math.log((same + 1) / (max(length - n, 0) + 1))
    return logs / 4 + min(0.0, 1 - (wanted + 1) / (length + 1))


def choose(task):
    """The best of each group. task: list of (texts, reference)"""
    chosen = []
    for texts, reference in task:
        if reference in texts or len(texts) == 1:
            chosen.append(reference if reference in texts else texts[0])
            continue
        wanted = grams(reference)
        chosen.append(max(texts, key=lambda text: likeness(text, wanted)))
    return chosen


def near(lines, within):
    """The texts of a group whose score is near the best, which comes first."""
    texts, best = [], None
    for _, rest in lines:
        text, score = rest.rsplit(" ||| ", 1)
        best = float(score) if best is None else best
        if float(score) >= best - within:
            texts.append(text)
    return texts


def groups(nbest, references, within):
    """(texts, reference) for each line; fails where a line has no translation or no reference."""
    parsed = (line.rstrip("\n").split(" ||| ", 1) for line in nbest)
    count = 0
    for index, lines in itertools.groupby(parsed, key=lambda fields: fields[0]):
        reference = references.readline()
        if index != str(count):
            raise ValueError(f"translations of line '{index}' where {count} comes next")
        if not reference:
            raise ValueError(f"line {count} is translated, the reference has only {count} lines")
        yield near(lines, within), reference.rstrip("\n")
        count += 1
    if references.readline():
        raise ValueError(f"{count} lines are translated, the reference has more")


def run(options):
    with opened(options.nbest, "r") as nbest, opened(options.reference, "r") as references:
        with opened(options.output, "w") as out:
            with multiprocessing.Pool() as pool:
                pairs = groups(nbest, references, options.within)
                tasks = iter(lambda: list(itertools.islice(pairs, CHUNK)), [])
                for chosen in pool.imap(choose, tasks):
                    out.writelines(text + "\n" for text in chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("nbest")
    parser.add_argument("reference")
    parser.add_argument("output")
    parser.add_argument("--within", type=float, default=1.0, metavar="SCORE")
    options = parser.parse_args()
    try:
        run(options)
    except (ValueError, OSError) as error:
        raise SystemExit(f"closest.py: {error}") from None


if __name__ == "__main__":
    main()

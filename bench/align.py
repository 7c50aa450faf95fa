#!/usr/bin/env python3
"""Alignment error rates of heed beside eflomal's, on alignments made by hand.

    bench/align.py --train de.txt en.txt --gold x.de x.en x.align
                   [--model de-en --reverse en-de] [--pairs N] [--work DIR]

Both --train and --gold may be given several times; training text may be compressed. Links of a gold
file are source-target, `i-j` sure and `i?j` possible, counted from 0; where its text files end in
the languages of --train the other way round, it is turned. Gold texts have spaces between their
tokens; training text is cut into words by `heed words`. eflomal sees all in lower case, and the
gold texts behind the training text. It must be there if --train is given (pip install eflomal);
nothing is installed here. It draws random numbers, which differ from run to run.
"""
import argparse
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile

MAX_WORDS = 200
METHODS = ("forward", "reverse", "intersection", "union", "grow-diag", "grow-diag-final",
           "grow-diag-final-and")


def lines_of(path):
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]


def words_of(args, path):
    """The lines of a text, with spaces between their words."""
    words = subprocess.run([args.heed, "words", "--input", path], check=True,
                           stdout=subprocess.PIPE).stdout
    return words.decode().lower().split("\n")[:-1]


def language(path):
    return os.path.basename(path).removesuffix(".xz").rsplit(".", 1)[-1]


class Gold:
    """Pairs with sure links and possible ones, the sure among them."""

    def __init__(self, src, tgt, links):
        self.files = (src, tgt, links)
        self.name = os.path.basename(links).rsplit(".", 1)[0]
        self.src, self.tgt = lines_of(src), lines_of(tgt)
        self.sure, self.possible = [], []
        for line in lines_of(links):
            found = [re.fullmatch(r"(\d+)([-?])(\d+)", link).groups() for link in line.split()]
            self.sure.append({(int(i), int(j)) for i, kind, j in found if kind == "-"})
            self.possible.append({(int(i), int(j)) for i, kind, j in found})
        assert len(self.src) == len(self.tgt) == len(self.sure), "pairs without links: " + links

    def turn(self):
        """The other way round."""
        self.src, self.tgt = self.tgt, self.src
        self.sure = [{(j, i) for i, j in s} for s in self.sure]
        self.possible = [{(j, i) for i, j in s} for s in self.possible]

    def measure(self, found):
        """AER, precision and recall of Och and Ney (2003)."""
        n_found = n_sure = in_sure = in_possible = 0
        for src, tgt, sure, possible, links in zip(self.src, self.tgt, self.sure, self.possible,
                                                   found):
            inside = {(i, j) for i in range(len(src.split())) for j in range(len(tgt.split()))}
            sure, possible = sure & inside, possible & inside
            n_found += len(links)
            n_sure += len(sure)
            in_sure += len(links & sure)
            in_possible += len(links & possible)
        return (1 - (in_sure + in_possible) / (n_found + n_sure), in_possible / n_found,
                in_sure / n_sure)


STEPS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow(forward, reverse, final=None):
    """grow-diag, as src/data/links.c has it; final: any or all, that is grow-diag-final(-and)."""
    union, links, grown = forward | reverse, forward & reverse, True

    def is_new(i, j, enough=any):
        return enough((i not in {a for a, _ in links}, j not in {b for _, b in links}))

    while grown:
        grown = False
        for i, j in sorted(links, key=lambda link: (link[1], link[0])):
            for near in ((i + di, j + dj) for di, dj in STEPS):
                if near in union and is_new(*near):
                    links = links | {near}
                    grown = True
    for direction in (forward, reverse) if final else ():
        for link in sorted(direction):
            if is_new(*link, final):
                links = links | {link}
    return links


def symmetrise(method, forward, reverse):
    return {"forward": lambda: forward, "reverse": lambda: reverse,
            "intersection": lambda: forward & reverse, "union": lambda: forward | reverse,
            "grow-diag": lambda: grow(forward, reverse),
            "grow-diag-final": lambda: grow(forward, reverse, any),
            "grow-diag-final-and": lambda: grow(forward, reverse, all)}[method]()


def read_links(path, first):
    return [{tuple(map(int, link.split("-"))) for link in line.split()}
            for line in lines_of(path)[first:]]


def eflomal(args, gold):
    """Links of the gold sets, by a model of the training text and of theirs."""
    pairs = []
    for src, tgt in args.train:
        pairs += zip(words_of(args, src), words_of(args, tgt), strict=True)
    if args.pairs and args.pairs < len(pairs):
        pairs = pairs[:: len(pairs) // args.pairs][: args.pairs]
    path = {name: os.path.join(args.work, name) for name in ("src", "tgt", "forward", "reverse")}
    kept = 0
    with open(path["src"], "w", encoding="utf-8") as src, open(path["tgt"], "w",
                                                               encoding="utf-8") as tgt:
        for a, b in pairs:
            if a and b and max(a.count(" "), b.count(" ")) < MAX_WORDS:
                src.write(a + "\n")
                tgt.write(b + "\n")
                kept += 1
        for g in gold:
            for a, b in zip(g.src, g.tgt):
                src.write(a.lower() + "\n")
                tgt.write(b.lower() + "\n")
    print(f"eflomal: {kept} pairs", file=sys.stderr)
    subprocess.run(["eflomal-align", "--overwrite", "-s", path["src"], "-t", path["tgt"], "-f",
                    path["forward"], "-r", path["reverse"]], check=True)
    links = list(zip(read_links(path["forward"], kept), read_links(path["reverse"], kept)))
    found = []
    for g in gold:
        found.append(links[: len(g.src)])
        links = links[len(g.src):]
    return found


def heed(args, g):
    """What `heed align --gold` says: of each model alone, and of both together in every way."""
    src, tgt, links = g.files
    same = language(src) == args.languages[0]
    texts = (src, tgt) if same else (tgt, src)
    ways = {"forward": (args.model, texts, same, [])}
    if args.reverse:
        ways["reverse"] = (args.reverse, texts[::-1], not same, [])
        for method in METHODS[2:]:
            both = ["--reverse", args.reverse, "--symmetrise", method]
            ways[method] = (args.model, texts, same, both)
    result = {}
    for method, (model, (first, second), in_order, more) in ways.items():
        command = [args.heed, "align", "--model", model, "--src", first, "--tgt", second, "--gold",
                   links, "--units", "tokens", "--json", "--quiet"] + more
        command += [] if in_order else ["--gold-reversed"]
        said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        result[method] = (said["aer"], said["precision"], said["recall"])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs=2, action="append", default=[], metavar=("SRC", "TGT"))
    parser.add_argument("--gold", nargs=3, action="append", required=True,
                        metavar=("SRC", "TGT", "LINKS"))
    parser.add_argument("--pairs", type=int, help="train on this many pairs, spread evenly")
    parser.add_argument("--model", help="heed's model of the direction of --train")
    parser.add_argument("--reverse", help="and of the other")
    parser.add_argument("--heed", default="build/heed")
    parser.add_argument("--work", help="where to leave eflomal's files")
    parser.add_argument("--save", help="where to write eflomal's best error rate per set, as JSON")
    args = parser.parse_args()
    if not args.train and not args.model:
        parser.error("nothing to measure: give --train for eflomal, --model for heed, or both")
    args.languages = tuple(map(language, args.train[0] if args.train else args.gold[0][:2]))
    gold = [Gold(*files) for files in args.gold]
    for g in gold:
        if language(g.files[0]) != args.languages[0]:
            g.turn()
    with tempfile.TemporaryDirectory() as scratch:
        args.work = args.work or scratch
        rows = []
        if args.train:
            for g, links in zip(gold, eflomal(args, gold)):
                rows += [("eflomal", g.name, m, g.measure([symmetrise(m, *pair) for pair in links]))
                         for m in METHODS]
        if args.model:
            rows += [("heed", g.name, m, said) for g in gold for m, said in heed(args, g).items()]
    if args.save:
        best = {}
        for who, name, _, (aer, _, _) in rows:
            if who == "eflomal":
                best[name] = round(min(aer, best.get(name, 1)), 4)
        with open(args.save, "w", encoding="utf-8") as file:
            json.dump(best, file, indent=4)
            file.write("\n")
    print(f"{'':8}  {'set':24} {'links':20} {'AER':>6} {'precision':>10} {'recall':>7}")
    for who, name, method, (aer, precision, recall) in rows:
        print(f"{who:8}  {name:24} {method:20} {aer:6.3f} {precision:10.3f} {recall:7.3f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""glossary.py — what terms gain and cost: with and without, on sentences whose reference has them.

    bench/glossary.py --model MODEL --source FILE --reference FILE [--heed build/heed] [--most 120]

Terms are found, not invented: a word of the source that is linked to one word of the reference and
no other (heed align), both of four letters or more, which the translation without terms lacks.
Every sentence that has some is asked for twice, as a request of its own (heed serve): without its
terms and with them. Printed of both: how many of the terms are there, BLEU and chrF (heed eval),
and milliseconds per sentence."""

import argparse
import http.client
import json
import random
import re
import subprocess
import sys
import tempfile
import time

WORD = re.compile(r"[^\W\d_]{4,}")


def lines(command, **more):
    done = subprocess.run(command, check=True, capture_output=True, text=True, **more)
    return done.stdout.splitlines()


def has(term, text):
    return re.search(rf"\b{re.escape(term)}\b", text, re.IGNORECASE) is not None


def terms_of(source, reference, links, plain):
    """Of words, and a translation: {source word: target word}."""
    found = {}
    for a, b in links:
        alone = sum(x == a for x, _ in links) == 1 and sum(y == b for _, y in links) == 1
        pair = source[a], reference[b]
        if (a and alone and all(WORD.fullmatch(w) for w in pair) and not has(pair[1], plain)
                and source.count(pair[0]) == 1 and reference.count(pair[1]) == 1):
            found[pair[0]] = pair[1]
    return found


class Server:
    def __init__(self, heed, model):
        self.process = subprocess.Popen(
            [heed, "serve", "--model", "aa-bb=" + model, "--listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "listening" in line:
                self.port = int(line.rsplit(":", 1)[1])
            if "ready" in line:
                return
        sys.exit("glossary.py: heed serve did not start")

    def ask(self, text, terms):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/translate", json.dumps(
            {"q": text, "source": "aa", "target": "bb", "glossary": terms}),
            {"Content-Type": "application/json"})
        answer = json.load(connection.getresponse())
        connection.close()
        return answer["translatedText"].replace("\n", " ")


def scores(heed, work, hypotheses, references):
    for name, texts in (("hyp", hypotheses), ("ref", references)):
        with open(f"{work}/{name}", "w", encoding="utf-8") as f:
            f.writelines(text + "\n" for text in texts)
    said = " ".join(lines([heed, "eval", "--ref", f"{work}/ref", "--hyp", f"{work}/hyp"]))
    return [float(re.search(rf"{name}\D*?\S* *= *([\d.]+)", said, re.IGNORECASE).group(1))
            for name in ("bleu", "chrf")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--heed", default="build/heed")
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--most", type=int, default=120)
    args = parser.parse_args()
    texts, references = (open(name, encoding="utf-8").read().splitlines()
                         for name in (args.source, args.reference))
    words = [[line.split(" ") for line in lines([args.heed, "words", "--input", name])]
             for name in (args.source, args.reference)]
    links = [[tuple(map(int, link.split("-"))) for link in line.split()]
             for line in lines([args.heed, "align", "--model", args.model, "--src", args.source,
                                "--tgt", args.reference, "--quiet"])]
    plain = lines([args.heed, "translate", "--model", args.model, "--quiet", args.source])
    chosen = [(i, terms) for i, one in enumerate(links)
              if (terms := terms_of(words[0][i], words[1][i], one, plain[i]))]
    random.Random(1).shuffle(chosen)
    chosen = chosen[:args.most]
    server = Server(args.heed, args.model)
    print(f"{len(chosen)} sentences, {sum(len(t) for _, t in chosen)} terms")
    with tempfile.TemporaryDirectory() as work:
        for name in ("without", "with"):
            begun = time.perf_counter()
            out = [server.ask(texts[i], terms if name == "with" else {}) for i, terms in chosen]
            took = 1e3 * (time.perf_counter() - begun) / max(len(chosen), 1)
            there = sum(has(t, text) for text, (_, terms) in zip(out, chosen)
                        for t in terms.values())
            bleu, chrf = scores(args.heed, work, out, [references[i] for i, _ in chosen])
            print(f"{name:8} {there:4} terms  BLEU {bleu:.1f}  chrF {chrf:.1f}  {took:.0f} ms")
    server.process.terminate()
    server.process.wait()


if __name__ == "__main__":
    main()

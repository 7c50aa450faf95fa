#!/usr/bin/env python3
"""eval_compare.py — random texts through `heed eval` and through sacreBLEU; every printed character
must agree.

    python3 tests/eval_compare.py HEED FOLDER SECONDS [SEED]

Texts are made of what tokenizers and metrics treat specially: marks, digits, entities, spaces of
all kinds, case that changes length, scripts without spaces, characters from anywhere. The
hypothesis is a damaged reference. First every character that has case or a category takes a turn.
Stops with the failing case left in FOLDER. Exit status 0 when SECONDS passed without one. """

import os
import random
import subprocess
import sys
import time
import unicodedata

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

PIECES = (
    list(" " * 40 + "\t\u00a0\u2003\u3000\u202f\u0085\u1680\u2028\u001c\r\v\f\u200b\ufeff")
    + list(".,-.,-.,-'\"!?;:()[]{}<>|/\\@#$%^&*_+=~`")
    + list("0123456789" * 3)
    + "the cat sat on a mat The Cat und der die das Straße ÉCOLE école naïve".split()
    + [
        "&quot;",
        "&amp;",
        "&lt;",
        "&gt;",
        "&amp;lt;",
        "&amp;quot;",
        "<skipped>",
        "<skip<skipped>ped>",
        "-",
    ]
    + list("猫在垫子上。，「」はネコですー、１２３５")
    + list("שלום مرحبا؟،٣٤٥١")
    + list("éàçñøßſÅ\u0301\u0308\u20e3\u0345")
    + list("ΣσςΑΩΌΔΟΣ") * 2
    + list("İIıiǅǄßẞK\u1e9eᾼ\u2126Ⅷⅷⓐ𐐀𝔄")
    + list("€£¥₹¢±×÷√∞≠°©®™§¶†•…–—‘’“”«»¿¡")
    + list("😀👍🏽🇩🇪👩\u200d💻\ufe0f♥")
    + list("½²³①ⅣⅫ٪৳५७๗零")
    + list("\u00ad\u2019\u02b0\u0387\u2060·")
)


def text(rng):
    if rng.random() < 0.04:
        return ""
    if rng.random() < 0.05:
        return rng.choice(PIECES)
    n = rng.choice((1, 2, 5, 10, 20, 40, 80))
    out = []
    for _ in range(rng.randint(1, n)):
        r = rng.random()
        if r < 0.03:
            c = rng.randrange(1, 0x110000)
            out.append(chr(c) if c != 10 and not 0xD800 <= c <= 0xDFFF else "x")
        else:
            out.append(rng.choice(PIECES))
        if rng.random() < 0.3:
            out.append(" ")
    return "".join(out).replace("\n", " ")


def damage(rng, line):
    kind = rng.random()
    if kind < 0.15:
        return line
    if kind < 0.25:
        return text(rng)
    chars = list(line)
    for _ in range(rng.randint(1, 1 + len(chars) // 4)):
        at = rng.randint(0, len(chars))
        what = rng.random()
        if what < 0.4:
            chars[at : at + rng.randint(1, 4)] = []
        elif what < 0.7:
            chars[at:at] = list(rng.choice(PIECES))
        else:
            chars[at:at] = chars[at // 2 : at // 2 + 5]
    return "".join(chars)


def expected(metric, hyp, refs, width, sentence):
    if sentence:
        scores = [metric.sentence_score(h, list(r)) for h, *r in zip(hyp, *refs)]
        return "\n".join(s.format(width, True) for s in scores) + "\n"
    score = metric.corpus_score(hyp, refs)
    sig = metric.get_signature().format()
    sig = sig[: sig.rindex("version:")]
    return score.format(width, False, sig) + "\n"


def case(rng, heed, folder):
    n_line, n_ref = rng.choice((1, 2, 5, 20)), rng.choice((1, 1, 2, 3))
    refs = [[text(rng) for _ in range(n_line)]]
    for _ in range(n_ref - 1):
        refs.append([damage(rng, line) for line in refs[0]])
    hyp = [damage(rng, refs[rng.randrange(n_ref)][i]) for i in range(n_line)]
    # A byte-order mark at the very beginning of a file is no text; sacreBLEU would score it.
    for lines in [hyp] + refs:
        lines[0] = lines[0].lstrip("\ufeff")
    metric_name = rng.choice(("bleu", "bleu", "chrf", "chrf++"))
    lower, sentence, width = rng.random() < 0.4, rng.random() < 0.4, rng.choice((1, 2, 6))
    args = (
        ["--metric", metric_name, "--width", str(width)]
        + ["--lowercase"] * lower
        + ["--sentence"] * sentence
    )
    if metric_name == "bleu":
        tok, smooth = rng.choice(("13a", "intl", "char", "none")), rng.choice(
            ("exp", "floor", "add-k", "none")
        )
        value = rng.choice((None, 0.01, 0.5, 2.0)) if smooth in ("floor", "add-k") else None
        effective = sentence or rng.random() < 0.3
        metric = BLEU(
            lowercase=lower,
            tokenize=tok,
            smooth_method=smooth,
            smooth_value=value,
            effective_order=effective,
            force=True,
        )
        args += ["--tokenize", tok, "--smooth", smooth] + ["--effective-order"] * effective
        args += ["--smooth-value", str(value)] if value is not None else []
    else:
        metric = CHRF(word_order=2 if metric_name == "chrf++" else 0, lowercase=lower)
    paths = [os.path.join(folder, name) for name in ["hyp"] + [f"ref{i}" for i in range(n_ref)]]
    for path, lines in zip(paths, [hyp] + refs):
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write("".join(line + "\n" for line in lines))
    command = [heed, "eval", "--hyp", paths[0], "--ref"] + paths[1:] + args
    want = expected(metric, hyp, refs, width, sentence)
    got = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    out = got.stdout
    if not sentence and "version:heed-" in out:
        head, tail = out.split("version:heed-", 1)
        out = head + " " + tail.split(" ", 1)[1]
    if got.returncode or out != want:
        print("differs:", " ".join(command), "\nwant", want, "\ngot ", out, got.stderr)
        return False
    return True


def sweep(heed, folder):
    """All of Unicode, in neighbourhoods that show each character's category and its lower case, 64
    to a line; the hypothesis is what Python makes of them. Of long stretches without case or
    category only the ends. """
    tokenize = BLEU(tokenize="intl").tokenizer
    kinds = [unicodedata.category(chr(c)) for c in range(0x110000)]
    plain = {"Lo", "Cn", "Co", "Cs"}
    worthy = [
        c
        for c in range(1, 0x10FFFF)
        if c != 10
        and kinds[c] != "Cs"
        and (kinds[c] not in plain or kinds[c - 1] != kinds[c] or kinds[c + 1] != kinds[c])
    ]
    refs, hyps = [], []
    for first in range(0, len(worthy), 64):
        codes = worthy[first : first + 64]
        line = "".join(f"a{chr(c)}1{chr(c)}\u03a3{chr(c)}B" for c in codes)
        refs.append(line)
        hyps.append(" ".join(tokenize(line.lower()).split()))
    for name, lines in (("ref0", refs), ("hyp", hyps)):
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as f:
            f.write("".join(line + "\n" for line in lines))
    for args, metric in (
        (["--tokenize", "intl"], BLEU(tokenize="intl", lowercase=True, effective_order=True)),
        (["--tokenize", "none"], BLEU(tokenize="none", lowercase=True, effective_order=True)),
        (["--metric", "chrf++"], CHRF(word_order=2, lowercase=True)),
    ):
        if args[0] == "--tokenize":
            args = args + ["--metric", "bleu"]
        command = [
            heed,
            "eval",
            "--ref",
            f"{folder}/ref0",
            "--hyp",
            f"{folder}/hyp",
            "--sentence",
            "--lowercase",
            "--width",
            "8",
        ] + args
        got = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        want = expected(metric, hyps, [refs], 8, True).splitlines()
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            if g != w:
                print(
                    f'differs: {" ".join(args)}: line {i + 1}, from U+{worthy[64 * i]:04X}: '
                    f"got {g}, want {w}"
                )
                return False
    return True


def main():
    heed, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    if not sweep(heed, folder):
        return 1
    rng, end, n = random.Random(seed), time.time() + seconds, 0
    while time.time() < end:
        if not case(rng, heed, folder):
            print(f"seed {seed}, case {n}, sacreBLEU {sacrebleu.__version__}")
            return 1
        n += 1
    print(f"{n} cases agree with sacreBLEU {sacrebleu.__version__} (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

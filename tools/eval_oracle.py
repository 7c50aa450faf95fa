#!/usr/bin/env python3
"""eval_oracle.py — what sacreBLEU makes of tests/data/eval: the expected values of
tests/test_eval.sh.

    python3 tools/eval_oracle.py            (needs: pip install sacrebleu==2.6.0)

Writes expected.tsv (options of `heed eval`, references, the whole output line without the version,
or the sentences' scores joined by spaces) and resampled.tsv (metric, system, score, mean,
half-width, p). The texts beside them were written for this test. Python 3.11 and the regex module
of 2026-05 were used. """

import itertools
import os

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

assert sacrebleu.__version__ == "2.6.0", sacrebleu.__version__
os.chdir(os.path.join(os.path.dirname(__file__), "../tests/data/eval"))


def lines(name):
    with open(name, encoding="utf-8", newline="\n") as f:
        return f.read().split("\n")[:-1]


hyp, other, all_refs = (
    lines("hyp.txt"),
    lines("hyp_other.txt"),
    [lines("ref0.txt"), lines("ref1.txt")],
)
out = open("expected.tsv", "w", encoding="utf-8", newline="\n")


def write(args, n_ref, metric, sentence, width):
    refs = all_refs[:n_ref]
    names = " ".join(f"ref{i}.txt" for i in range(n_ref))
    if sentence:
        text = " ".join(
            metric.sentence_score(h, list(r)).format(width, True) for h, *r in zip(hyp, *refs)
        )
        args += " --sentence"
    else:
        score = metric.corpus_score(hyp, refs)
        text = score.format(width, False, metric.get_signature().format().rsplit("|", 1)[0])
    out.write(f"{args} --width {width}\t{names}\t{text}\n")


SMOOTH = [
    ("exp", None),
    ("none", None),
    ("floor", None),
    ("floor", 0.01),
    ("add-k", None),
    ("add-k", 0.5),
]
for n_ref, tok, lower, sentence in itertools.product(
    (1, 2), ("13a", "intl", "char", "none"), (0, 1), (0, 1)
):
    for smooth, value in SMOOTH if tok == "13a" else SMOOTH[:1]:
        for effective in (0, 1) if not sentence else (1,):
            args = f"--metric bleu --tokenize {tok} --smooth {smooth}" + " --lowercase" * lower
            args += f" --smooth-value {value}" if value is not None else ""
            args += " --effective-order" * effective
            metric = BLEU(
                tokenize=tok,
                lowercase=bool(lower),
                smooth_method=smooth,
                smooth_value=value,
                effective_order=bool(effective),
                force=True,
            )
            write(args, n_ref, metric, sentence, 3 if sentence else 1)
for n_ref, words, lower, sentence in itertools.product((1, 2), (0, 2), (0, 1), (0, 1)):
    args = "--metric chrf" + "+" * words + " --lowercase" * lower
    write(args, n_ref, CHRF(word_order=words, lowercase=bool(lower)), sentence, 2)
out.close()

test = PairedTest(
    [("hyp.txt", hyp), ("hyp_other.txt", other)],
    {"BLEU": BLEU(force=True, references=all_refs[:1]), "CHRF": CHRF(references=all_refs[:1])},
    None,
    "bs",
    20000,
)
with open("resampled.tsv", "w", encoding="utf-8", newline="\n") as f:
    _, results = test()
    for metric in ("BLEU", "chrF2"):
        for name, r in zip(results["System"], results[metric]):
            p = -1 if r.p_value is None else r.p_value
            f.write(f"{metric}\t{name}\t{r.score:.6f}\t{r.mean:.6f}\t{r.ci:.6f}\t{p:.6f}\n")

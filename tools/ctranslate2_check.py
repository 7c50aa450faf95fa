#!/usr/bin/env python3
"""ctranslate2_check.py — does CTranslate2 find what heed found?

    heed export --model DIR --out CT2 --format ctranslate2
    heed translate --model DIR --json --alignment pieces --alpha 0 --beam 4 --nbest 4 \
        <text >found.jsonl
    tools/ctranslate2_check.py CT2 found.jsonl [--tolerance 1e-4]

Both search with beam 4 and without length penalty, where their definitions of a score are the same.
For every line the best translation must be the same pieces with the same score; every one of heed's
n best, forced through CTranslate2, must have the score heed gave it. CTranslate2 stops as soon as
it has seen as many translations as its beam is wide, heed when none can be beaten, so the others of
the n best may differ. What heed cut at its longest length is left out: lengths are limited by other
rules there.

Exit status 0: all of it holds. 1: something differs, shown. 77: no ctranslate2 here."""

import argparse
import json
import sys

try:
    import ctranslate2
except ImportError:
    print("skipped: the python package ctranslate2 is not installed")
    sys.exit(77)

arguments = argparse.ArgumentParser()
arguments.add_argument("model")
arguments.add_argument("found")
arguments.add_argument("--tolerance", type=float, default=1e-4)
arguments.add_argument("--longest", type=int, default=120)
arguments.add_argument("--forced-only", action="store_true", help="compare scores, not searches")
arguments.add_argument("--compute-type", default="float32")
args = arguments.parse_args()

lines = [json.loads(line) for line in open(args.found, encoding="utf-8")]
sources = [[p for p in line["source_pieces"] if p != "</s>"] for line in lines]
translator = ctranslate2.Translator(
    args.model, device="cpu", compute_type=args.compute_type, intra_threads=1
)
if translator.compute_type != args.compute_type:
    sys.exit(f"CTranslate2 computes in {translator.compute_type}, not in {args.compute_type}")

found = translator.translate_batch(
    sources,
    beam_size=4,
    length_penalty=0,
    return_scores=True,
    max_batch_size=16,
    min_decoding_length=0,
    max_decoding_length=args.longest,
)
wrong, worst, whole = 0, 0.0, 0
for line, result in zip(lines, found):
    best = line["nbest"][0]
    if "cut" in best or args.forced_only:
        continue
    whole += 1
    gap = abs(best["log_prob"] - result.scores[0])
    if best["pieces"] != result.hypotheses[0] or not gap <= args.tolerance:
        print(f"line {line['line']}: heed {best['log_prob']:.6f} {' '.join(best['pieces'])}")
        print(f"    CTranslate2 {result.scores[0]:.6f} {' '.join(result.hypotheses[0])}")
        wrong += 1
    worst = max(worst, gap)

pairs = [
    (source, one)
    for source, line in zip(sources, lines)
    for one in line["nbest"]
    if "cut" not in one
]
scores = translator.score_batch(
    [s for s, _ in pairs], [one["pieces"] for _, one in pairs], max_batch_size=16
)
for (_, one), score in zip(pairs, scores):
    gap = abs(one["log_prob"] - sum(score.log_probs))
    if not gap <= args.tolerance:
        print(
            f"forced: heed {one['log_prob']:.6f}, CTranslate2 {sum(score.log_probs):.6f}: "
            f"{one['text']}"
        )
        wrong += 1
    worst = max(worst, gap)
print(
    f"{whole} of {len(lines)} translations, {len(pairs)} forced: {wrong} differ, "
    f"scores by {worst:.1e} at most"
)
if not pairs or not whole and not args.forced_only:
    sys.exit("there was nothing to compare")
sys.exit(1 if wrong else 0)

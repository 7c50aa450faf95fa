#!/usr/bin/env python3
"""huggingface_check.py — do transformers find what heed found?

    heed export --model DIR --out HF --format huggingface
    heed score --model DIR --src SRC --tgt TGT --token-scores >scores
    heed translate --model DIR --beam 1 <SRC >greedy
    tools/huggingface_check.py HF SRC TGT scores greedy [--tolerance 1e-4] [--longest N]

The directory opens without a tensor missing or left over; each token's log-probability is heed's
within the tolerance; greedy translations are the same; and a batch with padding gives what single
sentences do.

Exit status 0: all of it holds. 1: something differs, shown. 77: no transformers here."""
import argparse
import sys

try:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, logging
except ImportError:
    print("skipped: the python packages torch and transformers are not installed")
    sys.exit(77)

parser = argparse.ArgumentParser()
for name in ("model", "src", "tgt", "scores", "greedy"):
    parser.add_argument(name)
parser.add_argument("--tolerance", type=float, default=1e-4)
parser.add_argument("--longest", type=int, help="tokens of a translation, as --max-length of heed")
args = parser.parse_args()
logging.set_verbosity_error()
torch.set_num_threads(1)


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [line.rstrip("\n") for line in f]


def generate(batch):
    most = {"max_length": args.longest + 1} if args.longest else {}  # the start token counts
    return model.generate(**batch, num_beams=1, do_sample=False, **most)


tokenizer = AutoTokenizer.from_pretrained(args.model)
model, about = AutoModelForSeq2SeqLM.from_pretrained(args.model, output_loading_info=True)
model.eval()
wrong = [f"{k}: {v}" for k, v in about.items() if v]
worst, n, singles = 0.0, 0, []
rows = zip(lines(args.src), lines(args.tgt), lines(args.scores), lines(args.greedy))
for i, (source, target, scores, greedy) in enumerate(rows):
    x = tokenizer(source, return_tensors="pt")
    y = tokenizer(text_target=target, return_tensors="pt").input_ids
    start = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.no_grad():
        logits = model(**x, decoder_input_ids=torch.cat([start, y[:, :-1]], 1)).logits[0]
    found = torch.log_softmax(logits.double(), -1)[torch.arange(y.shape[1]), y[0]].tolist()
    ours = [float(s) for s in scores.split("\t")[1].split()]
    if len(found) != len(ours):
        wrong.append(f"line {i + 1}: {len(found)} tokens, not {len(ours)}")
        continue
    worst = max([worst] + [abs(a - b) for a, b in zip(found, ours)])
    n += len(ours)
    singles.append(tokenizer.decode(generate(x)[0], skip_special_tokens=True))
    if singles[-1] != greedy:
        wrong.append(f"line {i + 1}: '{singles[-1]}', not '{greedy}'")
batch = tokenizer(lines(args.src)[:4], return_tensors="pt", padding=True)
together = tokenizer.batch_decode(generate(batch), skip_special_tokens=True)
if together != singles[:4]:
    wrong.append(f"with padding: {together}")
if not worst <= args.tolerance or not n:
    wrong.append(f"log-probabilities differ by {worst:g}")
print("\n".join(wrong[:10]) or f"{n} tokens, log-probabilities within {worst:.1e}")
sys.exit(bool(wrong))

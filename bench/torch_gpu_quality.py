#!/usr/bin/env python3
"""The paper's recipe on a small corpus in PyTorch: how good, how fast? bench/gpu_quality.sh calls
it.

    python3 bench/torch_gpu_quality.py --train SRC TGT --valid SRC TGT --test SRC --out HYP

The files are what `heed score --json --token-scores` prints of a text: a JSON object with its
`pieces` on each line, so that both sides train on the same tokens and no tokenizer is needed here.
Trains, validates and keeps a checkpoint every --every updates, averages the last --average of them,
translates the test text with beam search, and writes plain text. The last line printed is a JSON
object. """

import argparse
import json
import random
import time

from torch_model import BOS, EOS, FIRST_WORD, PAD, PRESETS, Transformer, beam_search, torch

UNK = 3


def pieces_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line)["pieces"][:-1] for line in f]  # the last one is the end mark


class Texts:
    """Sentence pairs on the device, padded to the longest."""

    def __init__(self, sides, ids, device):
        rows = [[[ids.get(p, UNK) for p in line] + [EOS] for line in side] for side in sides]
        self.n = [tuple(map(len, pair)) for pair in zip(*rows)]
        self.side = []
        for side in rows:
            width = max(map(len, side))
            padded = [line + [PAD] * (width - len(line)) for line in side]
            self.side.append(torch.tensor(padded, device=device))

    def batches(self, tokens, rng):
        """Indices of sentences of similar length, at most `tokens` on either side with padding."""
        order = list(range(len(self.n)))
        rng.shuffle(order)
        order.sort(key=lambda i: (self.n[i][-1] // 2, self.n[i][0]))
        out, longest = [[]], 0
        for i in order:
            longest = max(longest, *self.n[i])
            if out[-1] and longest * (len(out[-1]) + 1) > tokens:
                out.append([])
                longest = max(self.n[i])
            out[-1].append(i)
        rng.shuffle(out)
        return out

    def take(self, batch):
        at = torch.tensor(batch, device=self.side[0].device)
        widths = [max(self.n[i][s] for i in batch) for s in range(len(self.side))]
        return [side[at, :width] for side, width in zip(self.side, widths)]

    def tensors(self, batch):
        src, tgt = self.take(batch)
        tgt_in = torch.roll(tgt, 1, 1)
        tgt_in[:, 0] = BOS
        return src, tgt_in, tgt


def validate(model, texts, a):
    model.eval()
    total = torch.zeros((), device=a.device)
    count = 0
    with torch.inference_mode(), torch.autocast(a.kind, torch.bfloat16):
        for batch in texts.batches(a.tokens, random.Random(1)):
            n = sum(texts.n[i][1] for i in batch)
            total += model(*texts.tensors(batch), padded=True) * n
            count += n
    model.train()
    return float(total) / count


def train(model, texts, valid, a):
    """Returns the state at the last a.average checkpoints."""
    adam = torch.optim.Adam(model.parameters(), 0, (0.9, 0.98), 1e-9, fused=a.kind == "cuda")
    rng, step, kept, begin = random.Random(a.seed), 0, [], time.perf_counter()
    while step < a.steps:
        for batch in texts.batches(a.tokens, rng):
            if step == a.steps:
                break
            step += 1
            rate = model.d**-0.5 * min(step**-0.5, step * a.warmup**-1.5)
            for group in adam.param_groups:
                group["lr"] = rate
            with torch.autocast(a.kind, torch.bfloat16):
                loss = model(*texts.tensors(batch), padded=True)
            loss.backward()
            adam.step()
            adam.zero_grad(set_to_none=True)
            if step % a.every == 0 or step == a.steps:
                loss = validate(model, valid, a)
                took = time.perf_counter() - begin
                print(f"step {step}  validation loss {loss:.3f}  {took:.1f} s", flush=True)
                state = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
                kept = (kept + [state])[-a.average :]
    return kept


def translate(model, texts, names, a):
    """Lines of text, in order; a batch holds sentences of similar length."""
    out = [None] * len(texts.n)
    order = sorted(range(len(texts.n)), key=lambda i: texts.n[i])
    for k in range(0, len(order), a.batch):
        batch = order[k : k + a.batch]
        with torch.autocast(a.kind, torch.bfloat16):
            found = beam_search(model, texts.take(batch)[0], a.beam, a.alpha)
        for i, ids in zip(batch, found):
            words = "".join(names.get(x, " ") for x in ids)
            out[i] = words.replace("\u2581", " ").strip()
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--train", nargs=2, required=True)
    ap.add_argument("--valid", nargs=2, required=True)
    ap.add_argument("--test", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--preset", default="tiny", choices=PRESETS)
    ap.add_argument("--dropout", type=float, default=0.3)
    ap.add_argument("--tokens", type=int, default=8192, help="per batch and side, with padding")
    ap.add_argument("--steps", type=int, default=4000)
    ap.add_argument("--warmup", type=int, default=1500)
    ap.add_argument("--every", type=int, default=250)
    ap.add_argument("--average", type=int, default=5)
    ap.add_argument("--beam", type=int, default=4)
    ap.add_argument("--alpha", type=float, default=0.6)
    ap.add_argument("--batch", type=int, default=128, help="sentences translated together")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--device", default="cuda")
    a = ap.parse_args()
    a.kind = a.device.split(":")[0]
    torch.manual_seed(a.seed)
    torch.set_float32_matmul_precision("high")

    sides = [pieces_of(p) for p in a.train]
    known = sorted({p for side in sides for line in side for p in line})
    ids = {p: FIRST_WORD + i for i, p in enumerate(known)}
    names = {i: p for p, i in ids.items()}
    texts = Texts(sides, ids, a.device)
    valid = Texts([pieces_of(p) for p in a.valid], ids, a.device)
    test = Texts([pieces_of(a.test)], ids, a.device)
    layers, d, ff, heads, _ = PRESETS[a.preset]
    model = Transformer(FIRST_WORD + len(known), layers, d, ff, heads, a.dropout).to(a.device)

    begin = time.perf_counter()
    kept = train(model, texts, valid, a)
    trained = time.perf_counter() - begin
    model.load_state_dict({k: sum(s[k] for s in kept) / len(kept) for k in kept[0]})
    model.eval()
    begin = time.perf_counter()
    lines = translate(model, test, names, a)
    took = time.perf_counter() - begin
    with open(a.out, "w", encoding="utf-8") as f:
        f.write("".join(line + "\n" for line in lines))
    report = {
        "bench": "quality",
        "engine": f"torch {torch.__version__}",
        "steps": a.steps,
        "train_s": round(trained, 1),
        "translate_s": round(took, 1),
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A training step of the paper's model in PyTorch on a GPU: the peer of `heed bench train`.

    python3 bench/torch_gpu_train.py [--preset base] [--length 32 | --bucketed] [--modes
    eager,compiled]

Whole updates (forward, loss, backward, fused Adam) in bf16 autocast on random sentences, drawn as
`heed bench train` draws them: --length tokens each, or bucketed: each batch has a length of its own
and sentences close to it. Only real tokens count, not padding. A compiled model is compiled for
each shape of batch, which takes minutes; it gets --compiled-batches of them (one), the eager one
--batches. Prints one JSON line per mode, shaped like heed's. """

import argparse
import json
import math
import random
import time

from torch_model import EOS, FIRST_WORD, PRESETS, Transformer, padded_batch, torch


def draw_lengths(a, rng):
    """(source, target) lengths of the sentences of one batch."""
    if not a.bucketed:
        return [(a.length, a.length)] * max(a.tokens // a.length, 1)
    near = lambda x, share: min(max(round(x * (1 + share * rng.gauss(0, 1))), 4), 128)
    centre = int(min(max(math.exp(rng.gauss(0, 1) * 0.6 + 3.2), 6), 120))
    src = [near(centre, 0.01) for _ in range(max(a.tokens // centre, 1))]
    return [(n, near(n, 0.02)) for n in src]


def draw_batch(a, rng):
    words = lambda n: [rng.randrange(FIRST_WORD, a.vocab) for _ in range(n - 1)] + [EOS]
    pairs = [(words(n), words(m)) for n, m in draw_lengths(a, rng)]
    return {
        "tensors": padded_batch(pairs, a.device, a.round if a.bucketed else 1),
        "src": sum(len(p[0]) for p in pairs),
        "tgt": sum(len(p[1]) for p in pairs),
    }


def update_flops(a, src, tgt):
    """Of the model's matrix products, forward and twice backward, as heed counts them."""
    layers, d, ff, _, _ = PRESETS[a.preset]
    per_src = layers * (4 * d * d + 2 * d * ff) + layers * 2 * d * d
    per_tgt = layers * (4 * d * d + 2 * d * d + 2 * d * ff) + d * a.vocab
    return 6 * (src * per_src + tgt * per_tgt)


def measure(a, mode, batches):
    torch.manual_seed(1)
    cuda = a.device.startswith("cuda")
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = Transformer(a.vocab, *PRESETS[a.preset]).to(a.device).train()
    adam = torch.optim.Adam(model.parameters(), 1e-4, (0.9, 0.98), 1e-9, fused=cuda)
    loss_of = torch.compile(model, dynamic=False) if mode == "compiled" else model

    def update(batch):
        with torch.autocast(a.device.split(":")[0], torch.bfloat16):
            loss = loss_of(*batch["tensors"], padded=a.bucketed)
        loss.backward()
        adam.step()
        adam.zero_grad(set_to_none=True)

    def timed(n):
        if cuda:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(n):
            update(batches[i % len(batches)])
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    begin = time.perf_counter()
    timed(2 * len(batches))  # compiles, chooses kernels, fills caches
    ready = time.perf_counter() - begin
    rounds = max(1, round(a.seconds / (len(batches) * timed(len(batches)) / len(batches))))
    steps = rounds * len(batches)
    seconds = timed(steps) / steps
    src, tgt = (sum(b[side] for b in batches) / len(batches) for side in ("src", "tgt"))
    padded = sum(b["tensors"][2].numel() for b in batches)
    return {
        "bench": "train",
        "engine": f"torch {torch.__version__}",
        "mode": mode,
        "preset": a.preset,
        "bucketed": a.bucketed,
        "batches": len(batches),
        "ms_per_step": round(1e3 * seconds, 3),
        "tgt_tokens_per_s": round(tgt / seconds, 1),
        "tflops": round(update_flops(a, src, tgt) / seconds / 1e12, 3),
        "peak_mb": round(torch.cuda.max_memory_allocated() / 2**20, 1) if cuda else None,
        "padding": round(1 - sum(b["tgt"] for b in batches) / padded, 4),
        "ready_s": round(ready, 1),
    }


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--preset", default="base", choices=PRESETS)
    ap.add_argument("--tokens", type=int, default=25000, help="per batch and side")
    ap.add_argument("--length", type=int, default=32)
    ap.add_argument("--bucketed", action="store_true")
    ap.add_argument("--round", type=int, default=2, help="pad lengths to a multiple of this")
    ap.add_argument("--vocab", type=int, default=37000)
    ap.add_argument("--batches", type=int, default=8)
    ap.add_argument("--compiled-batches", type=int, default=1)
    ap.add_argument("--modes", default="eager,compiled")
    ap.add_argument("--seconds", type=float, default=3)
    ap.add_argument("--device", default="cuda")
    a = ap.parse_args()
    torch.set_float32_matmul_precision("high")
    rng = random.Random(1)
    same = not a.bucketed  # one shape: nothing is gained by several
    batches = [draw_batch(a, rng) for _ in range(1 if same else a.batches)]
    for mode in a.modes.split(","):
        mine = batches[: a.compiled_batches] if mode == "compiled" else batches
        print(json.dumps(measure(a, mode, mine)), flush=True)


if __name__ == "__main__":
    main()

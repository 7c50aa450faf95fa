#!/usr/bin/env python3
"""One training step of the paper's model: PyTorch beside heed, on the same processor and threads.

The PyTorch side is written to be hard to beat: fused q|k|v projections, all sentences of one length
(so nothing is padded), the fastest attention its version has, cross-entropy with label smoothing,
Adam. Then the same batch size, lengths and preset through `heed bench train`. The two alternate,
--rounds times, so that a noisy machine treats both alike; the last line is the ratio of the
medians.

    python3 bench/torch_cpu.py [--preset base] [--tokens 4096] [--dtype f32|bf16] [--json]

Debian: apt install python3-torch libopenblas0-pthread.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

from torch_model import PRESETS, Transformer, torch


class Peer:
    """Model, optimiser and a batch; step() does one update and returns its seconds."""

    def __init__(self, a):
        torch.manual_seed(1)
        torch.set_num_threads(a.threads)
        self.bf16 = a.dtype == "bf16"
        self.model = Transformer(a.vocab, *PRESETS[a.preset]).train()
        self.adam = torch.optim.Adam(self.model.parameters(), 1e-4, (0.9, 0.98), 1e-9)
        n = a.tokens // a.length
        self.batch = [torch.randint(4, a.vocab, (n, a.length)) for _ in range(3)]
        self.tokens = n * a.length

    def step(self):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = self.model(*self.batch)
        loss.backward()
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return time.perf_counter() - begin


def run_heed(a):
    command = [
        a.heed,
        "bench",
        "train",
        "--preset",
        a.preset,
        "--tokens",
        str(a.tokens),
        "--length",
        str(a.length),
        "--threads",
        str(a.threads),
        "--dtype",
        a.dtype,
        "--n-vocab",
        str(a.vocab),
        "--seconds",
        "5",
        "--json",
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--preset", default="base", choices=PRESETS)
    ap.add_argument("--tokens", type=int, default=4096)
    ap.add_argument("--length", type=int, default=32)
    ap.add_argument("--vocab", type=int, default=37000)
    ap.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--heed", default=os.path.join(here, "build", "heed"))
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    peer = Peer(a)
    peer.step()  # first touch of all memory
    ours, theirs = [], []
    for _ in range(a.rounds):
        ours.append(run_heed(a)["tgt_tokens_per_s"])
        theirs.append(peer.tokens / peer.step())
    heed, torch_ = statistics.median(ours), statistics.median(theirs)
    if a.json:
        print(
            json.dumps(
                {
                    "bench": "torch_cpu",
                    "preset": a.preset,
                    "dtype": a.dtype,
                    "threads": a.threads,
                    "torch": torch.__version__,
                    "torch_tgt_tokens_per_s": round(torch_, 1),
                    "heed_tgt_tokens_per_s": round(heed, 1),
                    "ratio": round(heed / torch_, 2),
                }
            )
        )
    else:
        print(
            f"{a.preset} {a.dtype}, {a.tokens}+{a.tokens} tokens, sentences of {a.length}, "
            f"{a.threads} threads"
        )
        print(f"{torch_:10.1f} target tokens/s  PyTorch {torch.__version__}")
        print(f"{heed:10.1f} target tokens/s  heed")
        print(f"{heed / torch_:10.2f} x PyTorch")


if __name__ == "__main__":
    main()

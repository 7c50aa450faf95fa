#!/usr/bin/env python3
"""Training steps of the paper's model: PyTorch beside heed, on the same processor and threads.

The PyTorch side is written to be hard to beat: fused q|k|v projections, all sentences of one length
(so nothing is padded), the fastest attention its version has, cross-entropy with label smoothing,
fused Adam, bf16 by autocast; it runs as it is and compiled, and the faster of the two counts. Then
the same batch size, lengths and preset through `heed bench train`. All alternate, --rounds times,
so that a noisy machine treats them alike, and the median of each is taken.

A table of all presets and types is printed: target tokens per second, their ratio, and the ratio of
processor time, which says more than the clock where others use the machine too.

    python3 bench/torch_cpu.py [--presets base,tiny] [--dtypes f32,bf16] [--tokens 2048] [--json]

pip install torch; compiling needs a C++ compiler.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

from torch_model import PRESETS, Transformer, torch


class Peer:
    """Model, optimiser and a batch; step() does one update: its seconds, and of the processor."""

    def __init__(self, a, preset, dtype, compiled):
        torch.manual_seed(1)
        torch.set_num_threads(a.threads)
        self.bf16 = dtype == "bf16"
        self.model = Transformer(a.vocab, *PRESETS[preset]).train()
        fused = {"fused": True} if torch.__version__ >= "2.4" else {}
        self.adam = torch.optim.Adam(self.model.parameters(), 1e-4, (0.9, 0.98), 1e-9, **fused)
        self.forward = torch.compile(self.model) if compiled else self.model
        n = a.tokens // a.length
        self.batch = [torch.randint(4, a.vocab, (n, a.length)) for _ in range(3)]

    def step(self):
        begin, cpu = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = self.forward(*self.batch)
        loss.backward()
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return time.perf_counter() - begin, time.process_time() - cpu


def run_heed(a, preset, dtype):
    """Seconds of a step, and of the processor."""
    options = {"preset": preset, "dtype": dtype, "tokens": a.tokens, "length": a.length}
    options |= {"threads": a.threads, "n-vocab": a.vocab, "seconds": a.seconds}
    command = [a.heed, "bench", "train", "--json"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = json.loads(out)
    return figures["ms_per_step"] / 1e3, figures["cpu_ms_per_step"] / 1e3


def peers(a, preset, dtype):
    """The ways PyTorch can run here, each after its first steps: memory touched, code compiled."""
    made = {}
    for mode in a.modes.split(","):
        peer = Peer(a, preset, dtype, mode == "compiled")
        try:
            for _ in range(2):
                peer.step()
            made[mode] = peer
        except Exception as e:  # a way that cannot run is reported, not hidden
            print(f"{preset} {dtype} {mode}: {type(e).__name__}: {str(e)[:200]}", flush=True)
    return made


def compare(a, preset, dtype):
    """One row: the medians of both, PyTorch's in its faster mode."""
    theirs = peers(a, preset, dtype)
    took = {name: [] for name in ["heed", *theirs]}
    for _ in range(a.rounds):
        took["heed"].append(run_heed(a, preset, dtype))
        for mode, peer in theirs.items():
            took[mode].append(peer.step())
    typical = {name: [statistics.median(x) for x in zip(*t)] for name, t in took.items()}
    mode = min(theirs, key=lambda m: typical[m][0])
    (ours, our_cpu), (peer, peer_cpu) = typical["heed"], typical[mode]
    tokens = a.tokens // a.length * a.length
    return {
        "bench": "torch_cpu",
        "preset": preset,
        "dtype": dtype,
        "tokens": a.tokens,
        "threads": a.threads,
        "torch": torch.__version__,
        "torch_mode": mode,
        "torch_tgt_tokens_per_s": round(tokens / peer, 1),
        "heed_tgt_tokens_per_s": round(tokens / ours, 1),
        "ratio": round(peer / ours, 2),
        "cpu_ratio": round(peer_cpu / our_cpu, 2),
    }


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--presets", default="base,tiny", help="of " + ", ".join(PRESETS))
    ap.add_argument("--dtypes", default="f32,bf16")
    ap.add_argument("--modes", default="eager,compiled", help="how PyTorch runs")
    ap.add_argument("--tokens", type=int, default=2048)
    ap.add_argument("--length", type=int, default=32)
    ap.add_argument("--vocab", type=int, default=37000)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=int, default=5, help="of heed's steps in a round")
    ap.add_argument("--heed", default=os.path.join(here, "build", "heed"))
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    if not a.json:
        print(f"{a.tokens}+{a.tokens} tokens, sentences of {a.length}, vocabulary {a.vocab},")
        print(f"{a.threads} threads, PyTorch {torch.__version__}; target tokens per second\n")
        print("| preset | dtype | PyTorch | heed | ratio | of processor time |")
        print("|---|---|---|---|---|---|", flush=True)
    for preset in a.presets.split(","):
        for dtype in a.dtypes.split(","):
            row = compare(a, preset, dtype)
            if a.json:
                print(json.dumps(row), flush=True)
                continue
            torch_rate = f"{row['torch_tgt_tokens_per_s']:,.0f} ({row['torch_mode']})"
            rate = f"{row['heed_tgt_tokens_per_s']:,.0f}"
            ratios = f"{row['ratio']:.2f} | {row['cpu_ratio']:.2f}"
            print(f"| {preset} | {dtype} | {torch_rate} | {rate} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""One training step of the paper's model: PyTorch beside heed, on the same processor and threads.

The PyTorch side is written to be hard to beat: fused q|k|v projections, all sentences of one length (so
nothing is padded), the fastest attention its version has, cross-entropy with label smoothing, Adam. Then
the same batch size, lengths and preset through `heed bench train`. The two alternate, --rounds times, so
that a noisy machine treats both alike; the last line is the ratio of the medians.

    python3 bench/torch_cpu.py [--preset base] [--tokens 4096] [--dtype f32|bf16] [--json]

Debian: apt install python3-torch libopenblas0-pthread.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("torch_cpu.py: no PyTorch here\nhint: apt install python3-torch, and run it with Debian's python3")

PRESETS = {  # layers, d_model, d_ff, heads, dropout
    "tiny": (3, 256, 1024, 4, 0.1),
    "small": (6, 512, 1024, 4, 0.3),
    "base": (6, 512, 2048, 8, 0.1),
    "big": (6, 1024, 4096, 16, 0.3),
}


def attention(q, k, v, causal):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    s = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    if causal:
        n = s.shape[-1]
        s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
    return s.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, d, heads, cross):
        super().__init__()
        self.heads, self.cross = heads, cross
        self.a, self.b = (nn.Linear(d, d), nn.Linear(d, 2 * d)) if cross else (nn.Linear(d, 3 * d), None)
        self.o = nn.Linear(d, d)

    def forward(self, x, memory, causal):
        b, n, d = x.shape
        split = lambda t, parts: t.view(b, -1, parts, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if self.cross:
            (q,), (k, v) = split(self.a(x), 1), split(self.b(memory), 2)
        else:
            q, k, v = split(self.a(x), 3)
        return self.o(attention(q, k, v, causal).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, d, ff, heads, p, cross):
        super().__init__()
        self.att, self.n1 = Attention(d, heads, False), nn.LayerNorm(d)
        self.cross = Attention(d, heads, True) if cross else None
        self.n2 = nn.LayerNorm(d) if cross else None
        self.w1, self.w2, self.n3, self.drop = nn.Linear(d, ff), nn.Linear(ff, d), nn.LayerNorm(d), nn.Dropout(p)

    def forward(self, x, causal, memory=None):
        x = self.n1(x + self.drop(self.att(x, None, causal)))
        if self.cross:
            x = self.n2(x + self.drop(self.cross(x, memory, False)))
        return self.n3(x + self.drop(self.w2(F.relu(self.w1(x)))))


class Transformer(nn.Module):
    def __init__(self, vocab, layers, d, ff, heads, p):
        super().__init__()
        self.d, self.emb, self.drop = d, nn.Embedding(vocab, d), nn.Dropout(p)
        nn.init.normal_(self.emb.weight, std=d ** -0.5)
        self.enc = nn.ModuleList(Layer(d, ff, heads, p, False) for _ in range(layers))
        self.dec = nn.ModuleList(Layer(d, ff, heads, p, True) for _ in range(layers))
        angle = torch.arange(1024)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)[None]
        self.register_buffer("pos", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def embed(self, ids):
        return self.drop(self.emb(ids) * math.sqrt(self.d) + self.pos[: ids.shape[1]])

    def forward(self, src, tgt_in, tgt_out):
        x = self.embed(src)
        for layer in self.enc:
            x = layer(x, False)
        y = self.embed(tgt_in)
        for layer in self.dec:
            y = layer(y, True, x)
        logits = F.linear(y.flatten(0, 1), self.emb.weight)
        return F.cross_entropy(logits.float(), tgt_out.flatten(), label_smoothing=0.1)


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
    command = [a.heed, "bench", "train", "--preset", a.preset, "--tokens", str(a.tokens), "--length", str(a.length),
               "--threads", str(a.threads), "--dtype", a.dtype, "--n-vocab", str(a.vocab), "--seconds", "5", "--json"]
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
        print(json.dumps({"bench": "torch_cpu", "preset": a.preset, "dtype": a.dtype, "threads": a.threads,
                          "torch": torch.__version__, "torch_tgt_tokens_per_s": round(torch_, 1),
                          "heed_tgt_tokens_per_s": round(heed, 1), "ratio": round(heed / torch_, 2)}))
    else:
        print(f"{a.preset} {a.dtype}, {a.tokens}+{a.tokens} tokens, sentences of {a.length}, {a.threads} threads")
        print(f"{torch_:10.1f} target tokens/s  PyTorch {torch.__version__}")
        print(f"{heed:10.1f} target tokens/s  heed")
        print(f"{heed / torch_:10.2f} x PyTorch")


if __name__ == "__main__":
    main()

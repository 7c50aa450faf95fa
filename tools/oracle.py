#!/usr/bin/env python3
"""Write what PyTorch computes for small Transformers, for tests/test_oracle.c to compare with.

The layers are PyTorch's own nn.TransformerEncoderLayer and nn.TransformerDecoderLayer, so nothing
of heed's thinking is in them; only embeddings, positions and the loss are spelled out here.
Sentences have odd lengths; PyTorch sees them padded and masked, heed packed. Everything runs in
float64 from float32 parameters, dropout off.

Each file holds the batch, every parameter under heed's name, the logits, the loss (sum over tokens
of the label-smoothed cross-entropy, divided by their number), every gradient ("grad." + name), and
the loss before each of ten Adam updates with the paper's schedule. Run it wherever PyTorch is:

    python3 tools/oracle.py tests/data
"""

import json
import math
import struct
import sys

import torch
import torch.nn.functional as F
from torch import nn

BOS, WARMUP, STEPS = 2, 4, 10
CASES = {
    "post": dict(norm="post", tie="all", activation="relu", positions="sinusoidal", window=0),
    "pre": dict(norm="pre", tie="none", activation="gelu", positions="learned", window=0),
}
SHAPE = dict(
    n_layer_enc=2,
    n_layer_dec=2,
    d_model=24,
    d_ff=40,
    n_head=3,
    max_len=16,
    n_vocab_src=31,
    n_vocab_tgt=31,
    label_smoothing=0.1,
    norm_eps=1e-5,
    dropout=0.0,
)
SRC_LENGTHS, TGT_LENGTHS = [5, 1, 13, 2, 7], [3, 1, 11, 9, 1]


def sinusoids(n, d):
    angle = torch.arange(n)[:, None].double() / 10000 ** (torch.arange(0, d, 2).double() / d)[None]
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, d = c, c["d_model"]
        args = dict(
            d_model=d,
            nhead=c["n_head"],
            dim_feedforward=c["d_ff"],
            dropout=0.0,
            activation=c["activation"],
            layer_norm_eps=c["norm_eps"],
            batch_first=True,
            norm_first=c["norm"] == "pre",
        )
        self.enc = nn.ModuleList(
            nn.TransformerEncoderLayer(**args) for _ in range(c["n_layer_enc"])
        )
        self.dec = nn.ModuleList(
            nn.TransformerDecoderLayer(**args) for _ in range(c["n_layer_dec"])
        )
        self.tgt_embed = nn.Parameter(torch.randn(c["n_vocab_tgt"], d) * d**-0.5)
        self.src_embed, self.out = self.tgt_embed, self.tgt_embed
        if c["tie"] == "none":
            self.src_embed = nn.Parameter(torch.randn(c["n_vocab_src"], d) * d**-0.5)
            self.out = nn.Parameter(torch.randn(c["n_vocab_tgt"], d) * d**-0.5)
        if c["positions"] == "learned":
            self.src_pos = nn.Parameter(torch.randn(c["max_len"], d) * d**-0.5)
            self.tgt_pos = nn.Parameter(torch.randn(c["max_len"], d) * d**-0.5)
        else:
            self.src_pos = self.tgt_pos = sinusoids(c["max_len"], d)
        if c["norm"] == "pre":
            self.enc_norm, self.dec_norm = nn.LayerNorm(d, c["norm_eps"]), nn.LayerNorm(
                d, c["norm_eps"]
            )

    def forward(self, src, tgt_in, src_pad, tgt_pad):
        scale = math.sqrt(self.c["d_model"])
        x = self.src_embed[src] * scale + self.src_pos[: src.shape[1]]
        for layer in self.enc:
            x = layer(x, src_key_padding_mask=src_pad)
        if self.c["norm"] == "pre":
            x = self.enc_norm(x)
        y = self.tgt_embed[tgt_in] * scale + self.tgt_pos[: tgt_in.shape[1]]
        n = tgt_in.shape[1]
        later = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
        for layer in self.dec:
            y = layer(
                y, x, tgt_mask=later, tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=src_pad
            )
        if self.c["norm"] == "pre":
            y = self.dec_norm(y)
        return F.linear(y[~tgt_pad], self.out)

    def named(self):
        """(heed's name, values, gradient) of every parameter."""
        d, rows = self.c["d_model"], []

        def add(name, p, part=slice(None)):
            grad = p.grad if p.grad is not None else torch.zeros_like(p)
            rows.append((name, p.detach()[part], grad[part]))

        def attention(prefix, m, split):
            for letter, p in (("w", m.in_proj_weight), ("b", m.in_proj_bias)):
                if split:
                    add(f"{prefix}.{letter}_q", p, slice(0, d))
                    add(f"{prefix}.{letter}_kv", p, slice(d, 3 * d))
                else:
                    add(f"{prefix}.{letter}_qkv", p)
            add(f"{prefix}.w_o", m.out_proj.weight)
            add(f"{prefix}.b_o", m.out_proj.bias)

        def norm(prefix, m, sep="."):
            add(f"{prefix}{sep}gamma", m.weight)
            add(f"{prefix}{sep}beta", m.bias)

        def ff(prefix, m, n):
            for name, p in (
                ("w_1", m.linear1.weight),
                ("b_1", m.linear1.bias),
                ("w_2", m.linear2.weight),
                ("b_2", m.linear2.bias),
            ):
                add(f"{prefix}.{name}", p)
            norm(prefix, n)

        for i, m in enumerate(self.enc):
            attention(f"enc.{i}.self", m.self_attn, False)
            norm(f"enc.{i}.self", m.norm1)
            ff(f"enc.{i}.ff", m, m.norm2)
        for i, m in enumerate(self.dec):
            attention(f"dec.{i}.self", m.self_attn, False)
            norm(f"dec.{i}.self", m.norm1)
            attention(f"dec.{i}.cross", m.multihead_attn, True)
            norm(f"dec.{i}.cross", m.norm2)
            ff(f"dec.{i}.ff", m, m.norm3)
        add("tgt_embed", self.tgt_embed)
        if self.c["tie"] == "none":
            add("src_embed", self.src_embed)
            add("out", self.out)
        if self.c["positions"] == "learned":
            add("src_pos", self.src_pos)
            add("tgt_pos", self.tgt_pos)
        if self.c["norm"] == "pre":
            norm("enc_norm", self.enc_norm, "_")
            norm("dec_norm", self.dec_norm, "_")
        return rows


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, t in tensors:
        dtype = "I32" if t.dtype == torch.int32 else "F64" if t.dtype == torch.float64 else "F32"
        raw = t.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(t.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def pad(sentences):
    width = max(map(len, sentences))
    ids = torch.tensor([s + [0] * (width - len(s)) for s in sentences])
    return ids, torch.tensor([[i >= len(s) for i in range(width)] for s in sentences])


def make(name, path):
    c = {**SHAPE, **CASES[name]}
    torch.manual_seed(7)
    model = Model(c)
    with torch.no_grad():  # biases and norms away from 0 and 1, so that their handling is seen
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.2)
    model = model.double().train()
    src = [torch.randint(4, c["n_vocab_src"], (n,)).tolist() for n in SRC_LENGTHS]
    tgt = [torch.randint(4, c["n_vocab_tgt"], (n,)).tolist() for n in TGT_LENGTHS]
    src_ids, src_pad = pad(src)
    tgt_in, tgt_pad = pad([[BOS] + t[:-1] for t in tgt])
    target = torch.tensor(sum(tgt, []))

    def loss_of():
        logits = model(src_ids, tgt_in, src_pad, tgt_pad)
        return logits, F.cross_entropy(logits, target, label_smoothing=c["label_smoothing"])

    logits, loss = loss_of()
    loss.backward()
    tensors = [
        ("src", torch.tensor(sum(src, []), dtype=torch.int32)),
        ("src_len", torch.tensor(SRC_LENGTHS, dtype=torch.int32)),
        ("tgt", target.to(torch.int32)),
        ("tgt_len", torch.tensor(TGT_LENGTHS, dtype=torch.int32)),
        ("logits", logits.detach().float()),
    ]
    for key, value, grad in model.named():
        tensors += [(key, value.float()), ("grad." + key, grad.float())]
    adam = torch.optim.Adam(model.parameters(), 0, (0.9, 0.98), 1e-9)
    losses = []
    for step in range(1, STEPS + 1):
        rate = c["d_model"] ** -0.5 * min(step**-0.5, step * WARMUP**-1.5)
        for group in adam.param_groups:
            group["lr"] = rate
        adam.zero_grad()
        _, loss = loss_of()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    tensors.append(("losses", torch.tensor(losses, dtype=torch.float64)))
    meta = {k: str(v) for k, v in c.items()}
    meta.update(bos=str(BOS), warmup=str(WARMUP), torch=torch.__version__)
    write_safetensors(path, tensors, meta)
    print(f"{path}: loss {losses[0]:.6f} -> {losses[-1]:.6f}")


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/data"
    for case in CASES:
        make(case, f"{folder}/oracle_{case}.safetensors")

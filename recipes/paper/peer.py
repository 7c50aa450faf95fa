#!/usr/bin/env python3
"""The same model in PyTorch, to compare with: size, data, updates, batches and beam are heed's.

    peer.py --like heed.run/config.json --tokenizer bpe.model --src train.en --tgt train.de \\
        --out DIR --translate test.en [options]

Trains (or goes on with DIR/state.pt), averages the last checkpoints, and writes DIR/test.out for
test.en; then prints what it did as JSON. With --seconds it stops after that many and prints
nothing: called again, it goes on. With --valid SRC TGT it measures a text at each checkpoint, as
heed does, in DIR/log.jsonl. With --init it begins with a model.safetensors of heed's, such as one
of `heed train --steps 1 --lr-scale 1e-9`, in place of its own draw, in which keys and values are
one matrix and a fifth smaller. Where the target is trees, the search is not constrained: `heed
trees restore` repairs what is no tree, and says how often. Needs torch and sentencepiece.
"""
import argparse
import glob
import json
import lzma
import math
import os
import random
import time

import sentencepiece
import torch
import torch.nn.functional as F
from torch import nn

PAD = -1  # in batches; the vocabulary has no such token


def options():
    p = argparse.ArgumentParser()
    for name in ("like", "tokenizer", "out"):
        p.add_argument("--" + name, required=True)
    for name in ("src", "tgt"):
        p.add_argument("--" + name, nargs="+", required=True)
    p.add_argument("--translate", nargs="*", default=[])
    p.add_argument("--valid", nargs=2, default=[])
    p.add_argument("--init")
    for name, value in dict(steps=4000, tokens=8000, warmup=1000, every=250, average=5,
                            max_length=300, beam=21, extra=300, batch=128, threads=0, seed=1,
                            seconds=0).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    for name, value in dict(alpha=0.3, lr_scale=1.0).items():
        p.add_argument("--" + name.replace("_", "-"), type=float, default=value)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = p.parse_args()
    with open(a.like, encoding="utf-8") as f:
        c = json.load(f)["model"]
    a.layers, a.d_model, a.d_ff, a.heads = (c[k] for k in ("n_layer_enc", "d_model", "d_ff",
                                                           "n_head"))
    a.dropout, a.smoothing = c["dropout"], c["label_smoothing"]
    return a


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def keys(self, memory):
        return [self.split(x) for x in self.kv(memory).chunk(2, -1)]

    def forward(self, x, keys, mask=None, causal=False):
        y = F.scaled_dot_product_attention(self.split(self.q(x)), *keys, attn_mask=mask,
                                           is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Post-norm, as in the paper; a decoder's where cross is set."""

    def __init__(self, a, cross):
        super().__init__()
        d = a.d_model
        self.self = Attention(d, a.heads)
        self.cross = Attention(d, a.heads) if cross else None
        self.ff = nn.Sequential(nn.Linear(d, a.d_ff), nn.ReLU(), nn.Linear(a.d_ff, d))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(3 if cross else 2))
        self.drop = nn.Dropout(a.dropout)

    def rest(self, x, memory, mask):
        if self.cross:
            x = self.norm[2](x + self.drop(self.cross(x, memory, mask)))
        return self.norm[1](x + self.drop(self.ff(x)))

    def forward(self, x, mask, memory=None, memory_mask=None):
        y = self.self(x, self.self.keys(x), mask, causal=self.cross is not None)
        x = self.norm[0](x + self.drop(y))
        return self.rest(x, self.cross.keys(memory) if self.cross else None, memory_mask)

    def step(self, x, past, memory, memory_mask):
        """One token [n,1,D]; past: keys and values so far, which the new ones are added to."""
        new = self.self.keys(x)
        past = [torch.cat(p, 2) for p in zip(past, new)] if past else new
        return self.rest(self.norm[0](x + self.self(x, past)), memory, memory_mask), past


class Model(nn.Module):
    def __init__(self, a, n_vocab):
        super().__init__()
        self.d, self.embedding = a.d_model, nn.Embedding(n_vocab, a.d_model)
        self.enc = nn.ModuleList(Layer(a, False) for _ in range(a.layers))
        self.dec = nn.ModuleList(Layer(a, True) for _ in range(a.layers))
        self.drop = nn.Dropout(a.dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=a.d_model ** -0.5)
        pos = torch.arange(4096.0)[:, None]
        rate = torch.exp(torch.arange(0, self.d, 2) * (-math.log(10000.0) / self.d))
        table = torch.stack([(pos * rate).sin(), (pos * rate).cos()], -1).flatten(1)
        self.register_buffer("position", table, persistent=False)

    def embed(self, ids, at=0):
        x = self.embedding(ids.clamp(min=0)) * math.sqrt(self.d)
        return self.drop(x + self.position[at:at + ids.shape[1]])

    def encode(self, src):
        mask = (src != PAD)[:, None, None, :]
        x = self.embed(src)
        for layer in self.enc:
            x = layer(x, mask)
        return x, mask

    def logits(self, x):
        return F.linear(x, self.embedding.weight)

    def forward(self, src, tgt):
        memory, mask = self.encode(src)
        x = self.embed(tgt)
        for layer in self.dec:
            x = layer(x, None, memory, mask)
        return self.logits(x)


def take_weights(model, path):
    """Those of heed's model.safetensors."""
    with open(path, "rb") as f:
        raw = f.read()
    base = 8 + int.from_bytes(raw[:8], "little")
    found = {}
    for name, entry in json.loads(raw[8:base]).items():
        if name != "__metadata__":
            begin, end = (base + x for x in entry["data_offsets"])
            found[name] = torch.frombuffer(bytearray(raw[begin:end]),
                                           dtype=torch.float32).view(entry["shape"])

    def put(linear, weight, bias):
        linear.weight.data.copy_(weight)
        linear.bias.data.copy_(bias.flatten())

    model.embedding.weight.data.copy_(found["tgt_embed"])
    for stack, layers in (("enc", model.enc), ("dec", model.dec)):
        for i, layer in enumerate(layers):
            part = {k.split(".", 2)[2]: x for k, x in found.items()
                    if k.startswith(f"{stack}.{i}.")}
            d = model.d
            put(layer.self.q, part["self.w_qkv"][:d], part["self.b_qkv"].flatten()[:d])
            put(layer.self.kv, part["self.w_qkv"][d:], part["self.b_qkv"].flatten()[d:])
            put(layer.self.out, part["self.w_o"], part["self.b_o"])
            if layer.cross:
                put(layer.cross.q, part["cross.w_q"], part["cross.b_q"])
                put(layer.cross.kv, part["cross.w_kv"], part["cross.b_kv"])
                put(layer.cross.out, part["cross.w_o"], part["cross.b_o"])
            put(layer.ff[0], part["ff.w_1"], part["ff.b_1"])
            put(layer.ff[2], part["ff.w_2"], part["ff.b_2"])
            for norm, name in zip(layer.norm, ("self", "ff", "cross")):
                put(norm, part[f"{name}.gamma"].flatten(), part[f"{name}.beta"])


def read_lines(*paths):
    lines = []
    for path in paths:
        with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as f:
            lines += [line.rstrip("\n") for line in f]
    return lines


def padded(rows, device):
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device=device)


def batches(pairs, tokens, rng):
    """One epoch: pairs of similar length, at most `tokens` source and target tokens each."""
    order = list(range(len(pairs)))
    rng.shuffle(order)
    order.sort(key=lambda i: max(map(len, pairs[i])))
    out, sums = [[]], [0, 0]
    for i in order:
        sums = [s + len(side) for s, side in zip(sums, pairs[i])]
        if out[-1] and max(sums) > tokens:
            out.append([])
            sums = [len(side) for side in pairs[i]]
        out[-1].append(i)
    rng.shuffle(out)
    return out


START = time.time()


def late(a):
    return a.seconds and time.time() - START > a.seconds


def save(what, path):
    torch.save(what, path + ".part")
    os.replace(path + ".part", path)


def read_pairs(a, sp, src, tgt):
    eos = [sp.eos_id()]
    pairs = [(x + eos, y + eos) for x, y in
             zip(sp.encode(read_lines(*src)), sp.encode(read_lines(*tgt)))]
    return [p for p in pairs if max(map(len, p)) <= a.max_length]


def tensors(a, rows, bos):
    """Source, target as the decoder reads it, and as it should write it."""
    src, out = (padded([p[k] for p in rows], a.device) for k in (0, 1))
    return src, torch.cat([torch.full_like(out[:, :1], bos), out[:, :-1]], 1), out


def validate(a, model, pairs, bos):
    """Nats a token of a text, smoothed and not."""
    sums, n = [0.0, 0.0], 0
    model.eval()
    with torch.inference_mode():
        for chosen in batches(pairs, a.tokens, random.Random(1)):
            src, tgt, out = tensors(a, [pairs[i] for i in chosen], bos)
            logits = model(src, tgt).float().flatten(0, 1)
            n += int((out != PAD).sum())
            for k, smoothing in enumerate((a.smoothing, 0.0)):
                sums[k] += F.cross_entropy(logits, out.flatten(), ignore_index=PAD,
                                           label_smoothing=smoothing, reduction="sum").item()
    model.train()
    return {"valid_loss": round(sums[0] / n, 5), "valid_nll": round(sums[1] / n, 5)}


def train(a, model, sp, log):
    """Seconds that all updates took; None: there was no time for all."""
    bos, device = sp.bos_id(), a.device
    pairs = read_pairs(a, sp, a.src, a.tgt)
    valid = read_pairs(a, sp, *([x] for x in a.valid)) if a.valid else None
    rng, amp = random.Random(a.seed), torch.autocast(device.split(":")[0], torch.bfloat16,
                                                     enabled=device != "cpu")
    adam = torch.optim.Adam(model.parameters(), 0, (0.9, 0.98), 1e-9, fused=device != "cpu")
    state = {"step": 0, "seconds": 0.0}
    path = os.path.join(a.out, "state.pt")
    if os.path.exists(path):
        state = torch.load(path, map_location="cpu", weights_only=False)
        model.load_state_dict(state["model"])
        adam.load_state_dict(state["adam"])
        rng.setstate(state["rng"])
    queue, begin = [], time.time() - state["seconds"]
    model.train()
    while state["step"] < a.steps:
        queue = queue or batches(pairs, a.tokens, rng)
        src, tgt, out = tensors(a, [pairs[i] for i in queue.pop()], bos)
        state["step"] = step = state["step"] + 1
        rate = a.lr_scale * a.d_model ** -0.5 * min(step ** -0.5, step * a.warmup ** -1.5)
        for group in adam.param_groups:
            group["lr"] = rate
        with amp:
            loss = F.cross_entropy(model(src, tgt).float().flatten(0, 1), out.flatten(),
                                   ignore_index=PAD, label_smoothing=a.smoothing)
        adam.zero_grad()
        loss.backward()
        adam.step()
        over = late(a)
        if step % a.every == 0 or step == a.steps or over:
            state["seconds"] = time.time() - begin
            if step % a.every == 0 or step == a.steps:
                save(model.state_dict(), os.path.join(a.out, f"weights-{step:08}.pt"))
            save(dict(state, model=model.state_dict(), adam=adam.state_dict(), rng=rng.getstate()),
                 path)
            log(step=step, loss=round(loss.item(), 4), seconds=round(state["seconds"], 1),
                **(validate(a, model, valid, bos) if valid else {}))
        if over:
            return None
    average(a, model)
    return state["seconds"]


def average(a, model):
    """The mean of the last checkpoints."""
    last = [torch.load(path, map_location="cpu") for path in
            sorted(glob.glob(os.path.join(a.out, "weights-*.pt")))[-a.average:]]
    model.load_state_dict({k: sum(w[k] for w in last) / len(last) for k in last[0]})


class Beam:
    """One sentence: ended hypotheses, and when no live one can beat the best of them."""

    def __init__(self, longest, alpha, eos):
        self.longest, self.alpha, self.eos = longest, alpha, eos
        self.best, self.ids, self.done = -math.inf, [], False

    def penalty(self, n):
        return ((5 + n) / 6) ** self.alpha

    def take(self, values, parents, tokens, written):
        """The candidates, best first; those that live on, as many as the beam is wide."""
        width, n, live = len(written), len(written[0]) + 1, []
        for rank, (value, parent, token) in enumerate(zip(values, parents, tokens)):
            if token != self.eos:
                live.append((value, parent, token))
            elif rank < width and value / self.penalty(n) > self.best:
                self.best, self.ids = value / self.penalty(n), written[parent]
        live = live[:width]
        if n == self.longest and live[0][0] / self.penalty(n) > self.best:
            self.best, self.ids = live[0][0] / self.penalty(n), written[live[0][1]] + [live[0][2]]
        self.done = n == self.longest or live[0][0] / self.penalty(self.longest) < self.best
        return live


@torch.inference_mode()
def search(a, model, sources, bos, eos):
    width, n, device = a.beam, len(sources), a.device
    memory, mask = model.encode(padded(sources, device))
    cross = [[x.repeat_interleave(width, 0) for x in layer.cross.keys(memory)]
             for layer in model.dec]
    mask = mask.repeat_interleave(width, 0)
    beam = [Beam(len(s) + a.extra, a.alpha, eos) for s in sources]
    written, past = [[[]] * width for _ in range(n)], [None] * len(model.dec)
    last = torch.full((n * width, 1), bos, device=device)
    score = torch.full((n, width), -math.inf, device=device)
    score[:, 0] = 0
    for t in range(max(b.longest for b in beam)):
        x = model.embed(last, t)
        for i, layer in enumerate(model.dec):
            x, past[i] = layer.step(x, past[i], cross[i], mask)
        prob = model.logits(x[:, 0]).float().log_softmax(-1).view(n, width, -1)
        value, index = (score[:, :, None] + prob).flatten(1).topk(2 * width, 1)
        parent, token = index // prob.shape[2], index % prob.shape[2]
        value, parent, token = value.tolist(), parent.tolist(), token.tolist()
        rows, ids, values = [], [], []
        for s in range(n):
            live = list(zip(value[s], parent[s], token[s]))[:width]
            if not beam[s].done:
                live = beam[s].take(value[s], parent[s], token[s], written[s])
                written[s] = [written[s][p] + [k] for _, p, k in live]
            rows += [s * width + p for _, p, _ in live]
            ids += [[k] for _, _, k in live]
            values.append([v for v, _, _ in live])
        if all(b.done for b in beam):
            break
        rows = torch.tensor(rows, device=device)
        past = [[x[rows] for x in layer] for layer in past]
        last, score = torch.tensor(ids, device=device), torch.tensor(values, device=device)
    return [b.ids for b in beam]


def translate(a, model, sp, path):
    name = os.path.splitext(os.path.basename(path))[0] + ".out"
    if os.path.exists(os.path.join(a.out, name)):
        return
    sources = [ids + [sp.eos_id()] for ids in sp.encode(read_lines(path))]
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    rows = [""] * len(sources)
    with torch.autocast(a.device.split(":")[0], torch.bfloat16, enabled=a.device != "cpu"):
        for at in range(0, len(order), a.batch):
            if late(a):
                return
            chunk = order[at:at + a.batch]
            found = search(a, model, [sources[i] for i in chunk], sp.bos_id(), sp.eos_id())
            for i, ids in zip(chunk, found):
                rows[i] = sp.decode(ids)
    with open(os.path.join(a.out, name + ".part"), "w", encoding="utf-8") as f:
        f.writelines(row + "\n" for row in rows)
    os.replace(os.path.join(a.out, name + ".part"), os.path.join(a.out, name))


def main():
    a = options()
    os.makedirs(a.out, exist_ok=True)
    torch.manual_seed(a.seed)
    torch.set_float32_matmul_precision("high")
    if a.threads:
        torch.set_num_threads(a.threads)
    sp = sentencepiece.SentencePieceProcessor(model_file=a.tokenizer)
    model = Model(a, sp.get_piece_size()).to(a.device)
    if a.init:
        take_weights(model, a.init)

    def log(**line):
        with open(os.path.join(a.out, "log.jsonl"), "a", encoding="utf-8") as f:
            f.write(json.dumps(line) + "\n")

    seconds = train(a, model, sp, log)
    if seconds is None:
        return
    model.eval()
    begin = time.time()
    for path in a.translate:
        translate(a, model, sp, path)
    if late(a):
        return
    print(json.dumps({"parameters": sum(x.numel() for x in model.parameters()),
                      "updates": a.steps, "train_seconds": round(seconds, 1),
                      "search_seconds": round(time.time() - begin, 1)}))


if __name__ == "__main__":
    main()

"""The paper's model in PyTorch: what heed is measured against. Imported by the other torch_*.py.

Written to be hard to beat: fused q|k|v projections, the attention kernels of PyTorch's own
(scaled_dot_product_attention), no mask where nothing is padded, keys and values cached while
decoding, a beam search that stays on the device. Post-norm, tied embeddings, sinusoids, dropout on
sub-layer outputs and on embeddings, label smoothing 0.1, as heed has them by default.

Id 0 is padding, 1 begins a sentence, 2 ends it.
"""

import math
import sys

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("no PyTorch here\nhint: pip install torch, or apt install python3-torch")

PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 4
PRESETS = {  # layers, d_model, d_ff, heads, dropout
    "tiny": (3, 256, 1024, 4, 0.1),
    "small": (6, 512, 1024, 4, 0.3),
    "base": (6, 512, 2048, 8, 0.1),
    "big": (6, 1024, 4096, 16, 0.3),
}


def attend(q, k, v, mask=None, causal=False):
    """softmax(q k^T) v of [batch, head, row, width]; mask: True where a key may be seen."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    s = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    if causal:
        n = s.shape[-1]
        mask = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    return s.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, d, heads, cross):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(d, d) if cross else None
        self.kv = nn.Linear(d, 2 * d if cross else 3 * d)  # of self-attention: q as well
        self.o = nn.Linear(d, d)

    def split(self, x, parts):
        """[batch, row, parts * d] as `parts` tensors [batch, head, row, width]."""
        b, n, d = x.shape
        x = x.view(b, n, parts, self.heads, d // parts // self.heads)
        return x.permute(2, 0, 3, 1, 4).unbind(0)

    def join(self, y):
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x, memory, mask, causal):
        if self.q is None:
            q, k, v = self.split(self.kv(x), 3)
        else:
            (q,), (k, v) = self.split(self.q(x), 1), self.split(self.kv(memory), 2)
        return self.join(attend(q, k, v, mask, causal))


class Layer(nn.Module):
    def __init__(self, d, ff, heads, p, cross):
        super().__init__()
        self.att, self.n1 = Attention(d, heads, False), nn.LayerNorm(d)
        self.cross = Attention(d, heads, True) if cross else None
        self.n2 = nn.LayerNorm(d) if cross else None
        self.w1, self.w2, self.n3 = nn.Linear(d, ff), nn.Linear(ff, d), nn.LayerNorm(d)
        self.drop = nn.Dropout(p)

    def feed_forward(self, x):
        return self.n3(x + self.drop(self.w2(F.relu(self.w1(x)))))

    def forward(self, x, mask, causal, memory=None):
        own = None if causal else mask
        x = self.n1(x + self.drop(self.att(x, None, own, causal)))
        if self.cross is not None:
            x = self.n2(x + self.drop(self.cross(x, memory, mask, False)))
        return self.feed_forward(x)


class Transformer(nn.Module):
    def __init__(self, vocab, layers, d, ff, heads, p):
        super().__init__()
        self.d, self.emb, self.drop = d, nn.Embedding(vocab, d), nn.Dropout(p)
        self.enc = nn.ModuleList(Layer(d, ff, heads, p, False) for _ in range(layers))
        self.dec = nn.ModuleList(Layer(d, ff, heads, p, True) for _ in range(layers))
        nn.init.normal_(self.emb.weight, std=d**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        angle = torch.arange(1024)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)[None]
        self.register_buffer("pos", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def embed(self, ids, first=0):
        pos = self.pos[first : first + ids.shape[1]]
        return self.drop(self.emb(ids) * math.sqrt(self.d) + pos)

    def encode(self, src, mask):
        x = self.embed(src)
        for layer in self.enc:
            x = layer(x, mask, False)
        return x

    def forward(self, src, tgt_in, tgt_out, padded=False):
        """The loss per target token. padded: src and tgt_out hold PAD."""
        mask = (src != PAD)[:, None, None, :] if padded else None
        memory = self.encode(src, mask)
        y = self.embed(tgt_in)
        for layer in self.dec:
            y = layer(y, mask, True, memory)
        logits = F.linear(y.flatten(0, 1), self.emb.weight)
        return F.cross_entropy(
            logits.float(), tgt_out.flatten(), ignore_index=PAD, label_smoothing=0.1
        )


def padded_batch(pairs, device, round_to=1):
    """(src, tgt_in, tgt_out) of a list of pairs of lists of ids, which end in EOS."""

    def pad(rows):
        width = -(-max(map(len, rows)) // round_to) * round_to
        return torch.tensor([r + [PAD] * (width - len(r)) for r in rows], device=device)

    src, tgt = pad([p[0] for p in pairs]), pad([p[1] for p in pairs])
    tgt_in = torch.roll(tgt, 1, 1)
    tgt_in[:, 0] = BOS
    return src, tgt_in, tgt


class Step:
    """One step of decoding after another for batch * beam rows, keys and values cached."""

    def __init__(self, model, src, beam, longest):
        self.model, self.beam, self.at = model, beam, 0
        self.mask = (src != PAD)[:, None, None, :]
        if bool(self.mask.all()):
            self.mask = None
        memory = model.encode(src, self.mask)
        self.memory = [layer.cross.split(layer.cross.kv(memory), 2) for layer in model.dec]
        b, heads, width = src.shape[0], model.dec[0].att.heads, model.d // model.dec[0].att.heads
        shape = (len(model.dec), 2, b * beam, heads, longest, width)
        self.cache = torch.zeros(shape, dtype=memory.dtype, device=src.device)

    def reorder(self, rows):
        n = self.at
        self.cache[:, :, :, :, :n] = self.cache[:, :, :, :, :n].index_select(2, rows)

    def __call__(self, ids):
        """Logits of the word after `ids` [batch * beam]."""
        model, at, beam = self.model, self.at, self.beam
        x = model.embed(ids[:, None], at)
        for i, layer in enumerate(model.dec):
            q, k, v = layer.att.split(layer.att.kv(x), 3)
            self.cache[i, 0, :, :, at : at + 1], self.cache[i, 1, :, :, at : at + 1] = k, v
            keys, values = self.cache[i, :, :, :, : at + 1]
            x = layer.n1(x + layer.att.join(attend(q, keys, values)))
            # The hypotheses of a sentence are rows of one query, so that its memory is read once.
            q = layer.cross.q(x).view(-1, beam, layer.cross.heads, keys.shape[-1])
            y = attend(q.transpose(1, 2), *self.memory[i], self.mask)
            x = layer.n2(x + layer.cross.o(y.transpose(1, 2).reshape(x.shape)))
            x = layer.feed_forward(x)
        self.at += 1
        return F.linear(x[:, 0], model.emb.weight)


@torch.inference_mode()
def beam_search(model, src, beam=4, alpha=0.6, longest=None, forced=False):
    """The best translation of each row of src [batch, n], as lists of ids without the end mark.

    forced: every translation has `longest` words, whatever the model says.
    """
    b, device, limit = src.shape[0], src.device, longest or src.shape[1] + 50
    step = Step(model, src, beam, limit)
    words = torch.full((b, beam, limit + 1), BOS, device=device)
    score = torch.full((b, beam), -1e9, device=device)
    score[:, 0] = 0
    best = torch.full((b,), -1e9, device=device)
    best_words = torch.zeros((b, limit + 1), dtype=torch.long, device=device)
    row = torch.arange(b, device=device)[:, None]
    penalty = [((5 + n) / 6) ** alpha for n in range(limit + 2)]
    for n in range(limit):
        logp = step(words[:, :, n].reshape(-1)).float().log_softmax(-1).view(b, beam, -1)
        logp[:, :, [PAD, BOS, EOS] if forced else [PAD, BOS]] = -1e9
        value, at = (score[:, :, None] + logp).view(b, -1).topk(2 * beam)
        parent, word = at // logp.shape[-1], at % logp.shape[-1]
        if not forced:
            ends = word == EOS
            final = torch.where(ends, value / penalty[n + 1], -1e9)[:, :beam].max(1)
            better = final.values > best
            ended = words[row[:, 0], parent[row[:, 0], final.indices]].clone()
            ended[:, n + 1 :] = EOS
            best_words = torch.where(better[:, None], ended, best_words)
            best = torch.maximum(best, final.values)
            value = value.masked_fill(ends, -1e9)
        score, keep = value.topk(beam)
        parent, word = parent.gather(1, keep), word.gather(1, keep)
        words = words[row, parent]
        words[:, :, n + 1] = word
        step.reorder((row * beam + parent).view(-1))
        if not forced and n % 8 == 7 and bool((best >= score[:, 0] / penalty[limit]).all()):
            break
    none = best < -1e8
    best_words = torch.where(none[:, None], words[:, 0], best_words)[:, 1:].tolist()
    return [w[: w.index(EOS)] if EOS in w else w for w in best_words]

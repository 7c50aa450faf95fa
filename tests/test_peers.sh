#!/usr/bin/env bash
# test_peers.sh — what heed is measured against on a GPU computes what it claims to: PyTorch's
# cached decoding is its plain decoding, and the table shows ratios and failures.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
command -v python3 >/dev/null || skip 'python3 is not installed'
export PYTHONDONTWRITEBYTECODE=1

rate=tgt_tokens_per_s
echo "{\"$rate\":300,\"ms_per_step\":2}" >"$dir/base.heed.json"
{
    echo 'noise'
    echo "{\"engine\":\"torch\",\"mode\":\"eager\",\"$rate\":200,\"ms_per_step\":3}"
    echo '{"error":"exit 1"}'
} >"$dir/base.torch.json"
python3 "$tree/bench/gpu_table.py" "$dir" >"$dir/table"
[ "$(grep -c '^base .*torch eager .* 1.50 x$' "$dir/table")" = 1 ] ||
    fail "table: $(cat "$dir/table")"
[ "$(grep -c '^base .*PyTorch  *failed: ' "$dir/table")" = 1 ] || fail "table: $(cat "$dir/table")"

python3 -c 'import torch' 2>/dev/null || skip 'the table is right; PyTorch is not installed'
cd "$tree/bench"
python3 - <<'END' || fail 'decoding step by step'
from torch_model import BOS, EOS, F, PAD, Step, Transformer, beam_search, torch

torch.manual_seed(1)
model = Transformer(50, 2, 32, 64, 2, 0.0).eval()
src = torch.tensor([[5, 6, 7, EOS, PAD, PAD], [8, 9, 10, 11, 12, EOS]])
tgt = torch.tensor([[BOS, 5, 6, 7], [BOS, 9, 9, 4]])
with torch.inference_mode():
    mask = (src != PAD)[:, None, None, :]
    memory = model.encode(src, mask)
    y = model.embed(tgt)
    for layer in model.dec:
        y = layer(y, mask, True, memory)
    whole = F.linear(y, model.emb.weight)
    step = Step(model, src, 1, 4)
    for i in range(4):
        assert (step(tgt[:, i]) - whole[:, i]).abs().max() < 1e-5, i
    greedy = [[], []]
    for r in range(2):
        for _ in range(6):
            t = torch.tensor([[BOS] + greedy[r]])
            y, m = model.embed(t), mask[r : r + 1]
            for layer in model.dec:
                y = layer(y, m, True, memory[r : r + 1])
            logits = F.linear(y[0, -1], model.emb.weight)
            logits[[PAD, BOS, EOS]] = -1e9
            greedy[r].append(int(logits.argmax()))
found = beam_search(model, src, beam=1, longest=6, forced=True)
assert found == greedy, (found, greedy)
END

#!/usr/bin/env python3
"""Two processes that share an update: PyTorch's DistributedDataParallel over Gloo beside heed's
ranks over MPI, on the same processor, one thread each, the same model and batches per process.

The PyTorch side is that of torch_cpu.py in DDP, which adds up gradients while the backward pass
goes on; every process has all of the optimiser. The two alternate, --rounds times; the line printed
has the ratio of the medians.

    python3 bench/torch_ddp.py [--preset tiny] [--tokens 2048] [--ranks 2] [--seconds 5]
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

from torch_model import PRESETS, Transformer, torch

LENGTH = 32  # of a sentence, as in heed bench scale


def one_rank(rank, a, port):
    """Updates for a while; rank 0 prints target tokens per second of all."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=a.ranks)
    model = torch.nn.parallel.DistributedDataParallel(
        Transformer(a.vocab, *PRESETS[a.preset]).train()
    )
    adam = torch.optim.Adam(model.parameters(), 1e-4, (0.9, 0.98), 1e-9)
    n = a.tokens // LENGTH
    batch = [torch.randint(4, a.vocab, (n, LENGTH)) for _ in range(3)]
    took, going = [], torch.ones(1)
    while going.item():
        begin = time.perf_counter()
        model(*batch).backward()
        adam.step()
        adam.zero_grad(set_to_none=True)
        took.append(time.perf_counter() - begin)
        going[0] = len(took) < 4 or sum(took) < a.seconds
        torch.distributed.broadcast(going, 0)  # the clock is rank 0's
    if rank == 0:
        print(a.ranks * n * LENGTH / statistics.median(took[1:]))
    torch.distributed.destroy_process_group()


def run_torch(a):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--port", str(port)]
    ranks = [
        subprocess.Popen(command + ["--rank", str(r)], stdout=subprocess.PIPE, text=True)
        for r in range(a.ranks)
    ]
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("a rank of PyTorch failed")
    return float(said[0])


def run_heed(a):
    command = [a.heed, "bench", "scale", "--predict", "--json", "--ranks", str(a.ranks)]
    command += ["--preset", a.preset, "--n-vocab", str(a.vocab), "--tokens", str(a.tokens)]
    command += ["--threads", "1", "--seconds", str(a.seconds)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in out.splitlines()]
    (line,) = [x for x in lines if x["what"] == "measured" and x["tokens"] == a.tokens]
    return a.ranks * a.tokens / line["measured_ms"] * 1e3


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--preset", default="tiny", choices=PRESETS)
    ap.add_argument("--tokens", type=int, default=2048, help="per process and update")
    ap.add_argument("--vocab", type=int, default=4000)
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--seconds", type=float, default=5)
    ap.add_argument("--heed", default=os.path.join(here, "build", "heed"))
    ap.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    ap.add_argument("--port", type=int, help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.rank is not None:
        one_rank(a.rank, a, a.port)
        return
    ours, theirs = [], []
    for _ in range(a.rounds):
        ours.append(run_heed(a))
        theirs.append(run_torch(a))
    heed, ddp = statistics.median(ours), statistics.median(theirs)
    print(
        f"bar: {a.ranks} ranks x 1 thread, {a.preset} f32, {a.tokens} tokens each: heed {heed:.0f} "
        f"target tokens/s, PyTorch {torch.__version__} DDP (Gloo) {ddp:.0f}: {heed / ddp:.2f} x"
    )


if __name__ == "__main__":
    main()

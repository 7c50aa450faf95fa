#!/usr/bin/env python3
"""eval.py — `heed eval` beside sacreBLEU, command against command, on the same lines and the same
processors.

    python3 bench/eval.py [HEED] [LINES]          (build/heed, 100,000)

Makes a reference and a damaged copy of it from a fixed seed (words of a made-up language with the
shape of real text: Zipf's law, punctuation, numbers, some non-ASCII), computes BLEU and chrF2 with
both programs, checks that they print the same scores, and prints the times. sacreBLEU gets its
default settings; heed is shown with one thread too. """

import os
import random
import re
import subprocess
import sys
import tempfile
import time

heed = sys.argv[1] if len(sys.argv) > 1 else "build/heed"
n_line = int(sys.argv[2]) if len(sys.argv) > 2 else 100000


def make(folder):
    rng = random.Random(7)
    parts = "ba de ki lo mu ne ra si to vu ber lan mir sol tan schö grü ße né äu".split()
    words = ["".join(rng.choices(parts, k=rng.randint(1, 4))) for _ in range(30000)]
    weights = [1 / (i + 5) for i in range(len(words))]
    with open(f"{folder}/ref", "w", encoding="utf-8") as ref, open(
        f"{folder}/hyp", "w", encoding="utf-8"
    ) as hyp:
        for _ in range(n_line):
            line = rng.choices(words, weights, k=rng.randint(4, 40))
            line[0] = line[0].capitalize()
            if rng.random() < 0.3:
                line.insert(rng.randrange(len(line)), str(rng.randint(1, 9999) / 10))
            if len(line) > 8:
                line[len(line) // 2] += ","
            ref.write(" ".join(line) + ".\n")
            guess = [
                w if rng.random() < 0.7 else rng.choice(words) for w in line if rng.random() < 0.93
            ]
            hyp.write(" ".join(guess) + ".\n")


class Run:
    """A command that ran: seconds on the clock and of processors, peak memory in MB, what it
    printed."""

    def __init__(self, command):
        begin = time.time()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.out = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f'{" ".join(command)}: exit {process.returncode}')
        self.wall, self.cpu = time.time() - begin, usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss / 1024


def best_of(n, command):
    return min((Run(command) for _ in range(n)), key=lambda run: run.wall)


def show(name, run, peer=None):
    ratio = (
        f"   {peer.wall / run.wall:6.1f} times as fast, {peer.cpu / run.cpu:.1f} by processor time"
        if peer
        else ""
    )
    print(f"{name:36} {run.wall:8.2f} s {run.cpu:8.2f} s {run.memory:7.0f} MB{ratio}")


def scores(out):
    return sorted(re.sub(r"version:\S+", "", line).strip() for line in out.splitlines())


with tempfile.TemporaryDirectory() as folder:
    make(folder)
    ref, hyp = f"{folder}/ref", f"{folder}/hyp"
    size = os.path.getsize(ref) + os.path.getsize(hyp)
    ours = [heed, "eval", "--metric", "bleu,chrf", "--ref", ref, "--hyp", hyp]
    theirs = [
        sys.executable,
        "-m",
        "sacrebleu",
        ref,
        "-i",
        hyp,
        "-m",
        "bleu",
        "chrf",
        "-f",
        "text",
        "--no-color",
    ]
    peer = Run(theirs)
    best, one = best_of(5, ours), best_of(5, ours + ["--threads", "1"])
    print(best.out, end="")
    if scores(best.out) != scores(peer.out):
        sys.exit(f"the scores differ:\n{peer.out}")
    print(
        f"{n_line} lines, {size / 1e6:.1f} MB, BLEU and chrF2, "
        f"{len(os.sched_getaffinity(0))} processors"
    )
    print(f'{"":36} {"clock":>10} {"processor":>10} {"memory":>10}')
    show("sacreBLEU", peer)
    show("heed eval", best, peer)
    show("heed eval --threads 1", one, peer)
    show("heed eval --confidence, 1,000 samples", best_of(2, ours + ["--confidence"]))

#!/usr/bin/env python3
"""serve_race.py — several translation servers, one after the other, under the same load.

    serve_race.py --heed HEED --work DIR --text FILE --servers heed waitress gunicorn

DIR has en-de and de-en, models of heed, and packages/, the same weights for LibreTranslate
(bench/serve.sh makes it). Measured of each:

    start     seconds from the start to the first translation
    c1 c8 c64 sentences per second, and the median and 99th percentile of the latency, of 1, 8 and
              64 clients that send one sentence per request, one request after the other
    array     seconds for one request of 1,000 sentences
    abort     processor seconds that the server spends after 16 clients have hung up
    memory    resident megabytes (shared pages counted once) after many short requests

No text is sent twice. Clients and server share the cores."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time

PORT = 5390
CLOCK = os.sysconf("SC_CLK_TCK")


def family(pid):
    """A process and all its descendants."""
    found, parents = [pid], {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(
                    int(name))
        except OSError:
            continue
    for parent in found:
        found += parents.get(parent, [])
    return found


def processor(pid):
    """Seconds of processor time of a process and its descendants."""
    total = 0
    for one in family(pid):
        try:
            with open(f"/proc/{one}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return total / CLOCK


def memory(pid):
    """Megabytes, with shared pages divided among those who share them."""
    total = 0
    for one in family(pid):
        try:
            with open(f"/proc/{one}/smaps_rollup", encoding="ascii") as rollup:
                total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
        except OSError:
            continue
    return total / 1024


def request(texts):
    body = json.dumps({"q": texts, "source": "en", "target": "de"}).encode()
    return (b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


async def answer(reader):
    """The body of one answer, of given length, in chunks, or up to the end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status, fields = head.split("\r\n", 1)
    fields = dict(line.lower().split(": ", 1) for line in fields.split("\r\n") if ": " in line)
    if "content-length" in fields:
        body = await reader.readexactly(int(fields["content-length"]))
    else:
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    if " 200 " not in status:
        raise RuntimeError(f"{status}: {body[:200]!r}")
    return json.loads(body)["translatedText"], fields.get("connection") == "close"


class Client:
    """One connection, opened again when the server closes it."""

    def __init__(self, port):
        self.port, self.streams = port, None

    async def open(self):
        if not self.streams:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        return self.streams

    def close(self):
        if self.streams:
            self.streams[1].close()
        self.streams = None

    async def translate(self, texts):
        reader, writer = await self.open()
        writer.write(request(texts))
        result, closing = await answer(reader)
        if closing:
            self.close()
        return result


class Texts:
    """Sentences, each given out once."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.lines = list(dict.fromkeys(line.strip() for line in file if line.strip()))
        self.at = 0

    def take(self, n):
        if self.at + n > len(self.lines):
            sys.exit(f"serve_race.py: {len(self.lines)} different sentences are not enough")
        self.at += n
        return self.lines[self.at - n:self.at]


async def load(port, n_client, texts):
    """Sentences per second, and latencies in milliseconds, of clients that share the texts."""
    waiting, times = list(reversed(texts)), []

    async def client():
        own = Client(port)
        while waiting:
            text = waiting.pop()
            begin = time.perf_counter()
            if not await own.translate(text):
                raise RuntimeError(f"no translation of {text!r}")
            times.append(1e3 * (time.perf_counter() - begin))
        own.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(n_client)))
    rate = len(texts) / (time.perf_counter() - begin)
    times.sort()
    return rate, times[len(times) // 2], times[min(len(times) - 1, int(0.99 * len(times)))]


async def abort(port, pid, texts):
    """Processor seconds from shortly after the hang-up until the server is quiet."""
    clients = [Client(port) for _ in texts]
    for client, text in zip(clients, texts):
        (await client.open())[1].write(request(text))
    await asyncio.sleep(0.3)
    for client in clients:
        client.streams[1].transport.abort()
    before = now = processor(pid)
    while True:
        await asyncio.sleep(1)
        last, now = now, processor(pid)
        if now - last < 0.03:
            return now - before


def start(args, name, port):
    environment = dict(os.environ, PORT=str(port))
    here = os.path.dirname(os.path.abspath(__file__))
    if name == "heed":
        command = [args.heed, "serve", "--listen", f"127.0.0.1:{port}", "--threads",
                   str(args.threads), "--quiet", "--model", f"{args.work}/en-de",
                   f"{args.work}/de-en"]
    else:
        environment.update(
            ARGOS_PACKAGES_DIR=f"{args.work}/packages", ARGOS_DEVICE_TYPE="cpu",
            ARGOS_COMPUTE_TYPE="int8", ARGOS_BEAM_SIZE=str(args.beam), HOME=args.work,
            ARGOS_BATCH_SIZE="32", PYTHONPATH=here,
            ARGOS_INTER_THREADS="1",
            ARGOS_INTRA_THREADS=str(args.threads if name == "waitress" else 1))
        script = os.path.join(here, "serve_libretranslate.py")
        command = [sys.executable, script, "waitress", str(port), "64"]
        if name == "gunicorn":
            command = [sys.executable, "-m", "gunicorn", "--workers", str(args.threads),
                       "--threads", "8", "--timeout", "600", "--bind", f"127.0.0.1:{port}",
                       "serve_libretranslate:application()"]
    log = open(f"{args.work}/{name}.log", "wb")
    return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


async def first(process, port, text):
    """Waits for the first translation."""
    while process.poll() is None:
        try:
            return await Client(port).translate(text)
        except (OSError, RuntimeError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.005)
    raise RuntimeError(f"the server has ended with status {process.returncode}")


async def measure(args, name, port, texts):
    begin = time.perf_counter()
    process = start(args, name, port)
    found = {}
    try:
        await first(process, port, texts.take(1)[0])
        found["start"] = time.perf_counter() - begin
        await load(port, 8, texts.take(64))  # warm
        for n_client, share in ((1, 8), (8, 2), (64, 1)):
            if f"c{n_client}" in args.measure:
                found[f"c{n_client}"] = await load(
                    port, n_client, texts.take(args.requests // share))
        if "array" in args.measure:
            array, begin = texts.take(1000), time.perf_counter()
            result = await Client(port).translate(array)
            found["array"] = time.perf_counter() - begin
            if len(result) != len(array):
                raise RuntimeError(f"{len(result)} translations of {len(array)} texts")
        if "abort" in args.measure:
            found["abort"] = await abort(port, process.pid, [
                " ".join(texts.take(4)) for _ in range(16)])
        if "memory" in args.measure:
            short = [f"Room {i} is free." for i in range(args.memory_requests)]
            await load(port, 16, short)
            found["memory"] = memory(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            for pid in family(process.pid):
                os.kill(pid, signal.SIGKILL)
    return found


ROWS = [("start to first answer, s", "start", None, False)] + [
    row for n in (1, 8, 64) for row in (
        (f"{n} client{'s'[:n > 1]}: sentences/s", f"c{n}", 0, True),
        ("  p50, ms", f"c{n}", 1, False), ("  p99, ms", f"c{n}", 2, False))] + [
    ("array of 1,000, s", "array", None, False),
    ("processor time after 16 aborts, s", "abort", None, False),
    ("memory after many requests, MB", "memory", None, False)]


def table(found):
    names = list(found)
    print(f"{'':36}" + "".join(f"{name:>14}" for name in names)
          + "".join(f"{'heed/' + name:>17}" for name in names if name != "heed"))
    for title, key, part, more in ROWS:
        value = {}
        for name in names:
            one = found[name].get(key)
            if one is not None:
                value[name] = one if part is None else one[part]
        if not value:
            continue
        line = f"{title:36}" + "".join(
            f"{value[name]:14.3f}" if name in value else f"{'failed':>14}" for name in names)
        for name in names:
            if name != "heed":
                ratio = value["heed"] / value[name] if {"heed", name} <= set(value) and \
                    value[name] else None
                line += f"{ratio:16.3f}x" if ratio is not None else f"{'':>17}"
        print(line + ("  more is better" if more else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--heed", default="build/heed")
    parser.add_argument("--work", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--requests", type=int, default=640)
    parser.add_argument("--memory-requests", type=int, default=10000)
    parser.add_argument("--servers", nargs="+", default=["heed", "waitress", "gunicorn"])
    parser.add_argument("--measure", nargs="+",
                        default=["c1", "c8", "c64", "array", "abort", "memory"])
    args = parser.parse_args()
    found = {}
    for i, name in enumerate(args.servers):
        try:
            found[name] = asyncio.run(measure(args, name, PORT + i, Texts(args.text)))
        except (RuntimeError, OSError, asyncio.IncompleteReadError) as why:
            found[name] = {}
            print(f"{name}: {why}", file=sys.stderr)
            with open(f"{args.work}/{name}.log", "rb") as log:
                print(log.read()[-1500:].decode("utf-8", "replace"), file=sys.stderr)
        print(json.dumps({name: found[name]}), flush=True)
    table(found)


if __name__ == "__main__":
    main()

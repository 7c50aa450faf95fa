#!/usr/bin/env python3
"""serve_race.py — several translation servers, one after the other, under the same load.

    serve_race.py --heed HEED --work DIR --text FILE --servers heed waitress gunicorn

DIR has en-de and de-en, models of heed, and packages/, the same weights for LibreTranslate
(bench/serve.sh makes it). Measured of each:

    start     seconds from the start to the first translation
    c1 c8 c64 sentences per second, the median and 99th percentile of the latency, and processor
              milliseconds a sentence, of 1, 8 and 64 clients that send one sentence per request,
              one request after the other
    array     seconds for one request of 1,000 sentences
    abort     processor seconds that the server spends after 16 clients have hung up; of heed also
              the steps of the decoder in that time
    memory    resident megabytes (shared pages counted once) after many short requests

and of heed alone:

    file      sentences per second of `heed translate` on a file of what the 64 clients send
    beside    the 99th percentile of a short request's latency alone and beside one of 5,000
              sentences, and the same of the processor time that the server spends meanwhile
    idle      resident megabytes with 10,000 idle connections, after which it must still answer

No text is sent twice. Clients and server share the cores. At the end every bar, met or missed;
exit status 1 if a server failed."""

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

PORT = 5390
IDLE = 10000


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
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/schedstat", encoding="ascii") as stat:
                    total += int(stat.read().split()[0])
        except OSError:
            continue
    return total / 1e9


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

    def short(self, n):
        """Three words and a number, which no other text has."""
        return [" ".join(self.lines[i % len(self.lines)].split()[:3]) + f" {i}" for i in range(n)]


def spread(times):
    """The median and the 99th percentile."""
    times = sorted(times)
    return times[len(times) // 2], times[min(len(times) - 1, int(0.99 * len(times)))]


def spent(pid):
    """Processor seconds of one process, to the moment, which /proc does not give."""
    return time.clock_gettime(~pid << 3 | 2)


async def load(port, n_client, texts, pid=None):
    """Sentences per second, and latencies in milliseconds, of clients that share the texts; with a
    pid, processor time of that process in the place of latencies follows."""
    waiting, times, costs = list(reversed(texts)), [], []

    async def client():
        own = Client(port)
        while waiting:
            text = waiting.pop()
            begin, before = time.perf_counter(), spent(pid) if pid else 0
            if await own.translate(text) is None:
                raise RuntimeError(f"no translation of {text!r}")
            times.append(1e3 * (time.perf_counter() - begin))
            costs.append(1e3 * ((spent(pid) if pid else 0) - before))
        own.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(n_client)))
    rate = len(texts) / (time.perf_counter() - begin)
    return (rate, *spread(times), *(spread(costs) if pid else ()))


async def steps(port):
    """Of the decoder so far."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    found = re.search(r"^heed_step_rows_count (\d+)$", text, re.M)
    return int(found.group(1)) if found else None


async def abort(port, pid, texts):
    """Processor seconds and steps from shortly after the hang-up until the server is quiet."""
    clients = [Client(port) for _ in texts]
    answers = []
    for client, text in zip(clients, texts):
        reader, writer = await client.open()
        writer.write(request(text))
        answers.append(asyncio.create_task(reader.read(1)))
    await asyncio.sleep(0.1)
    if all(one.done() for one in answers):
        raise RuntimeError("all were answered before they could hang up")
    for client, one in zip(clients, answers):
        one.cancel()
        client.streams[1].transport.abort()
    before = now = processor(pid)
    made = await steps(port)
    while True:
        await asyncio.sleep(0.5)
        last, now = now, processor(pid)
        if now - last < 0.03:
            break
    return now - before, None if made is None else await steps(port) - made


def from_file(args, texts):
    """Sentences per second of `heed translate`, opening the model not counted."""
    path = f"{args.work}/file"
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(texts) + "\n")
    run = subprocess.run([args.heed, "translate", "--model", f"{args.work}/en-de", "--threads",
                          str(args.threads), "--quiet", "--stats", path], check=True,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return float(re.search(rb"([0-9.]+) sentences/s", run.stderr).group(1))


async def beside(port, pid, texts, big):
    """The 99th percentile of short requests beside a big one, and of as many without it; then both
    in processor time."""
    alone = await load(port, 1, texts[::2], pid)
    job = asyncio.create_task(Client(port).translate(big))
    await asyncio.sleep(0.3)
    found = await load(port, 1, texts[1::2], pid)
    if job.done():
        raise RuntimeError("the large request was done too soon")
    job.cancel()
    return found[2], alone[2], found[4], alone[4]


async def idle(port, pid):
    """Resident megabytes with many connections that have asked once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(IDLE, hard - 100)
    if count < IDLE:
        print(f"only {count} descriptors may be had for idle connections", file=sys.stderr)
    kept = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b'"}\n')
        kept.append(writer)
    found = memory(pid)
    if await Client(port).translate("beside idle connections") is None:
        raise RuntimeError("no service beside idle connections")
    for writer in kept:
        writer.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return found


def start(args, name, port):
    environment = dict(os.environ, PORT=str(port))
    here = os.path.dirname(os.path.abspath(__file__))
    if name == "heed":
        command = [args.heed, "serve", "--listen", f"127.0.0.1:{port}", "--threads",
                   str(args.threads), "--quiet", "--metrics", "--model", f"{args.work}/en-de",
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


async def measure_all(args, port, pid, texts, found):
    """What both servers are measured by."""
    await load(port, 8, texts.take(64))  # warm
    for n_client, share in ((1, 8), (8, 2), (64, 1)):
        if f"c{n_client}" in args.measure:
            part, before = texts.take(args.requests // share), processor(pid)
            found[f"c{n_client}"] = await load(port, n_client, part)
            found[f"c{n_client}"] += (1e3 * (processor(pid) - before) / len(part),)
    if "array" in args.measure:
        array, begin = texts.take(1000), time.perf_counter()
        result = await Client(port).translate(array)
        found["array"] = time.perf_counter() - begin
        if len(result) != len(array):
            raise RuntimeError(f"{len(result)} translations of {len(array)} texts")
    if "abort" in args.measure:
        found["abort"] = await abort(port, pid, [" ".join(texts.take(8)) for _ in range(16)])
    if "memory" in args.measure:
        await load(port, 16, texts.short(args.memory_requests))
        found["memory"] = memory(pid)


async def measure_heed(args, port, pid, texts, found):
    if "file" in args.measure:
        found["file"] = from_file(args, texts.take(args.requests))
    if "beside" in args.measure:
        found["beside"] = await beside(port, pid, texts.short(600), texts.take(5000))
    if "idle" in args.measure:
        found["idle"] = await idle(port, pid)


async def measure(args, name, port, texts, found):
    begin = time.perf_counter()
    process = start(args, name, port)
    try:
        await first(process, port, texts.take(1)[0])
        found["start"] = time.perf_counter() - begin
        await measure_all(args, port, process.pid, texts, found)
        if name == "heed":
            await measure_heed(args, port, process.pid, texts, found)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            for pid in family(process.pid):
                os.kill(pid, signal.SIGKILL)


ROWS = [("start to first answer, s", "start", None, False)] + [
    row for n in (1, 8, 64) for row in (
        (f"{n} client{'s'[:n > 1]}: sentences/s", f"c{n}", 0, True),
        ("  p50, ms", f"c{n}", 1, False), ("  p99, ms", f"c{n}", 2, False),
        ("  processor time a sentence, ms", f"c{n}", 3, False))] + [
    ("array of 1,000, s", "array", None, False),
    ("processor time after 16 aborts, s", "abort", 0, False),
    ("memory after many requests, MB", "memory", None, False),
    ("short request alone: p99, ms", "beside", 1, False),
    ("  beside 5,000 sentences", "beside", 0, False),
    ("  alone, processor time", "beside", 3, False),
    ("  beside them, processor time", "beside", 2, False)]

OWN = ("beside",)  # what other servers are not asked for

# What is asked for of heed beside another server: a row's key and part, heed's over the other's.
BARS = [("sentences/s, 64 clients", "c64", 0, ">=", 5),
        ("p50, 8 clients", "c8", 1, "<=", 0.2),
        ("p99, 8 clients", "c8", 2, "<=", 0.2),
        ("time for an array of 1,000", "array", None, "<=", 1 / 3),
        ("memory after many requests", "memory", None, "<=", 0.25),
        ("start to first answer", "start", None, "<=", 0.05)]


def of(found, key, part):
    one = found.get(key)
    return one if one is None or part is None else one[part]


def own_bars(heed):
    """What is asked for of heed alone."""
    if heed.get("abort"):
        yield "steps after an abort", heed["abort"][1], "<=", 1
    if heed.get("file") and heed.get("c64"):
        yield "64 clients / heed translate", heed["c64"][0] / heed["file"], ">=", 0.85
    if heed.get("beside"):
        yield "p99 beside 5,000 sentences / alone", heed["beside"][0] / heed["beside"][1], "<=", 3
    if heed.get("idle"):
        yield "MB with 10,000 idle connections", heed["idle"], "<=", 200


def bars(found):
    heed, lines = found.get("heed", {}), []
    for name in found:
        for title, key, part, sense, bar in BARS:
            ours, theirs = of(heed, key, part), of(found[name], key, part)
            if name != "heed" and ours is not None and theirs:
                lines.append((f"{title} / {name}", ours / theirs, sense, bar))
    lines += own_bars(heed)
    print(f"\n{'bar':44}{'measured':>10}{'asked':>12}")
    for title, value, sense, bar in lines:
        met = value >= bar if sense == ">=" else value <= bar
        print(f"{title:44}{value:10.3f}{sense:>6} {bar:<5.3g} {'met' if met else 'MISSED'}")


def table(found):
    names = list(found)
    print(f"{'':36}" + "".join(f"{name:>14}" for name in names)
          + "".join(f"{'heed/' + name:>17}" for name in names if name != "heed"))
    for title, key, part, more in ROWS:
        value = {name: of(found[name], key, part) for name in names}
        value = {name: one for name, one in value.items() if one is not None}
        if not value:
            continue
        line = f"{title:36}" + "".join(
            f"{value[name]:14.3f}" if name in value else f"{'-' if key in OWN else 'failed':>14}"
            for name in names)
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
                        default=["c1", "c8", "c64", "array", "abort", "memory", "file", "beside",
                                 "idle"])
    args = parser.parse_args()
    found, failed = {}, 0
    for i, name in enumerate(args.servers):
        found[name] = {}
        try:
            asyncio.run(measure(args, name, PORT + i, Texts(args.text), found[name]))
        except (RuntimeError, OSError, asyncio.IncompleteReadError) as why:
            failed = 1
            print(f"{name}: {why}", file=sys.stderr)
            with open(f"{args.work}/{name}.log", "rb") as log:
                print(log.read()[-1500:].decode("utf-8", "replace"), file=sys.stderr)
        print(json.dumps({name: found[name]}), flush=True)
    table(found)
    bars(found)
    sys.exit(failed)


if __name__ == "__main__":
    main()

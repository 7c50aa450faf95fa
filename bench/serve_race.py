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

    file      sentences per second of 64 clients to those of `heed translate` on a file of the same
              sentences: the median of pairs, one right after the other, as the speed of cores that
              others use changes; and processor milliseconds a sentence of both, and of the clients,
              which share the cores and do not count for heed
    beside    the 99th percentile of a short request's latency alone and beside one of 5,000
              sentences, in rounds of both, by a client that has the next at hand and by one that
              pauses for 0 to 20 ms, and the same of the processor time that the server spends
              meanwhile
    idle      resident megabytes with 10,000 idle connections, after which it must still answer

No text is sent twice, but in the rounds of the last three. Clients and server share the cores. At
the end every bar, met or missed; exit status 1 if a server failed."""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import select
import signal
import socket
import statistics
import subprocess
import sys
import time

PORT = 5390
IDLE = 10000
FILE_ROUNDS, BESIDE_ROUNDS = 9, 3


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


def whole(data):
    """The head and the body of an answer, or None if more is to come."""
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return None
    at = head.lower().find(b"\r\ncontent-length:")
    if at < 0:
        raise RuntimeError(f"an answer without a length: {head!r}")
    return (head, body) if len(body) >= int(head[at + 17:].split(b"\r\n", 1)[0]) else None


def translation(head, body):
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"{head[:60]!r}: {body[:200]!r}")
    return json.loads(body)["translatedText"]


class Client(asyncio.Protocol):
    """One connection, opened again when the server closes it."""

    def __init__(self, port):
        self.port, self.transport, self.got, self.data = port, None, None, b""

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, _):
        self.transport = None
        if self.got and not self.got.done():
            self.got.set_exception(ConnectionError("the server hung up"))

    def data_received(self, data):
        self.data += data
        try:
            answer = whole(self.data)
        except RuntimeError as why:
            self.got.set_exception(why)
            return
        if answer and not self.got.done():
            self.got.set_result(answer)

    async def send(self, texts):
        """Sends a request; the head and the body of the answer will be in self.got."""
        loop = asyncio.get_running_loop()
        if not self.transport:
            await loop.create_connection(lambda: self, "127.0.0.1", self.port)
        self.got, self.data = loop.create_future(), b""
        self.transport.write(request(texts))

    async def translate(self, texts):
        await self.send(texts)
        head, body = await self.got
        if b"connection: close" in head.lower():
            self.transport.close()
            self.transport = None
        return translation(head, body)

    def close(self):
        if self.transport:
            self.transport.close()


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


async def latencies(client, texts, pid, pause=0):
    """Milliseconds of each request, one after the other, and of the server's processor time."""
    times, costs = [], []
    for text in texts:
        if pause:
            await asyncio.sleep(random.uniform(0, pause))
        begin, before = time.perf_counter(), spent(pid)
        if await client.translate(text) is None:
            raise RuntimeError(f"no translation of {text!r}")
        times.append(1e3 * (time.perf_counter() - begin))
        costs.append(1e3 * (spent(pid) - before))
    return times, costs


def load(port, n_client, texts):
    """Sentences per second, and latencies in milliseconds, of clients that share the texts. All of
    them are one loop, which makes requests before and looks at answers afterwards: what it spends
    on cores that it shares with the server is not the server's."""
    waiting = [request(text) for text in reversed(texts)]
    answers, times, began, data, sockets = [], [], {}, {}, {}
    poll = select.epoll()

    def connect():
        one = socket.create_connection(("127.0.0.1", port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[one.fileno()] = one
        poll.register(one, select.EPOLLIN)
        return one.fileno()

    def send(number):
        data[number], began[number] = b"", time.perf_counter()
        sockets[number].sendall(waiting.pop())

    numbers = [connect() for _ in range(min(n_client, len(texts)))]
    begin = time.perf_counter()
    for number in numbers:
        send(number)
    while len(answers) < len(texts):
        for number, _ in poll.poll():
            more = sockets[number].recv(1 << 16)
            if not more and number in began:
                raise ConnectionError("the server hung up")
            if not more:  # on one that asks for nothing any more
                sockets.pop(number).close()
                continue
            data[number] += more
            answer = whole(data[number])
            if not answer:
                continue
            times.append(1e3 * (time.perf_counter() - began.pop(number)))
            answers.append(answer)
            if b"connection: close" in answer[0].lower():
                sockets.pop(number).close()
                number = connect()
            if waiting:
                send(number)
    rate = len(texts) / (time.perf_counter() - begin)
    for one in sockets.values():
        one.close()
    poll.close()
    if any(translation(*answer) is None for answer in answers):
        raise RuntimeError("there is an answer without a translation")
    return (rate, *spread(times))


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
    for client, text in zip(clients, texts):
        await client.send(text)
    await asyncio.sleep(0.1)
    if all(client.got.done() for client in clients):
        raise RuntimeError("all were answered before they could hang up")
    for client in clients:
        client.got.cancel()
        if client.transport:
            client.transport.abort()
    before = now = processor(pid)
    made = await steps(port)
    while True:
        await asyncio.sleep(0.5)
        last, now = now, processor(pid)
        if now - last < 0.03:
            break
    return now - before, None if made is None else await steps(port) - made


def from_file(args, texts):
    """Sentences per second of `heed translate`, opening the model not counted, and processor
    milliseconds a sentence, with it."""
    path = f"{args.work}/file"
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(texts) + "\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([args.heed, "translate", "--model", f"{args.work}/en-de", "--threads",
                          str(args.threads), "--quiet", "--stats", path], check=True,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (float(re.search(rb"([0-9.]+) sentences/s", run.stderr).group(1)),
            1e3 * took / len(texts))


async def against_file(args, port, pid, texts):
    """Medians of rounds: 64 clients to a file of the same sentences, sentences per second of both,
    processor milliseconds a sentence of the server, of its clients and of the file."""
    rounds = []
    for _ in range(FILE_ROUNDS):
        server, own = processor(pid), time.process_time()
        rate = load(port, 64, texts)[0]
        server, own = processor(pid) - server, time.process_time() - own
        file_rate, file_cost = from_file(args, texts)
        rounds.append((rate / file_rate, rate, file_rate, 1e3 * server / len(texts),
                       1e3 * own / len(texts), file_cost))
    return [statistics.median(column) for column in zip(*rounds)]


async def beside(port, pid, texts, big):
    """99th percentiles of short requests beside a big one, and of as many without it: their
    latency, of the server's processor time, and their latency when they come now and then."""
    own, each = Client(port), len(texts) // (4 * BESIDE_ROUNDS)
    found, parts = [[[], [], []], [[], [], []]], iter(range(0, len(texts), each))

    async def both(to):
        for pause, columns in ((0, to[:2]), (0.02, to[2:])):
            at = next(parts)
            for column, more in zip(columns, await latencies(own, texts[at:at + each], pid, pause)):
                column += more

    for _ in range(BESIDE_ROUNDS):
        await both(found[1])
        other = Client(port)
        job = asyncio.create_task(other.translate(big))
        await asyncio.sleep(0.3)
        await both(found[0])
        if job.done():
            raise RuntimeError("the large request was done too soon")
        job.cancel()
        other.transport.abort()
        await asyncio.sleep(0.1)
    return [spread(column)[1] for to in zip(*found) for column in to]


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
        except (OSError, RuntimeError):
            await asyncio.sleep(0.005)
    raise RuntimeError(f"the server has ended with status {process.returncode}")


async def measure_all(args, port, pid, texts, found):
    """What both servers are measured by."""
    load(port, 8, texts.take(64))  # warm
    for n_client, share in ((1, 8), (8, 2), (64, 1)):
        if f"c{n_client}" in args.measure:
            part, before = texts.take(args.requests // share), processor(pid)
            found[f"c{n_client}"] = load(port, n_client, part)
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
        load(port, 16, texts.short(args.memory_requests))
        found["memory"] = memory(pid)


async def measure_heed(args, port, pid, texts, found):
    if "file" in args.measure:
        found["file"] = await against_file(args, port, pid, texts.take(args.requests))
    if "beside" in args.measure:
        found["beside"] = await beside(port, pid, texts.short(3600), texts.take(5000))
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
    ("64 clients, in rounds: sentences/s", "file", 1, True),
    ("  heed translate on a file", "file", 2, True),
    ("  processor time a sentence, ms", "file", 3, False),
    ("  of the clients", "file", 4, False),
    ("  of heed translate", "file", 5, False),
    ("short request alone: p99, ms", "beside", 1, False),
    ("  beside 5,000 sentences", "beside", 0, False),
    ("  alone, now and then", "beside", 5, False),
    ("  beside them, now and then", "beside", 4, False),
    ("  alone, processor time", "beside", 3, False),
    ("  beside them, processor time", "beside", 2, False)]

OWN = ("beside", "file")  # what other servers are not asked for

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
    if heed.get("file"):
        yield "64 clients / heed translate", heed["file"][0], ">=", 0.85
    if heed.get("beside"):
        found = heed["beside"]
        yield "p99 beside 5,000 sentences / alone", found[0] / found[1], "<=", 3
        yield "  of requests now and then", found[4] / found[5], "<=", 3
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

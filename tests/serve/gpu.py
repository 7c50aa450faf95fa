"""heed serve on a GPU: what it answers under load, beside `heed translate` and the CPU.

    gpu.py HEED DEVICE F32 INT8 TEXT

F32 and INT8 are the same model, not rounded and rounded; TEXT has sentences of its source language,
a line each. In f32 every answer must be the CPU's; in bf16 and int8, where the order of sums
decides more, nearly every one must be what `heed translate` writes on the same device. Also tried,
in f32: sentences that join and leave a running search, terms, words, scores and attention, clients
that hang up, and SIGTERM under load. Ends with a table; exit status 1 if something is not as it
should be.
"""
import asyncio, json, os, subprocess, sys, time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from client import Server, check, finish, parse, read_all
from serve_race import Client, spread

heed, device, exact, rounded, path = sys.argv[1:6]
with open(path) as f:
    texts = [line.strip() for line in f]
pair = {"source": "en", "target": "de"}
NEARLY = 0.95
KINDS = {"f32": (exact, "f32"), "bf16": (exact, "bf16"), "int8": (rounded, "int8")}


def translate(where, model, precision):
    """What `heed translate` writes."""
    run = subprocess.run([heed, "translate", "--model", model, "--device", where, "--precision",
                          precision, "--quiet", path], stdout=subprocess.PIPE, check=True)
    return run.stdout.decode().splitlines()


def open_server(where, model, precision):
    return Server(heed, "--model", "en-de=" + model, "--device", where, "--precision", precision,
                  "--metrics")


def same(got, want):
    return sum(a == b for a, b in zip(got, want)) / len(want) if len(got) == len(want) else 0


async def ask(port, parts, n_client):
    """Answers, in order, to requests of one text or several; seconds; latencies."""
    answers, times, waiting = [None] * len(parts), [], list(reversed(range(len(parts))))

    async def client():
        own = Client(port)
        while waiting:
            i = waiting.pop()
            begin = time.perf_counter()
            answers[i] = await own.translate(parts[i])
            times.append(1e3 * (time.perf_counter() - begin))
        own.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(n_client)))
    return answers, time.perf_counter() - begin, times


def load(server, parts, n_client):
    return asyncio.run(ask(server.port, parts, n_client))


def settle(what, why, seconds=30):
    """Waits for something that must happen."""
    end = time.time() + seconds
    while not what():
        if time.time() > end:
            check(False, why)
            return
        time.sleep(0.01)


def hurry(server, wanted):
    """Answers under load, and a row of the table for each kind of it."""
    rows = []
    lists = [texts[i:i + 100] for i in range(0, len(texts), 100)]
    load(server, texts[:64], 8)  # warm
    for title, parts, n_client in (("1 client, a sentence each", texts[:100], 1),
                                   ("64 clients, a sentence each", texts, 64),
                                   ("8 clients, lists of 100", lists, 8)):
        before = [server.metric("heed_step_rows_" + x) for x in ("sum", "count")]
        got, seconds, times = load(server, parts, n_client)
        after = [server.metric("heed_step_rows_" + x) for x in ("sum", "count")]
        flat = sum(got, []) if isinstance(parts[0], list) else got
        rows.append((title, len(flat) / seconds, *spread(times),
                     (after[0] - before[0]) / (after[1] - before[1]),
                     same(flat, wanted[:len(flat)])))
    return rows


def join_and_leave(server, want):
    """Short requests come and go while a long list is in work."""
    alone = server.metric("heed_step_rows_count")
    for q in texts[:8]:
        server.post("/translate", {"q": q, **pair})
    alone = server.metric("heed_step_rows_count") - alone

    async def both():
        long = asyncio.create_task(Client(server.port).translate(texts * 4))
        own, n = Client(server.port), 0
        while not long.done():
            got = await own.translate(texts[n % 100])
            check(got == want[n % 100], f"beside a list: {got!r}, not {want[n % 100]!r}")
            n += not long.done()
        return await long, n

    before = server.metric("heed_step_rows_count")
    got, n = asyncio.run(both())
    steps = server.metric("heed_step_rows_count") - before
    check(got == want * 4, "a list beside short requests")
    check(n >= 2, f"{n} short requests were answered before a list of {len(got)} sentences")
    lone = alone / 8 * (len(got) + n)
    check(steps < lone / 4, f"{steps} steps together, {lone:.0f} one after the other")
    return n, lone / steps


def extras(server, host):
    """What needs more than a search, beside the CPU."""
    term = {"q": texts[0], **pair, "glossary": {texts[0].split()[1]: "mino mino"}}
    here, there = (one.post("/translate", term).json["translatedText"] for one in (server, host))
    check(here == there and "mino mino" in here, f"a term: {here!r}; on the CPU {there!r}")
    for q in texts[:5]:
        here, there = (one.post("/heed/align", {"q": q, **pair}).json for one in (server, host))
        for words in (here, there):
            words["targetWords"] = [word[:2] for word in words["targetWords"]]
        check(here == there, f"words: {here}; on the CPU {there}")
        given = {"q": q, "translation": " ".join(reversed(q.split())), **pair}
        here, there = (one.post("/heed/score", given).json["logProbability"]
                       for one in (server, host))
        check(abs(here - there) < 1e-3 * (1 + abs(there)), f"a score: {here}; on the CPU {there}")
    here, there = (one.post("/heed/attention", {"q": texts[0], **pair}).json["kinds"]
                   for one in (server, host))

    def flat(numbers):
        return sum(map(flat, numbers), []) if isinstance(numbers, list) else [numbers]

    check([k["kind"] for k in here] == [k["kind"] for k in there], "kinds of attention")
    for a, b in zip(here, there):
        a, b = flat(a["probs"]), flat(b["probs"])
        check(len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 2e-3,
              "attention as on the CPU")


def request(texts_of_it):
    body = json.dumps({"q": texts_of_it, **pair}).encode()
    return b"POST /translate HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Type: " \
        b"application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def cancel(server):
    """Who hangs up gets no more work: the sentences that were left are never translated."""
    gone = 'heed_jobs_total{end="cancelled"}'
    before, done = server.metric(gone), server.metric("heed_sentences_total")
    several = [server.connect() for _ in range(4)]
    for one in several:
        one.sendall(request(texts * 8))
    settle(lambda: server.metric("heed_sentences_in_work") > 0, "lists that begin")
    for one in several:
        one.close()
    settle(lambda: server.metric("heed_jobs") == 0, "cancelled work that ends")
    check(server.metric(gone) - before == 4, "four translations were cancelled")
    left = 32 * len(texts) - (server.metric("heed_sentences_total") - done)
    check(left > 0, "sentences that nobody waits for are not translated")
    return left


def drain(server, want):
    """SIGTERM: what was accepted is answered."""
    several = [server.connect(60) for _ in range(64)]
    accepted = 'heed_orders_total{turn="accepted"}'
    before = server.metric(accepted)
    for i, one in enumerate(several):
        one.sendall(request(texts[i:i + 20]))
    settle(lambda: server.metric(accepted) - before == 64, "64 requests that are accepted")
    server.process.terminate()
    for i, one in enumerate(several):
        answer = parse(read_all(one))
        check(answer.status == 200 and answer.json["translatedText"] == want[i:i + 20],
              f"request {i} after SIGTERM: {answer.status}")
        one.close()
    check(server.process.wait(60) == 0, "SIGTERM ends it with 0")


def main():
    host = translate("cpu", exact, "f32")
    rows, notes = [], []
    for kind, (model, precision) in KINDS.items():
        want = translate(device, model, precision)
        server = open_server(device, model, precision)
        found = hurry(server, host if kind == "f32" else want)
        rows += [(kind, *row) for row in found]
        for row in found:
            check(row[-1] >= (1 if kind == "f32" else NEARLY), f"{kind}, {row[0]}: {row[-1]:.1%} "
                  f"as {'on the CPU' if kind == 'f32' else 'heed translate'}")
        if kind != "f32":
            check(server.end() == 0, "ends with 0")
            continue
        check(want == host, f"heed translate: {same(want, host):.1%} as on the CPU")
        cpu = open_server("cpu", exact, "f32")
        extras(server, cpu)
        check(cpu.end() == 0, "ends with 0")
        notes.append("beside a list, %d short requests were answered; steps were shared %.1f times"
                     % join_and_leave(server, host))
        notes.append("sentences that were not translated for clients that had hung up: %d"
                     % cancel(server))
        drain(server, host)
    print(f"{'':6}{'':30}{'sentences/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'rows/step':>11}"
          f"{'the same':>10}")
    for kind, title, rate, p50, p99, width, share in rows:
        print(f"{kind:6}{title:30}{rate:12.1f}{p50:9.2f}{p99:9.2f}{width:11.1f}{share:10.1%}")
    print("\n".join(notes))
    finish()


main()

"""A long day for heed serve: clients that ask, abort, talk nonsense, stream and pipeline, while
models are reloaded. Every answer is compared with what the same text became when it was alone.

    soak.py HEED MODEL SECONDS [CLIENTS]

Prints what happened, and memory over time; exit status 1 if an answer was lost or another one's, if
memory after the first third grew by more than 2 %, or if SIGTERM under load lost a request.
"""
import json, random, resource, signal, socket, sys, threading, time

from client import Server, check, finish, parse, read_all

heed, model, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
clients = int(sys.argv[4]) if len(sys.argv) > 4 else 200
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
s = Server(heed, "--model", "en-de=" + model, "--metrics", "--drain", "60")
pair = {"source": "en", "target": "de"}
words = ["bada", "kelo", "mino", "tera", "gulo", "pasi", "neto", "rika", "somu", "lape"]
dice = random.Random(1)
texts = [" ".join(dice.choice(words) for _ in range(dice.randint(1, 12))) for _ in range(300)]
want = {}
for t in texts:
    want[t] = s.post("/translate", {"q": t, **pair}).json["translatedText"]

counts, wrong, lock = {}, [], threading.Lock()
stop, ending = threading.Event(), threading.Event()


def count(what, n=1):
    with lock:
        counts[what] = counts.get(what, 0) + n


def fault(what):
    with lock:
        wrong.append(what)


def post(fields, path=b"/translate", close=False):
    body = json.dumps(fields).encode()
    return b"POST %s HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n%sContent-Length: " \
        b"%d\r\n\r\n%s" % (path, b"Connection: close\r\n" if close else b"", len(body), body)


def read_answer(c, data=b""):
    """One answer of a connection that stays open, and what came behind it."""
    while b"\r\n\r\n" not in data:
        part = c.recv(65536)
        if not part:
            return None, b""
        data += part
    a = parse(data)
    size = int(a.headers["content-length"])
    while len(a.body) < size:
        part = c.recv(65536)
        if not part:
            return None, b""
        a.body += part
    rest, a.body = a.body[size:], a.body[:size]
    return a, rest


def judge(a, q):
    """Is it the answer to this?"""
    if a is None or a.status == 0:
        if not ending.is_set():
            fault(f"no answer to {q!r}")
        return False
    if a.status == 503 and "retry-after" in a.headers:
        count("told to come back")
        return True
    expected = [want[t] for t in q] if isinstance(q, list) else want[q]
    if a.status != 200 or a.json["translatedText"] != expected:
        fault(f"{a.status} {a.body[:200]!r} to {q!r}")
        return False
    count("answers")
    return True


def keeps(dice):
    with s.connect(120) as c:
        rest = b""
        for _ in range(dice.randint(1, 20)):
            if stop.is_set():
                return
            q = dice.choice(texts) if dice.random() < 0.7 else dice.sample(texts, 7)
            c.sendall(post({"q": q, **pair}))
            a, rest = read_answer(c, rest)
            if not judge(a, q) or a.status != 200:
                return


def pipelines(dice):
    with s.connect(120) as c:
        asked, rest = dice.sample(texts, 10), b""
        c.sendall(b"".join(post({"q": q, **pair}) for q in asked))
        for q in asked:
            a, rest = read_answer(c, rest)
            if not judge(a, q) or a.status != 200:
                return


def aborts(dice):
    c = s.connect(120)
    c.sendall(post({"q": dice.sample(texts, 100), **pair}))
    time.sleep(dice.random() * 0.2)
    c.close()
    count("aborts")


def half_closes(dice):
    q = dice.choice(texts)
    judge(parse(s.raw(post({"q": q, **pair}, close=True), 120, half_close=True)), q)


def babbles(dice):
    head = b"POST /translate HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
    junk = dice.choice([b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", b"{" * 5000,
                        head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
                        head + b"Content-Length: 3\r\n\r\n{{{"])
    with s.connect(20) as c:
        c.sendall(junk)
        c.settimeout(0.5)
        try:
            c.recv(1000)
        except OSError:
            pass
    count("nonsense")


def streams(dice):
    q = dice.choice(texts)
    data = s.raw(post({"q": q, **pair}, b"/heed/stream", close=True), 120)
    if b"event: done" in data:
        if json.dumps(want[q], ensure_ascii=False).encode() in data:
            count("streams")
        else:
            fault(f"a stream of {q!r}: {data[-300:]!r}")
    elif not ending.is_set() and b" 503 " not in data:
        fault(f"a stream without an end: {data[:300]!r}")


def client(i):
    mine = random.Random(i)
    while not stop.is_set():
        kind = mine.choices((keeps, pipelines, aborts, half_closes, babbles, streams),
                            (10, 2, 3, 2, 2, 2))[0]
        try:
            kind(mine)
        except OSError as e:
            if not ending.is_set():
                fault(f"{kind.__name__}: {e}")
            time.sleep(0.1)


began = time.time()
threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
for t in threads:
    t.start()
memory, reloads = [], 0
while time.time() - began < seconds:
    time.sleep(max(1, seconds / 60))
    memory.append((time.time() - began, s.memory()))
    if len(memory) % 5 == 0:
        s.process.send_signal(signal.SIGHUP)
        reloads += 1
# the end under load: whatever was accepted is answered
accepted = s.metric('heed_orders_total{turn="accepted"}')
ending.set()
s.process.send_signal(signal.SIGTERM)
code = s.process.wait(120)
stop.set()
for t in threads:
    t.join()
print(f"{time.time() - began:.0f} s, {clients} clients, {reloads} reloads, {accepted:.0f} jobs:",
      ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
late = [m for t, m in memory if t > seconds / 3]
print("memory in kB:", " ".join(str(m) for _, m in memory))
print(f"memory after a third: {late[0]} kB, at most {max(late)} kB, at the end {late[-1]} kB")
check(not wrong, f"{len(wrong)} wrong: {wrong[:5]}")
check(code == 0, f"exit status {code}")
check(late[-1] <= late[0] * 1.02, f"memory grew from {late[0]} to {late[-1]} kB")
finish()

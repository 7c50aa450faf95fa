"""Twenty hostile clients, one after another, against one server, which afterwards is as it was.

    hostile.py HEED MODEL [SCALE]      SCALE: how many times slower than usual this build is
"""
import json, os, resource, signal, socket, struct, sys, threading, time

from client import Server, check, finish, parse, read_all

heed, model = sys.argv[1:3]
scale = int(sys.argv[3]) if len(sys.argv) > 3 else 1
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
TIMEOUT, JOB = 2, 3000 if scale == 1 else 1000
s = Server(heed, "--model", "en-de=" + model, "--threads", "1", "--metrics", "--timeout",
           str(TIMEOUT), "--max-body", "8", "--char-limit", "0", "--batch-limit", "0",
           "--deadline", str(max(15, 5 * scale)), "--trust", "127.0.0.1", "--req-limit",
           "1000000000")
pair = {"source": "en", "target": "de"}
good = s.post("/translate", {"q": "bada kelo", **pair}).json


def alive(who):
    """The server still does its work for others."""
    a = s.post("/translate", {"q": "bada kelo", **pair})
    check(a.status == 200 and a.json == good, f"after {who}: {a.status} {a.body[:200]!r}")


def settle(what, limit=60):
    """Waits until all connections but the asking one are gone, and nothing is in work."""
    end = time.time() + limit * scale
    while time.time() < end:
        if s.metric("heed_http_connections") == 1 and s.metric("heed_jobs") == 0:
            return
        time.sleep(0.05)
    check(False, f"after {what}: {s.metric('heed_http_connections')} connections, "
          f"{s.metric('heed_jobs')} jobs left")


def post(path, body, extra=b"", host=b"Host: t\r\n"):
    return (b"POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
            % (path, host, extra, len(body)) + body)


def status(data):
    return parse(data).status


def job(n):
    return json.dumps({"q": ["bada kelo mino tera gulo pasi neto %d" % i for i in range(n)],
                       **pair}).encode()


long_job = job(JOB)
settle("the beginning")
before = s.descriptors()


def slow_head():  # 1
    with s.connect() as c:
        began = time.time()
        c.sendall(b"GET /health HTTP/1.1\r\nHost: t\r\n")
        try:
            while time.time() < began + 40 * scale:
                c.sendall(b"a: b\r\n")
                time.sleep(0.2)
        except OSError:
            pass
        check(time.time() - began < TIMEOUT + 20 * scale, f"a slow head took {time.time() - began}")


def slow_body():  # 2
    with s.connect() as c:
        began = time.time()
        c.sendall(b"POST /translate HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n")
        try:
            while time.time() < began + 40 * scale:
                c.sendall(b"x")
                time.sleep(0.25)
        except OSError:
            pass
        check(time.time() - began < TIMEOUT + 20 * scale, f"a slow body took {time.time() - began}")


def never_reads():  # 3
    body = json.dumps({"q": ["a" * 1000] * 4000, "source": "en", "target": "en"}).encode()
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.connect(("127.0.0.1", s.port))
    c.sendall(post(b"/translate", body))
    time.sleep(0.3)
    alive("one that does not read")
    settle("one that does not read")
    c.close()


def hang_up(body, reset):
    """Eight clients ask and hang up: how many jobs were cancelled, and how many were too late."""
    ends = ['heed_jobs_total{end="%s"}' % how for how in ("cancelled", "deadline")]
    began, clients = [s.metric(one) for one in ends], []
    for _ in range(8):
        c = s.connect()
        c.sendall(post(b"/translate", body))
        clients.append(c)
    end = time.time() + 30 * scale
    while s.metric("heed_jobs") < 8 and time.time() < end:
        time.sleep(0.02)
    for c in clients:
        if reset:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    settle("hang-ups")
    return [s.metric(one) - before for one, before in zip(ends, began)]


def disconnects():  # 4
    endless = job(7 * JOB)  # none may end before the last one is there
    for reset in (False, True):
        for _ in range(3):  # a busy machine may take so long that the deadline comes first
            n, late = hang_up(endless, reset)
            if not late:
                break
        check(n == 8, f"{n} of 8 were cancelled, {late} too late (reset: {reset})")


def half_close():  # 5
    a = parse(s.raw(post(b"/translate", long_job), timeout=60 * scale, half_close=True))
    check(a.status == 200 and len(a.json["translatedText"]) == JOB, f"half-closed: {a.status}")
    a = parse(s.raw(post(b"/translate", json.dumps({"q": "bada kelo", **pair}).encode()),
                    half_close=True))
    check(a.status == 200 and a.json == good, "half-closed: another answer")


def idle_crowd():  # 6
    n = min(10000 if scale == 1 else 500, max(hard - 1000, hard // 2))
    memory, crowd = s.memory(), []
    for _ in range(n):
        c = s.connect()
        c.sendall(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n")
        crowd.append(c)
    for c in crowd:
        check(c.recv(4096).startswith(b"HTTP/1.1 200"), "a keep-alive connection was not answered")
    used = s.memory()
    print(f"{n} idle connections: {used} kB, {(used - memory) / n:.2f} kB each")
    check(scale > 1 or used < 200 * 1024, f"{n} idle connections take {used} kB")
    check(s.metric("heed_http_connections") >= n, "they are open")
    alive("a crowd")
    more = [s.connect() for _ in range(min(300, hard - n - 100))]  # those idle longest make room
    alive("a larger crowd")
    for c in crowd + more:
        c.close()


def few_descriptors():  # 6
    t = Server(heed, "--model", "en-de=" + model, "--threads", "1", limit=150)
    crowd = []
    for _ in range(400):
        c = t.connect()
        c.sendall(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n")
        crowd.append(c)
    got = []
    for c in crowd:
        try:
            got.append(status(c.recv(4096) or b"HTTP/1.1 499 closed"))
        except ConnectionError:
            got.append(499)  # it made room for another
    check(200 in got and set(got) <= {200, 499, 503}, f"without descriptors: {got}")
    a = t.post("/translate", {"q": "bada kelo", **pair})
    check(a.status == 200 and a.json == good, f"without descriptors: {a.status}")
    check(t.end() == 0, "ends")


def pipeline():  # 7
    with s.connect() as c:
        one = b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n"
        c.sendall(one * 999 + one.replace(b"Host", b"Connection: close\r\nHost"))
        data = read_all(c)
        check(data.count(b'{"status":"ok"}') == 1000, f"{data.count(b'200 OK')} of 1000 answered")
    with s.connect() as c:  # each answer is its own
        bodies = [json.dumps({"q": f"x{i}", "source": "en", "target": "en"}).encode()
                  for i in range(50)]
        c.sendall(b"".join(post(b"/translate", b) for b in bodies) +
                  b"GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        data = read_all(c)
        at = [data.find(b'"x%d"' % i) for i in range(50)]
        check(at == sorted(at) and at[0] > 0, "answers of a pipeline are out of order")


def lengths():  # 8
    for lines in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                  b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: -5\r\n",
                  b"Content-Length: 5\r\nContent-Length: 5\r\n", b"Content-Length: 0x5\r\n",
                  b"Content-Length: 99999999999999999999\r\n", b"Content-Length: 5, 5\r\n",
                  b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                  b"Content-Length : 5\r\n", b"Content-Length:\r\n"):
        got = status(s.raw(b"POST /translate HTTP/1.1\r\nHost: t\r\n" + lines + b"\r\nabcde"))
        check(got == 400, f"{lines!r}: {got}")
    for lines in (b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n"):
        got = status(s.raw(b"POST /translate HTTP/1.1\r\nHost: t\r\n" + lines + b"\r\nabcde"))
        check(got == 501, f"{lines!r}: {got}")


def chunks():  # 9
    head = b"POST /translate HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Type: " \
           b"application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = json.dumps({"q": "bada kelo", **pair}).encode()
    whole = b"".join(b"%x;x=y\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                     for i in range(0, len(body), 7))
    a = parse(s.raw(head + whole + b"0\r\nTrailer: x\r\n\r\n"))
    check(a.status == 200 and a.json == good, f"good chunks: {a.status}")
    for junk, want in ((b"xyz\r\n", 400), (b"5\nabcde\r\n0\r\n\r\n", 400), (b"-5\r\n", 400),
                       (b"fffffffffffffffff\r\n", 413), (b"5\r\nabcdeXX", 400),
                       (b"5;" + b"a" * 10000 + b"\r\n", 431), (b"\r\n\r\n", 400),
                       (b"0\r\n" + b"a: b\r\n" * 100000, 431), (b"a" * 15 + b"\r\nabc", None)):
        got = status(s.raw(head + junk, timeout=20 * scale))
        check(got == want or (want is None and got in (408, 413)), f"chunks {junk[:20]!r}: {got}")
    with s.connect(30 * scale) as c:  # endless
        c.sendall(head)
        try:
            for _ in range(100000):
                c.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
        except OSError:
            pass
        data = read_all(c)
        check(not data or status(data) == 413, f"endless chunks: {data[:60]!r}")
    tiny = b"1\r\na\r\n" * 200000
    check(status(s.raw(head + tiny + b"0\r\n\r\n")) == 400, "chunks of a byte")


def ten_gigabytes():  # 10
    began = time.time()
    got = status(s.raw(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10737418240\r\n\r\n"))
    check(got == 413 and time.time() - began < 30 * scale, f"10 GB: {got}")


def expects():  # 11
    head = b"POST /translate HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: %d\r\n"
    with s.connect() as c:
        c.sendall(head % 100000000 + b"\r\n")
        check(c.recv(4096).startswith(b"HTTP/1.1 413 "), "100-continue, and too large")
    body = json.dumps({"q": "bada kelo", **pair}).encode()
    with s.connect() as c:
        c.sendall(head % len(body) + b"Content-Type: application/json\r\nConnection: close\r\n\r\n")
        check(c.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n", "100-continue")
        c.sendall(body)
        check(parse(read_all(c)).json == good, "after 100-continue")
    check(status(s.raw(b"GET /health HTTP/1.1\r\nHost: t\r\nExpect: wonders\r\n\r\n")) == 417,
          "another expectation")


def heads():  # 12
    close = b"Host: t\r\nConnection: close\r\n\r\n"
    a = s.raw(b"GET /health?" + b"a" * (300 << 10) + b" HTTP/1.1\r\n" + close)
    check(status(a) == 200, f"300 KiB of URL: {a[:40]!r}")
    for head, want in ((b"GET /" + b"a" * (400 << 10), 414),
                       (b"GET / HTTP/1.1\r\nHost: t\r\n" + b"a: b\r\n" * 10000 + b"\r\n", 431),
                       (b"GET / HTTP/1.1\r\nHost: t\r\na: " + b"b" * (400 << 10), 431),
                       (b"GET / HTTP/1.1\r\nHost: t\r\na: \0\r\n\r\n", 400),
                       (b"GET / HTTP/1.1\nHost: t\n\n", 400),
                       (b"GET / HTTP/1.1\r\nHost: t\r\na: b\r\n c\r\n\r\n", 400),
                       (b"GET / HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n", 400),
                       (b"GET / HTTP/1.1\r\n\r\n", 400),
                       (b"GET / HTTP/1.1\r\nHost : t\r\n\r\n", 400),
                       (b"GET /%00 HTTP/1.1\r\n" + close, 400),
                       (b"GET /%zz HTTP/1.1\r\n" + close, 400),
                       (b"GET / HTTP/2.0\r\n" + close, 505),
                       (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
                       (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200, 400),
                       (b"GET  / HTTP/1.1\r\n" + close, 400), (b"GET /\r\n\r\n", 400),
                       (b"GET a HTTP/1.1\r\n" + close, 400), (b" / HTTP/1.1\r\n" + close, 400),
                       (b"GET /../../etc/passwd HTTP/1.1\r\n" + close, 404),
                       (b"GET http://t/health HTTP/1.1\r\n" + close, 200),
                       (b"\r\n\r\nGET /health HTTP/1.1\r\n" + close, 200)):
        got = status(s.raw(head, timeout=20 * scale))
        check(got == want, f"{head[:40]!r}: {got} instead of {want}")
    a = s.raw(b"GET /health HTTP/1.0\r\n\r\n")
    check(b"200 OK" in a and b"close" in a, "HTTP/1.0")


def deep_json():  # 13, 14, 15
    for junk in (b"[" * 100000, b'{"q":' * 100000, b'{"q":"a","q":"b","source":"en"}', b'{"q":NaN}',
                 b'{"q":1e999}', b'{"q":"\xff\xfe"}', b'{"q":"\\ud800"}', b'{"q":"\\u0000"}',
                 b'\xfe\xff\x00{', b'{"q":1,"source":"en","target":"de"}',
                 b'{"q":[null],"source":"en","target":"de"}', b'{"q":{},"source":"en"}',
                 b'{"q":true,"source":"en","target":"de"}'):
        a = parse(s.raw(post(b"/translate", junk, b"Connection: close\r\n")))
        check(a.status == 400 and "error" in a.json, f"{junk[:30]!r}: {a.status}")
    a = s.post("/translate", {"q": [""], **pair})
    check(a.status == 200 and a.json == {"translatedText": [""]}, f"an empty text: {a.body[:100]}")
    a = s.post("/translate", {"q": [""] * 1000000, **pair})
    check(a.status in (400, 413), f"a million texts: {a.status}")
    a = s.post("/translate", b"q=%FF%FE%00abc&source=en&target=en",
               kind="application/x-www-form-urlencoded")
    check(a.status == 200 and "\ufffd" in a.json["translatedText"], "bytes that are not UTF-8")
    a = s.post("/translate", b"q=<p>%F6ffnen</p>&source=en&target=en&format=html",
               kind="application/x-www-form-urlencoded")
    check(a.status == 400 and "UTF-8" in a.json["error"], "HTML that is not UTF-8")


def long_sentence():  # 16
    began, done = time.time(), []
    worker = threading.Thread(target=lambda: done.append(
        s.post("/translate", {"q": "a" * 5000000, **pair}).status))
    worker.start()
    time.sleep(0.2)
    at = time.time()
    alive("5 MB without a space")
    check(time.time() - at < 20 * scale, f"beside 5 MB a request took {time.time() - at}")
    worker.join()
    check(done and done[0] in (200, 400, 504) and time.time() - began < 60 * scale,
          f"5 MB without a space: {done} after {time.time() - began}")
    a = s.post("/translate", {"q": "da da da da da da " * 30, **pair})
    check(a.status == 200, f"text that goes round and round: {a.status}")


def alternatives():  # 17
    for n, want in ((10000, 400), (10 ** 30, 400), (-1, 200)):
        got = s.post("/translate", {"q": "bada", **pair, "alternatives": n}).status
        check(got == want, f"{n} alternatives: {got}")


def parts():  # 18
    def send(body, kind="multipart/form-data; boundary=X"):
        return s.post("/translate", body, kind=kind)
    part = b'--X\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    whole = part % (b"q", b"bada kelo") + part % (b"source", b"en") + part % (b"target", b"de")
    check(send(whole + b"--X--\r\n").json == good, "good parts")
    check(send(whole + b"--X--", "multipart/form-data").status == 400, "no boundary")
    long = "multipart/form-data; boundary=" + "b" * 200
    check(send(whole, long).status == 400, "a long boundary")
    check(send(part % (b"a", b"b") * 100000 + b"--X--").status == 413, "100,000 parts")
    check(send(b"--X\r\n" + b"a: b\r\n" * 100000).status == 400, "a head without end")
    check(send(whole).status == 400, "no last boundary")
    check(send(b"--X\r\n\r\nabc\r\n--X--").status == 400, "a part without a name")
    check(send(b'--X\r\nContent-Disposition: form-data; name="q\r\n\r\nabc\r\n--X--').status == 400,
          "a quote without end")
    evil = b'--X\r\nContent-Disposition: form-data; name="../../q"; ' \
           b'filename="../../etc/passwd"\r\n\r\nabc\r\n'
    check(send(evil + whole + b"--X--").json == good, "names that climb")


def markup():  # 19
    for html in ("<b>" * 100000 + "bada", "<p><b><i>bada", "</b></p>bada",
                 "<script>" + "a<b" * 1000, "&lt;" * 20000,
                 "&#x10ffff;&#0;&#xd800;&nosuch;" * 1000, "<!--" * 1000, "<" * 10000):
        a = s.post("/translate", {"q": html, "format": "html", **pair})
        check(a.status in (200, 400, 504), f"html {html[:20]!r}: {a.status}")
        if a.status == 200 and html.startswith("<b>"):
            check(a.json["translatedText"].count("<b>") == 100000, "tags were lost")


def spoofing():  # 20
    t = Server(heed, "--model", "en-de=" + model, "--threads", "1", "--req-limit", "30",
               "--flood-limit", "50")
    got = [t.post("/translate", {"q": "bada", "source": "en", "target": "en"},
                  headers=[f"X-Forwarded-For: 10.0.{i}.1"]).status for i in range(100)]
    check(got.count(200) <= 32 and got[-1] == 403 and 429 in got,
          f"spoofed addresses: {got.count(200)} answered, then {got[-1]}")
    check(t.end() == 0, "ends")
    got = [s.post("/translate", {"q": "a", "source": "en", "target": "en"},
                  headers=[f"X-Forwarded-For: 10.1.{i // 250}.{i % 250}"]).status
           for i in range(500)]
    check(set(got) == {200}, "clients behind a proxy that is trusted")


def drain_storm():  # 20, the end
    """SIGTERM under load: whoever was heard is answered, whoever comes now is told to come back."""
    answers, late = [], []

    def work(i):
        c = s.connect(60 * scale)
        c.sendall(post(b"/translate", json.dumps(
            {"q": ["bada kelo mino tera %d" % k for k in range(300 // scale)], **pair}).encode(),
            b"Connection: close\r\n"))
        answers.append(parse(read_all(c)).status)
    workers = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for w in workers:
        w.start()
    end = time.time() + 20 * scale
    while s.metric("heed_jobs") < 10 and time.time() < end:
        time.sleep(0.01)
    while s.metric("heed_http_active") < 21 - len(answers) and time.time() < end:
        time.sleep(0.01)
    s.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    while s.process.poll() is None and len(late) < 200:
        try:
            late.append(parse(s.raw(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n", timeout=5)))
        except OSError:
            break
    for w in workers:
        w.join()
    check(answers.count(200) == 20, f"drained: {answers}")
    told = [a for a in late if a.status]  # 200 until the signal is heard; nothing, at the very end
    while told and told[0].status == 200:
        told.pop(0)
    check(all(a.status == 503 and "retry-after" in a.headers for a in told),
          f"while draining: {[a.status for a in late]}")
    check(s.process.wait(60 * scale) == 0, "ends with 0")


warm = None
for name, client in list(globals().items()):
    if name not in ("slow_head", "slow_body", "never_reads", "disconnects", "half_close",
                    "idle_crowd", "few_descriptors", "pipeline", "lengths", "chunks",
                    "ten_gigabytes", "expects", "heads", "deep_json", "long_sentence",
                    "alternatives", "parts", "markup", "spoofing"):
        continue
    began = time.time()
    client()
    alive(name)
    settle(name)
    print(f"{name}: {time.time() - began:.2f} s, {s.memory()} kB", flush=True)
check(s.descriptors() == before, f"{s.descriptors()} descriptors, {before} at first")
first = s.memory()
for client in (disconnects, deep_json, parts, markup, pipeline):
    client()
settle("all of them")
end = time.time() + 30 * scale  # what they used is given back when there is nothing to do
while s.memory() >= first * 1.1 + 8192 and time.time() < end:
    time.sleep(0.1)
check(s.memory() < first * 1.1 + 8192, f"memory grew from {first} to {s.memory()} kB")
drain_storm()
finish()

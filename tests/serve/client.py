"""A server to test, and plain sockets to talk to it with."""
import json, os, re, resource, signal, socket, subprocess, sys, time

failures = 0


def check(condition, what):
    """One fact; the rest is tried even so."""
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what, flush=True)


def finish():
    sys.exit(1 if failures else 0)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    """`heed serve` on a port of its own."""

    def __init__(self, heed, *args, listen="127.0.0.1:0", limit=None):
        self.log = open("serve.log", "ab+")
        start = self.log.seek(0, 2)
        self.process = subprocess.Popen(
            [heed, "serve", "--listen", listen, *args], stderr=self.log, preexec_fn=limit and (
                lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))))
        self.port = None
        limit = time.time() + 60 * int(os.environ.get("TEST_SCALE", "1") or 1)
        while time.time() < limit and self.process.poll() is None:
            self.log.seek(start)
            text = self.log.read().decode()
            found = re.search(r"listening on https?://127\.0\.0\.1:(\d+)", text)
            if found:
                self.port = int(found.group(1))
            if "ready after" in text:
                return
            time.sleep(0.02)
        raise SystemExit("the server does not start: " + text)

    def connect(self, timeout=20):
        s = socket.create_connection(("127.0.0.1", self.port), timeout)
        return s

    def raw(self, data, timeout=20, half_close=False):
        """Sends bytes; everything that comes back until the server closes."""
        with self.connect(timeout) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
            if half_close:
                s.shutdown(socket.SHUT_WR)
            return read_all(s)

    def ask(self, method, path, body=None, headers=(), kind="application/json", timeout=60):
        if isinstance(body, (dict, list)):
            body = json.dumps(body, ensure_ascii=False).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
        if body is not None:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        for line in headers:
            head += line + "\r\n"
        return parse(self.raw(head.encode() + b"\r\n" + (body or b""), timeout))

    def post(self, path, fields, **more):
        return self.ask("POST", path, fields, **more)

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def metric(self, name):
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)


def read_all(s):
    parts = []
    try:
        while True:
            part = s.recv(65536)
            if not part:
                break
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def parse(data):
    """The last answer in the bytes; interim ones are passed over."""
    while True:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/1.1 ") else 0
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if 100 <= status < 200:
            data = rest
            continue
        return Answer(status, headers, rest)

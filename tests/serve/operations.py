"""Running heed serve: TLS, sockets, keys, limits, reloading, the end.

    operations.py HEED MODEL
"""
import hashlib, http.client, json, os, shutil, signal, socket, ssl, subprocess, sys, threading, time

from client import Server, check, finish, parse, read_all

heed, model = sys.argv[1:3]
base = ["--model", "en-de=" + model, "--threads", "1"]
pair = {"source": "en", "target": "de"}
same = {"q": "a", "source": "en", "target": "en"}


def line_of(key, rest=""):
    return hashlib.sha256(key.encode()).hexdigest() + rest + "\n"


# ---- keys: checked before anything else, never in the log, read again on SIGHUP
with open("keys", "w") as f:
    f.write("# keys\n" + line_of("one") + line_of("two", " 2"))
s = Server(heed, *base, "--api-keys", "keys", "--require-api-key", "--access-log", "keys.log",
           "--suggestions", "suggested", "--metrics", "--cors", "https://a.example",
           "--trust", "127.0.0.1")
a = s.post("/translate", {})
check(a.status == 400 and
      a.json == {"error": "Please contact the server operator to get an API key"},
      f"no key: {a.body}")
a = s.post("/translate", {"api_key": "three"})
check(a.status == 403 and a.json == {"error": "Invalid API key"}, f"a wrong key: {a.body}")
check(s.post("/translate", {"api_key": 7}).status == 403, "a key that is a number")
check(s.post("/translate", {"api_key": "one", **same}).status == 200, "a key")
got = [s.post("/translate", {"api_key": "two", **same}).status for _ in range(4)]
check(got == [200, 200, 429, 429], f"a key with a limit: {got}")
slow = s.post("/translate", {"api_key": "two", **same})
check(slow.json["error"].startswith("Slowdown: ") and int(slow.headers["retry-after"]) > 0,
      f"429: {slow.headers} {slow.body}")
check(s.get("/frontend/settings").json["keyRequired"] is True, "keyRequired")
check(s.get("/health").headers["access-control-allow-origin"] == "https://a.example", "--cors")
a = s.post("/suggest", {"api_key": "one", "q": "bada", "s": "kelo", **pair})
check(a.status == 200 and a.json == {"success": True}, f"suggest: {a.body}")
check(json.loads(open("suggested").read()) == {"q": "bada", "s": "kelo", **pair}, "the suggestion")
check(os.stat("suggested").st_mode & 0o7 == 0, "others may not read suggestions")
with open("keys", "w") as f:
    f.write(line_of("three"))
os.rename("keys.log", "keys.log.1")


def until(what, wait=20):
    end = time.time() + wait
    while not what() and time.time() < end:
        time.sleep(0.02)
    return what()


s.process.send_signal(signal.SIGHUP)
check(until(lambda: s.post("/translate", {"api_key": "three", **same}).status == 200),
      "a new key after SIGHUP")
check(s.post("/translate", {"api_key": "one", **same}).status == 403, "an old key after SIGHUP")
check(until(lambda: os.path.exists("keys.log")), "a new log after SIGHUP")
with open("keys", "w") as f:
    f.write("nonsense\n")
s.process.send_signal(signal.SIGHUP)
time.sleep(0.3)
check(s.post("/translate", {"api_key": "three", **same}).status == 200,
      "a bad file changes nothing")
body = "".join(f'--X\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
               for name, value in (("source", "en"), ("target", "en"), ("api_key", "three"),
                                   ('file"; filename="a.txt', "a")))
a = s.post("/translate_file", body.encode() + b"--X--", kind="multipart/form-data; boundary=X",
           headers=["X-Forwarded-Proto: https"])
check(a.json["translatedFileUrl"].startswith("https://test/"), f"behind a proxy: {a.body}")
check(s.end() == 0, "ends with 0")
log = open("keys.log.1").read() + open("keys.log").read()
check("three" not in log and '"status":403' in log, "keys are not in the log")

# ---- metrics for those who have the token, or for nobody; another message about keys
for name, text in (("token", "sesame\n"), ("none", "")):
    with open(name, "w") as f:
        f.write(text)
s = Server(heed, *base, "--metrics-token", "token", "--api-keys", "none", "--require-api-key",
           "--get-key-url", "https://a.example/key", "--no-files", "--no-page")
for lines, want in (([], 401), (["Authorization: Bearer sesam"], 401),
                    (["Authorization: Bearer sesame"], 200)):
    a = s.get("/metrics", headers=lines)
    check(a.status == want, f"/metrics with {lines}: {a.status}")
a = s.post("/translate", same)
check(a.json == {"error": "Visit https://a.example/key to get an API key"}, f"a URL: {a.body}")
check(s.post("/translate_file", b"", kind="text/plain").status == 403, "--no-files")
check(s.get("/").status == 404, "--no-page")
check(s.end() == 0, "ends with 0")
s = Server(heed, *base)
check(s.get("/metrics").status == 404, "/metrics that nobody asked for")
check(s.end() == 0, "ends with 0")

# ---- what may not be
for args, why in ((["--require-api-key"], "--require-api-key needs --api-keys"),
                  (["--tls-cert", "x"], "go together"),
                  (["--trust", "nobody"], "is not an address"),
                  (["--listen", "nowhere"], "is not HOST:PORT"),
                  (["--api-keys", "absent"], "absent"),
                  (["--log-texts"], "--log-texts needs --access-log"),
                  (["--suggestions", "absent/file"], "absent/file: No such file"),
                  (["--model", "absent"], "absent"), (["--model", "x=" + model], "like en-de"),
                  (["--model", model], "does not say its languages"),
                  (["--model", "de-fr=."], "config.json"), (["--device", "gpu"], "gpu"),
                  (["--frontend-source", "xx"], "no model translates from 'xx'"),
                  (["--frontend-target", "en"], "no model translates into 'en'"),
                  (["--glossary", "absent"], "absent"),
                  (["--glossary", "en-fr=absent"], "no model for en-fr"),
                  (["--model", "de-en=" + model, "--glossary", "absent"], "name the languages")):
    p = subprocess.run([heed, "serve", *base, *args], stderr=subprocess.PIPE, timeout=60)
    check(p.returncode in (1, 2) and why.encode() in p.stderr, f"{args}: {p.stderr[-200:]!r}")
    check(b"listening" not in p.stderr, f"{args}: before anybody can connect: {p.stderr!r}")

# ---- terms that requests need not bring along; each part of a way through a third language has its
# own; they are read again on SIGHUP
with open("terms", "w") as f:
    f.write("bada\tlo lo\n")
s = Server(heed, "--model", "en-de=" + model, "de-fr=" + model, "--threads", "1", "--glossary",
           "de-fr=terms")


def said(target, **more):
    return s.post("/translate", {"q": "bada", "source": "de", "target": target, **more}).json


check("lo lo" in said("fr")["translatedText"].lower(), f"a term of the server: {said('fr')}")
check("lo lo" not in said("fr", glossary={"bada": "mino"})["translatedText"].lower(),
      "terms of one's own")
check("lo lo" not in said("de", source="en")["translatedText"].lower(), "of another pair")
with open("terms", "w") as f:
    f.write("bada\tgulo gulo\n")
s.process.send_signal(signal.SIGHUP)
check(until(lambda: "gulo gulo" in said("fr")["translatedText"].lower()), "terms after SIGHUP")
check(s.end() == 0, "ends with 0")

# ---- TLS, a unix socket, several at once; limits for everybody
if not shutil.which("openssl"):
    print("no openssl here to make a certificate: TLS and unix sockets are not tested")
else:
    subprocess.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem "
                   "-days 2 -subj /CN=localhost".split(), check=True, stderr=subprocess.DEVNULL)
    s = Server(heed, *base, "--listen", "unix:sock", "--tls-cert", "cert.pem", "--tls-key",
               "key.pem", "--log-texts", "--access-log", "tls.log", "--timeout", "2")
    context = ssl.create_default_context(cafile="cert.pem")
    context.check_hostname = False
    c = http.client.HTTPSConnection("127.0.0.1", s.port, context=context, timeout=20)
    for i in range(3):  # kept alive
        big = "x" * (1 + 40000 * i)
        c.request("POST", "/translate", json.dumps({"q": big, "source": "en", "target": "en"}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        check(r.status == 200 and json.loads(r.read()) == {"translatedText": big}, "TLS")
    with context.wrap_socket(s.connect()) as t:
        t.sendall(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n" * 50 +
                  b"GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        check(read_all(t).count(b'"ok"') == 51, "a pipeline over TLS")
    plain = parse(s.raw(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n"))
    check(plain.status == 400 and "https://" in plain.json["error"], f"no TLS: {plain.body}")
    with s.connect() as silent:  # a handshake that never comes
        began = time.time()
        check(read_all(silent) == b"" and time.time() - began < 45, "a handshake that never comes")
    with socket.socket(socket.AF_UNIX) as u:
        u.connect("sock")
        u.sendall(b"GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        check(b'{"status":"ok"}' in read_all(u), "a unix socket")
    os.kill(s.process.pid, signal.SIGHUP)  # the certificate again, and connections go on
    time.sleep(0.3)
    c.request("GET", "/health")
    check(c.getresponse().read() == b'{"status":"ok"}\n', "TLS after SIGHUP")
    check(s.end() == 0 and not os.path.exists("sock"), "the socket is removed")
    check('"q":"x"' in open("tls.log").read(), "--log-texts")

# ---- a socket from systemd
listening = socket.create_server(("127.0.0.1", 0))
port = listening.getsockname()[1]
script = 'import os,sys; os.dup2(int(sys.argv[1]),3); os.environ["LISTEN_PID"]=str(os.getpid()); ' \
    'os.environ["LISTEN_FDS"]="1"; os.execv(sys.argv[2], sys.argv[2:])'
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("notify")
notify.settimeout(60)
p = subprocess.Popen([sys.executable, "-c", script, str(listening.fileno()), heed, "serve", *base],
                     pass_fds=[listening.fileno()], stderr=subprocess.DEVNULL,
                     env={**os.environ, "NOTIFY_SOCKET": "notify"})
check(notify.recv(100) == b"READY=1", "systemd is told")
with socket.create_connection(("127.0.0.1", port), 20) as c:
    c.sendall(b"GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
    check(b'{"status":"ok"}' in read_all(c), "a socket from systemd")
p.send_signal(signal.SIGTERM)
check(p.wait(60) == 0 and notify.recv(100) == b"STOPPING=1", "ends")

# ---- the end: whoever has connected before it is told, not reset; then nobody can connect
for wait in (0.7, 0.3, 0):  # a second or two are theirs, and a busy machine may sleep through them
    s = Server(heed, *base)
    with s.connect(20) as late, s.connect(20) as mute:
        s.process.send_signal(signal.SIGTERM)
        time.sleep(wait)  # nothing is in work: what there was to wait for has been waited for
        try:
            late.sendall(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n")
        except ConnectionError:
            pass
        a = parse(read_all(late))
        check(read_all(mute) == b"", "who says nothing is let go")
    check(s.process.wait(60) == 0, "ends nevertheless")
    if a.status:
        break
check(a.status == 503 and "retry-after" in a.headers, f"at the end: {a.status}")

# ---- reloading models under load: nothing is lost, nothing is mixed up
s = Server(heed, *base, "--metrics")
want = {q: s.post("/translate", {"q": q, **pair}).body for q in
        ("bada kelo %s" % w for w in ("mino", "tera", "gulo", "pasi", "neto"))}
wrong, stop, count = [], [], [0]


def load(i):
    keys = list(want)
    while not stop:
        q = keys[(i + count[0]) % len(keys)]
        a = s.post("/translate", {"q": q, **pair})
        count[0] += 1
        if a.status != 200 or a.body != want[q]:
            wrong.append((a.status, a.body[:100]))


threads = [threading.Thread(target=load, args=(i,)) for i in range(6)]
for t in threads:
    t.start()
for _ in range(5):
    time.sleep(0.2)
    s.process.send_signal(signal.SIGHUP)
time.sleep(0.3)
stop.append(1)
for t in threads:
    t.join()
check(not wrong and count[0] > 20, f"reloading: {len(wrong)} of {count[0]}: {wrong[:3]}")
check(until(lambda: s.metric("heed_engines") == 1), "engines of old models end")


def reload(times):
    """One after the other; the memory that is used then."""
    for _ in range(times):
        with open("serve.log", encoding="utf-8") as log:
            before = log.read().count("heed: reloaded")
            s.process.send_signal(signal.SIGHUP)
            check(until(lambda: log.seek(0) == 0 and log.read().count("heed: reloaded") > before),
                  "it is reloaded")
        s.post("/translate", {"q": "bada kelo", **pair})
    check(until(lambda: s.metric("heed_engines") == 1), "engines of old models end")
    return s.memory()


if not os.environ.get("TEST_SCALE"):  # a sanitizer keeps what was freed
    first, last = reload(4), reload(16)
    check(last < first * 1.06, f"reloading: {first} kB of memory, and {last} kB in the end")
check(s.end() == 0, "ends with 0")

# ---- a rounded model that says its languages itself
subprocess.run([heed, "quantize", "--model", model, "--out", "rounded"], check=True,
               stdout=subprocess.DEVNULL)
subprocess.run([heed, "describe", "rounded", "--source", "en", "--target", "de-AT"], check=True,
               stdout=subprocess.DEVNULL)
s = Server(heed, "--model", "rounded", "--threads", "1")


def weights():
    """Kilobytes of them in the server's memory."""
    kilobytes = 0
    with open(f"/proc/{s.process.pid}/smaps") as f:
        for line in f:
            if "-" in line.split()[0]:
                ours = "rounded/model.safetensors" in line
            elif ours and line.startswith("Rss:"):
                kilobytes += int(line.split()[1])
    return kilobytes


before = weights()
check(s.post("/translate", {"q": "bada", **pair}).status == 200, "a model with a card")
check(before < weights() // 2, f"weights that nobody has used: {before} of {weights()} kB")
check(s.end() == 0, "ends with 0")

# ---- without --model: all that are installed, one for each pair of languages
os.mkdir("installed")
for name in ("one", "two"):
    shutil.copytree("rounded", "installed/" + name)
shutil.copytree(model, "installed/silent")
os.environ["HEED_MODELS"] = "installed"
s = Server(heed, "--threads", "1")
codes = [one["code"] for one in s.get("/languages").json]
check(codes == ["en", "de"], f"languages of what is installed: {codes}")
check(s.end() == 0, "ends with 0")
a = subprocess.run([heed, "serve", "--model", "installed/one", "installed/two"],
                   stderr=subprocess.PIPE)
check(a.returncode == 2 and b"two models for en-de: installed/one and installed/two" in a.stderr,
      f"two models for a pair: {a.stderr}")
a = subprocess.run([heed, "serve", "--model", "en-en=" + model], stderr=subprocess.PIPE)
check(a.returncode == 2 and b"translates en into en" in a.stderr, f"en-en: {a.stderr}")

# ---- a model of several languages: one for all pairs that are named, or that it can do
many = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "import", "hf-m2m")
subprocess.run([heed, "import", many, "--out", "many", "--quiet"], check=True)
own = {"en": "eng_Latn", "de": "de_DE", "fr": "fra"}
with open("many/config.json") as f:
    config = json.load(f)
tokens = config["tokens"]["languages"]["codes"].values()
config["tokens"]["languages"]["codes"] = dict(zip(own.values(), tokens))
with open("many/config.json", "w") as f:
    json.dump(config, f)
lines = ["dnabd tna tit", "tit eok srair trs", "aete sibk", "rsst aas etir ki"]


def translated(source, target):
    run = subprocess.run([heed, "translate", "--model", "many", "--source-lang", own[source],
                          "--target-lang", own[target], "--quiet", "--threads", "1"],
                         input="\n".join(lines).encode(), stdout=subprocess.PIPE, check=True)
    return run.stdout.decode().splitlines()


def served():
    return {one["code"]: one["targets"] for one in s.get("/languages").json}


def mapped():
    with open(f"/proc/{s.process.pid}/maps") as f:
        return sum("many/model.safetensors" in line for line in f)


s = Server(heed, "--model", "en-de=many", "--threads", "1")
once = mapped()
check(served() == {"en": ["de", "en"], "de": ["de"]}, f"one pair of several: {served()}")
check(s.end() == 0, "ends with 0")
s = Server(heed, "--model", "en-de,en-fr=many", "fr-de=many", "--threads", "1", "--metrics")
check(served() == {"en": ["de", "en", "fr"], "fr": ["de", "fr"], "de": ["de"]},
      f"pairs of one model: {served()}")
check(mapped() == once and s.metric("heed_engines") == 1,
      f"a model for three pairs: {mapped()} mappings, {once} for one")
right = {pair: translated(*pair) for pair in (("en", "de"), ("en", "fr"), ("fr", "de"))}
check(len({tuple(one) for one in right.values()}) == 3, f"languages make no difference: {right}")
answers = {}


def speak(source, target):
    answers[source, target] = [
        s.post("/translate", {"q": q, "source": source, "target": target}).json["translatedText"]
        for q in 5 * lines]


threads = [threading.Thread(target=speak, args=one) for one in right]
for t in threads:
    t.start()
for t in threads:
    t.join()
for one, want in right.items():
    check(answers[one] == 5 * want, f"{one}: {answers[one]}, not {want}")
scores = [s.post("/heed/score", {"q": lines[0], "translation": lines[1], "source": "en",
                                 "target": to}).json["logProbability"] for to in ("de", "fr")]
check(scores[0] != scores[1], f"scores in two languages: {scores}")
check(s.end() == 0, "ends with 0")
s = Server(heed, "--model", "many", "en-de=" + model, "--threads", "1")
check(served() == {one: sorted(own) for one in own}, f"each into each: {served()}")
speak("en", "fr")
speak("de", "en")
check(answers["en", "fr"] == 5 * right["en", "fr"], "one of all pairs")
check(answers["de", "en"] == 5 * translated("de", "en"), "another")
plain = subprocess.run([heed, "translate", "--model", model, "--quiet", "--threads", "1"],
                       input="\n".join(lines).encode(), stdout=subprocess.PIPE).stdout.decode()
speak("en", "de")
check(answers["en", "de"] == 5 * plain.splitlines(), "a pair that was named for another model")
check(s.end() == 0, "ends with 0")
for word, why in (("en-es=many", "does not know the language 'es'"),
                  ("en-de,en=many", "like en-de"), ("en-de,=many", "like en-de"),
                  ("en-de,en-de=many", "two models for en-de")):
    a = subprocess.run([heed, "serve", "--model", word], stderr=subprocess.PIPE)
    check(a.returncode == 2 and why.encode() in a.stderr, f"{word}: {a.stderr}")
finish()

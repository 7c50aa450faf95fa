"""heed serve while slowhttptest does its worst: everybody else is served, nothing is left behind.

    slow.py HEED MODEL SECONDS

Each attack holds 500 connections for so many seconds. Meanwhile a client translates again and
again, and slowhttptest's own probe must find the service available to the end.
"""
import re, subprocess, sys, threading, time

from client import Server, check, finish

heed, model, seconds = sys.argv[1:4]
text = {"q": "bada kelo", "source": "en", "target": "de"}
s = Server(heed, "--model", "en-de=" + model, "--metrics", "--timeout", "10", "--idle", "5")
s.post("/translate", text)
before = s.descriptors()
attacks = (("slow heads", "-H", "/health"), ("slow bodies", "-B -s 8192", "/translate"),
           ("slow readers", "-X -w 1 -y 10 -n 1 -z 5 -k 5", "/docs"),
           ("ranges", "-R -a 5 -b 3000", "/docs"))
print(f"{'':14}{'available':>10}{'answers':>9}{'p50 ms':>8}{'longest ms':>12}")
for name, options, path in attacks:
    times, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            begin = time.perf_counter()
            a = s.post("/translate", text)
            check(a.status == 200, f"{name}: {a.status} {a.body[:100]!r}")
            times.append(1e3 * (time.perf_counter() - begin))
            time.sleep(0.02)

    client = threading.Thread(target=ask)
    client.start()
    run = subprocess.run(
        ["slowhttptest", *options.split(), "-c", "500", "-r", "200", "-l", seconds,
         "-i", "2", "-p", "5", "-v", "1", "-u", f"http://127.0.0.1:{s.port}{path}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
    stop.set()
    client.join()
    said = re.sub(rb"\x1b\[[0-9;]*m", b"", run.stdout).decode("utf-8", "replace")
    found = re.findall(r"service available:\s+(\w+)", said)
    check(found and set(found) == {"YES"}, f"{name}: the probe says {found}: {said[-500:]}")
    check(times, f"{name}: nobody else was served")
    times.sort()
    print(f"{name:14}{found[-1] if found else '?':>10}{len(times):9}{times[len(times) // 2]:8.1f}"
          f"{times[-1]:12.1f}", flush=True)
end = time.time() + 60
while s.descriptors() > before and time.time() < end:
    time.sleep(0.2)
check(s.descriptors() <= before, f"{s.descriptors()} descriptors afterwards, {before} before")
check(s.end() == 0, "ends with 0")
finish()

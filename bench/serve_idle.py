#!/usr/bin/env python3
"""serve_idle.py — what kept connections cost a server in memory.

    serve_idle.py COUNT NAME=PORT:PID...

Opens COUNT connections to each server in turn, keeps them, and prints how much resident memory the
process took for them: after one small request each, then after a request line of 256 KiB each."""

import socket
import sys


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0


def ask(connection, target):
    connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while b'"}\n' not in answer and b"</html>" not in answer:
        piece = connection.recv(65536)
        if not piece:
            return b""
        answer += piece
    return answer


def main():
    count = int(sys.argv[1])
    for spec in sys.argv[2:]:
        name, _, rest = spec.partition("=")
        port, pid = map(int, rest.split(":"))
        before, kept = resident(pid), []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            ask(connection, b"/health")
            kept.append(connection)
        small = resident(pid)
        for connection in kept:
            ask(connection, b"/health?q=" + b"a" * (256 << 10))
        large = resident(pid)
        alive = sum(b"200 OK" in ask(connection, b"/health") for connection in kept)
        print(f"{name}: {before:.1f} MB; {count} kept connections +{small - before:.1f} MB; "
              f"after 256 KiB each +{large - before:.1f} MB; {alive} still served")
        for connection in kept:
            connection.close()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A server that looks like `heed serve` to the page, and misbehaves when told to.

    fake.py PORT [--key KEY] [--limit CHARACTERS] [--alternatives N] [--below PATH]

It serves src/serve/web as it lies there, with the policy of web.c, and translates every word by
turning it round. Words in the text make it do what a real server rarely does:

    !slow     answers after a second, and notes whether the client waited
    !busy     503 with Retry-After 1, the first time
    !often    429 with Retry-After 1, the first time
    !rude     tokens and translations full of markup
    !plain    no words: whoever asks for them gets 400
    !broken   streams end before they should

GET /fake/log tells what was asked for: a list of {path, body, aborted}.
"""

import argparse
import gzip
import json
import re
import select
import socket
import sys
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WEB = Path(__file__).resolve().parents[2] / "src/serve/web"
SOURCE = (WEB.parent / "web.c").read_text()
FILES = {path: (name, kind) for name, kind, path in
         re.findall(r'X\(\w+, "([^"]+)", (\w+), "([^"]+)"\)', SOURCE)}
TYPES = dict(re.findall(r'#define (\w+)\s+"([^"]+)"', SOURCE))
POLICY = "".join(re.findall(r'"([^"]*)"', SOURCE[SOURCE.index("web_csp[]"):].split(";\n")[0]))
NAMES = {"en": "English", "ar": "Arabic", "de": "German", "fr": "French"}
RUDE = '<img src=x onerror="document.title=\'hacked\'"><script>document.title="hacked"</script>'

log, seen = [], set()


def words(text):
    return [m.span() for m in re.finditer(r"\w+", text)]


def turned(text):
    out = re.sub(r"\w+", lambda m: m.group()[::-1], text)
    return RUDE + out if "!rude" in text else out


def guess(text):
    if re.search("[\u0600-\u06ff]", text):
        return "ar"
    return "de" if re.search(r"\b(der|die|das|ist|und|ein)\b|[äöüß]", text, re.I) else "en"


def attention(text):
    src = ["▁" + w for w in text.split()][:40] + ["</s>"]
    tgt = ["▁" + w for w in turned(text).split()][:40] + ["</s>"]

    def probs(layers, nq, nk, past):
        out = []
        for layer in range(layers):
            for head in range(8):
                for q in range(nq):
                    row = [1 / (1 + abs(q - k - head % 3 + 1) ** (1.5 + layer / 2))
                           if not past or k <= q else 0 for k in range(nk)]
                    out += [round(p / sum(row), 3) for p in row]
        return out

    before = ["<s>", *tgt[:-1]]
    sets = [("encoder", src, src, 6), ("decoder", tgt, before, 6), ("cross", tgt, src, 6)]
    return {"translatedText": turned(text), "heads": 8, "kinds": [
        {"kind": kind, "layers": n, "query": q, "key": k,
         "probs": probs(n, len(q), len(k), kind == "decoder")} for kind, q, k, n in sets]}


SPEC = {
    "openapi": "3.0.3",
    "info": {"title": "heed", "version": "0", "description": "What this server understands."},
    "paths": {
        "/translate": {"post": {
            "tags": ["translate"], "summary": "Translate a text", "description": RUDE,
            "requestBody": {"content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/T"}}}},
            "responses": {"200": {"description": "It"}, "400": {"description": "No"}}}},
        "/languages": {"get": {"tags": ["translate"], "summary": "Languages", "responses": {
            "200": {"description": "All languages"}}}},
        "/translate_file": {"post": {
            "tags": ["files"], "summary": "Translate a document",
            "requestBody": {"content": {"multipart/form-data": {"schema": {"properties": {
                "file": {"type": "string", "format": "binary"}, "source": {"type": "string"},
                "target": {"type": "string"}}, "required": ["file", "source", "target"]}}}},
            "responses": {"200": {"description": "Where it is"}}}},
        "/download_file/{name}": {"get": {
            "tags": ["files"], "summary": "Fetch a translation",
            "parameters": [{"name": "name", "in": "path", "required": True,
                            "schema": {"type": "string"}}],
            "responses": {"200": {"description": "The document"}}}}},
    "components": {"schemas": {"T": {"required": ["q", "source", "target"], "properties": {
        "q": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
              "example": "Das ist gut.", "description": "The text, or several"},
        "source": {"type": "string", "example": "auto"},
        "target": {"type": "string", "example": "en"},
        "format": {"type": "string", "enum": ["text", "html"]},
        "alternatives": {"type": "integer", "default": 0}, "api_key": {"type": "string"}}}}},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    options = None

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        packed = len(data) > 500 and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(data))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message, *headers):
        self.answer(status, {"error": message}, headers=headers)

    def parse_request(self):
        """As a proxy hands it on: without the path that the server is below."""
        if not super().parse_request():
            return False
        if not self.path.startswith(self.options.below):
            self.refuse(404, "Not found")
            return False
        self.path = self.path[len(self.options.below):]
        return True

    def do_GET(self):
        path = self.path.split("?")[0]
        if path in FILES:
            name, kind = FILES[path]
            self.answer(200, (WEB / name).read_bytes(), TYPES[kind],
                        [("Content-Security-Policy", POLICY), ("Cache-Control", "no-cache")])
        elif path == "/languages":
            self.answer(200, [{"code": c, "name": n, "targets": list(NAMES)}
                              for c, n in NAMES.items()])
        elif path == "/frontend/settings":
            self.answer(200, {
                "charLimit": self.options.limit, "frontendTimeout": 200, "suggestions": False,
                "apiKeys": bool(self.options.key), "keyRequired": bool(self.options.key),
                "filesTranslation": True,
                "supportedFilesFormat": [".txt", ".srt", ".html", ".md", ".docx", ".odt"],
                "language": {"source": {"code": "auto", "name": "Auto Detect"},
                             "target": {"code": "de", "name": "German"}}})
        elif path == "/spec":
            self.answer(200, SPEC)
        elif path.startswith("/download_file/"):
            name = urllib.parse.unquote(path.split("/")[-1])
            self.answer(200, b"translated: " + name.encode(), "text/plain",
                        [("Content-Disposition", 'attachment; filename="letter_de.txt"')])
        elif path == "/fake/log":
            self.answer(200, log)
        else:
            self.refuse(404, "Not found")

    def waited(self, seconds):
        """Whether the client is still there after so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.connection], [], [], 0.02)[0]:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    return False
                time.sleep(0.02)
        return True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        entry = {"path": self.path, "body": body.decode("utf-8", "replace"), "aborted": False}
        log.append(entry)
        if self.path == "/translate_file":
            return self.file(body)
        if self.headers.get("Content-Type") != "application/json":
            return self.refuse(400, "Invalid request: missing q parameter")
        fields = json.loads(body)
        q, text = fields["q"], fields["q"] if isinstance(fields["q"], str) else ""
        if self.options.key and fields.get("api_key") != self.options.key:
            return self.refuse(403, "Invalid API key" if fields.get("api_key") else
                               "Please contact the server operator to get an API key")
        most = self.options.alternatives
        if int(fields.get("alternatives", 0)) > most:
            return self.refuse(400, "Invalid request: alternatives parameter must be "
                                    f"<= {most}")
        for word, status in (("!busy", 503), ("!often", 429)):
            if word in text and word not in seen:
                seen.add(word)
                return self.refuse(status, "Slowdown: come back later", ("Retry-After", "1"))
        if "!slow" in text and not self.waited(1):
            entry["aborted"] = True
            self.close_connection = True
            return None
        if self.path == "/heed/attention":
            return self.answer(200, attention(text))
        wordy = self.path == "/heed/align" or fields.get("words")
        if wordy and "!plain" in text:
            return self.refuse(400, "words cannot be had for this pair")
        if self.path not in ("/heed/align", "/heed/stream", "/translate"):
            return self.refuse(404, "Not found")
        out = {"translatedText": turned(text) if isinstance(q, str) else [turned(t) for t in q]}
        if fields.get("source") == "auto":
            out["detectedLanguage"] = {"confidence": 90.0, "language": guess(text)}
        if int(fields.get("alternatives", 0)) > 0:
            out["alternatives"] = [turned(text).upper(), turned(text).title()]
            out["alternatives"] = out["alternatives"][:int(fields["alternatives"])]
        if wordy:
            mine = words(text)
            theirs = words(out["translatedText"])[-len(mine):] if mine else []
            out["sourceWords"] = [list(w) for w in mine]
            out["targetWords"] = [[*w, [0.95, 0.45, 0.97, 0.3, 0.9, 0.15][i % 6]]
                                  for i, w in enumerate(theirs)]
            out["links"] = [[i, i] for i in range(len(mine))]
        if self.path == "/heed/stream":
            return self.stream(out, "!broken" in text)
        return self.answer(200, out)

    def stream(self, out, broken):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        text = out["translatedText"]
        events = [("partial", {"text": text[:n], "settled": max(0, n - 20)})
                  for n in range(30, len(text), 60)]
        data = b"".join(b"event: %s\ndata: %s\n\n" % (
            name.encode(), json.dumps(event, ensure_ascii=False).encode())
            for name, event in (events if broken else [*events, ("done", out)]))
        size = max(333, len(data) // 24)
        for at in range(0, len(data), size):  # networks cut anywhere
            self.wfile.write(data[at:at + size])
            self.wfile.flush()
            time.sleep(0.02)

    def file(self, body):
        name = re.search(rb'filename="([^"]*)"', body)
        if b"!nodoc" in body:
            return self.refuse(400, "Invalid request: file format not supported")
        host = self.headers.get("Host")
        return self.answer(200, {"translatedFileUrl":
                                 f"http://{host}/download_file/{name.group(1).decode()}"})


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients may leave
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--key")
    parser.add_argument("--limit", type=int, default=5000)
    parser.add_argument("--alternatives", type=int, default=10)
    parser.add_argument("--below", default="", help="path that a proxy would take away")
    Handler.options = parser.parse_args()
    server = Quiet(("127.0.0.1", Handler.options.port), Handler)
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


main()

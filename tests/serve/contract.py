"""The API of LibreTranslate as clients know it, against a live server.

    contract.py HEED MODEL      the model serves en-de and de-fr, and so en-fr
"""
import gzip, json, signal, sys

from client import Server, check, finish, parse

heed, model = sys.argv[1:3]
s = Server(heed, "--model", "en-de=" + model, "de-fr=" + model, "--threads", "1", "--metrics",
           "--char-limit", "200", "--batch-limit", "5", "--alternatives-limit", "4",
           "--access-log", "access.log")


def error(answer, status, message, what):
    check(answer.status == status and answer.body == json.dumps(
        {"error": message}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n",
        f"{what}: {answer.status} {answer.body[:300]!r}")


def ok(answer, what):
    check(answer.status == 200, f"{what}: {answer.status} {answer.body[:300]!r}")
    check(answer.headers.get("content-type") == "application/json", f"{what}: content type")
    check(answer.body.endswith(b"\n") and b"\n" not in answer.body[:-1], f"{what}: one line")
    return answer.json


pair = {"source": "en", "target": "de"}

# ---- /translate
one = ok(s.post("/translate", {"q": "bada kelo", **pair}), "a text")
check(list(one) == ["translatedText"] and isinstance(one["translatedText"], str), f"one: {one}")
text = one["translatedText"]
form = s.post("/translate", b"q=bada+kelo&source=en&target=de",
              kind="application/x-www-form-urlencoded")
check(ok(form, "a form")["translatedText"] == text, "a form says the same")
check(form.body == b'{"translatedText":' + json.dumps(text, ensure_ascii=False).encode() + b"}\n",
      "compact")
part = b"".join(b'--X\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (n, v)
                for n, v in ((b"q", b"bada kelo"), (b"source", b"en"), (b"target", b"de")))
check(ok(s.post("/translate", part + b"--X--\r\n", kind="multipart/form-data; boundary=X"),
         "parts")["translatedText"] == text, "parts say the same")
check(ok(s.post("/translate?q=bada%20kelo&source=en&target=de", b"", kind="text/plain"),
         "a query")["translatedText"] == text, "a query says the same")
check(ok(s.post("/translate?q=bada+kelo", b"q=x&source=en&target=de",
                kind="application/x-www-form-urlencoded"), "both")["translatedText"] == text,
      "the query comes first")
check(ok(s.post("/translate", {"q": "bada kelo", **pair}, kind="application/vnd.api+json"),
         "+json")["translatedText"] == text, "+json is JSON")
long_url = s.ask("POST", "/translate?source=en&target=de&q=" + "%61" * 66 + "+b" * 60000)
error(long_url, 400, "Invalid request: request (120066) exceeds text limit (200)", "250 KiB of URL")
many = ok(s.post("/translate", {"q": ["bada kelo", "", "bada kelo"], **pair}), "a list")
check(many == {"translatedText": [text, "", text]}, f"a list: {many}")
more = ok(s.post("/translate", {"q": "bada kelo", "alternatives": 2, **pair}), "alternatives")
check(more["translatedText"] == text and 1 <= len(more["alternatives"]) <= 2, f"others: {more}")
more = ok(s.post("/translate", {"q": ["bada", "kelo"], "alternatives": 1, **pair}), "nested")
check(all(isinstance(a, list) for a in more["alternatives"]), f"nested: {more}")
terms = ok(s.post("/translate", {"q": ["bada kelo", "kelo"],
                                 "glossary": {"Bada": "no", "bada": "lo lo"},
                                 **pair}), "terms")["translatedText"]
check("lo lo" in terms[0].lower(), f"terms: {terms}")
check(ok(s.post("/translate", {"q": "kelo", **pair}), "kelo")["translatedText"] == terms[1],
      f"no term in it: {terms}")
check(ok(s.post("/translate", {"q": "bada kelo", "glossary": None, **pair}), "none") ==
      ok(s.post("/translate", {"q": "bada kelo", "glossary": {}, **pair}), "none"), "no terms")
no_terms = "Invalid request: glossary parameter must be a JSON object of texts"
for wrong in ([1], "a", {"a": 1}, {"a": ["b"]}):
    error(s.post("/translate", {"q": "a", "glossary": wrong, **pair}), 400, no_terms,
          f"terms: {wrong}")
error(s.post("/translate", b"q=a&source=en&target=de&glossary=a",
             kind="application/x-www-form-urlencoded"), 400, no_terms, "terms in a form")
check(ok(s.post("/translate", b'q=bada+kelo&source=en&target=de&glossary={"bada":"lo+lo"}',
                kind="application/x-www-form-urlencoded"), "terms in a form")["translatedText"] ==
      terms[0], "terms in a form are those of JSON")
check(ok(s.post("/translate", {"q": "bada kelo", "source": "en-US", "target": "de_AT"}),
         "en-US")["translatedText"] == text, "a language of a country is the language")
error(s.post("/translate", {"q": "a", "glossary": {"a": " "}, **pair}), 400,
      "term 1: the target term is empty", "an empty term")
error(s.post("/translate", {"q": "a", "glossary": {str(i): "b" for i in range(1001)}, **pair}), 400,
      "Invalid request: glossary (1001) exceeds term limit (1000)", "many terms")
auto = ok(s.post("/translate", {"q": "The weather is fine today", "source": "auto",
                                "target": "de"}), "auto")
check(auto["detectedLanguage"]["language"] == "en" and
      isinstance(auto["detectedLanguage"]["confidence"], float), f"auto: {auto}")
auto = ok(s.post("/translate", {"q": ["Das Wetter ist schön"], "source": "auto", "target": "fr"}),
          "auto of a list")
check(auto["detectedLanguage"][0]["language"] == "de", f"auto of a list: {auto}")
check(ok(s.post("/translate", {"q": "a_b\r\n c", "source": "EN", "target": "en"}), "itself") ==
      {"translatedText": "a_b\r\n c"}, "into its own language")
check(ok(s.post("/translate", b"q=a%0D%0Ab%0Dc&source=en&target=en",
                kind="application/x-www-form-urlencoded"), "lines") ==
      {"translatedText": "a\nb\nc"}, "a form's line ends")
html = "<p>bada <b>kelo</b> &lt;i&gt;</p>"
html = ok(s.post("/translate", {"q": html, "format": "html", **pair}), "html")["translatedText"]
check(html.startswith("<p>") and "<b>" in html and "<i>" not in html, f"html: {html}")
check(ok(s.post("/translate", {"q": "bada kelo", "source": "en", "target": "fr"}), "a pivot"),
      "en-fr through de")
check(ok(s.post("/translate", {"q": "bada", "alternatives": -1, **pair}), "-1") ==
      ok(s.post("/translate", {"q": "bada", "alternatives": "0", **pair}), "'0'"), "-1 is 0")

# ---- what is refused, in which order
missing = "Invalid request: missing %s parameter"
error(s.post("/translate", {}), 400, missing % "q", "nothing")
for nothing in ("", [], None):
    error(s.post("/translate", {"q": nothing, **pair}), 400, missing % "q", f"q {nothing!r}")
error(s.post("/translate", {"q": "a"}), 400, missing % "source", "no source")
error(s.post("/translate", {"q": "a", "source": "xx", "alternatives": "abc"}), 400,
      missing % "target", "no target")
bad = "Invalid request: alternatives parameter "
error(s.post("/translate", {"q": "a" * 300, "source": "xx", "target": "de", "alternatives": "abc"}),
      400, bad + "is not a number", "alternatives abc")
error(s.post("/translate", {"q": "a" * 300, **pair, "alternatives": 10000}), 400,
      bad + "must be <= 4", "alternatives 10000")
error(s.post("/translate", {"q": "a", **pair, "alternatives": [1]}), 400, bad + "is not a number",
      "a list of alternatives")
size = "Invalid request: request (%d) exceeds text limit (%d)"
error(s.post("/translate", {"q": "ä" * 201, "source": "xx", "target": "de"}), 400,
      size % (201, 200), "characters")
error(s.post("/translate", {"q": ["a"] * 6, **pair}), 400, size % (6, 5), "texts")
error(s.post("/translate", {"q": "a", "source": "xx", "target": "yy", "format": "xml"}), 400,
      "xx is not supported", "no such source")
error(s.post("/translate", {"q": "a", "source": "en", "target": "yy", "format": "xml"}), 400,
      "yy is not supported", "no such target")
error(s.post("/translate", {"q": "a", "source": "fr", "target": "en", "format": "xml"}), 400,
      "xml format is not supported", "no such format")
error(s.post("/translate", {"q": "a", "source": "fr", "target": "en"}), 400,
      "English (en) is not available as a target language from French (fr)", "no such pair")
understand = "The browser (or proxy) sent a request that this server could not understand."
for junk in (b"{", b"", b'{"q":"\\ud800"}', b'{"q":"\\u0000"}', b'{"q":NaN}', b'{"q":1e999}',
             b'{"q":"a","q":"b"}', b'{"q":"\xff"}', b"[" * 100000):
    error(s.post("/translate", junk), 400, understand, f"JSON {junk[:20]!r}")
error(s.post("/translate", [1]), 400, "Invalid JSON format", "a list as body")
error(s.post("/translate", {"q": 1, **pair}), 400, "Invalid request: q parameter is not a string",
      "q as a number")
error(s.post("/translate", {"q": [["a"]], **pair}), 400,
      "Invalid request: q parameter is not a string or a list of strings", "nested lists")
error(s.post("/translate", b'{"q":"a","source":"en","target":"de"}', kind="text/plain"), 400,
      missing % "q", "JSON as text")
check(s.post("/translate", b'\xef\xbb\xbf{"q":"a","source":"en","target":"en"}').status == 200,
      "a byte order mark")

# ---- /detect, /languages, settings
found = ok(s.post("/detect", {"q": "Das Wetter ist heute sehr schön"}), "detect")
check(found[0]["language"] == "de" and 50 < found[0]["confidence"] <= 100 and len(found) <= 3,
      f"detect: {found}")
error(s.post("/detect", {}), 400, missing % "q", "detect nothing")
names = ok(s.get("/languages"), "languages")
check([(l["code"], l["name"], l["targets"]) for l in names] ==
      [("en", "English", ["de", "en", "fr"]), ("de", "German", ["de", "fr"]),
       ("fr", "French", ["fr"])], f"languages: {names}")
names = ok(s.get("/languages", headers=["Accept-Language: de-AT,de;q=0.9,en;q=0.8"]), "in German")
check([l["name"] for l in names] == ["Englisch", "Deutsch", "Französisch"], f"in German: {names}")
body = s.ask("GET", "/languages", b"{}")
check(body.status == 200, "GET with a body, as libretranslatepy does it")
settings = ok(s.get("/frontend/settings"), "settings")
for key in ("charLimit", "frontendTimeout", "apiKeys", "keyRequired", "suggestions",
            "filesTranslation", "supportedFilesFormat", "language"):
    check(key in settings, "settings have " + key)
check(settings["charLimit"] == 200 and set(settings["language"]["source"]) == {"code", "name"},
      f"settings: {settings}")
check(ok(s.ask("GET", "/health", b"{}"), "health") == {"status": "ok"}, "health")
error(s.post("/suggest", {"q": "a", "s": "b", **pair}), 403,
      "Suggestions are disabled on this server.", "suggest")

# ---- methods, CORS, what is not there, the description
for path, method, status in (("/nothing", "GET", 404), ("/translate", "GET", 405),
                             ("/languages", "POST", 405), ("/translate", "OPTIONS", 200),
                             ("/health", "HEAD", 200), ("/", "GET", 200), ("/", "POST", 405)):
    a = s.ask(method, path)
    check(a.status == status, f"{method} {path}: {a.status}")
    check(a.headers.get("access-control-allow-origin") == "*", f"{method} {path}: CORS")
    if status >= 400:
        check("error" in a.json, f"{method} {path}: {a.body!r}")
    if status == 405:
        check("allow" in a.headers, f"{method} {path}: Allow")
check(s.ask("HEAD", "/health").body == b"", "HEAD has no body")
spec = ok(s.get("/spec"), "spec")
check(spec["info"]["title"] == "LibreTranslate" and
      set(spec["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]
          ["schema"]["required"]) == {"q", "source", "target"}, "spec")
for path, methods in spec["paths"].items():
    for method in methods:
        if "{" not in path:
            check(s.ask(method.upper(), path).status not in (404, 405), f"spec: {method} {path}")
page = s.get("/", headers=["Accept-Encoding: gzip"])
check(page.headers.get("content-encoding") == "gzip" and b"<html" in gzip.decompress(page.body) and
      "default-src 'none'" in page.headers["content-security-policy"], "the page")
check(s.get("/", headers=["If-None-Match: " + page.headers["etag"]]).status == 304, "its tag")

# ---- /heed/
words = ok(s.post("/heed/align", {"q": "bada kelo ümu", **pair}), "align")
check(words["sourceWords"] == [[0, 4], [5, 9], [10, 13]], f"words: {words}")
out = words["translatedText"]
check(all(0 <= a < b <= len(out) and 0 <= c <= 1 for a, b, c in words["targetWords"]) and
      all(0 <= i < 3 and 0 <= j < len(words["targetWords"]) for i, j in words["links"]),
      f"links: {words}")
score = ok(s.post("/heed/score", {"q": "bada", "translation": "bada", **pair}), "score")
check(score["logProbability"] < 0 and score["pieces"] > 1, f"score: {score}")
seen = ok(s.post("/heed/attention", {"q": "bada kelo", **pair}), "attention")
a = s.post("/heed/attention", {"q": "bada kelo", **pair}, headers=["Accept-Encoding: br, gzip"])
check(a.headers.get("content-encoding") == "gzip" and
      json.loads(gzip.decompress(a.body)) == seen, f"attention, packed: {a.headers}")
for kind in seen["kinds"]:
    n = kind["layers"] * seen["heads"] * len(kind["query"]) * len(kind["key"])
    check(len(kind["probs"]) == n > 0, f"attention: {kind['kind']} has {len(kind['probs'])}")
    row = kind["probs"][:len(kind["key"])]
    check(abs(sum(row) - 1) < 0.02, f"attention: a row sums to {sum(row)}")
sides = {kind["kind"]: kind for kind in seen["kinds"]}
check(sides["decoder"]["key"] == ["<s>", *sides["decoder"]["query"][:-1]] and
      sides["cross"]["query"] == sides["decoder"]["query"], f"attention: {sides['decoder']['key']}")
same = ok(s.post("/heed/align", {"q": "bada", "source": pair["source"], "target": pair["source"]}),
          "align into the same language")
check(same == {"translatedText": "bada", "sourceWords": [], "targetWords": [], "links": []},
      f"align into the same language: {same}")
stream = s.post("/heed/stream", {"q": "bada kelo", **pair})
check(stream.status == 200 and stream.headers["content-type"] == "text/event-stream" and
      b"event: partial\ndata: {" in stream.body and
      b'event: done\ndata: {"translatedText":' + json.dumps(text, ensure_ascii=False).encode()
      in stream.body, f"stream: {stream.body!r}")
stream = s.post("/heed/stream", {"q": "bada kelo ümu", "words": True, **pair})
last = stream.body.split(b"event: done\ndata: ")[1].split(b"\n")[0]
check(json.loads(last) == words, f"words: {stream.body!r}")
stream = s.post("/heed/stream", {"q": "bada", "source": "de", "target": "de"})
check(b'event: done\ndata: {"translatedText":"bada"}\n\n' in stream.body, f"same: {stream.body!r}")

# ---- files
def upload(name, data, source="en", target="de", glossary="{}"):
    body = b"".join(b'--X\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % part
                    for part in ((b"source", b"", source.encode()),
                                 (b"target", b"", target.encode()),
                                 (b"glossary", b"", glossary.encode()),
                                 (b"file", b'; filename="' + name + b'"', data)))
    return s.post("/translate_file", body + b"--X--\r\n", kind="multipart/form-data; boundary=X")


check(settings["filesTranslation"] and ".txt" in settings["supportedFilesFormat"], "formats")
where = ok(upload(b"../my file.TXT", b"bada kelo\n\nbada kelo\n"), "a file")["translatedFileUrl"]
check(where.startswith("http://test/download_file/"), f"where a file is: {where}")
got = s.get(where[len("http://test"):])
check(got.status == 200 and got.body == f"{text}\n\n{text}\n".encode(), f"a file: {got.body!r}")
check(got.headers["content-disposition"] == 'attachment; filename="my_file_de.txt"',
      f"its name: {got.headers}")
html = b"<html><body><p>bada <b>kelo</b></p><!-- x --></body></html>"
where = ok(upload(b"a.html", html), "an html file")["translatedFileUrl"]
got = s.get(where[len("http://test"):]).body
check(b"<!-- x -->" in got and b"<b>" in got, f"an html file: {got!r}")
where = ok(upload(b"a.txt", b"a\r\nb", target="en"), "itself")["translatedFileUrl"]
check(s.get(where[len("http://test"):]).body == b"a\r\nb", "a file into its own language")
where = ok(upload(b"a.txt", b"bada kelo", glossary='{"bada":"lo lo"}'), "terms of a file")
got = s.get(where["translatedFileUrl"][len("http://test"):]).body
check(got == terms[0].encode(), f"terms of a file: {got!r}")
error(upload(b"a.txt", b"bada", glossary="bada"), 400, no_terms, "no terms of a file")
why = upload(b"a.exe", b"MZ").json["error"]
check(why.startswith("Invalid request: file format not supported"), f"a program: {why}")
check(upload(b"a.docx", b"no archive").status == 400, "what is no docx")
error(upload(b"a.txt", b"bada", source="xx"), 400, "xx is not supported", "a file in xx")
error(s.post("/translate_file", b"source=en&target=de", kind="application/x-www-form-urlencoded"),
      400, missing % "file", "no file")
for name in ("", "x.txt", "..%2f..%2fetc%2fpasswd", "0" * 32 + ".txt"):
    a = s.get("/download_file/" + name)
    check(a.status in (400, 404), f"download {name}: {a.status}")
error(s.get("/download_file/x.txt"), 400, "Invalid filename", "no such file")

# ---- metrics, and a log that says nothing about texts
metrics = s.get("/metrics").body.decode()
for name in ('heed_http_requests_total{route="/translate",status="200"}',
             'heed_http_request_seconds_bucket{route="/translate",le="+Inf"}',
             "heed_jobs ", "heed_step_rows_bucket", "heed_target_tokens_total ",
             "process_resident_memory_bytes "):
    check(name in metrics, "metrics have " + name)
s.get("/health?api_key=secret&q=privat")
check(s.end() == 0, "ends with 0")
log = open("access.log").read()
check(all(json.loads(line)["status"] for line in log.splitlines()), "the log is JSON lines")
check("secret" not in log and "bada" not in log and "kelo" not in log, "no texts in the log")
finish()

"""Clients from PyPI, and requests in the shape that well-known programs give them.

    peers.py HEED MODEL
"""
import json, sys

from client import Server, check, finish

from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

heed, model = sys.argv[1:3]
s = Server(heed, "--model", "en-es=" + model, "es-en=" + model, "--threads", "1",
           "--char-limit", "0")
url = f"http://127.0.0.1:{s.port}/"
plain = s.post("/translate", {"q": "bada kelo", "source": "en", "target": "es"})
plain = plain.json["translatedText"]

lt = LibreTranslateAPI(url)
check(lt.translate("bada kelo", "en", "es") == plain, "libretranslatepy translates")
check(lt.detect("The weather is fine today")[0]["language"] == "en", "libretranslatepy detects")
check([x["code"] for x in lt.languages()] == ["en", "es"], "libretranslatepy lists languages")

deep = LibreTranslator(source="en", target="es", api_key="any", custom_url=url)
check(deep.translate("bada kelo") == plain, "deep-translator translates")
long = "Bada kelo mino. " * 2000  # all of it in the URL
got = deep.translate(long)
check(len(got) > 1000, f"deep-translator: 32,000 characters became {got[:200]!r}")
got = deep.translate_batch(["bada kelo", "bada kelo"])
check(got == [plain, plain], "deep-translator: a batch")

# Mastodon: HTML in a list, and a list back
a = s.post("/translate", {"q": ["<p>bada <b>kelo</b></p>", "bada kelo"], "source": "en",
                          "target": "es", "format": "html", "api_key": None})
check(a.status == 200 and len(a.json["translatedText"]) == 2 and
      a.json["translatedText"][0].startswith("<p>"), f"Mastodon: {a.body[:200]}")
check(all("targets" in x for x in s.get("/languages").json), "Mastodon: targets")
# Discourse: forms; JSON back with 200
form = "application/x-www-form-urlencoded"
a = s.post("/detect", b"q=The+weather+is+fine+today", kind=form)
check(a.status == 200 and a.json[0]["language"] == "en", "Discourse: /detect")
a = s.post("/translate", b"q=%3Cp%3Ebada+kelo%3C%2Fp%3E&source=en&target=es&format=html&api_key=",
           kind=form)
check(a.status == 200 and a.json["translatedText"].startswith("<p>"), f"Discourse: {a.body[:200]}")
# SearXNG: alternatives; Rocket.Chat: lines, auto; Dialect: the title of /spec
a = s.post("/translate", {"q": "bada kelo", "source": "en", "target": "es", "alternatives": 3,
                          "format": "text", "api_key": ""})
check(a.status == 200 and isinstance(a.json["alternatives"], list), "SearXNG")
a = s.post("/translate", {"q": ["The weather is fine", "today it rains"], "source": "auto",
                          "target": "es"})
check(a.status == 200 and len(a.json["detectedLanguage"]) == 2, "Rocket.Chat")
check(s.get("/spec").json["info"]["title"] == "LibreTranslate", "Dialect")
# Weblate: a form, and language codes
a = s.post("/translate", b"q=bada+kelo&source=EN&target=es&api_key=", kind=form)
check(a.json["translatedText"] == plain, "Weblate")
# docker's health check sends a body with GET
check(s.ask("GET", "/health", b"{}").json == {"status": "ok"}, "a health check")
check(s.end() == 0, "ends with 0")
finish()

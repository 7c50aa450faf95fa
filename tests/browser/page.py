#!/usr/bin/env python3
"""The page of `heed serve` in a real Chromium.

    page.py                      against fake.py, which misbehaves when told to
    page.py HEED MODEL           against `HEED serve` with this model, whatever it makes of a text

Every function here named `check_*` begins with an empty page; those named `live_*` are for any
model. After each one the browser's console must be empty but for what the check expects of it.
"""

import argparse
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

HERE = Path(__file__).resolve().parent
RTL = "مرحبا بالعالم"
RUDE = '<img src=x onerror="document.title=1"><script>document.title=2</script><b>bold</b>&amp;'


class Failed(Exception):
    pass


def must(condition, what):
    if not condition:
        raise Failed(what)


class Page:
    def __init__(self, folder, base):
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--force-device-scale-factor=1", "--no-first-run",
                     f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
        service = Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(20)
        self.driver.execute_cdp_cmd("Page.setDownloadBehavior",
                                    {"behavior": "allow", "downloadPath": str(folder)})
        self.folder, self.base = folder, base
        self.expected = []
        self.start = "/"

    def close(self):
        self.driver.quit()

    # ---- looking
    def one(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def js(self, code, *args):
        return self.driver.execute_script(code, *args)

    def text(self, css):
        """What is in it, seen or not."""
        return self.js("return document.querySelector(arguments[0]).textContent", css)

    def output(self):
        return self.text("#output")

    def wait(self, what, test, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = test()
            if value:
                return value
            time.sleep(0.03)
        raise Failed(f"after {seconds} s still not: {what}; output {self.output()[:200]!r}, "
                     f"notice {self.text('#notice')!r}")

    def settled(self):
        return self.js("return document.querySelector('#pane-output').getAttribute('aria-busy')"
                       " === 'false' && document.querySelectorAll('#target option').length > 0")

    def translated(self, want):
        self.wait(f"{want[:60]!r} translated", lambda: self.output() == want and self.settled())

    # ---- doing
    def open(self, path="/", width=1200, height=850, dark=False, forget=True):
        emulate = self.driver.execute_cdp_cmd
        emulate("Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        emulate("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        if forget:
            emulate("Storage.clearDataForOrigin", {"origin": self.base, "storageTypes": "all"})
        self.driver.get(self.base + path)
        if path.split("?")[0] == "/":
            self.wait("languages", lambda: self.all("#target option"))

    def type(self, text, css="#input"):
        self.one(css).send_keys(text)

    def paste(self, text):
        """As from the clipboard: all at once."""
        self.one("#input").click()
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def choose(self, css, value):
        self.js("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                "e.dispatchEvent(new Event('change'))", css, value)

    def keys(self, *keys):
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def chord(self, modifier, key):
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def focus(self):
        return self.js("return document.activeElement.id || document.activeElement.textContent")

    def complaints(self):
        lines = [entry["message"] for entry in self.driver.get_log("browser")]
        return [line for line in lines if not any(re.search(e, line) for e in self.expected)]


def turned(text):
    return re.sub(r"\w+", lambda m: m.group()[::-1], text)


class Server:
    """fake.py"""

    def __init__(self, port=0, *options):
        self.process = subprocess.Popen([sys.executable, HERE / "fake.py", str(port), *options],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def log(self, path=None):
        with urllib.request.urlopen(self.url + "/fake/log") as answer:
            return [e for e in json.load(answer) if not path or e["path"] == path]

    def stop(self):
        self.process.kill()
        self.process.wait()


# ---- what a server that misbehaves shows -----------------------------------------------------


def check_typing(page, server):
    before, began = len(server.log()), time.monotonic()
    for part in ("Das ", "ist ", "ein ", "Haus"):
        page.type(part)
        time.sleep(0.04)
    fluent = time.monotonic() - began < 0.7  # on a busy machine each part may come after a pause
    page.translated("saD tsi nie suaH")
    asked = [json.loads(e["body"])["q"] for e in server.log()[before:]]
    must(asked[-1] == "Das ist ein Haus", f"asked for {asked}")
    must(len(asked) < 4 or not fluent, f"a request for nearly every key: {asked}")
    must(page.text("#count") == "16 / 5,000", page.text("#count"))
    must("German (detected)" in page.text("#source option"), page.text("#source option"))
    must(page.js("return document.querySelector('#target').value") == "en", "German into German")
    page.wait("a screen reader hears it", lambda: page.text("#status") == "saD tsi nie suaH")
    page.one("#clear").click()
    page.wait("empty", lambda: page.output() == "" and page.text("#count") == "0 / 5,000")
    must(page.focus() == "input", "the text has lost the focus")


def check_cancelling(page, server):
    page.type("first !slow")
    page.wait("the first request", lambda: any("first" in e["body"] for e in server.log()))
    page.type(" second")
    page.translated("tsrif !wols dnoces")
    first, second = [e for e in server.log("/heed/align") if "first" in e["body"]][-2:]
    must(first["aborted"] and not second["aborted"], "the first request was not cancelled")
    page.choose("#target", "fr")
    page.wait("French", lambda: json.loads(server.log("/heed/align")[-1]["body"])["target"] == "fr")
    page.choose("#target", "de")
    page.translated("tsrif !wols dnoces")
    must(server.log("/heed/align")[-2]["aborted"], "another language did not cancel")
    must(not page.one("#notice").is_displayed(), "cancelling is no error")


def check_words(page, server):
    page.type("Das ist gut")
    page.translated("saD tsi tug")
    words = page.all("#output .word")
    must([w.text for w in words] == ["saD", "tsi", "tug"], "words")
    must("doubt" in words[1].get_attribute("class"), "an unsure word looks sure")
    must("doubt" not in words[0].get_attribute("class"), "a sure word looks unsure")
    ActionChains(page.driver).move_to_element(words[2]).perform()
    page.wait("its counterpart", lambda: [e.get_attribute("textContent")
                                          for e in page.all(".mirror .on")] == ["gut"])
    must(page.text("#link") == "tug from gut · 97 % certain", page.text("#link"))
    place = page.js("const word = document.querySelectorAll('.mirror span')[1];"
                    "const r = word.getBoundingClientRect();"
                    "return [r.x + r.width / 2, r.y + r.height / 2].map(Math.round)")
    area = page.one("#input").rect
    ActionChains(page.driver).move_to_element_with_offset(
        page.one("#input"), int(place[0] - area["x"] - area["width"] / 2),
        int(place[1] - area["y"] - area["height"] / 2)).perform()
    page.wait("the other way", lambda: [e.text for e in page.all("#output .on")] == ["tsi"])
    must(page.text("#link") == "ist became tsi", page.text("#link"))


def check_alternatives_and_copy(page, server):
    page.type("one two")
    page.translated("eno owt")
    page.one("#others-list button").click()
    must(page.output() == "ENO OWT", page.output())
    must(page.text("#others-list button") == "eno owt", "the first translation is gone")
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {
        "origin": page.base, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.one("#copy").click()
    page.wait("copied", lambda: page.text("#copy-text") == "Copied")
    page.one("#clear").click()
    page.one("#input").click()
    page.chord(Keys.CONTROL, "v")
    must(page.one("#input").get_attribute("value") == "ENO OWT", "nothing was copied")


def check_swapping(page, server):
    page.choose("#source", "en")
    page.choose("#target", "fr")
    page.type("one two")
    page.translated("eno owt")
    page.one("#swap").click()
    page.translated("one two")
    chosen = page.js("return ['#source', '#target', '#input'].map(s =>"
                     "document.querySelector(s).value)")
    must(chosen == ["fr", "en", "eno owt"], f"swapped to {chosen}")
    last = json.loads(server.log("/heed/align")[-1]["body"])
    must((last["source"], last["target"]) == ("fr", "en"), f"asked for {last}")


def check_keyboard_only(page, server):
    page.wait("the text", lambda: page.focus() == "input")  # one can type at once
    page.js("document.querySelector('nav a').focus(); document.querySelector('.skip').focus()")
    page.keys(Keys.ENTER)
    page.wait("the text", lambda: page.focus() == "input")
    page.keys("gut so")
    page.translated("tug os")
    page.chord(Keys.ALT, "s")
    page.translated("gut so")
    seen = []
    for _ in range(12):
        page.keys(Keys.TAB)
        seen.append(page.focus())
        if seen[-1] == "look-open":
            break
    must({"clear", "output", "copy", "look-open"} <= set(seen), f"Tab went to {seen}")
    for _ in range(len(seen) - seen.index("output") - 1):
        page.chord(Keys.SHIFT, Keys.TAB)
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    must(page.text("#link").startswith("so from os"), page.text("#link"))
    page.wait("said", lambda: "\u2068so\u2069 from \u2068os\u2069" in page.text("#status"))
    page.keys(Keys.HOME)
    must(page.text("#link").startswith("gut from tug"), page.text("#link"))
    for _ in range(len(seen) - seen.index("output") - 1):
        page.keys(Keys.TAB)
    page.keys(Keys.ENTER)
    page.wait("attention", lambda: page.all("#look-q li"))
    ring = page.js("document.querySelector('#copy').focus();"
                   "return getComputedStyle(document.activeElement).outlineStyle")
    must(ring != "none", "the focus cannot be seen")


def check_names(page, server):
    """What a screen reader calls the things that can be used."""
    page.type("One two three.")
    page.translated("enO owt eerht.")
    page.one("#look-open").click()
    page.wait("a figure", lambda: page.all("#look-lines path"))
    for path in ("/", "/docs"):
        if path == "/docs":
            page.open(path)
            page.wait("the API", lambda: page.all(".op summary"))
            page.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        used = [n for n in nodes if not n["ignored"] and n["role"]["value"] in (
            "button", "link", "textbox", "combobox", "tab", "radio", "checkbox", "region", "group",
            "spinbutton", "listitem", "DisclosureTriangle")]
        must(len(used) > 20, f"{path}: {len(used)} things")
        bare = [n["role"]["value"] for n in used if not n.get("name", {}).get("value")
                and n["role"]["value"] not in ("group", "listitem")]
        must(not bare, f"{path}: without a name: {bare}")
    must(page.js("return document.documentElement.lang") == "en", "the page has no language")


def check_attention(page, server):
    page.type("One two three. Four five.")
    page.translated("enO owt eerht. ruoF evif.")
    page.one("#look-open").click()
    page.wait("a figure", lambda: page.all("#look-lines path"))
    must([li.text for li in page.all("#look-k li")] == ["▁One", "▁two", "▁three.", "</s>"], "keys")
    must(len(page.all("#look-maps button")) == 48, "six layers of eight heads")
    must(page.all("input[name=look-Layer]")[5].is_selected(), "the clearest layer")
    ActionChains(page.driver).move_to_element(page.all("#look-q li")[0]).perform()
    page.wait("what it looks at", lambda: "▁enO" in page.text("#look-say") and
              "looks at" in page.text("#look-say"))
    page.all("#look-maps button")[8 + 2].click()
    must(page.js("return document.querySelector('#look-maps').querySelectorAll("
                 "'[aria-pressed=true]').length") == 1, "one map is chosen")
    must(page.all("input[name=look-Layer]")[1].is_selected(), "the second layer")
    page.all("input[name=look-Attention]")[1].send_keys(Keys.SPACE)
    page.wait("the decoder's", lambda: page.text("#look-k li") == "<s>")
    page.choose("#look-form select", "1")
    page.wait("the second sentence", lambda: "▁ruoF" in page.text("#look-q"))


def check_phone(page, server):
    page.open(width=360, height=700)
    page.type("Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen " + "x" * 120)
    page.wait("translated", lambda: page.settled() and page.output().endswith("x" * 120))
    page.one("#look-open").click()
    page.wait("a figure", lambda: page.all("#look-lines path"))
    wide = page.js("return [document.documentElement.scrollWidth, innerWidth]")
    must(wide == [360, 360], f"wider than the phone: {wide}")
    cut = page.js("return ['#output', '#mirror'].filter(s => { const e = document.querySelector(s);"
                  "return e.scrollWidth > e.clientWidth; })")
    must(not cut, f"a long word is cut off in {cut}")
    small = page.js("return [...document.querySelectorAll('button, select, .button, nav a')]"
                    ".filter(e => e.offsetParent && !e.closest('.maps, p, .unseen'))"
                    ".map(e => [e.id || e.textContent, e.getBoundingClientRect()])"
                    ".filter(([, r]) => r.width < 32 || r.height < 30)"
                    ".map(([name, r]) => `${name} ${r.width}x${r.height}`)")
    must(not small, f"too small for a finger: {small}")
    tops = page.js("return ['#pane-input', '#pane-output'].map(s =>"
                   "document.querySelector(s).getBoundingClientRect().top)")
    must(tops[1] > tops[0] + 100, "the panes are not below each other")
    page.open("/docs", width=360, height=700)
    page.wait("the API", lambda: page.all(".op summary"))
    page.one("#post-translate summary").click()
    wide = page.js("return [document.documentElement.scrollWidth, innerWidth]")
    must(wide == [360, 360], f"/docs is wider than the phone: {wide}")


def contrast(page, css):
    """Between text and what is behind it, as WCAG counts."""
    return page.js("""
      const g = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
      const rgb = c => { g.clearRect(0, 0, 1, 1); g.fillStyle = c; g.fillRect(0, 0, 1, 1);
                         return [...g.getImageData(0, 0, 1, 1).data]; };
      const light = c => { const [r, g, b] = c.map(v => { v /= 255;
        return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      let e = document.querySelector(arguments[0]), ink = light(rgb(getComputedStyle(e).color));
      while (e && rgb(getComputedStyle(e).backgroundColor)[3] < 255) e = e.parentElement;
      const ground = light(rgb(getComputedStyle(e || document.body).backgroundColor));
      return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);""", css)


def check_dark(page, server):
    ground = "return getComputedStyle(document.body).backgroundColor"
    for dark in (False, True):
        page.open(dark=dark)
        page.type("one two")
        page.translated("eno owt")
        for css in ("#output", "#input", "#count", "#tab-file", "#others-title", ".bottom span",
                    "#source", "#link", "nav a", "#look-open", "#copy"):
            ratio = contrast(page, css)
            must(ratio >= 4.5, f"{css}: contrast {ratio:.1f}, dark {dark}")
    black = page.js(ground)
    page.one("#theme").click()  # system -> light
    must(page.js(ground) != black, "the switch does nothing")
    page.open(dark=True, forget=False)
    must(page.js(ground) != black, "the switch is forgotten")
    page.one("#theme").click()  # dark
    must(page.js(ground) == black, "not dark again")


def check_still(page, server):
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-reduced-motion", "value": "reduce"}]})
    page.type("!slow")
    page.wait("busy", lambda: page.one("#pane-output").get_attribute("aria-busy") == "true")
    must(page.js("return document.getAnimations().length") == 0, "something moves")


def check_offline(page, server):
    other = Server()
    page.base, own = other.url, page.base
    try:
        page.open()
        page.type("one")
        page.translated("eno")
        other.stop()
        page.expected.append("ERR_CONNECTION_REFUSED")
        page.type(" two")
        page.wait("an error", lambda: "does not answer" in page.text("#notice"))
        must(page.one("#input").get_attribute("value") == "one two", "the text is gone")
        must(re.search(r"\([1-5] s\)", page.text("#notice-retry")), "it does not try again")
        other = Server(other.port)
        page.one("#notice-retry").click()
        page.translated("eno owt")
        must(not page.one("#notice").is_displayed(), "the error stays")
    finally:
        page.base = own
        other.stop()


def check_busy(page, server):
    page.expected += ["status of 503", "status of 429"]
    for word in ("!busy", "!often"):
        page.open()
        page.type(word)
        page.wait("an error", lambda: "Slowdown" in page.text("#notice"))
        page.translated(turned(word))  # by itself, after the second it was told to wait
        must(not page.one("#notice").is_displayed(), "the error stays")


def check_key(page, server):
    page.expected.append("status of 403")
    other = Server(0, "--key", "open sesame")
    page.base, own = other.url, page.base
    try:
        page.open()
        page.wait("a question", lambda: page.one("#notice-key").is_displayed())
        page.type("one")
        page.wait("the server's words", lambda: "operator" in page.text("#notice"))
        page.one("#notice-key").click()
        page.keys("wrong", Keys.ENTER)
        page.wait("refused", lambda: "Invalid API key" in page.text("#notice"))
        page.one("#notice-key").click()
        page.one("#key-value").clear()
        page.type("open sesame", "#key-value")
        page.one("#key-save").click()
        page.translated("eno")
        page.open(forget=False)
        page.type("two")
        page.translated("owt")  # it was kept
        page.one("#key-open").click()
        page.one("#key-forget").click()
        page.wait("forgotten", lambda: "operator" in page.text("#notice"))
        must(page.js("return JSON.stringify(localStorage)").count("sesame") == 0, "not forgotten")
        must(page.js("return document.cookie + location") .count("sesame") == 0, "it leaks")
    finally:
        page.base = own
        other.stop()


def check_long(page, server):
    text = ("Der Hund ist müde und 😀 schläft. " * 200)[:4999].strip()
    n = len(text)
    page.paste(text)
    page.wait("the translation", lambda: len(page.output()) == len(turned(text)) and page.settled())
    must(page.output() == turned(text), "it is not the translation")
    must(page.text("#count") == f"{n:,} / 5,000", page.text("#count"))
    shown = page.js("return [...document.querySelectorAll('#output .word')].map(e =>"
                    "e.textContent)")
    must(shown == re.findall(r"\w+", turned(text)), f"words are not where they are: {shown[-9:]}")
    last = page.all("#output .word")[-1]
    ActionChains(page.driver).scroll_to_element(last).move_to_element(last).perform()
    page.wait("the last word", lambda: page.text(".mirror .on").strip() in text[-20:])
    fits = page.js("const [i, m] = ['#input', '#mirror'].map(s => document.querySelector(s));"
                   "return [i.scrollHeight - i.clientHeight, i.clientHeight - m.clientHeight]")
    must(abs(fits[0]) <= 2 and abs(fits[1]) <= 2, f"text and mirror part: {fits}")
    before = len(server.log())
    page.paste("x" * (5001 - n))
    page.wait("too long", lambda: page.text("#count") == "5,001 / 5,000 · 1 too many")
    must("over" in page.one("#count").get_attribute("class"), "it looks harmless")
    time.sleep(0.5)
    must(len(server.log()) == before, "a text beyond the limit was sent")
    page.keys(Keys.BACKSPACE)
    page.wait("5,000 are fine", lambda: len(server.log()) > before)


def check_growing(page, server):
    text = "Der Hund ist müde 😀. " * 15
    page.js("window.seen = []; new MutationObserver(() => seen.push(["
            "document.querySelector('#output').textContent,"
            "document.querySelector('.growing')?.textContent])).observe("
            "document.querySelector('#output'), { childList: true })")
    page.paste(text)
    page.translated(turned(text))
    must(server.log()[-1]["path"] == "/heed/stream", f"asked {server.log()[-1]['path']}")
    seen = page.js("return seen")
    must(len(seen) > 3, "it did not grow")
    must(all(turned(text).startswith(t) for t, _ in seen), f"it grew into something else: {seen}")
    must(seen[1][1] == seen[1][0][-20:], f"what is settled: {seen[1]}")
    must(len(page.all("#output .word")) == 60, "no words at the end")
    page.js("seen = []")
    page.type("Ende")
    page.translated(turned(text + "Ende"))
    least = min(len(t) for t, _ in page.js("return seen"))
    must(least > 0.8 * len(text), f"what was there is gone meanwhile: {least} of {len(text)}")
    page.one("#clear").click()
    page.paste("!broken " + text)
    page.wait("an error", lambda: "broke off" in page.text("#notice"))


def check_right_to_left(page, server):
    page.paste(RTL + "\nabc")
    page.translated(turned(RTL) + "\ncba")
    sides = page.js("""
      const rect = e => { const r = document.createRange(); r.selectNodeContents(e);
                          return r.getBoundingClientRect(); };
      const box = document.querySelector('#output').getBoundingClientRect();
      return [...document.querySelectorAll('#output .word')].map(rect).map(r =>
        r.left + r.right > box.left + box.right);""")
    must(sides == [True, True, False], f"lines begin at the wrong side: {sides}")
    page.one("#output").click()
    page.keys(Keys.HOME, Keys.ARROW_LEFT)  # onwards, where writing goes to the left
    must(page.text("#link").startswith(turned("بالعالم")), page.text("#link"))
    aligned = page.js("const m = document.querySelector('.mirror .on').getBoundingClientRect(),"
                      "b = document.querySelector('#input').getBoundingClientRect();"
                      "return m.left + m.right > b.left + b.right")
    must(aligned, "the mirror is not where the text is")


def check_hostile(page, server):
    title = page.driver.title
    page.paste(RUDE + " !rude " + "\u202e" + "\u0000" + "</textarea>")
    page.wait("translated", lambda: page.settled() and "hacked" in page.output())
    must(page.output().startswith("<img src=x"), "the markup is not shown as text")
    must(not page.all("#output img, #output script, #output b, #others img, .mirror img"), "markup")
    page.one("#look-open").click()
    page.wait("a figure", lambda: page.all("#look-lines path"))
    must(not page.all(".tokens img, .tokens script"), "markup in tokens")
    must(page.driver.title == title, "a script ran")
    page.open("/?q=" + urllib.request.quote(RUDE) + "&source=en&target=<b>")
    page.wait("translated", lambda: page.settled() and page.output())
    must(page.driver.title == title, "a script ran")
    page.open("/docs")
    page.wait("the API", lambda: page.all(".op summary"))
    must(not page.all("#operations img, #operations script"), "markup in /docs")


def check_few_alternatives(page, server):
    other = Server(0, "--alternatives", "1", "--limit", "-1")
    page.base, own = other.url, page.base
    page.expected.append("status of 400")
    try:
        page.open()
        page.type("one")
        page.translated("eno")
        must(len(page.all("#others-list button")) == 1, "it did not ask again for fewer")
        must(page.all("#output .word"), "words are lost with them")
        must(page.text("#count") == "3", f"a limit where there is none: {page.text('#count')}")
    finally:
        page.base = own
        other.stop()


def check_below_a_path(page, server):
    other = Server(0, "--below", "/translator")
    page.base, own = other.url, page.base
    try:
        page.open("/translator/")
        page.wait("languages", lambda: page.all("#target option"))
        page.type("one")
        page.translated("eno")
        page.one("nav a").click()
        page.wait("the API", lambda: page.all(".op summary"))
        page.one("#get-languages summary").click()
        page.one("#get-languages button.button").click()
        page.wait("an answer", lambda: "German" in page.text("#get-languages .answer"))
        must("/translator/languages" in page.text("#get-languages pre"), "the command")
        page.one(".brand").click()
        page.wait("back", lambda: page.all("#target option"))
    finally:
        page.base = own
        other.stop()


def check_no_words(page, server):
    page.expected.append("status of 400")
    page.choose("#source", "en")
    page.type("!plain text")
    page.translated("!nialp txet")
    must(not page.all("#output .word"), "words from nowhere")
    before = len(server.log("/heed/align"))
    page.type("s")
    page.translated("!nialp stxet")
    must(len(server.log("/heed/align")) == before, "it asks again for what cannot be had")
    must(not page.one("#notice").is_displayed(), "an error without a reason")


def check_documents(page, server):
    page.type("ein !slow Text")
    page.one("#tab-text").click()
    page.keys(Keys.ARROW_RIGHT)
    must(page.one("#panel-file").is_displayed(), "no documents")
    must(not page.one("#panel-text").is_displayed(), "two panels")
    path = page.folder / "letter.txt"
    path.write_text("Dear reader")
    page.one("#file").send_keys(str(path))
    page.wait("done", lambda: page.one("#job-link").is_displayed())
    must(not page.one("#others").is_displayed(), "what belongs to the text is beside documents")
    page.one("#job-link").click()
    got = page.folder / "letter_de.txt"
    page.wait("the file", lambda: got.exists() and got.read_text() == "translated: letter.txt")
    path.write_text("!nodoc")
    page.expected.append("status of 400")
    page.one("#file").send_keys(str(path))
    page.wait("refused", lambda: "not supported" in page.text("#job-state"))


def check_docs(page, server):
    page.open("/docs")
    page.wait("the API", lambda: len(page.all(".op summary")) == 4)
    page.one("#post-translate summary").send_keys(Keys.ENTER)
    page.one("#post-translate textarea").clear()
    page.type('["one", "two"]', "#post-translate textarea")
    page.one("#post-translate button.button").click()
    page.wait("an answer", lambda: '"eno"' in page.text("#post-translate .answer"))
    must("curl -X POST" in page.text("#post-translate pre"), "no command")
    page.one("#get-languages summary").click()
    page.one("#get-languages button.button").click()
    page.wait("an answer", lambda: "German" in page.text("#get-languages .answer"))


# ---- what every server shows -----------------------------------------------------------------


def live_translates(page, server):
    page.type("bada kelo")
    page.wait("a translation", lambda: page.settled() and page.output(), 20)
    must(page.text("#count") == "9 / 2,000,000", page.text("#count"))
    want = server.post("/translate", {"q": "bada kelo", "source": "en", "target": "de"}).json
    must(page.output() == want["translatedText"], f"{page.output()!r}, but {want}")
    page.one("#input").clear()
    page.paste(RUDE)
    page.wait("a translation", lambda: page.settled() and page.output() != want["translatedText"])
    must(not page.all("#output img, #output script, .mirror img"), "markup")


def live_words(page, server):
    page.type("bada kelo")
    page.wait("words", lambda: page.settled() and page.all("#output .word"), 20)
    page.one("#output").click()
    page.keys(Keys.HOME)
    page.wait("its counterpart", lambda: re.search("from|counterpart", page.text("#link")))
    must(re.search(r"\d+ % certain", page.text("#link")), page.text("#link"))


def live_swaps(page, server):
    page.type("bada kelo")
    page.wait("a translation", lambda: page.settled() and page.output(), 20)
    first = page.output()
    page.chord(Keys.ALT, "s")
    page.wait("the other way", lambda: page.settled() and
              page.one("#input").get_attribute("value") == first)
    must(page.js("return document.querySelector('#source').value") == "de", "languages")


def live_detects(page, server):
    page.choose("#source", "auto")
    page.type("The weather is fine today, and we are going to the lake.")
    page.wait("English", lambda: page.settled() and page.output() and
              "English (detected)" in page.text("#source option"), 20)


def live_cancels(page, server):
    cancelled = 'heed_jobs_total{end="cancelled"}'
    before = server.metric(cancelled)
    for _ in range(8):  # on a busy machine the server may be done before the browser comes to it
        page.js("document.querySelector('#input').value = arguments[0]", "bada kelo. " * 20000)
        page.type(" ")
        page.wait("work", lambda: server.metric("heed_jobs") > 0 or page.output(), 20)
        page.one("#clear").click()
        page.wait("idle", lambda: server.metric("heed_jobs") == 0, 20)
        if server.metric(cancelled) > before:
            return
    raise Failed("nothing was cancelled")


def live_attention(page, server):
    page.type("bada kelo")
    page.wait("a translation", lambda: page.settled() and page.output(), 20)
    page.one("#look-open").click()
    page.wait("a figure", lambda: page.all("#look-lines path"), 20)
    must(len(page.all("input[name=look-Attention]")) == 3, "not all kinds")
    for i in range(3):
        page.all("input[name=look-Attention]")[i].send_keys(Keys.SPACE)
        must(page.all("#look-lines path"), "no lines")


def live_documents(page, server):
    settings = server.get("/frontend/settings").json
    if not settings["filesTranslation"]:
        must(not page.one(".modes").is_displayed(), "documents that cannot be translated")
        return
    must(page.text("#formats") == ", ".join(settings["supportedFilesFormat"]), "formats")
    page.one("#tab-file").click()
    path = page.folder / "letter.txt"
    path.write_text("bada kelo\n")
    page.one("#file").send_keys(str(path))
    page.wait("done", lambda: page.one("#job-link").is_displayed(), 20)
    page.one("#job-link").click()
    want = server.post("/translate", {"q": "bada kelo\n", "source": "en", "target": "de"}).json
    got = page.folder / "letter_de.txt"
    page.wait("the file", got.exists)
    must(got.read_text() == want["translatedText"], f"{got.read_text()!r}, but {want}")


def live_docs(page, server):
    page.open("/docs")
    page.wait("the API", lambda: page.all("#post-translate summary"))
    page.one("#get-languages summary").click()
    page.one("#get-languages button.button").click()
    page.wait("an answer", lambda: '"targets"' in page.text("#get-languages .answer"))


def live_files_have_tags(page, server):
    for path in page.js("return performance.getEntriesByType('resource').map(e => e.name)"):
        if not re.search(r"\.(js|css|svg)$", path):
            continue
        request = urllib.request.Request(path, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as answer:
            head = answer.headers
        must(head["ETag"] and head["Content-Encoding"] == "gzip", f"{path}: {head}")
        must("default-src 'none'" in head["Content-Security-Policy"], f"{path}: no policy")
        try:
            urllib.request.urlopen(urllib.request.Request(path, headers={
                "If-None-Match": head["ETag"]}))
            raise Failed(f"{path} is sent twice")
        except urllib.error.HTTPError as error:
            must(error.code == 304, f"{path}: {error.code}")


def run(page, checks, server):
    failed = 0
    for check in checks:
        began, page.expected = time.monotonic(), []
        try:
            page.open(page.start)
            check(page, server)
            lines = page.complaints()
            must(not lines, "the console has " + "; ".join(lines))
            verdict = "ok"
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            verdict = f"FAILED: {type(error).__name__}: {error}"
            page.complaints()
        print(f"{check.__name__} ({time.monotonic() - began:.1f} s): {verdict}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("heed", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("-k", default="", help="only checks with this in their name")
    options = parser.parse_args()
    kind = "live_" if options.heed else "check_"
    checks = [f for name, f in globals().items() if name.startswith(kind) and options.k in name]
    must(checks, "no such check")
    with tempfile.TemporaryDirectory() as folder:
        if options.heed:
            sys.path.append(str(HERE.parent / "serve"))
            server = importlib.import_module("client").Server(
                options.heed, "--model", "en-de=" + options.model, "de-en=" + options.model,
                "--threads", "1", "--metrics", "--char-limit", "2000000")
            page = Page(Path(folder), f"http://127.0.0.1:{server.port}")
            page.start = "/?source=en&target=de"
        else:
            server = Server()
            page = Page(Path(folder), server.url)
        try:
            failed = run(page, checks, server)
        finally:
            page.close()
            server.process.kill()
            server.process.wait()
    print(f"{len(checks) - failed} of {len(checks)} checks passed")
    sys.exit(failed > 0)


main()

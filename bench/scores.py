#!/usr/bin/env python3
"""scores.py — how good, robust, small and fast the models in the box are, beside what was asked of
them. `make scores` runs it; docs/box.md explains the figures.

    bench/scores.py [--heed build/heed] [--models models] [--only quality,robust] [--json FILE]

One line per figure, then tables in Markdown. Translations are left in --out (build/scores).

Models are the folders en-de and de-en of --models. Test sets are looked for in --data: folders
newstest-en-de, europarl-en-de, tatoeba-en-de and msdocs-en-de with test.en and test.de (plain, .gz
or .xz). What is not there is left out, and said so; nothing is fetched. Where --f32 has the
students before they were made int8, what that cost is shown, and with Python's ctranslate2 the
speed of that engine on the same weights. --teachers is a file of --quality-json: the teachers'
scores. --eflomal has that aligner's error rates as {"cmu-europarl-dev": 0.2, ...}: bench/align.py
measures them.
"""

import argparse
import gzip
import hashlib
import json
import lzma
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import threading
import time

import robust

PAIRS = "en-de", "de-en"
SETS = {  # folder, lines of its test part that count
    "newstest2014": ("newstest-en-de", None),
    "europarl": ("europarl-en-de", None),
    "tatoeba": ("tatoeba-en-de", 3003),
    "msdocs": ("msdocs-en-de", None),
}
# BLEU and chrF2 that are asked from English; from German the teacher's BLEU is the measure.
BARS = {
    "student": {
        "newstest2014": (20.5, 52.5),
        "europarl": (36.0, 64.5),
        "tatoeba": (37.5, 60.0),
        "msdocs": (52.0, 77.0),
    },
    "teacher": {
        "newstest2014": (22.5, 54.0),
        "europarl": (39.0, 66.5),
        "tatoeba": (38.5, 60.5),
        "msdocs": (55.5, 78.5),
    },
}
MAY_LOSE = {"en-de": 2.0, "de-en": 1.5}  # BLEU, to the teacher
INT8_MAY_LOSE = 0.2
SIZE_MB, START_MS, MEMORY_MB, LATENCY_MS, WORDS_PER_S = 13.0, 30.0, 60.0, 10.0, 5000.0
ALIGNMENT_ERRORS = 0.12  # on the pairs in tests/data/align
WORSE_THAN_EFLOMAL = 0.03  # at most, on those in --data
SECTIONS = "size quality f32 robust align speed start bytes".split()


class Report:
    """Prints figures as they come, and keeps them."""

    def __init__(self):
        self.figures = []
        self.skipped = []

    def add(self, pair, name, value, unit="", bar=None, most=False):
        """A figure and its bar: the least that will do, or with most the most."""
        met = None if bar is None else (value <= bar if most else value >= bar)
        self.figures.append(
            {"pair": pair, "name": name, "value": value, "unit": unit, "bar": bar, "met": met}
        )
        asked = ""
        if bar is not None:
            asked = f"   {'≤' if most else '≥'} {bar:g}: {'ok' if met else 'MISSED'}"
        print(f"{pair:6} {name:44} {shown(value):>9} {unit:7}{asked}", flush=True)

    def skip(self, what, why):
        self.skipped.append(f"{what}: {why}")
        print(f"LEFT OUT: {what}: {why}", flush=True)

    def missed(self):
        return [f for f in self.figures if f["met"] is False]


def shown(value):
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{2 if abs(value) >= 1 else 3}f}"


# ---- running heed --------------------------------------------------------------------------------


class Heed:
    def __init__(self, program, out):
        self.program, self.out = program, out

    def run(self, *args, text=None, env=None):
        done = subprocess.run(
            [self.program, *map(str, args)],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, **(env or {})},
        )
        if done.returncode:
            sys.exit(f"{self.program} {' '.join(map(str, args))}: {done.stderr.strip()}")
        return done

    def translate(self, model, lines, *options, env=None):
        """The translations, and what --stats says of the run."""
        text = "".join(line + "\n" for line in lines)
        # With --json the figures on standard error are JSON too, and so is the output.
        done = self.run("translate", "--model", model, "--stats", "--json", *options,
                        text=text, env=env)  # fmt: skip
        outputs = [json.loads(line)["text"] for line in done.stdout.splitlines()]
        stats = [s for s in done.stderr.splitlines() if s.startswith("{")]
        return outputs, json.loads(stats[-1])

    def eval(self, reference, outputs, name):
        """BLEU and chrF2 with their signatures; leaves both texts in the folder for results."""
        paths = []
        for suffix, lines in ("ref", reference), ("hyp", outputs):
            paths.append(self.out / f"{name}.{suffix}")
            paths[-1].write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        done = self.run("eval", "--ref", paths[0], "--hyp", paths[1], "--json", "--width", "2")
        return {r["name"]: r for r in map(json.loads, done.stdout.splitlines())}

    def version(self):
        return self.run("help").stdout.split()[1]


class Conversation:
    """A running `heed translate` that is given lines and asked for theirs."""

    def __init__(self, program, model, threads):
        self.process = subprocess.Popen(
            [program, "translate", "--model", str(model), "--threads", str(threads), "--quiet"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def ask_all(self, lines):
        """All at once: writes while reading, or full pipes would stop both sides."""
        data = "".join(line + "\n" for line in lines).encode()
        writer = threading.Thread(target=lambda: (self.process.stdin.write(data),
                                                  self.process.stdin.flush()))  # fmt: skip
        writer.start()
        for _ in lines:
            self.process.stdout.readline()
        writer.join()

    def peak_mb(self):
        """The most memory it has had, VmHWM."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024 / 1e6

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# ---- texts ---------------------------------------------------------------------------------------


def read_lines(path, most=None):
    kinds = {".xz": lzma.open, ".gz": gzip.open}
    with kinds.get(path.suffix, open)(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for _, line in zip(range(most or sys.maxsize), file)]


def test_part(data, folder, lang):
    for suffix in "", ".xz", ".gz":
        path = data / folder / f"test.{lang}{suffix}"
        if path.exists():
            return path
    return None


def test_sets(data, report, quick):
    """The sets that are there: name to language to lines."""
    found = {}
    for name, (folder, most) in SETS.items():
        paths = {lang: test_part(data, folder, lang) for lang in ("en", "de")}
        if None in paths.values():
            report.skip(name, f"no test.en and test.de in {data / folder}")
            continue
        most = min(quick or sys.maxsize, most or sys.maxsize)
        found[name] = {lang: read_lines(path, most) for lang, path in paths.items()}
        if len(found[name]["en"]) != len(found[name]["de"]):
            sys.exit(f"scores.py: {data / folder}: test.en and test.de differ in length")
    return found


def typical(sets, lang, n):
    """Lines of about twenty words, news before other text; the robustness sentences where no set
    is there."""
    texts = [line for part in sets.values() for line in part[lang]]
    texts = texts or [f"{a.text} {b.text}" for a in robust.sentences() if a.lang == lang
                      for b in robust.sentences() if b.kind == "several"]  # fmt: skip
    exact = [t for t in texts if len(t.split()) == 20]
    return (exact or sorted(texts, key=lambda t: abs(len(t.split()) - 20)))[:n]


# ---- the figures ---------------------------------------------------------------------------------


def size(report, pair, model):
    files = [p for p in model.rglob("*") if p.is_file() and p.suffix != ".md"]
    total = sum(p.stat().st_size for p in files) / 1e6
    report.add(pair, "size with tokenizer", total, "MB", SIZE_MB, most=True)


def quality(report, heed, pair, model, sets, bars, teacher):
    """BLEU and chrF2 on every set, beside bars and the teacher's."""
    src, tgt = pair.split("-")
    results = {}
    for name, part in sets.items():
        outputs, _ = heed.translate(model, part[src])
        scores = heed.eval(part[tgt], outputs, f"{pair}.{name}")
        bleu, chrf = scores["BLEU"]["score"], scores["chrF2"]["score"]
        bar = bars[name] if src == "en" else (None, None)
        report.add(pair, f"{name} BLEU", bleu, "", bar[0])
        report.add(pair, f"{name} chrF2", chrf, "", bar[1])
        results[name] = {"bleu": bleu, "chrf2": chrf, "lines": len(outputs)}
        if name in teacher:
            report.add(pair, f"{name} BLEU less than the teacher's",
                       round(teacher[name]["bleu"] - bleu, 2), "", MAY_LOSE[pair],
                       most=True)  # fmt: skip
        results["signatures"] = {n: s["signature"] for n, s in scores.items()}
    return results


def int8_loss(report, heed, pair, model, sets, scores):
    """What int8 costs against the same student in f32."""
    src, tgt = pair.split("-")
    for name, part in sets.items():
        outputs, _ = heed.translate(model, part[src], "--precision", "f32")
        f32 = heed.eval(part[tgt], outputs, f"{pair}.{name}.f32")["BLEU"]["score"]
        report.add(pair, f"{name} BLEU lost to int8", round(f32 - scores[name]["bleu"], 2), "",
                   INT8_MAY_LOSE, most=True)  # fmt: skip


def speed(report, heed, pair, model, sets, repeat):
    src = pair.split("-")[0]
    single = typical(sets, src, 200)
    talk = Conversation(heed.program, model, 2)
    for line in single[:10]:
        talk.ask(line)
    took = []
    for line in single:
        begin = time.perf_counter()
        talk.ask(line)
        took.append(1e3 * (time.perf_counter() - begin))
    talk.end()
    report.add(pair, "one sentence of 20 words, p50, 2 threads", statistics.median(took), "ms",
               LATENCY_MS, most=True)  # fmt: skip
    texts = [t for part in sets.values() for t in part[src][:1000]][:1000] or single
    words = sum(len(t.split()) for t in texts)
    runs = [heed.translate(model, texts, "--threads", "2")[1] for _ in range(repeat)]
    best = min(run["seconds"] for run in runs)
    report.add(pair, "batch, 2 threads", words / best, "words/s", WORDS_PER_S)
    return single, texts


def start(report, heed, pair, model, sets):
    src = pair.split("-")[0]
    line = typical(sets, src, 1)[0]
    took = []
    for _ in range(11):
        begin = time.perf_counter()
        talk = Conversation(heed.program, model, 2)
        talk.ask(line)
        took.append(1e3 * (time.perf_counter() - begin))
        small = talk.peak_mb()
        talk.end()
    report.add(pair, "start to first translation, median", statistics.median(took), "ms", START_MS,
               most=True)  # fmt: skip
    report.add(pair, "resident after one sentence", small, "MB", MEMORY_MB, most=True)
    texts = [t for part in sets.values() for t in part[src][:1000]][:1000] or [line] * 100
    talk = Conversation(heed.program, model, 2)
    talk.ask_all(texts)
    peak = talk.peak_mb()
    talk.end()
    report.add(pair, f"resident after {len(texts)} lines", peak, "MB", MEMORY_MB, most=True)


def same_bytes(report, heed, pair, model, sets):
    """One text, every instruction set of this machine, several batches and numbers of threads."""
    src = pair.split("-")[0]
    own = [s.text for s in robust.sentences() if s.lang == src]
    texts = own + [t for part in sets.values() for t in part[src][:100]][:100]
    asked = subprocess.run([heed.program, "translate", "--model", str(model)], input="", text=True,
                           env={**os.environ, "HEED_ISA": "none"}, capture_output=True)  # fmt: skip
    isas = re.search(r"these can: (.*)", asked.stderr).group(1).split()
    runs = [(isa, 32, 2) for isa in isas] + [("", 1, 1), ("", 7, 2), ("", 64, 1)]
    digests = {}
    for isa, batch, threads in runs:
        how = "--batch-sentences", batch, "--threads", threads
        outputs, _ = heed.translate(model, texts, *how, env={"HEED_ISA": isa} if isa else None)
        digests.setdefault("\n".join(outputs), []).append((isa, batch, threads))
    name = f"different outputs of {len(runs)} runs: {' '.join(isas)}"
    report.add(pair, name, len(digests), "", 1, most=True)
    outputs, _ = heed.translate(model, own)
    digest = hashlib.sha256("".join(t + "\n" for t in outputs).encode()).hexdigest()
    report.add(pair, "sha256 of tests/robust translated", digest[:16])


def pieces_as_ids(heed, model, texts, vocab):
    done = heed.run("translate", "--model", model, "--json", "--alignment", "pieces", "--beam", "1",
                    text="".join(t + "\n" for t in texts))  # fmt: skip
    where = {piece: i for i, piece in enumerate(vocab)}
    return [
        [where[piece] for piece in json.loads(line)["source_pieces"] if piece != "</s>"]
        for line in done.stdout.splitlines()
    ]


def ctranslate2(report, heed, pair, model, texts, batch, repeat):
    """The other engine: the f32 student's weights, which it makes int8 itself."""
    folder = heed.out / f"{pair}.ctranslate2"
    heed.run("export", "--model", model, "--out", folder, "--format", "ctranslate2", "--overwrite")
    vocab = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    ids = pieces_as_ids(heed, model, texts, vocab)
    # It has no positions beyond the model's, and does not split.
    most = json.loads((model / "config.json").read_text(encoding="utf-8"))["model"]["max_len"]
    fitting = [(t, s) for t, s in zip(texts, ids) if len(s) < most]
    path = heed.out / f"{pair}.ids"
    path.write_text("".join(" ".join(map(str, s)) + "\n" for _, s in fitting), encoding="ascii")
    command = [sys.executable, robust.HERE / "ct2.py", "--model", folder, "--input", path,
               "--compute", "int8", "--batch", batch, "--max-length", most - 1]  # fmt: skip
    runs = []
    for inter, intra in ((1, 2),) if batch == 1 else ((1, 2), (2, 1)):
        for _ in range(repeat):
            args = map(str, command + ["--inter", inter, "--intra", intra])
            out = subprocess.run(args, stdout=subprocess.PIPE, check=True, text=True).stdout
            runs.append(json.loads(out))
    if batch == 1:
        best = min(r["p50_ms"] for r in runs)
        report.add(pair, "one sentence of 20 words, p50, by CTranslate2", best, "ms")
    else:
        words = sum(len(t.split()) for t, _ in fitting)
        best = max(words * r["tokens_per_s"] / r["tokens"] for r in runs)
        report.add(pair, "batch, 2 threads, by CTranslate2", best, "words/s")


def robustness(report, heed, models):
    lines, outputs = robust.translations(heed.program, models, robust.sentences())
    results, bars = robust.summaries(robust.measure(lines, outputs)), robust.BARS
    for lang, pair in ("en", "en-de"), ("de", "de-en"):
        if lang not in results:
            continue
        r = results[lang]
        report.add(pair, "names, numbers, addresses copied", r["copied"], "%", bars["copied"])
        report.add(pair, "empty translations", r["empty"], "", bars["empty"], most=True)
        report.add(pair, "repetition loops", r["loops"], "", bars["loops"], most=True)
        report.add(pair, "source words left untranslated", r["untranslated"], "%",
                   bars["untranslated"], most=True)  # fmt: skip
        both = [(s.reference, o) for s, o in zip(lines, outputs) if s.lang == lang]
        scores = heed.eval(*map(list, zip(*both)), f"{pair}.robust")
        report.add(pair, "these sentences, chrF2 of the whole", scores["chrF2"]["score"])
    return results


def alignment(report, heed, options):
    """Error rates of both models together against links made by hand."""
    sets = [(robust.HERE.parent / "tests/data/align/align60", "en", "de", ALIGNMENT_ERRORS)]
    known = {}
    if options.eflomal.exists():
        known = json.loads(options.eflomal.read_text(encoding="utf-8"))
    for name in "cmu-europarl-dev", "bicici-europarl-100":
        bar = known[name] + WORSE_THAN_EFLOMAL if name in known else None
        sets.append((options.data / "align" / name, "de", "en", bar))
    for stem, src, tgt, bar in sets:
        links = stem.with_suffix(".align")
        if not links.exists():
            report.skip(f"alignments of {stem.name}", f"no {links}")
            continue
        models = [options.models / f"{a}-{b}" for a, b in ((src, tgt), (tgt, src))]
        done = heed.run("align", "--model", models[0], "--reverse", models[1], "--src",
                        stem.with_suffix("." + src), "--tgt", stem.with_suffix("." + tgt), "--gold",
                        links)  # fmt: skip
        rate = float(re.search(r"AER ([0-9.]+)", done.stdout).group(1))
        report.add("both", f"alignment error rate, {stem.name}", rate, "", bar, most=True)


# ---- the whole -----------------------------------------------------------------------------------


def quality_table(results, teachers):
    out = ["| test set | en→de BLEU / chrF2 | teacher | de→en BLEU / chrF2 | teacher |",
           "|---|--:|--:|--:|--:|"]  # fmt: skip
    for name in SETS:
        cells = []
        for pair in "en-de", "de-en":
            for source in results.get(pair, {}), teachers.get(pair, {}):
                s = source.get(name)
                cells.append(f"{s['bleu']:.1f} / {s['chrf2']:.1f}" if s else "–")
        out.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(out)


def figure_table(report):
    """Everything that is not in another table, both directions beside each other."""
    rows = {}
    for f in report.figures:
        if not re.search(r" (BLEU|chrF2)$", f["name"]):
            rows.setdefault(f["name"], {})[f["pair"]] = f
    out = ["| | en→de | de→en | asked |", "|---|--:|--:|--:|"]
    for name, row in rows.items():
        one = next(iter(row.values()))
        found = [row.get(p) or row.get("both") for p in PAIRS]
        cells = [shown(f["value"]) if f else "–" for f in found]
        unit = ", " + one["unit"] if one["unit"] else ""
        bars = dict.fromkeys(f"{f['bar']:g}" for f in row.values() if f["bar"] is not None)
        out.append(f"| {name}{unit} | {' | '.join(cells)} | {' / '.join(bars)} |")
    return "\n".join(out)


def machine():
    cpu = platform.processor()
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.*)", info.read_text())
        cpu = found.group(1) if found else cpu
    return {"cpu": cpu, "cpus": len(os.sched_getaffinity(0))}


def default_data():
    """$HEED_DATA, or the folder shared/data beside this tree."""
    if os.environ.get("HEED_DATA"):
        return pathlib.Path(os.environ["HEED_DATA"])
    return robust.HERE.parent.parent / "shared" / "data"


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--heed", default="build/heed", help="the program (build/heed)")
    add("--models", type=pathlib.Path, default="models", help="has en-de and de-en (models)")
    add("--data", type=pathlib.Path, default=default_data(), help="test sets ($HEED_DATA)")
    add("--f32", type=pathlib.Path, help="the same students in f32")
    add("--teachers", type=pathlib.Path, default="recipes/box/teachers.json", help="their scores")
    add("--eflomal", type=pathlib.Path, default="recipes/box/eflomal.json", help="its error rates")
    add("--role", choices=BARS, default="student", help="whose bars count (student)")
    add("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    add("--quick", type=int, help="the first N lines of every set, for a try")
    add("--repeat", type=int, default=3, help="speed: the best of so many runs (3)")
    add("--out", type=pathlib.Path, default="build/scores", help="where texts are left")
    add("--json", type=pathlib.Path, help="write all figures there")
    add("--quality-json", type=pathlib.Path, help="write BLEU and chrF2 there, as --teachers is")
    add("--check", action="store_true", help="exit status 1 if a bar is missed")
    options = parser.parse_args()
    unknown = set(options.only.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"--only: no section is called '{sorted(unknown)[0]}'")
    return options


def measure_pair(report, heed, pair, options, sets, teachers):
    """All sections of one model; its scores."""
    model, only = options.models / pair, options.only.split(",")
    scores = {}
    if "size" in only:
        size(report, pair, model)
    if "quality" in only:
        teacher = teachers.get(pair, {}) if options.role == "student" else {}
        scores = quality(report, heed, pair, model, sets, BARS[options.role], teacher)
    f32 = options.f32 / pair if options.f32 else None
    if "f32" in only and scores:
        if f32 and (f32 / "config.json").exists():
            int8_loss(report, heed, pair, f32, sets, scores)
        else:
            report.skip(f"{pair} int8 against f32", "no --f32 student")
    if "speed" in only:
        single, texts = speed(report, heed, pair, model, sets, options.repeat)
        found = subprocess.run([sys.executable, "-c", "import ctranslate2"], capture_output=True)
        if found.returncode or not f32:
            report.skip(f"{pair} CTranslate2", "not installed" if found.returncode else "no --f32")
        else:
            ctranslate2(report, heed, pair, f32, single, 1, options.repeat)
            ctranslate2(report, heed, pair, f32, texts, 32, options.repeat)
    if "start" in only:
        start(report, heed, pair, model, sets)
    if "bytes" in only:
        same_bytes(report, heed, pair, model, sets)
    return scores


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    report, heed = Report(), Heed(options.heed, options.out)
    teachers = {}
    if options.teachers.exists():
        teachers = json.loads(options.teachers.read_text(encoding="utf-8"))
    else:
        report.skip("teachers", f"no {options.teachers}")
    sets = test_sets(options.data, report, options.quick)
    results, robustly = {}, {}
    here = [p for p in PAIRS if (options.models / p / "config.json").exists()]
    if not here:
        sys.exit(f"scores.py: no model in {options.models}")
    for pair in here:
        results[pair] = measure_pair(report, heed, pair, options, sets, teachers)
    signatures = next((r.pop("signatures") for r in results.values() if r), {})
    for r in results.values():
        r.pop("signatures", None)
    if "robust" in options.only.split(","):
        robustly = robustness(report, heed, options.models)
    if "align" in options.only.split(","):
        if len(here) == 2:
            alignment(report, heed, options)
        else:
            report.skip("alignments", f"both models are needed, {here[0]} is there")

    host = machine()
    print(f"\nheed {heed.version()} on {host['cpu']}, {host['cpus']} CPUs")
    for name, signature in signatures.items():
        print(f"{name}: {signature}")
    if any(results.values()):
        print("\n" + quality_table(results, teachers))
    print("\n" + figure_table(report))
    if robustly:
        print("\n" + robust.table(robustly))
    for f in report.missed():
        print(f"MISSED: {f['pair']} {f['name']}: {shown(f['value'])}, asked {f['bar']:g}")
    for what in report.skipped:
        print(f"LEFT OUT: {what}")
    if options.json:
        everything = {
            "heed": heed.version(), "machine": host, "signatures": signatures, "quality": results,
            "teachers": teachers, "robust": robustly, "figures": report.figures,
            "skipped": report.skipped,
        }  # fmt: skip
        text = json.dumps(everything, indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.quality_json:
        options.quality_json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(options.check and bool(report.missed()))


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""report.py — writes docs/paper from the results in docs/paper/results.

    report.py [--results DIR] [--out DIR] [--check]

The same files give the same pages; --check writes nothing and fails where a page is not what would
be written.

A section is a line of SECTIONS below: its key, its title, the page that it is on, and the command
that makes its results. The results are the files KEY.json and KEY-*.json; where there are none, the
page says "not run yet". The module recipes/paper/KEY.py has

    def section(files):    # {"KEY-cpu": the parsed JSON, ...}, sorted by name

which returns the section as Markdown, without its heading (sub-headings begin with ###). A result
that is an object may have "command", which is then printed in the place of the line's command:
that is how every number has the command that made it under it. Pictures are drawn by `heed plot`
and committed in docs/paper, beside the page that shows them.
"""
import argparse
import importlib
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SECTIONS = [
    ("table1", "Table 1: what a layer costs", "README.md", "recipes/paper/table1.sh"),
    ("table2", "Table 2: quality and training cost", "README.md", "recipes/paper/table2.sh"),
    ("table3", "Table 3: variations of the model", "README.md", "recipes/paper/table3.sh"),
    ("parsing", "Table 4: English constituency parsing", "README.md", "recipes/paper/parsing.sh"),
    ("figures", "Figures 3 to 5: what heads attend to", "README.md", "recipes/paper/figures.sh"),
    ("questions", "Questions of readers, answered by experiment", "questions.md",
     "recipes/paper/questions.sh"),
]
WRITTEN = "<!-- Written by recipes/paper/report.py from docs/paper/results: do not edit. -->\n"
INTRO = """# The paper's laboratory

Every table and figure of "Attention Is All You Need", run with heed. Compare shapes and orders, not
absolute scores: WMT 2014, which the paper trained on, cannot be had whole, so that data, lengths of
training and machines are others here. What should agree is which variant is better and by how much
beside its neighbours, and how costs grow. Where that disagrees with the paper, the section says so.

Figures 3 to 5 and the rows of `bench/gpu_quality.sh` in Table 2 are of models that were trained
before heed drew first weights of attention as it does now ([why](#does-pytorch-learn-faster)); with
`--attention-init each` runs have those of then.

Each section is written from the files that its command leaves in [results](results), and the
command stands under it. `make paper-smoke` runs all of them at toy size.
"""


def load(folder, key):
    """The results of a section by the names of their files."""
    paths = sorted(p for p in folder.glob(f"{key}*.json")
                   if p.stem == key or p.stem.startswith(key + "-"))
    files = {}
    for path in paths:
        try:
            files[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as e:
            sys.exit(f"report.py: {path}: {e}")
    return files


def commands(files, usual):
    found = [f["command"] for f in files.values() if isinstance(f, dict) and "command" in f]
    return list(dict.fromkeys(found)) or [usual]


def body(key, files, usual):
    if not files:
        return f"Not run yet: `{usual}` makes it.\n"
    text = importlib.import_module(key).section(files).strip("\n")
    made = "\n".join("    " + c for c in commands(files, usual))
    return f"{text}\n\nMade by\n\n{made}\n"


def pages(results):
    """{name of the page: its text}"""
    out = {"README.md": WRITTEN + INTRO}
    for key, title, page, usual in SECTIONS:
        files = load(results, key)
        text = body(key, files, usual)
        if page == "README.md":
            out[page] += f"\n## {title}\n\n{text}"
        elif files:
            out["README.md"] += f"\n## {title}\n\nOn a page of their own: [{page}]({page}).\n"
            out[page] = f"{WRITTEN}# {title}\n\n{text}"
        else:
            out["README.md"] += f"\n## {title}\n\n{text}"
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "docs/paper/results")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/paper")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))
    sys.dont_write_bytecode = True
    stale = []
    for name, text in pages(args.results).items():
        path = args.out / name
        if args.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
            continue
        args.out.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{name}.part{os.getpid()}")  # recipes may run beside each other
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    if stale:
        sys.exit(f"report.py: not what the results give: {', '.join(stale)}: run {sys.argv[0]}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""unicode_tables.py — writes src/base/unicode_tables.h: what heed knows of Unicode.

    python3 tools/unicode_tables.py | clang-format --assume-filename=x.h >src/base/unicode_tables.h

Evaluation must agree with sacreBLEU, so the tables are taken from what sacreBLEU runs on and not
from a Unicode file: the general categories P, S and N from the `regex` module, lower case from
str.lower(). Whether a character counts as cased or is ignored before and after a capital sigma is
not to be had from Python directly; it is asked of str.lower() with the sigma in place.

A newer Python or regex module may know more characters: run this again, look at the difference,
commit it. """

import sys
import unicodedata

import regex

CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(value_of):
    """(first, last, value) of neighbours with the same value other than 0."""
    out = []
    for c in CODES:
        v = value_of(c)
        if not v:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == v:
            out[-1][1] = c
        else:
            out.append([c, c, v])
    return out


def category(c):
    for bit, pattern in ((1, r"\p{P}"), (2, r"\p{S}"), (4, r"\p{N}")):
        if regex.match(pattern, chr(c)):
            return bit
    return 0


def near_sigma(c):
    """1: cased, so that a sigma beside it is inside a word; 2: skipped when looking for one that
    is."""
    if (chr(c) + "\u03a3").lower().endswith("\u03c2"):
        return 1
    return 2 if ("A" + chr(c) + "\u03a3").lower().endswith("\u03c2") else 0


def lower_runs():
    """(first, last, step, delta): every step-th code from first to last moves by delta."""
    runs = []
    for c in CODES:
        low = chr(c).lower()
        if low == chr(c):
            continue
        if len(low) != 1:  # unicode.c spells this one out
            assert (c, low) == (0x130, "i\u0307"), hex(c)
            continue
        delta = ord(low) - c
        if runs:
            last = runs[-1]
            step = c - last[1]
            if last[3] == delta and step in (1, 2) and last[2] in (0, step):
                last[1], last[2] = c, step
                continue
        runs.append([c, c, 0, delta])
    return [(a, b, s or 1, d) for a, b, s, d in runs]


def table(kind, name, rows):
    print(f"static const struct {kind} {name}[] = {{")
    for row in rows:
        a, b, *rest = row
        print("{" + ", ".join([hex(a), hex(b)] + [str(r) for r in rest]) + "},")
    print("};\n")


python, unidata = sys.version.split()[0], unicodedata.unidata_version
print(
    f"""\
/* unicode_tables.h — made by tools/unicode_tables.py, not by hand; only unicode.c includes it.
 *
 * Categories: regex {regex.__version__}. Case: Python {python}, Unicode {unidata}. */
#ifndef BASE_UNICODE_TABLES_H
#define BASE_UNICODE_TABLES_H

#include <stdint.h>

struct code_range {{
    uint32_t first, last;
    unsigned value;
}};

struct lower_run {{
    uint32_t first, last, step;
    int32_t delta;
}};

/* 1: punctuation, 2: symbol, 4: number. */"""
)
table("code_range", "category_ranges", ranges(category))
print("/* 1: cased, 2: passed over when looking for a cased character beside a capital sigma. */")
table("code_range", "sigma_ranges", ranges(near_sigma))
print("/* Every step-th code from first to last becomes code + delta in lower case. */")
table("lower_run", "lower_runs", lower_runs())
print("#endif")

#!/usr/bin/env python3
"""attend_find.py — heed attend --find computed a second time, from the numbers of heed attend.

    attend_find.py HEADS.json FACTS.json PAIR.json...

PAIR.json are what `heed attend --out PAIR.json` wrote for the sentences, in order; FACTS.json has
for each of them the parents of its words (or null) and its links (or null). Words are merged by the
mark of a space, which is right for text whose words are separated by spaces. Says what differs.
"""
import json
import math
import sys

SPACE = "\u2581"
NAMES = ["back3", "back2", "back1", "here", "ahead1", "ahead2", "ahead3"]
FAR = 5


def is_mark(piece):
    return piece.startswith("<") and piece.endswith(">")


def units(pieces):
    """[(text, [its pieces])], marks alone."""
    out = []
    for i, piece in enumerate(pieces):
        if is_mark(piece):
            out.append([piece, [i], "mark"])
        elif piece.startswith(SPACE) or not out or out[-1][2] == "mark":
            out.append([piece.lstrip(SPACE), [i], "word"])
        else:
            out[-1][0] += piece
            out[-1][1].append(i)
    for u in out:
        if u[2] == "word" and not any(c.isalnum() for c in u[0]):
            u[2] = "punct"
    return out


def merge(p, queries, keys):
    return [[sum(p[i][j] for i in q[1] for j in k[1]) / len(q[1]) for k in keys] for q in queries]


def measure(add, a, queries, keys, kind, fact):
    q_place = [i for i, q in enumerate(queries) if q[2] != "mark"]
    k_place = [j for j, k in enumerate(keys) if k[2] != "mark"]
    rank = {j: n for n, j in enumerate(k_place)}
    own = kind != "cross"
    for n, i in enumerate(q_place):
        sees = [j for j in range(len(keys)) if kind != "dec" or j <= i]
        add("entropy", -sum(x * math.log2(x) for x in a[i] if x > 0), 1)
        for j in k_place:
            off = abs((n + .5) / len(q_place) - (rank[j] + .5) / len(k_place))
            add("diagonal", a[i][j] * (1 - off), a[i][j])
            if own:
                add("distance", a[i][j] * abs(n - rank[j]), a[i][j])
                if j in sees and abs(rank[j] - n) <= 3:
                    add(NAMES[rank[j] - n + 3], a[i][j], 1)
        marks = [j for j in sees if keys[j][2] == "mark"]
        if marks:
            add("mark", sum(a[i][j] for j in marks), 1)
        punct = [j for j in sees if keys[j][2] == "punct"]
        if punct:
            add("punct", sum(a[i][j] for j in punct), 1)
        if queries[i][2] != "word":
            continue
        same = [j for j in sees if keys[j][2] == "word" and keys[j][0] == queries[i][0]
                and not (own and j == i)]
        if same:
            add("same", sum(a[i][j] for j in same), 1)
        if kind == "enc":
            relations(add, a[i], i, q_place, rank, keys, fact)


def relations(add, row, i, place, rank, keys, fact):
    others = [j for j in rank if j != i]
    most = max(others, key=lambda j: row[j]) if others else None
    is_word = {j for j in rank if keys[j][2] == "word"}
    right = {"parent": set(), "child": set(), "far": set(), "link": set()}
    if fact["parents"]:
        up = {place[w]: place[p] for w, p in enumerate(fact["parents"]) if p >= 0}
        right["parent"] = {up[i]} & is_word if i in up else set()
        right["child"] = {j for j in is_word if up.get(j) == i}
        right["far"] = {j for j in right["parent"] | right["child"]
                        if abs(rank[j] - rank[i]) >= FAR and keys[j][0] != keys[i][0]}
    if fact["links"]:
        right["link"] = {place[t] for s, t in fact["links"] if place[s] == i}
    for name, js in right.items():
        if js:
            add(name, most in js, 1)


def main():
    found = json.load(open(sys.argv[1], encoding="utf-8"))
    facts = json.load(open(sys.argv[2], encoding="utf-8"))
    sums = {}
    for fact, path in zip(facts, sys.argv[3:], strict=True):
        for k in json.load(open(path, encoding="utf-8"))["kinds"]:
            # find names a row of the decoder after the token that it reads
            queries = units(k["query"] if k["kind"] == "enc" else fact["input"])
            keys = units(k["key"])
            for layer, heads in enumerate(k["probs"]):
                for head, p in enumerate(heads):
                    to = sums.setdefault((k["kind"], layer + 1, head + 1), {})

                    def add(name, value, weight, to=to):
                        s = to.setdefault(name, [0, 0])
                        s[0] += value
                        s[1] += weight
                    measure(add, merge(p, queries, keys), queries, keys, k["kind"], fact)
    n = 0
    for h in found["heads"]:
        mine = sums.pop((h["attention"], h["layer"], h["head"]))
        for name, value in h["measures"].items():
            want = mine.get(name, [0, 0])
            want = want[0] / want[1] if want[1] else None
            if (value is None) != (want is None) or (want is not None and
                                                     abs(value - want) > 2e-6 * (1 + abs(want))):
                sys.exit(f"{h['attention']} {h['layer']}.{h['head']}: {name} is {value}, "
                         f"not {want}")
            n += want is not None
    if sums:
        sys.exit(f"heads not reported: {sorted(sums)}")
    print(n)


if __name__ == "__main__":
    main()

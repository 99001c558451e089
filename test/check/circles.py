"""No two object files use each other, directly or through others.

A call through a pointer is no edge; taking the address of a function is one, in the
direction from the file that names it.
"""
import os

import symbols


def graph(nm, paths, base):
    """{object: {object used: symbol that shows it}}"""
    defined, used = {}, {}
    for path in paths:
        name = os.path.relpath(path, base)
        used[name] = set()
        for symbol, kind, _ in symbols.symbols(nm, path):
            if kind == "U":
                used[name].add(symbol)
            elif kind.isupper() or kind in "uvw":
                defined[symbol] = name
    edges = {}
    for name, names in used.items():
        edges[name] = {defined[s]: s for s in sorted(names) if defined.get(s, name) != name}
    return edges


def path_between(edges, start, goal):
    """The shortest way from start to goal, both included, or None."""
    came = {start: None}
    queue = [start]
    for node in queue:
        for after in sorted(edges[node]):
            if after == goal:
                way = [goal, node]
                while came[way[-1]] is not None:
                    way.append(came[way[-1]])
                return way[::-1]
            if after not in came:
                came[after] = node
                queue.append(after)
    return None


def circles(edges):
    """The shortest circle of each set of files that use each other."""
    found, seen = [], set()
    for name in sorted(edges):
        if name in seen:
            continue
        way = path_between(edges, name, name)
        if way:
            found.append(way)
            seen.update(way)
    return found


def check(options):
    edges = graph(options.nm, symbols.objects(options), options.objects)
    problems = []
    for way in circles(edges):
        steps = ["%s uses %s of %s" % (a, edges[a][b], b) for a, b in zip(way, way[1:])]
        problems.append("a circle of calls:\n    " + "\n    ".join(steps))
    return problems

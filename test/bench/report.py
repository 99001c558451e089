"""From the numbers of every round to a table: medians, and ratios round by round."""

import statistics

COLUMN = 13
FIRST = 10


def medians(rows, metrics):
    """{metric: median over the rounds}"""
    return {key: statistics.median(row[key] for row in rows)
            for key, _ in metrics if all(key in row for row in rows)}


def ratios(rows_a, rows_b, metrics):
    """{metric: (median, lowest, highest)} of B divided by A, pair by pair of the rounds."""
    found = {}
    for key, _ in metrics:
        pairs = [(a.get(key), b.get(key)) for a, b in zip(rows_a, rows_b)]
        if pairs and all(a and b is not None for a, b in pairs):
            each = [b / a for a, b in pairs]
            found[key] = statistics.median(each), min(each), max(each)
    return found


def number(value):
    if value is None:
        return "-"
    return "%.0f" % value if abs(value) >= 1000 else "%.3g" % value if value else "0"


def line(first, second, cells):
    return ("%-*s %-6s" % (FIRST, first, second) + "".join(
        "%*s" % (COLUMN, cell) for cell in cells)).rstrip()


def ratio_lines(letter, result, metrics):
    found = ratios(result["A"], result[letter], metrics)
    keys = [key for key, _ in metrics]
    lines = [line("", letter + "/A",
                  ["%.2f" % found[k][0] if k in found else "-" for k in keys])]
    if len(result["A"]) > 1:
        lines.append(line("", "range", ["%.2f-%.2f" % found[k][1:] if k in found else "-"
                                        for k in keys]))
    return lines


def table(results, scenarios):
    """The lines of the table; a heading wherever the columns change."""
    lines, heading = [], None
    for scenario in scenarios:
        result = results.get(scenario.name)
        if not result:
            continue
        titles = [title for _, title in scenario.metrics]
        if titles != heading:
            heading = titles
            lines += ["", line("scenario", "", titles)]
        if "trouble" in result:
            lines.append(line(scenario.name, "failed", []) + " " + result["trouble"].split("\n")[0])
            continue
        for position, letter in enumerate(result):
            middle = medians(result[letter], scenario.metrics)
            lines.append(line("" if position else scenario.name, letter,
                              [number(middle.get(key)) for key, _ in scenario.metrics]))
        for letter in list(result)[1:]:
            lines += ratio_lines(letter, result, scenario.metrics)
    return lines


def syscall_table(found):
    """found: {scenario: {letter: {system call: times per transaction}}}"""
    lines = ["", "system calls per transaction (under strace)"]
    for name, by_letter in found.items():
        totals = {letter: sum(calls.values()) for letter, calls in by_letter.items()}
        for position, (letter, calls) in enumerate(by_letter.items()):
            often = sorted(calls.items(), key=lambda item: -item[1])[:7]
            lines.append("%-*s %-6s%8.2f  %s" % (
                FIRST, "" if position else name, letter, totals[letter],
                "  ".join("%s %.2f" % item for item in often if item[1] >= 0.005)))
        for letter in list(totals)[1:]:
            if totals.get("A"):
                lines.append("%-*s %-6s%8.2f" % (
                    FIRST, "", letter + "/A", totals[letter] / totals["A"]))
    return lines

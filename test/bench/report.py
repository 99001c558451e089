"""From the figures of a run to tables. Figures are plain data, as they are written to JSON:

    machine     processor, processors, kernel, PostgreSQL, date
    options     rounds, seconds, clients, servers, unix, workers, command
    subjects    {name: {"about", "settings"}}, in the order of the turns
    scenarios   {name: {"about", "metrics": [[key, title]], "rounds": {subject: [row]},
                        "ratios": {subject: {key: [median, lowest, highest]}},
                        "calls": {subject: {system call: times per transaction}}, "trouble"}}
"""

import statistics

REFERENCE = "reference"
COLUMN = 13
FIRST, SECOND = 11, 12


def median(figures, scenario, subject, key):
    """Returns the median over the rounds, or None when nothing was measured."""
    rows = figures["scenarios"].get(scenario, {}).get("rounds", {}).get(subject, [])
    found = [row[key] for row in rows if row.get(key) is not None]
    return statistics.median(found) if found else None


def ratio(result, subject, other, key):
    """Returns (median, lowest, highest) of the ratios of the two subjects, one ratio per round."""
    rounds = result["rounds"]
    pairs = [(a.get(key), b.get(key)) for a, b in zip(rounds.get(subject, []), rounds.get(other, []))]
    each = [a / b for a, b in pairs if a is not None and b]
    return (statistics.median(each), min(each), max(each)) if each else None


def ratios(result, other_of):
    """Returns {subject: {key: (median, lowest, highest)}} of the ratios to another subject.
    `other_of` returns the name of that one for each subject."""
    found = {}
    for subject in result["rounds"]:
        other = other_of(subject)
        if subject != other:
            each = {key: ratio(result, subject, other, key) for key, _ in result["metrics"]}
            found[subject] = {key: value for key, value in each.items() if value}
    return found


def number(value):
    if value is None:
        return "-"
    return "%.0f" % value if abs(value) >= 1000 else "%.3g" % value if value else "0"


def heading(figures):
    lines = ["%-*s %s%s" % (SECOND, name, each["about"], "".join(
        " %s=%s" % item for item in each["settings"].items()))
             for name, each in figures["subjects"].items()]
    return lines + [machine_line(figures)]


def machine_line(figures):
    machine, options = figures["machine"], figures["options"]
    return ("%s, %s processors, Linux %s, PostgreSQL %s; %s; %d round%s of %g s in turns, medians; "
            "%d clients, %d servers where a scenario names no number; %s" % (
                machine["processor"], machine["processors"], machine["kernel"],
                machine["postgres"], machine["date"], options["rounds"],
                "s" if options["rounds"] > 1 else "", options["seconds"], options["clients"],
                options["servers"], "unix sockets" if options["unix"] else "TCP on loopback"))


def line(first, second, cells):
    return ("%-*s %-*s" % (FIRST, first, SECOND, second) + "".join(
        "%*s" % (COLUMN, cell) for cell in cells)).rstrip()


def ratio_lines(found, subject, result):
    keys = [key for key, _ in result["metrics"]]
    cells = ["%.2f" % found[k][0] if k in found else "-" for k in keys]
    lines = [line("", "  ratio", cells)]
    if len(result["rounds"][subject]) > 1:
        lines.append(line("", "  range", ["%.2f-%.2f" % tuple(found[k][1:]) if k in found else "-"
                                          for k in keys]))
    return lines


def table(figures):
    """Formats a line per subject with its ratio to the reference, and a heading wherever the
    columns change."""
    lines, before = [], None
    for name, result in figures["scenarios"].items():
        titles = [title for _, title in result["metrics"]]
        if titles != before:
            before = titles
            lines += ["", line("scenario", "", titles)]
        if "trouble" in result:
            lines.append(line(name, "failed", []) + " " + result["trouble"].split("\n")[0])
            continue
        for position, subject in enumerate(result["rounds"]):
            lines.append(line("" if position else name, subject, [
                number(median(figures, name, subject, key)) for key, _ in result["metrics"]]))
            if result["ratios"].get(subject):
                lines += ratio_lines(result["ratios"][subject], subject, result)
    return lines


def most_often(calls, count=7):
    often = sorted(calls.items(), key=lambda item: -item[1])[:count]
    return ["%s %.2f" % item for item in often if item[1] >= 0.005]


def calls_table(figures):
    lines = []
    for name, result in figures["scenarios"].items():
        for position, (subject, calls) in enumerate(result.get("calls", {}).items()):
            lines.append("%-*s %-*s%8.2f  %s" % (
                FIRST, "" if position else name, SECOND, subject, sum(calls.values()),
                "  ".join(most_often(calls))))
    return ["", "system calls per transaction"] + lines if lines else []


# ------------------------------------------------------------------ Markdown

BEGIN, END = "<!-- %s: begin -->", "<!-- %s: end -->"
KIND_COLUMNS = ("cpu", "tps", "p50", "p99", "p99.9")


def markdown_row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def markdown_table(titles, rows):
    return [markdown_row(titles), "|" + "---|" * len(titles)] + [markdown_row(r) for r in rows]


def has_column(result, wanted):
    return any(key == wanted for key, _ in result["metrics"])


def load_rows(figures):
    for name, result in figures["scenarios"].items():
        if "trouble" in result or not has_column(result, "cpu") or has_column(result, "all"):
            continue
        for position, subject in enumerate(result["rounds"]):
            found = result["ratios"].get(subject, {}).get("cpu")
            yield ["" if position else result["about"], subject,
                   *(number(median(figures, name, subject, key)) for key in KIND_COLUMNS),
                   "%.2f (%.2f-%.2f)" % tuple(found) if found else ""]


def other_rows(figures):
    for name, result in figures["scenarios"].items():
        if "trouble" in result or has_column(result, "cpu"):
            continue
        for position, subject in enumerate(result["rounds"]):
            yield ["" if position else result["about"], subject, ", ".join(
                "%s %s" % (number(median(figures, name, subject, key)), title)
                for key, title in result["metrics"])]


TOGETHER = ("tps", "database", "cpu", "client", "all", "p99")


def together_rows(figures):
    """Returns what a transaction costs in the database, the pooler and the client, and together."""
    for name, result in figures["scenarios"].items():
        if "trouble" in result or not has_column(result, "all"):
            continue
        for position, subject in enumerate(result["rounds"]):
            found = result["ratios"].get(subject, {}).get("all")
            yield ["" if position else result["about"], subject,
                   *(number(median(figures, name, subject, key)) for key in TOGETHER),
                   "%.2f (%.2f-%.2f)" % tuple(found) if found else ""]


def calls_rows(figures):
    for name, result in figures["scenarios"].items():
        for position, (subject, calls) in enumerate(result.get("calls", {}).items()):
            yield ["" if position else result["about"], subject, "%.2f" % sum(calls.values()),
                   ", ".join(most_often(calls))]


NEAREST = {"epoll": ("relay_epoll", "relay_login", "haproxy"),
           "io_uring": ("relay_uring", "relay_login", "haproxy")}
NEAREST_TITLES = ["", "engine", "compared with", "CPU ratio to it", "its ratio to the reference"]


def nearest_rows(figures):
    """Returns how close each engine comes to what does least in its place."""
    for name, result in figures["scenarios"].items():
        first = result["about"]
        for engine, others in NEAREST.items():
            for other in others:
                found = ratio(result, engine, other, "cpu")
                if found:
                    theirs = ratio(result, other, REFERENCE, "cpu")
                    yield [first, engine, other, "%.2f (%.2f-%.2f)" % found,
                           "%.2f (%.2f-%.2f)" % theirs if theirs else ""]
                    first = ""


def nearest_table(figures):
    rows = [NEAREST_TITLES, *nearest_rows(figures)]
    return [""] + ["%-52s %-10s%-14s%-20s%s" % tuple(row) for row in rows] if rows[1:] else []


def markdown(figures, targets):
    """Returns the lines of the Markdown report. `targets` gives the titles and rows of the table of
    targets."""
    parts = ["Measured by `%s`: %s." % (figures["options"]["command"], machine_line(figures)), ""]
    parts += ["* `%s`: %s" % (name, each["about"]) for name, each in figures["subjects"].items()]
    for title, titles, rows in (
            ("What is aimed at, and what is reached", *targets),
            ("Under load: CPU time per transaction (COPY: per MB) in microseconds, throughput, "
             "latency in milliseconds, and the ratio of CPU time to the reference with its range",
             ["", "", "CPU us", "tx/s", "p50", "p99", "p99.9", "CPU ratio"], load_rows(figures)),
            ("CPU time per transaction in microseconds of all processes of PostgreSQL, of the pooler, of the "
             "client and together, and the ratio of the sum to the reference with its range",
             ["", "", "tx/s", "database", "pooler", "client", "together", "p99 ms", "ratio"],
             together_rows(figures)),
            ("How close each engine comes to relays, which do less than a pooler", NEAREST_TITLES,
             nearest_rows(figures)),
            ("At rest, and beside something big", ["", "", ""], other_rows(figures)),
            ("System calls per transaction, logins included", ["", "", "all", "most often"],
             calls_rows(figures))):
        rows = list(rows)
        if rows:
            parts += ["", title + ":", ""] + markdown_table(titles, rows)
    return parts


def write_into(path, lines, mark):
    """Writes the lines between the two lines of a document that have this mark."""
    first, last = BEGIN % mark, END % mark
    with open(path) as document:
        text = document.read()
    before, begin, rest = text.partition(first + "\n")
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError("%s has no lines %s and %s" % (path, first, last))
    with open(path, "w") as document:
        document.write(before + begin + "\n".join(lines) + "\n" + end + after)

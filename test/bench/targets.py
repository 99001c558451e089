"""The performance targets of each engine, and how close the figures of a run come to them."""

import report

ENGINES = ("epoll", "io_uring")


class Target:
    """A target with an upper limit. `limits` has one value per engine, None where there is no
    limit."""

    def __init__(self, title, scenario, limits, key="cpu"):
        self.title, self.scenario, self.key = title, scenario, key
        self.limits = dict(zip(ENGINES, limits))

    def value(self, figures, subject):
        raise NotImplementedError


class Ratio(Target):
    """The target for the ratio to another subject, one ratio per round."""

    other = report.REFERENCE

    def value(self, figures, subject):
        result = figures["scenarios"].get(self.scenario)
        found = result and report.ratio(result, subject, self.other, self.key)
        return found[0] if found else None


class RatioToHaproxy(Ratio):
    other = "haproxy"


class Plain(Target):
    def value(self, figures, subject):
        return report.median(figures, self.scenario, subject, self.key)


class Added(Target):
    """The target for the cost added to a direct connection, divided by the cost that the reference
    adds."""

    def value(self, figures, subject):
        ours, theirs, direct = (report.median(figures, self.scenario, name, self.key)
                                for name in (subject, report.REFERENCE, "direct"))
        if ours is None or theirs is None or direct is None or theirs <= direct:
            return None
        return (ours - direct) / (theirs - direct)


class Calls(Target):
    def value(self, figures, subject):
        found = figures["scenarios"].get(self.scenario, {}).get("calls", {}).get(subject)
        return sum(found.values()) if found else None


ALL = (
    Ratio("select 1", "select1", (0.78, 0.55)),
    Ratio("pgbench -S, simple protocol", "simple", (0.78, 0.55)),
    Ratio("pgbench -S, extended protocol", "extended", (0.80, 0.55)),
    Ratio("pgbench -S, prepared in transaction mode; reference: simple", "shared", (0.85, 0.60)),
    Ratio("10 queries per flush", "pipeline", (0.75, 0.60)),
    Ratio("20 MB results of 1 KB rows", "bulk", (0.27, 0.25)),
    Ratio("COPY of 70-byte rows in, per MB", "copy-in", (0.45, 0.45)),
    Ratio("COPY of 70-byte rows out, per MB", "copy-out", (0.60, 0.55)),
    Ratio("short connections, trust", "trust-c", (0.75, 0.65)),
    Ratio("short connections, md5", "md5-c", (0.75, 0.65)),
    Ratio("short connections, SCRAM secret", "scram-c", (0.75, 0.65)),
    Ratio("select 1 over TLS", "secured", (0.70, 0.60)),
    Ratio("short connections over TLS", "secured-c", (0.85, 0.80)),
    Ratio("select 1 at a fixed 8,000/s", "fixed", (0.85, 0.75)),
    Ratio("one client", "one", (0.85, 0.75)),
    RatioToHaproxy("select 1, against haproxy", "select1", (None, 0.75)),
    Added("one client: median latency added to a direct connection, to the reference's", "one",
          (1, 1), "p50"),
    Plain("10,000 clients, 1,000 active: p99/p50", "crowd", (1.5, 1.5), "spread"),
    Calls("system calls per select 1", "select1", (4.3, None)),
    Plain("bytes per idle client", "idle", (640, 640), "memory"),
    Plain("bytes per idle client inside TLS", "tls", (15000, 15000), "memory"),
    Plain("p99 beside 100,000 idle pools, to before", "many-pools", (2, 2), "times"),
    Plain("p99 beside SHOW CLIENTS on 10,000, to quiet", "show", (2, 2), "times"),
    Plain("p99 beside RELOAD of 10,000 users and databases, to quiet", "reload", (2, 2), "times"),
    Plain("p99 beside RELOAD of 200,000 users, to quiet", "user-list", (2, 2), "times"),
)

SCENARIOS = {target.scenario for target in ALL}
TITLES = ["", *(title for engine in ENGINES for title in (engine, "at most", "reached"))]


def rows(figures):
    """Returns the rows of the targets for which something was measured."""
    for target in ALL:
        cells = []
        for engine in ENGINES:
            value, limit = target.value(figures, engine), target.limits[engine]
            reached = "" if value is None or limit is None else "yes" if value <= limit else "no"
            cells += [report.number(value), "" if limit is None else "%g" % limit, reached]
        if any(cell not in ("-", "") for cell in cells[::3]):
            yield [target.title] + cells


def table(figures):
    lines = ["", "%-78s" % "targets (ratios of CPU time to the reference unless said)" + "".join(
        "%9s" % title for title in TITLES[1:])]
    return lines + ["%-78s" % row[0] + "".join("%9s" % cell for cell in row[1:])
                    for row in rows(figures)]

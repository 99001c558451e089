"""The performance targets of each engine, and how close the figures of a run come to them."""

import worker_counts
import report
from database import DRIVERS

ENGINES = ("epoll", "io_uring")
SEVERAL = tuple(worker_counts.name_of(count) for count in worker_counts.COUNTS)
FULL = 95  # If so many percent of the processors' time are used, more throughput is not possible.


class Target:
    """A target with an upper limit. `limits` has one value per subject, None where there is no
    limit."""

    limit_format = "%g"

    def __init__(self, title, scenario, limits, key="cpu"):
        self.title, self.scenario, self.key = title, scenario, key
        self.limits = limits

    def value(self, figures, subject):
        raise NotImplementedError

    def is_reached(self, _figures, _subject, value, limit):
        return value <= limit

    def cells(self, figures, subject, limit):
        """Returns the value, the limit, and whether it is reached, as texts."""
        value = self.value(figures, subject)
        reached = ""
        if value is not None and limit is not None:
            reached = "yes" if self.is_reached(figures, subject, value, limit) else "no"
        return [report.number(value), "" if limit is None else self.limit_format % limit, reached]


class Ratio(Target):
    """The target for the ratio to another subject, one ratio per round."""

    other = report.REFERENCE

    def value(self, figures, subject):
        result = figures["scenarios"].get(self.scenario)
        found = result and report.ratio(result, subject, self.other, self.key)
        return found[0] if found else None


class RatioToHaproxy(Ratio):
    other = "haproxy"


class RatioToDirect(Ratio):
    """The target for the ratio to PostgreSQL with nothing in between."""

    other = "direct"

    def __init__(self, title, scenario, limits, key="database"):
        super().__init__(title, scenario, limits, key)


class RatioToOff(Ratio):
    """The target for the ratio to the same engine with the settings off."""

    def value(self, figures, subject):
        result = figures["scenarios"].get(self.scenario)
        found = result and report.ratio(result, subject, subject.removesuffix(", on"), self.key)
        return found[0] if found else None


class AtLeast:
    """Mixed into a target whose limits are the lowest values that are aimed at."""

    limit_format = "%g or more"

    def is_reached(self, _figures, _subject, value, limit):
        return value >= limit


class MoreThanDirect(AtLeast, RatioToDirect):
    pass


class MoreThanOff(AtLeast, RatioToOff):
    pass


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


class RatioToOne(Ratio):
    """The target for the ratio to one worker."""

    other = worker_counts.name_of(1)


class RelayToOne(RatioToOne):
    """The ratio of the smallest relay with as many threads to the one with one thread: what the
    kernel asks for more threads."""

    other = worker_counts.relay_name(1)

    def value(self, figures, subject):
        return super().value(figures, worker_counts.BESIDE[subject])


class OverRelay(Target):
    """The ratio to one worker, divided by that of the smallest relay: what several workers of the
    pooler add to it."""

    def value(self, figures, subject):
        ours = RatioToOne(self.title, self.scenario, ()).value(figures, subject)
        theirs = RelayToOne(self.title, self.scenario, ()).value(figures, subject)
        return ours / theirs if ours and theirs else None


class Throughput(RatioToOne):
    """The lowest ratio of throughput to one worker. It is also reached where the processors have no
    time left."""

    limit_format = "%g or more"

    def is_reached(self, figures, subject, value, limit):
        return value >= limit or report.median(figures, self.scenario, subject, "in_use") >= FULL


OF_ENGINES = (
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
    Ratio("select 1, simple protocol: database, pooler and client together", "together", (0.92, 0.92), "all"),
    Ratio("point select, 8 clients: database, pooler and client together", "together-8", (0.92, 0.92), "all"),
    Ratio("BEGIN, select, COMMIT: database, pooler and client together", "block", (0.92, 0.92), "all"),
    RatioToHaproxy("select 1, against haproxy", "select1", (None, 0.75)),
    Added("one client: median latency added to a direct connection, to the reference's", "one",
          (1, 1), "p50"),
    Plain("10,000 clients, 1,000 active: p99/p50", "crowd", (1.5, 1.5), "spread"),
    Calls("system calls per select 1", "select1", (4.3, None)),
    Plain("bytes per idle client", "idle", (640, 640), "memory"),
    Plain("bytes per idle client inside TLS", "tls", (15000, 15000), "memory"),
    Plain("bytes per idle pool, with its database", "many-pools", (None, None), "memory"),
    Plain("bytes per known user", "users", (None, None), "memory"),
    Plain("bytes per prepared text", "statements", (None, None), "own"),
    Plain("bytes per further name of such a text", "statements", (None, None), "shared"),
    Plain("p99 beside 100,000 idle pools, to before", "many-pools", (2, 2), "times"),
    Plain("p99 beside SHOW CLIENTS on 10,000, to quiet", "show", (2, 2), "times"),
    Plain("p99 beside RELOAD of 10,000 users and databases, to quiet", "reload", (2, 2), "times"),
    Plain("p99 beside RELOAD of 200,000 users, to quiet", "user-list", (2, 2), "times"),
)

ON = tuple(engine + ", on" for engine in ENGINES)
OF_DATABASE = (
    RatioToDirect("point select: CPU time of PostgreSQL, to a direct connection", "unnamed", (0.5, 0.5)),
    RatioToDirect("join: CPU time of PostgreSQL, to a direct connection", "unnamed-join", (0.3, 0.3)),
    MoreThanDirect("join: throughput, to a direct connection", "unnamed-join", (2.5, 2.5), "tps"),
    RatioToDirect("insert: CPU time of PostgreSQL, to a direct connection", "unnamed-insert", (None, None)),
    RatioToOff("BEGIN, select, COMMIT: CPU time of PostgreSQL, to the settings off", "block", (0.9, 0.9), "database"),
    MoreThanOff("the same, clients 1 ms away: throughput, to the settings off", "block-far", (1.3, 1.3), "tps"),
    *(RatioToDirect("%s by %s: CPU time of PostgreSQL, to a direct connection" % (title, driver),
                    "%s-%s" % (name, driver), limits)
      for driver in DRIVERS for title, name, limits in (
          ("point select", "unnamed", (0.5, 0.5)), ("join", "unnamed-join", (0.3, 0.3)),
          ("insert", "unnamed-insert", (None, None)))),
)

OF_WORKERS = (
    Throughput("select 1, 32 clients: throughput, or the processors are in use", "scale",
               (1.7, None, None), "tps"),
    Throughput("select 1, 1,000 clients: throughput, or the processors are in use", "scale-1000",
               (1.7, None, None), "tps"),
    Plain("select 1, 32 clients: percent of the processors in use", "scale", (None,) * 3, "in_use"),
    Plain("select 1, 1,000 clients: percent of the processors in use", "scale-1000", (None,) * 3,
          "in_use"),
    RatioToOne("select 1, 32 clients: CPU time", "scale", (1.1,) * 3),
    RelayToOne("select 1, 32 clients: CPU time of the relay", "scale", (None,) * 3),
    OverRelay("select 1, 32 clients: CPU time, divided by that", "scale", (None,) * 3),
    RatioToOne("select 1, 32 clients, a server for each: CPU time", "scale-wide", (1.1,) * 3),
    RelayToOne("select 1, 32 clients, a server for each: CPU time of the relay", "scale-wide", (None,) * 3),
    OverRelay("select 1, 32 clients, a server for each: CPU time, divided by that", "scale-wide", (None,) * 3),
    RatioToOne("select 1, 1,000 clients: CPU time", "scale-1000", (1.1,) * 3),
    RelayToOne("select 1, 1,000 clients: CPU time of the relay", "scale-1000", (None,) * 3),
    OverRelay("select 1, 1,000 clients: CPU time, divided by that", "scale-1000", (None,) * 3),
    RatioToOne("all active clients at one worker: CPU time", "uneven", (None,) * 3),
    RatioToOne("active clients at changing workers: CPU time", "wander", (None,) * 3),
    RatioToOne("600 clients, 10 servers: longest wait", "fairness", (1.5,) * 3, "max"),
    RatioToOne("600 clients, 10 servers: p99 of waits", "fairness", (1.5,) * 3, "p99"),
    RatioToOne("servers rest elsewhere: longest wait", "elsewhere", (None,) * 3, "max"),
    RatioToOne("servers rest elsewhere: p99.9 of waits", "elsewhere", (None,) * 3, "p99.9"),
)


class Aims:
    """A table of targets. `mark` names the place of its figures in a document."""

    def __init__(self, title, mark, subjects, targets):
        self.title, self.mark, self.subjects, self.targets = title, mark, subjects, targets

    def scenarios(self):
        return {target.scenario for target in self.targets}

    def titles(self):
        return ["", *(title for subject in self.subjects for title in (subject, "aim", "reached"))]

    def rows(self, figures):
        """Returns the rows of the targets for which something was measured."""
        for target in self.targets:
            cells = [cell for subject, limit in zip(self.subjects, target.limits)
                     for cell in target.cells(figures, subject, limit)]
            if any(cell not in ("-", "") for cell in cells[::3]):
                yield [target.title] + cells

    def table(self, figures):
        lines = ["", "%-78s" % self.title + "".join("%12s" % each for each in self.titles()[1:])]
        return lines + ["%-78s" % row[0] + "".join("%12s" % cell for cell in row[1:])
                        for row in self.rows(figures)]


ENGINE_AIMS = Aims("targets (ratios of CPU time to the reference unless said; an aim is a limit)",
                   "figures", ENGINES, OF_ENGINES)
DATABASE_AIMS = Aims("targets of what is saved in the database (with both settings on)", "database", ON, OF_DATABASE)
WORKER_AIMS = Aims("targets (ratios to one worker, or percent)", "workers", SEVERAL, OF_WORKERS)


def of(figures):
    """Returns the targets for the kind of run that the figures are from."""
    if figures["options"].get("workers"):
        return WORKER_AIMS
    measured = figures["scenarios"].values()
    is_about_database = measured and all(report.has_column(result, "all") for result in measured)
    return DATABASE_AIMS if is_about_database else ENGINE_AIMS

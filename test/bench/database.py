"""Scenarios that measure what a transaction costs together: in the database, the pooler and the
client."""

import glob
import re
import resource
import time

from loads import Pgbench
from machine import TICKS, Trouble, tail, until

POINT = "\\set aid random(1, 100000)\nselect abalance from pgbench_accounts where aid = :aid;\n"
JOIN = """\\set aid random(1, 99999)
\\set tid random(1, 10)
select a.abalance, b.bbalance, t.tbalance, o.abalance from pgbench_accounts a
join pgbench_branches b on b.bid = a.bid join pgbench_tellers t on t.bid = b.bid and t.tid = :tid
join pgbench_accounts o on o.aid = a.aid + 1 where a.aid = :aid;
"""
INSERT = """\\set aid random(1, 100000)
insert into pgbench_history (tid, bid, aid, delta, mtime) values (1, 1, :aid, 1, current_timestamp);
"""
BLOCK = POINT.replace("select", "begin;\nselect") + "end;\n"
# The time that a client 1 ms away needs between an answer and its next message.
FAR_BLOCK = BLOCK.replace("begin;\n", "begin;\n\\sleep 1 ms\n").replace("end;", "\\sleep 1 ms\nend;\n\\sleep 1 ms")

SWITCHED_ON = {"prepare_unnamed": 2, "defer_begin": 1}


def run_time(pid):
    """Returns the CPU time of a process with one thread in seconds."""
    try:
        with open("/proc/%d/schedstat" % pid) as stat:
            return int(stat.read().split()[0]) / 1e9
    except OSError:
        return 0


class Database(Pgbench):
    """pgbench with unnamed statements. CPU times are those of all processes of PostgreSQL, of the
    pooler and of pgbench."""

    metrics = (("tps", "tx/s"), ("database", "db us/tx"), ("cpu", "cpu us/tx"), ("client", "client us/tx"),
               ("all", "all us/tx"), ("p99", "p99 ms"))
    is_about_database = True

    def __init__(self, name, about, script, **more):
        super().__init__(name, about, ["-M", "extended"], script=script, opponents=("direct",), **more)

    @staticmethod
    def database_time(bench):
        """Returns the CPU time of PostgreSQL's backends, of those that have ended with a resolution of
        10 ms."""
        pid = bench.need_postgres().process.pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as children:
            found = sum(run_time(int(child)) for child in children.read().split())
        with open("/proc/%d/stat" % pid) as stat:
            fields = stat.read().rpartition(")")[2].split()
        return found + sum(int(field) for field in fields[13:15]) / TICKS

    @staticmethod
    def lines(log):
        """Returns the number of transactions that pgbench has written to its log."""
        found = 0
        for path in glob.glob(log + ".*"):
            with open(path, "rb") as part:
                found += part.read().count(b"\n")
        return found

    def measure(self, bench, subject, options):
        self.warm(bench, subject, options)
        log, path = bench.machine.fresh_path("transactions"), bench.machine.fresh_path("pgbench")
        command = self.command(bench, subject, options, "-T", str(max(2, round(options.seconds))), "-l",
                               "--log-prefix=" + log)
        earlier = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        with open(path, "wb") as out:
            process = bench.machine.start(command, stdout=out, stderr=out)
        # The first logged transactions show that the logins are over, so the count begins here.
        until(lambda: process.poll() is not None or self.lines(log), "pgbench works", 60)
        done = self.lines(log) if process.poll() is None else 0
        before = self.database_time(bench), subject.pid and subject.cpu()[0]
        client = time.clock_gettime(~process.pid << 3 | 2) if process.poll() is None else 0
        bench.machine.wait(process, 120)
        spent = [self.database_time(bench) - before[0], subject.cpu()[0] - before[1] if subject.pid else 0,
                 sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - earlier - client]
        with open(path) as out:
            output = out.read()
        count, tps = (re.search(p, output) for p in (r"processed: (\d+)", r"tps = ([\d.]+)"))
        if process.returncode != 0 or not count or int(count.group(1)) <= done:
            raise Trouble("pgbench: %s\n%s" % (output.strip()[-600:], tail(subject.log)))
        subject.check()
        each = [1e6 * part / (int(count.group(1)) - done) for part in spent]
        row = {"tps": float(tps.group(1)), "database": each[0], "client": each[2], "all": sum(each)}
        took = sorted(self.read(log))
        row["p99"] = took[min(len(took) - 1, int(len(took) * 0.99))] * 1000
        if subject.pid:
            row["cpu"] = each[1]
        return row


ALL = (
    Database("unnamed", "point select by unnamed statements", POINT),
    Database("unnamed-join", "join of four tables by unnamed statements", JOIN),
    Database("unnamed-insert", "insert by unnamed statements", INSERT),
    Database("block", "BEGIN, select, COMMIT in three round trips, unnamed statements", BLOCK),
    Database("block-far", "the same by clients 1 ms away", FAR_BLOCK),
)

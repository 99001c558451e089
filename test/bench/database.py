"""Scenarios that measure what a transaction costs together: in the database, the pooler and the
client."""

import glob
import os
import re
import resource
import subprocess
import sys
import time

from loads import Pgbench
from machine import DATABASE, HOST, TICKS, TREE, USER, Trouble, tail, until

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

# The same for drivers: name, text, and the highest value of each parameter.
TEXTS = (
    ("point select", "unnamed", "select abalance from pgbench_accounts where aid = $1", (100000,)),
    ("join of four tables", "unnamed-join", "select a.abalance, b.bbalance, t.tbalance, o.abalance "
     "from pgbench_accounts a join pgbench_branches b on b.bid = a.bid join pgbench_tellers t "
     "on t.bid = b.bid and t.tid = $1 join pgbench_accounts o on o.aid = a.aid + 1 where a.aid = $2",
     (10, 99999)),
    ("insert", "unnamed-insert", "insert into pgbench_history (tid, bid, aid, delta, mtime) "
     "values (1, 1, $1, 1, current_timestamp)", (100000,)),
)
# The folder of each driver's program, and its command there.
DRIVERS = {
    "node-postgres": ("node", "node", "bench_pg.mjs"),
    "lib-pq": ("go", "bin/bench-lib-pq"),
    "psycopg": ("python", "bench_psycopg.py"),
}

SWITCHED_ON = {"prepare_unnamed": 2, "defer_begin": 1}


def run_time(pid):
    """Returns the CPU time of a process with one thread in seconds."""
    try:
        with open("/proc/%d/schedstat" % pid) as stat:
            return int(stat.read().split()[0]) / 1e9
    except OSError:
        return 0


class Database(Pgbench):
    """pgbench, by default with unnamed statements. CPU times are those of all processes of PostgreSQL,
    of the pooler and of the client program."""

    metrics = (("tps", "tx/s"), ("database", "db us/tx"), ("cpu", "cpu us/tx"), ("client", "client us/tx"),
               ("all", "all us/tx"), ("p99", "p99 ms"))

    def __init__(self, name, about, script, arguments=("-M", "extended"), is_about_database=True, **more):
        super().__init__(name, about, list(arguments), script=script, opponents=("direct",), **more)
        self.is_about_database = is_about_database

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

    def begin(self, bench, subject, options, out):
        """Starts the clients. Returns their process, and a function that returns how many transactions
        are done, or None while it is not certain that all logins are over."""
        self.warm(bench, subject, options)
        self.log = bench.machine.fresh_path("transactions")
        process = bench.machine.start(self.command(
            bench, subject, options, "-T", str(max(2, round(options.seconds))), "-l",
            "--log-prefix=" + self.log), stdout=out, stderr=out)

        def done():
            found = 0
            for path in glob.glob(self.log + ".*"):
                with open(path, "rb") as part:
                    found += part.read().count(b"\n")
            return found or None

        return process, done

    def result(self, output):
        """Returns the number of transactions, how many there were per second, and the 99th percentile
        of their times in milliseconds; or None."""
        count, tps = (re.search(p, output) for p in (r"processed: (\d+)", r"tps = ([\d.]+)"))
        took = sorted(self.read(self.log))
        if not count or not took:
            return None
        return int(count.group(1)), float(tps.group(1)), took[min(len(took) - 1, int(len(took) * 0.99))] * 1000

    def measure(self, bench, subject, options):
        path = bench.machine.fresh_path("clients")
        earlier = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        with open(path, "wb") as out:
            process, done = self.begin(bench, subject, options, out)
        until(lambda: process.poll() is not None or done() is not None, "the clients work", 60)
        already = done() or 0
        before = self.database_time(bench), subject.pid and subject.cpu()[0]
        client = time.clock_gettime(~process.pid << 3 | 2) if process.poll() is None else 0
        bench.machine.wait(process, 120)
        spent = [self.database_time(bench) - before[0], subject.cpu()[0] - before[1] if subject.pid else 0,
                 sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - earlier - client]
        with open(path) as out:
            output = out.read()
        found = self.result(output) if process.returncode == 0 else None
        if not found or found[0] <= already:
            raise Trouble("%s\n%s" % (output.strip()[-600:], tail(subject.log)))
        subject.check()
        each = [1e6 * part / (found[0] - already) for part in spent]
        row = {"tps": found[1], "database": each[0], "client": each[2], "all": sum(each), "p99": found[2]}
        if subject.pid:
            row["cpu"] = each[1]
        return row


def program_of(driver):
    """Returns the command of a driver's program, which is built if necessary."""
    sys.path.insert(0, os.path.join(TREE, "test/integration"))
    import toolchain  # Only where drivers are measured.
    folder, *command = DRIVERS[driver]
    if folder == "python":
        command = [os.path.join(toolchain.SOURCES, folder, command[0])]
        for python in (sys.executable, os.path.join(os.path.dirname(toolchain.build_folder()), "venv/bin/python")):
            if os.path.exists(python) and subprocess.run(
                    [python, "-c", "import psycopg"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return [python, *command]
        raise Trouble("no Python with psycopg; make setup-venv")
    try:
        place = toolchain.built(folder)
    except toolchain.Missing as missing:
        raise Trouble("%s: %s" % (driver, missing)) from None
    return [*command[:-1], os.path.join(place, command[-1])]


class Driver(Database):
    """A driver that sends the text of each query anew."""

    is_loaded = False

    def __init__(self, about, name, text, most, driver):
        super().__init__("%s-%s" % (name, driver), "%s by %s" % (about, driver), None)
        self.driver, self.words = driver, [text, *map(str, most)]

    def measure(self, bench, subject, options):
        self.program = program_of(self.driver)
        return super().measure(bench, subject, options)

    def begin(self, bench, subject, options, out):
        env = {"PGHOST": HOST, "PGPORT": str(subject.port), "PGUSER": USER, "PGDATABASE": DATABASE,
               "PGSSLMODE": "disable"}
        process = bench.machine.start(
            ["env", *("%s=%s" % pair for pair in env.items()), *self.program,
             str(self.count(options)), str(options.seconds), *self.words],
            unprivileged=False, stdout=out, stderr=out)

        def done():
            with open(out.name) as said:
                return 0 if said.read().startswith("begun") else None

        return process, done

    def result(self, output):
        found = re.fullmatch(r"begun\n(\d+) ([\d.e-]+) ([\d.e-]+)\n", output)
        return found and (int(found[1]), int(found[1]) / float(found[2]), float(found[3]))


ALL = (
    Database("unnamed", "point select by unnamed statements", POINT),
    Database("unnamed-join", "join of four tables by unnamed statements", JOIN),
    Database("unnamed-insert", "insert by unnamed statements", INSERT),
    Database("block", "BEGIN, select, COMMIT in three round trips, unnamed statements", BLOCK),
    Database("block-far", "the same by clients 1 ms away", FAR_BLOCK),
    Database("named", "point select by named statements", POINT, ("-M", "prepared"), is_about_database=False),
    Database("together", "select 1, simple protocol", "select 1;\n", ("-M", "simple"), is_about_database=False),
    Database("together-8", "point select by unnamed statements, 8 clients", POINT, client_count=8,
             is_about_database=False),
    *(Driver(*text, driver) for driver in DRIVERS for text in TEXTS),
)

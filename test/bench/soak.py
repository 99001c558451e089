#!/usr/bin/env python3
"""Runs a pooler for a long time under everything that happens in its life, and looks whether anything is
left at the end: clients, servers, descriptors, memory. Each engine has a pooler of its own with several
workers; both have the same primary and standby of PostgreSQL, which are restarted and change roles now and then.

The first half has online restarts, restarts of PostgreSQL and failovers; the second half has none, so that the memory
of one process is seen for a long time, and a client fails there only because an administrator has closed it. The report
is a page with figures and plots."""

import argparse
import collections
import html
import math
import os
import random
import re
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))

import certs  # noqa: E402
import conftest  # noqa: E402
import psycopg  # noqa: E402
import replication  # noqa: E402
import waiting  # noqa: E402
import wire  # noqa: E402
from pooler import Pooler  # noqa: E402

MB = 1024 * 1024
# What was begun before the last restart may fail so many seconds after it.
CALMS_WITHIN = 60
HURT = (OSError, wire.Closed, wire.Refused, AssertionError, psycopg.Error)


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)([smh]?)", text).groups()
    return int(number) * {"": 1, "s": 1, "m": 60, "h": 3600}[unit]


# What clients do. Each returns when it has done it once.


def short(pooler, chance):
    with pooler.connect() as client:
        assert client.value("select %d" % 7) == "7"


def simple(pooler, chance):
    with pooler.connect(user="scram_user") as client:
        for n in range(chance.randrange(1, 200)):
            assert client.value("select %d" % n) == str(n)


def rows(pooler, chance):
    with pooler.connect() as client:
        assert len(client.query("select repeat('x', 100) from generate_series(1, 5000)").rows) == 5000


def prepared(pooler, chance):
    with pooler.connect() as client:
        for n in range(chance.randrange(1, 20)):
            client.send(wire.parse("s%d" % n, "select %d + $1::int" % (n % 7)), wire.bind("", "s%d" % n, ["1"]),
                        wire.execute(), wire.sync())
            assert client.finish().value == str(n % 7 + 1)


def copy(pooler, chance):
    with pooler.connect() as client:
        client.query("begin")
        client.query("create temporary table copied (t text) on commit drop")
        client.send(wire.query("copy copied from stdin"))
        client.recv_until("GE")
        client.send(wire.copy_data("x" * 20000 + "\n") * chance.randrange(1, 50), wire.copy_done())
        client.finish()
        client.query("commit")


def listen(pooler, chance):
    with pooler.connect("session") as client, pooler.connect("session") as other:
        client.query("listen soak")
        other.query("notify soak, 'x'")
        client.send(wire.query("select 1"))
        client.finish()


def cancel(pooler, chance):
    with pooler.connect() as client:
        client.send(wire.query("select pg_sleep(%g)" % chance.choice([0.01, 0.1, 2])))
        with pooler.raw() as other:
            other.sock.sendall(wire.cancel_request(client.key))
            client.finish()
    with pooler.raw() as other:
        other.sock.sendall(wire.cancel_request(chance.randbytes(8)))


def vanish(pooler, chance):
    client = pooler.connect()
    client.send(wire.query(chance.choice(["select pg_sleep(0.2)", "begin", "select repeat('x', 1000000)"])))
    client.close()


def half(pooler, chance):
    sock = pooler.raw()
    sock.sock.sendall(chance.choice([b"", b"GET / HTTP/1.1\r\n\r\n", chance.randbytes(100), wire.ssl_request()]))
    sock.close()


def tls(pooler, chance):
    with psycopg.connect(host="127.0.0.1", port=pooler.port, dbname="db", user="scram_user", sslmode="require",
                         password=pooler.userlist["scram_user"], autocommit=True, connect_timeout=30) as connection:
        for n in range(chance.randrange(1, 30)):
            assert connection.execute("select %s::int", [n]).fetchone() == (n,)


def stay(pooler, chance):
    """A client that lives long."""
    with pooler.connect() as client:
        end = time.monotonic() + chance.uniform(5, 40)
        while time.monotonic() < end:
            client.query("begin")
            assert client.value("select 5") == "5"
            client.query("commit")
            time.sleep(chance.uniform(0.01, 0.3))


def block(pooler, chance):
    with pooler.connect() as client:
        for n in range(chance.randrange(1, 20)):
            client.query("begin")
            assert client.value("select %d" % n) == str(n)
            client.query(chance.choice(["commit", "rollback"]))


def unnamed(pooler, chance):
    with pooler.connect() as client:
        for n in range(chance.randrange(1, 40)):
            client.send(wire.parse("", "select %d + $1::int" % (n % 9)), wire.bind("", "", ["1"]), wire.execute(), wire.sync())
            assert client.finish().value == str(n % 9 + 1)


def keep(pooler, chance):
    """What a client leaves in its session is there in each later transaction."""
    with pooler.connect("keep") as client:
        client.query("set work_mem = '%dkB'" % (1000 + chance.randrange(9)))
        kept = client.value("show work_mem")
        if chance.random() < 0.3:
            client.query("create temporary table kept as select 5 as five")
            assert client.value("select five from kept") == "5"
        for _ in range(chance.randrange(1, 20)):
            assert client.value("show work_mem") == kept


def hear(pooler, chance):
    """One connection of the pool listens for all of them."""
    channel = "soak%d" % chance.randrange(5)
    with pooler.connect("keep") as client, pooler.connect("keep") as other:
        client.query("listen " + channel)
        for n in range(chance.randrange(1, 5)):
            text = "%d" % chance.randrange(10 ** 9)
            other.query("notify %s, '%s'" % (channel, text))
            while text.encode() not in client.recv_until("A")[-1].body:
                pass


def read(pooler, chance):
    with pooler.connect("read") as client:
        assert client.value("select 6") == "6"


WORK = (short, simple, rows, prepared, copy, listen, cancel, vanish, half, tls, stay, block, unnamed, keep, hear,
        read)


class Subject:
    """One pooler, its clients and what is measured of it."""

    def __init__(self, binary, nodes, engine, options, pair):
        self.engine, self.options = engine, options
        primary = "target_session_attrs=primary "
        self.pooler = Pooler(binary, {
            "db": nodes.entry(primary + "pool_size=8"), "session": nodes.entry(
                # a client of `listen` and another one, for each thread
                primary + "pool_mode=session pool_size=%d" % (2 * options.clients)),
            "keep": nodes.entry(primary + "pool_size=8 session_state=keep"),
            "read": nodes.entry("target_session_attrs=prefer-standby pool_size=4")}, settings={
                "pool_mode": "transaction", "io_engine": engine, "workers": options.workers, "max_client_conn": 500,
                "server_login_retry": "0.2", "client_tls_sslmode": "allow", "client_tls_key_file": pair.key_file,
                "client_tls_cert_file": pair.cert_file, "max_prepared_statements": 20, "client_login_timeout": 20,
                "prepare_unnamed": 2, "defer_begin": 1, "max_pinned_servers": 6,
                "log_connections": 0, "log_disconnections": 0, "takeover_drain_timeout": 5})
        self.pooler.settings["pidfile"] = self.pooler.path("pid")
        self.pooler.may_log_fatal = True
        self.done, self.failed, self.failed_late = (collections.Counter() for _ in range(3))
        self.samples, self.events, self.old = [], [], []
        self.is_ending = self.is_calm = False

    def serve(self, seed):
        chance = random.Random("%s %d" % (self.engine, seed))
        while not self.is_ending:
            work, failed = chance.choice(WORK), self.failed_late if self.is_calm else self.failed
            try:
                work(self.pooler, chance)
                self.done[work.__name__] += 1
            except HURT as error:
                failed["%s: %s" % (work.__name__, str(error).split("\n")[0][:90])] += 1
                time.sleep(0.05)

    def note(self, began, what):
        self.events.append((time.monotonic() - began, what))

    def sample(self, began):
        self.samples.append((time.monotonic() - began, self.pooler.pid, self.pooler.rss(), self.pooler.fds()))

    def command(self, sql):
        with self.pooler.console() as console:
            self.pooler.consoles.remove(console)
            return console.query(sql, check=False)

    def take_over(self):
        mark, old = self.pooler.mark(), self.pooler.process
        self.pooler.args = ["-R"]
        self.pooler.launch()
        waiting.wait_for(lambda: self.pooler.process.poll() is not None or
                         " process up: " in self.pooler.log_since(mark), "the next process is up")
        assert self.pooler.process.poll() is None, self.pooler.log_since(mark)[-2000:]
        self.old.append(old)

    def counts(self):
        lists = {row["list"]: int(row["items"]) for row in self.command("SHOW LISTS").dicts()}
        return lists["used_clients"], sum(int(row["sv_active"]) for row in self.command("SHOW POOLS").dicts())

    def slope(self, since):
        """MB per hour of the last process, and the standard error of that."""
        points = [(t, rss) for t, pid, rss, _ in self.samples if pid == self.pooler.pid and t >= since]
        n = len(points)
        if n < 3:
            return 0.0, math.inf
        mean_t, mean_r = sum(t for t, _ in points) / n, sum(r for _, r in points) / n
        square = sum((t - mean_t) ** 2 for t, _ in points)
        rise = sum((t - mean_t) * (r - mean_r) for t, r in points) / square
        left = sum((r - mean_r - rise * (t - mean_t)) ** 2 for t, r in points)
        return rise * 3600 / MB, math.sqrt(left / (n - 2) / square) * 3600 / MB


def plot(subject, title, column, unit):
    """An SVG picture of one column of the samples; lines mark what administrators did."""
    width, height = 900, 160
    end = max(s[0] for s in subject.samples) or 1
    top = max(s[column] for s in subject.samples) * 1.1 or 1
    points = " ".join("%.1f,%.1f" % (s[0] / end * width, height - s[column] / top * height) for s in subject.samples)
    marks = "".join('<path d="M%.1f 0V%d" stroke="%s"><title>%s</title></path>' % (
        at / end * width, height, {"takeover": "#c60", "restart of PostgreSQL": "#06c", "failover": "#c0c"}.get(what, "#ddd"),
        html.escape(what)) for at, what in subject.events)
    return ('<h3>%s</h3><svg viewBox="0 -14 %d %d" width="%d" xmlns="http://www.w3.org/2000/svg" font-size="11">%s'
            '<polyline points="%s" fill="none" stroke="#333"/><text y="-3">%.4g %s</text></svg>' % (
                html.escape(title), width, height + 16, width, marks, points, top / unit[0], unit[1]))


def report(path, subjects, problems, rows_of):
    parts = ["<!doctype html><meta charset=utf-8><title>Soak</title><h1>Soak</h1>",
             "<p>%s</p>" % ("<br>".join(map(html.escape, problems)) or "Nothing is left.")]
    for s in subjects:
        parts.append("<h2>%s</h2><table>%s</table>" % (s.engine, "".join(
            "<tr><td>%s<td>%s" % (html.escape(k), html.escape(str(v))) for k, v in rows_of(s))))
        parts += [plot(s, "resident memory", 2, (MB, "MB")), plot(s, "descriptors", 3, (1, ""))]
        parts.append("<p>orange: takeover, blue: restart of PostgreSQL, purple: failover, grey: commands</p>")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(parts))


def run(options, subjects, nodes):
    began, half_time = time.monotonic(), options.time / 2
    threads = [threading.Thread(target=s.serve, args=(n,), daemon=True) for s in subjects for n in range(options.clients)]
    for thread in threads:
        thread.start()
    is_failover = False
    chance, due = random.Random(options.seed), {"command": 3.0, "takeover": half_time / 5, "pg": half_time / 9}
    while time.monotonic() - began < options.time:
        time.sleep(0.5)
        now = time.monotonic() - began
        for s in subjects:
            s.sample(began)
            s.is_calm = now > half_time + CALMS_WITHIN
            if now > due["command"]:
                sql = chance.choice(["RELOAD", "RECONNECT db", "SHOW CLIENTS", "SHOW SERVERS", "KILL_CLIENT 1"])
                s.command(sql)
                s.note(began, sql)
            if due["takeover"] < now < half_time:
                s.take_over()
                s.note(began, "takeover")
        if due["pg"] < now < half_time:
            is_failover = not is_failover
            if is_failover:
                nodes.switch()
            else:
                nodes.primary.restart(chance.choice(["INT", "QUIT"]))
            for s in subjects:
                s.note(began, "failover" if is_failover else "restart of PostgreSQL")
            due["pg"] = now + half_time / 9
        if now > due["takeover"]:
            due["takeover"] = now + half_time / 5
        if now > due["command"]:
            due["command"] = now + 3
    for s in subjects:
        s.is_ending = True
    for thread in threads:
        thread.join(90)
    return ["%d clients do not end" % sum(t.is_alive() for t in threads)] if any(t.is_alive() for t in threads) else []


def judge(s, options):
    """What is left, or grows."""
    problems = []
    try:
        waiting.wait_for(lambda: s.counts() == (1, 0), "%s: only the console is left" % s.engine, 30)
    except AssertionError as late:
        problems.append(str(late))
    for old in s.old:
        try:
            assert old.wait(60) == 0
        except Exception as error:  # it has not ended, or not well
            problems.append("%s: an old process: %r" % (s.engine, error))
    try:
        waiting.wait_for(lambda: s.pooler.fds() <= s.base_fds + 12 + 8, "%s: descriptors" % s.engine, 30)
    except AssertionError as late:
        problems.append("%s: %d, and %d at the start" % (late, s.pooler.fds(), s.base_fds))
    rise, error = s.slope(options.time * 0.7)
    if (rise - 3 * error) * options.time * 0.3 / 3600 > 1:  # more than 1 MB in the time that is judged
        problems.append("%s: memory grows by %.1f +- %.1f MB/h" % (s.engine, rise, error))
    problems += ["%s: nobody has done: %s" % (s.engine, work.__name__) for work in WORK if not s.done[work.__name__]]
    problems += ["%s: %d times without a restart: %s" % (s.engine, count, what) for what, count in
                 s.failed_late.items() if "administrator command" not in what]
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pooler", required=True)
    parser.add_argument("--time", type=seconds, default="10m", help="such as 10m or 8h")
    parser.add_argument("--clients", type=int, default=12, help="threads of clients for each engine")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", default="soak.html")
    options = parser.parse_args()
    nodes = replication.Pair(conftest.find_pg_bin()).create()
    folder = waiting.scratch("certs")
    pair = certs.Authority(folder).issue("server", "localhost", ["localhost", "127.0.0.1"])
    subjects, problems = [], []
    try:
        with waiting.within_reach(os.path.abspath(options.pooler)) as binary:
            for engine in ("epoll", "auto"):
                subjects.append(Subject(binary, nodes, engine, options, pair))
                subjects[-1].pooler.start()
                subjects[-1].base_fds = subjects[-1].pooler.fds()
            problems += run(options, subjects, nodes)
            for s in subjects:
                problems += judge(s, options)

            def rows_of(s):
                return [("done", dict(s.done)), ("failed", dict(s.failed.most_common(12))),
                        ("failed in the second half", dict(s.failed_late)),
                        ("takeovers, restarts of PostgreSQL, failovers",
                         [sum(w == k for _, w in s.events) for k in ("takeover", "restart of PostgreSQL", "failover")]),
                        ("memory, MB/h", "%.1f +- %.1f" % s.slope(options.time * 0.7)),
                        ("resident at the end, MB", s.pooler.rss() // MB),
                        ("descriptors at the start and the end", (s.base_fds, s.pooler.fds()))]

            report(options.report, subjects, problems, rows_of)
            for s in subjects:
                print(s.engine, *("  %s: %s" % row for row in rows_of(s)), sep="\n")
                s.pooler.stop()
    finally:
        for s in subjects:
            for process in s.old:
                if process.poll() is None:
                    process.kill()
            s.pooler.remove()
        nodes.remove()
        waiting.discard(folder)
    print("\n".join(problems) or "nothing is left, and memory is flat")
    print("report: %s" % os.path.abspath(options.report))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The oracle: random sequences of messages must be answered through the pooler exactly as by
PostgreSQL itself. A sequence that is not is cut down to a minimal one and printed.

    oracle.py --pooler BINARY [--seconds 60] [--seed 1] [--count N] [--mode transaction]
    oracle.py --pooler BINARY --replay FILE

A seed names a sequence: `--seed 71 --count 1` runs the sequence 71 alone.
"""

import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time

import cutter
import oracle_acts
import oracle_links
import oracle_ops
import oracle_sequences
import postgres
import waiting
import wire
from pooler import Pooler

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = (1, 2, 3, 4)
USER = "trust_user"
TEMPLATE = "oracle_template"
SIZES = (1, 2, 200)

# The parameters in the startup packets of the clients.
STARTUP = {
    1: {},
    2: {"application_name": "second", "DateStyle": "SQL, DMY"},
    3: {"TimeZone": "Europe/Paris", "IntervalStyle": "postgres_verbose"},
    4: {},
}

# The ways to reach PostgreSQL: name, pool mode, max_prepared_statements, and for some the engine.
TRANSACTION = [("transaction, %d prepared" % n, "transaction", n) for n in SIZES]
STATEMENT = [("statement, %d prepared" % n, "statement", n) for n in SIZES]
SESSION = [("session", "session", 200)]
ENGINES = ("epoll", "auto")
PIECES = [("pieces, %s" % e, "transaction", 200, e) for e in ENGINES]
SESSION_PIECES = [("session in pieces, %s" % e, "session", 200, e) for e in ENGINES]
SCHEMA = [("schema, %s, %d workers" % (e, n), "transaction", 200, e, n) for e in ENGINES for n in (1, 3)]
ENGINES_AND_WORKERS = [("%s, %d workers" % (e, n), "transaction", 200, e, n) for e in ENGINES for n in (1, 3)]
WORKERS = [("%s, 4 workers, %d prepared" % (e, n), "transaction", n, e, 4) for e in ENGINES for n in (2, 200)]
# Pools of 1 to 3 servers.
KEEP = {"keep_%d" % size: [("keep %d, %s, %d workers" % (size, e, n), "keep_%d" % size, prepared, e, n)
                           for prepared, (e, n) in zip((200, 2, 200, 2), [(e, n) for n in (1, 3) for e in ENGINES])]
        for size in (1, 2, 3)}
# What belongs to a mode of which all bytes are split and joined is compared in the same way.
KINDS = {"transaction": TRANSACTION, "engines": ENGINES_AND_WORKERS, "statement": STATEMENT, "session": SESSION,
         "pieces": PIECES, "session_pieces": SESSION_PIECES,
         "schema": SCHEMA, "workers": WORKERS, **KEEP}
CUT = {"pieces": "transaction", "session_pieces": "session"}
AS_TRANSACTION = {"engines": "transaction", "workers": "transaction", "schema": "transaction"}


class Found(Exception):
    """A difference between the answers, with the sequence that shows it."""

    def __init__(self, difference, sequence, is_minimal):
        self.difference, self.sequence, self.is_minimal = difference, sequence, is_minimal
        super().__init__("\n".join([
            "seed %s: the pooler's answer differs" % sequence["seed"], str(difference),
            "%s sequence (%s):" % (
                "minimal" if is_minimal else "the whole",
                "one client after the other" if sequence["serial"] else "clients at the same time"),
            oracle_ops.lines(sequence["ops"]), "log of the pooler:", difference.log]))


class Oracle:
    """PostgreSQL and the poolers in front of it. Each pooler uses a separate database."""

    def __init__(self, pg, binary, kinds, mode="transaction", named=True, strict=False,
                 settings=(), is_disturbed=False):
        self.pg, self.named, self.is_disturbed = pg, named, is_disturbed
        self.administrators = {}  # {place: who disturbs its clients}
        self.mode = dict(CUT, **AS_TRANSACTION).get(mode, mode)
        self.is_migrating = mode == "schema"  # Clients change the schema.
        self.is_keeping = mode in KEEP
        self.is_cut = mode in CUT  # Proxies cut and join what passes, and some answers are long.
        self.cutters = []
        self.restored = () if strict else tuple(c for c in CLIENTS if STARTUP[c])
        self.number = 0
        self.invalid = 0
        self.known = 0
        self.left_behind = 0  # Servers that are still busy although their clients have left.
        self.ignored = None  # A pattern: differences that match it are only counted.
        if self.is_migrating:  # The pooler prepares such a statement anew (protocol.md 12).
            self.ignored = re.compile("wanted: .*cached plan must not change result type")
        if self.is_keeping:
            # Both fail: what is prepared anew is read with the search_path of now (protocol.md 12).
            self.ignored = re.compile(r"Mbind message supplies .*\n  got: .*C42P01|"
                                      r"; t b'[^;]*; (?:E [^;]*C42P01[^;]*;|n b'').*\n  got: .*C42P01")
        self.recent = []
        self.poolers = []
        self.databases = []
        self.make_template()
        self.direct = self.place("direct", self.connect_directly("oracle_direct"), "oracle_direct")
        self.places = [self.make_pooler(binary, i, kind, dict(settings))
                       for i, kind in enumerate(kinds)]

    # setup

    def make_template(self):
        self.drop_databases()
        self.pg.do("create database %s" % TEMPLATE)
        for client in CLIENTS:
            name = oracle_sequences.TABLE % client
            self.pg.do("create table %s (id int primary key, v text)" % name,
                       "alter table %s owner to %s" % (name, USER),
                       oracle_sequences.REFILL % (client, client), database=TEMPLATE)
        self.pg.do("create table shared as select g as id, 'shared ' || g as v "
                   "from generate_series(1, 8) g", "grant select on shared to public",
                   "grant all on schema public to public", "create schema other",
                   "grant all on schema other to public", database=TEMPLATE)
        if self.is_keeping:
            self.pg.do("drop role if exists oracle_role; create role oracle_role; grant oracle_role to %s" % USER,
                       "create table other.shared as select g as id, 'other ' || g as v "
                       "from generate_series(1, 3) g", "grant select on other.shared to public", database=TEMPLATE)
        oids = self.pg.value("select string_agg(oid::text, ' ') from pg_class", TEMPLATE)
        self.tables = {int(oid).to_bytes(4, "big") for oid in oids.split()}
        self.tables.add(b"\0\0\0\0")

    def drop_databases(self):
        with self.pg.client() as owner:
            names = owner.query("select datname from pg_database where datname like 'oracle%'").rows
            for row in names:
                owner.query("drop database %s with (force)" % row)

    def place(self, name, connect, database, pooler=None):
        self.pg.do("create database %s template %s" % (database, TEMPLATE))
        self.databases.append(database)
        return oracle_links.Place(name, connect, self.tables, database, pooler, self.is_keeping)

    def connect_directly(self, database):
        return lambda client: self.pg.client(USER, database, **STARTUP[client])

    def make_pooler(self, binary, index, kind, settings):
        name, mode, prepared = kind[:3]
        settings.update(zip(("io_engine", "workers"), kind[3:]))
        database = "oracle_%d" % index
        size = len(CLIENTS) if mode == "session" else 1
        if self.is_keeping:
            size = int(mode[-1])
            settings.update(session_state="keep", max_pinned_servers=size - 1)
            mode = "transaction"
        host = self.cut(self.pg.dir, self.pg.port, 2 * index)
        entry = {"host": host, "port": self.pg.port, "dbname": database, "pool_size": size}
        pooler = Pooler(binary, {"db": postgres.connstr(**entry)}, settings=dict(
            {"pool_mode": mode, "max_prepared_statements": prepared}, **settings))
        self.poolers.append(pooler)
        if self.is_disturbed:
            pooler.settings["metrics_listen"] = "127.0.0.1:%d" % waiting.PORTS.take()
        pooler.start()
        front = self.cut(pooler.dir, pooler.port, 2 * index + 1)
        made = self.place(name, lambda client: wire.Client(
            front, pooler.port, USER, "db", params=STARTUP[client]).login(), database, pooler)
        if self.is_disturbed:
            self.administrators[made] = oracle_acts.Administrator(pooler, entry)
        return made

    def cut(self, folder, port, seed):
        """Returns the folder through which the socket in this folder is reached."""
        if not self.is_cut:
            return folder
        self.cutters.append(cutter.Cutter(os.path.join(folder, ".s.PGSQL.%d" % port), seed))
        return self.cutters[-1].dir

    def close(self):
        """Every pooler is stopped and removed, whatever fails; all errors are told, the first one first."""
        self.drop_links()
        with contextlib.ExitStack() as stack:
            for one in self.cutters:
                stack.callback(one.close)
            for pooler in self.poolers:
                stack.callback(pooler.remove)
                stack.callback(pooler.stop)
            for administrator in self.administrators.values():
                stack.callback(administrator.close)
        self.drop_databases()

    def drop_links(self):
        for place in [self.direct] + self.places:
            place.drop()

    def start_afresh(self):
        """Opens new connections everywhere, including those of the poolers, and recreates the
        tables."""
        self.drop_links()
        for pooler in self.poolers:
            if not pooler.is_running():
                pooler.consoles.clear()
                pooler.args = []
                pooler.start()
            pooler.admin.query("RECONNECT")
        self.restore_settings()
        for database in self.databases:
            with self.pg.client(database=database) as owner:
                self.end_others(owner)
                owner.query(oracle_sequences.NO_COMMON)
                for client in CLIENTS:
                    owner.query("alter table t%d drop column if exists more" % client)
                    owner.query("truncate t%d" % client)
                    owner.query(oracle_sequences.RESTORE.replace("T ", "t%d " % client))
                    owner.query(oracle_sequences.REFILL % (client, client))

    def restore_settings(self):
        for administrator in self.administrators.values():
            administrator.restore()

    def end_others(self, owner):
        """Disconnects all clients. A server that is still in a transaction afterwards was
        leaked."""
        busy = ("select %s from pg_stat_activity where datname = current_database() "
                "and pid <> pg_backend_pid() and state <> 'idle'")
        try:
            waiting.wait_for(lambda: owner.value(busy % "count(*)") == "0", "all idle", 3)
        except AssertionError:
            self.left_behind += 1
            owner.query(busy % "pg_terminate_backend(pid, 5000)")

    # running a sequence

    def differs(self, sequence, places=None, patience=6.0):
        """Runs one sequence everywhere and returns the first difference, or None."""
        self.number += 1
        places = places or self.places
        clients = sorted({op[0] for op in sequence["ops"]})
        wanted = self.direct.begin(clients, self.number)
        todo = oracle_links.bursts(sequence, self.number)
        oracle_links.run_directly(wanted, todo, 20)
        lanes = []
        for place in places:
            lanes.append(oracle_links.Lane(place.begin(clients, self.number), sequence,
                                           [b.copy() for b in todo], patience, self.administrators.get(place)))
        oracle_links.run_lanes(lanes)
        for administrator in self.administrators.values():
            administrator.rest()
        ignored = None
        for place, lane in zip(places, lanes):
            found = oracle_links.compare(place, wanted, lane)
            if found and self.is_ignored(found):  # The others may differ in another way.
                ignored = ignored or found
            elif found:
                found.log = last_lines(place.pooler.log())
                if lane.gave_up:
                    found.log += "\n" + self.who_waits(place)
                return found
        return ignored

    def who_waits(self, place):
        """Returns what the pooler and PostgreSQL say when an answer does not come."""
        views = [row for view in ("POOLS", "CLIENTS", "SERVERS", "LISTENERS") for row in place.pooler.show(view)]
        with self.pg.client() as owner:
            backends = owner.query("select pid, state, wait_event, query from pg_stat_activity "
                                   "where datname = '%s'" % place.database).rows
        return "\n".join(map(str, views + backends))

    def check(self, sequence):
        """Runs one sequence and raises Found when there is a difference."""
        if self.number % 500 == 499:
            self.start_afresh()
        if len(self.recent) > 20:
            self.recent = []
            self.drop_links()
            self.restore_settings()
        try:
            found = self.differs(sequence)
        except (AssertionError, OSError, wire.Closed):
            print("an administrator's act fails, seed %s:\n%s" % (
                sequence["seed"], oracle_ops.lines(sequence["ops"])), flush=True)
            raise
        except oracle_links.Invalid:
            self.invalid += 1
            self.start_afresh()
            self.recent = []
            return
        if found and self.is_ignored(found):
            self.known += 1
            print("ignored, seed %s: %s" % (sequence["seed"], found), flush=True)
            self.start_afresh()
            self.recent = []
        elif found:
            raise self.cut_down(found, sequence)
        else:
            self.recent.append(sequence)

    def is_ignored(self, found):
        return self.ignored is not None and self.ignored.search(str(found)) is not None

    def run(self, seeds, until):
        """Checks sequences until the time is up and returns how many."""
        done = 0
        for seed in seeds:
            if time.monotonic() > until:
                break
            sequence = oracle_sequences.make(seed, self.mode, self.named, self.restored,
                                             self.is_cut, self.is_migrating)
            if self.is_disturbed:
                sequence = oracle_acts.disturb(sequence, self.mode, self.is_migrating)
            self.check(sequence)
            done += 1
        return done

    # reducing to a minimal sequence

    def cut_down(self, found, sequence, seconds=40):
        print(found, flush=True)
        until = time.monotonic() + seconds
        whole = [sequence]
        again = self.fails(sequence, found.place)
        if not again:
            sequence = joined(self.recent + whole)
            again = self.fails(sequence, found.place)
        self.recent = []
        if not again:
            self.start_afresh()
            return Found(found, joined(whole), False)
        found, size = again, max(len(sequence["ops"]) // 2, 1)
        while time.monotonic() < until:
            less = self.without_some(found, sequence, size, until)
            if less:
                sequence, found = less
                size = min(size, max(len(sequence["ops"]) // 2, 1))
            elif size == 1:
                break
            else:
                size //= 2
        self.start_afresh()
        return Found(found, sequence, True)

    def without_some(self, found, sequence, size, until):
        """Searches for `size` adjacent messages without which the sequence fails in the same way.
        Returns the shorter sequence and the difference, or None when every message is needed."""
        ops, at, last = sequence["ops"], 0, None
        while at < len(ops) and time.monotonic() < until:
            less = dict(sequence, ops=ops[:at] + ops[at + size:])
            again = None
            if self.is_allowed(less):
                again = self.fails(less, found.place)
            if again and again.kind() == found.kind():
                ops, last = less["ops"], (less, again)
            else:
                at += size
        return last

    def is_allowed(self, sequence):
        ops = sequence["ops"]
        return (bool(ops) and oracle_ops.is_safe(ops, self.mode, self.restored)
                and (oracle_ops.is_alone(ops) or not sequence.get("alone")))

    def fails(self, sequence, place):
        for _ in range(1 if sequence["serial"] else 3):
            self.start_afresh()
            try:
                found = self.differs(sequence, [place], 1.0)
            except oracle_links.Invalid:
                return None
            if found:
                return found
        return None


def last_lines(log):
    """Returns the last lines of a log, without those about connects and disconnects."""
    dull = ("login attempt", "new connection to server", "RECONNECT", "close_needed",
            "database configuration changed", "client unexpected eof",
            "successfully sent cancel request")
    lines = [line for line in log.splitlines() if not any(d in line for d in dull)]
    return "\n".join(lines[-6:])


def joined(sequences):
    ops = [op for s in sequences for op in s["ops"]]
    alone = [s.get("alone", False) for s in sequences]
    return dict(sequences[-1], ops=ops, alone=all(alone),
                serial=any(alone) or all(s["serial"] for s in sequences))


def replay(path):
    with open(path) as stored:
        sequence = json.load(stored)
    sequence["ops"] = [oracle_ops.freeze(op) for op in sequence["ops"]]
    return sequence


# the command line


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pooler", required=True, help="the binary")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="of the first sequence; by default at random")
    parser.add_argument("--count", type=int, default=10 ** 12, help="at most so many sequences")
    parser.add_argument("--mode", choices=sorted(KINDS), action="append",
                        help="by default all in turns")
    parser.add_argument("--unnamed", action="store_true", help="no named statements")
    parser.add_argument("--strict", action="store_true",
                        help="startup parameters must be back before the answer to RESET")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a setting of the poolers, such as prepare_unnamed=1")
    parser.add_argument("--disturb", action="store_true", help="an administrator acts, see oracle_acts")
    parser.add_argument("--go-on", action="store_true", help="go on behind a difference")
    parser.add_argument("--ignore", help="only count differences that match this pattern")
    parser.add_argument("--replay", help="a file of a stored sequence")
    parser.add_argument("--store", help="a folder for failing sequences")
    parser.add_argument("--pg-bin", help="folder of PostgreSQL's programs")
    return parser.parse_args()


def pg_bin():
    done = subprocess.run([os.path.join(HERE, "../setup/pg-bin")], stdout=subprocess.PIPE)
    return done.stdout.decode().strip()


def report(found, args, mode):
    print(found, flush=True)
    if args.store:
        os.makedirs(args.store, exist_ok=True)
        path = os.path.join(args.store, "%s-%s.json" % (mode, found.sequence["seed"]))
        with open(path, "w") as out:
            json.dump(found.sequence, out)
        print("stored in %s" % path, flush=True)


def search(args, mode, oracle, first, until):
    """Checks sequences in order of their seeds and returns (number checked, number failed)."""
    seed, failed = first, 0
    while time.monotonic() < until and seed < first + args.count:
        try:
            seed += oracle.run(range(seed, first + args.count), until)
        except Found as found:
            report(found, args, mode)
            failed += 1
            seed = found.sequence["seed"] + 1
            if not args.go_on:
                break
    return seed - first, failed


def run(args, pg):
    first = args.seed if args.seed is not None else random.SystemRandom().randrange(10 ** 9)
    modes = args.mode or list(KINDS)
    failures = 0
    for mode in modes:
        kinds = KINDS[mode]
        begun = time.monotonic()
        with contextlib.closing(Oracle(pg, args.pooler, kinds, mode, not args.unnamed, args.strict,
                                       [s.split("=", 1) for s in args.set], args.disturb)) as oracle:
            oracle.ignored = re.compile(args.ignore) if args.ignore else oracle.ignored
            if args.replay:
                try:
                    oracle.check(replay(args.replay))
                except Found as found:
                    print(found)
                    return 1
                continue
            print("%s: seed %d" % (mode, first), flush=True)
            done, failed = search(args, mode, oracle, first, begun + args.seconds / len(modes))
            failures += failed
            print("%s: %d sequences through %d poolers in %.1f s, %d no tests, %d differ, "
                  "%d ignored, %d servers left behind" % (
                      mode, done, len(kinds), time.monotonic() - begun, oracle.invalid, failed,
                      oracle.known, oracle.left_behind), flush=True)
    return 1 if failures else 0


def main():
    args = arguments()
    with contextlib.ExitStack() as stack:
        args.pooler = stack.enter_context(waiting.within_reach(os.path.abspath(args.pooler)))
        pg = postgres.Postgres(args.pg_bin or pg_bin())
        stack.callback(pg.remove)
        pg.create()
        return run(args, pg)


if __name__ == "__main__":
    sys.exit(main())

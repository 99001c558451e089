"""What an administrator does in the middle of a sequence, and no client may notice.

An act is one more op of a client, (client, "act", what, at, ms), which is not sent. It is done before the
client's next message, or within it: `at` is the part of its bytes that has been sent by then. PostgreSQL alone
knows nothing of it. What stops clients (PAUSE) ends after so many milliseconds."""

import contextlib
import random
import re
import time
import urllib.error
import urllib.request

import postgres
import waiting
import wire
from pooler import VIEWS
from test_takeover import Restarts

# Values between which a RELOAD goes to and fro. Nothing that clients are told or keep may hang on them.
# "+N" is the pool's size and N more; those that need a restart are taken by the next takeover.
SETTINGS = {
    "pool_size": ("+0", "+1", "+3"), "min_pool_size": (0, 1), "reserve_pool_size": (0, 2),
    "reserve_pool_timeout": (0.001, 5), "connect_query": ("select 1", "select 2"), "max_client_conn": (90, 100),
    "server_round_robin": (0, 1), "server_lifetime": (0, 0.01, 1, 3600), "server_idle_timeout": (0.001, 1, 600),
    "server_check_delay": (0, 0.01, 30), "server_check_query": ("<empty>", "select 1", ""),
    "query_wait_timeout": (0, 90, 120), "query_timeout": (0, 90), "idle_transaction_timeout": (0, 90),
    "transaction_timeout": (0, 90), "client_idle_timeout": (0, 90), "sbuf_loopcnt": (0, 1, 5),
    "max_waiting_clients": (0, 50), "max_db_connections": (0, 20), "max_server_connections": (0, 30),
    "server_connect_rate": (0, 500), "client_disconnect": ("close", "cancel"), "stats_period": (1, 60),
    "log_levels": ("", "pools:noise, protocol:trace"), "log_min_duration": (0, 0.0001), "log_slow_text": (0, 300),
    "log_format": ("plain", "json"), "log_connections": (0, 1),
    "workers": (1, 2, 3), "io_engine": ("epoll", "auto"),
}
OF_ENTRY = ("pool_size", "connect_query")
# In session mode messages of statements pass through.
SHARING = {
    "max_prepared_statements": (1, 2, 200), "prepare_unnamed": (0, 1, 3), "defer_begin": (0, 1),
    "track_sql_prepare": (0, 1), "server_reset_query_always": (0, 1), "server_fast_close": (0, 1),
}
ENDS = {"PAUSE": "RESUME", "PAUSE db": "RESUME db", "SUSPEND": "RESUME", "DISABLE db": "ENABLE db"}
TAKEOVERS = ("TAKEOVER begun", "TAKEOVER done")
LISTEN = re.compile(r"\blisten\b", re.I)


def choose(chance, mode, is_listening, is_known):
    """Returns the text of an act. is_known: the statements and the schema that one process knows of may change."""
    kind = chance.random()
    settings = dict(SETTINGS) if mode == "session" else dict(SETTINGS, **SHARING)
    if mode.startswith("keep"):
        del settings["server_fast_close"]
    if is_listening:  # A RECONNECT loses the connection that listens.
        del settings["connect_query"]
    name = chance.choice(sorted(settings))
    change = "%s = '%s'" % (name, chance.choice(settings[name]))
    if kind < 0.3:
        return chance.choice(("RELOAD ", "RELOAD ", "HUP ")) + change
    if kind < 0.4:
        return "RELOAD " + change if name in OF_ENTRY + ("workers", "io_engine") else "SET " + change
    if kind < 0.55 and not is_listening:
        return chance.choice(("RECONNECT", "RECONNECT db"))
    if kind < 0.85:
        return chance.choice(sorted(ENDS))
    if kind < 0.9 and not is_known:
        return chance.choice(TAKEOVERS)
    return chance.choice(("METRICS", "EXPLAIN LOGIN trust_user db", "KILL_CLIENT 999999")
                         + tuple("SHOW " + view for view in VIEWS))


def disturb(sequence, mode, is_migrating=False):
    """Returns the sequence with some acts in it. They are chosen by the seed of the sequence."""
    chance = random.Random("acts, %s %s" % (mode, sequence["seed"]))
    is_listening = any(op[1] == "Q" and LISTEN.search(op[2]) for op in sequence["ops"])
    ops = list(sequence["ops"])
    for at in sorted(chance.choices(range(len(ops)), k=chance.randint(1, 4)), reverse=True):
        what = choose(chance, mode, is_listening, is_migrating)
        ms = chance.choice((0, 1, 5, 20)) if what in ENDS else 0
        ops.insert(at, (ops[at][0], "act", what, chance.choice((0, 0, 0.2, 0.99)), ms))
    return dict(sequence, ops=ops)


class Administrator:
    """Does the acts at one pooler, and has two consoles there: one for a command that waits."""

    def __init__(self, pooler, entry):
        self.pooler, self.entry, self.size = pooler, dict(entry), entry["pool_size"]
        self.original = dict(entry), dict(pooler.settings)
        self.restarts = Restarts()
        self.is_starting = False  # A process that takes over is not up yet.
        self.held, self.until = None, 0.0  # The command that stops clients, and until when.

    def console(self, number=0):
        while len(self.pooler.consoles) <= number:
            self.pooler.console()
        return self.pooler.consoles[number]

    def do(self, what, ms):
        self.finish_takeover()
        word, _, rest = what.partition(" ")
        if word in ("TAKEOVER", "METRICS") or what in ENDS:
            self.resume()
        if what in ENDS:
            self.console(0)
            self.console(1).send(wire.query(what))
            self.held, self.until = what, time.monotonic() + ms / 1000
        elif word == "TAKEOVER":
            self.take_over(rest == "done")
        elif word in ("RELOAD", "HUP"):
            self.change(*rest.split(" = "))
            if word == "HUP":
                self.pooler.signal(word)
            else:
                self.pooler.reload()
        elif word == "METRICS":
            with contextlib.suppress(urllib.error.URLError):  # After a takeover it is opened a moment later.
                urllib.request.urlopen("http://%s/metrics" % self.pooler.settings["metrics_listen"]).read()
        else:
            self.console().query(what, check=word != "KILL_CLIENT")

    def change(self, name, value):
        value = value.strip("'")
        if name in OF_ENTRY:
            self.entry[name] = self.size + int(value) if value.startswith("+") else value
            self.pooler.databases["db"] = postgres.connstr(**self.entry)
        else:
            self.pooler.settings[name] = value
        self.pooler.write_files()

    def take_over(self, is_awaited):
        """Starts a process that takes over, and waits until it has begun to or is done."""
        self.restarts.begin(self.pooler)
        self.is_starting = True
        self.pooler.wait_log("takeover_init: launching connection", self.restarts.mark)
        if is_awaited:
            self.finish_takeover()

    def finish_takeover(self):
        if self.is_starting:
            waiting.wait_for(lambda: self.restarts.is_up(self.pooler), "the new process is up")
            self.is_starting = False

    def look_at_clock(self):
        if self.held and time.monotonic() > self.until:
            self.resume()

    def let_in(self):
        """Nothing is accepted during a SUSPEND."""
        if self.held == "SUSPEND":
            self.resume()

    def resume(self):
        """Ends what stops clients."""
        if self.held:
            self.console(0).query(ENDS[self.held])
            self.console(1).finish()
            self.held = None

    def rest(self):
        self.finish_takeover()
        self.resume()

    def restore(self):
        """Sets everything back, so that a later sequence can be repeated alone."""
        self.entry, self.pooler.settings = (dict(values) for values in self.original)
        self.pooler.databases["db"] = postgres.connstr(**self.entry)
        self.pooler.write_files()
        self.pooler.reload()

    def close(self):
        """Waits for the processes that were taken over, whose clients have left."""
        try:
            self.rest()
            for process in self.restarts.old:
                assert process.wait(waiting.DEADLINE) == 0, self.pooler.log()[-3000:]
        finally:
            self.restarts.stop()

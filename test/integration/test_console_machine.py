"""Each command of one console while a command of another console is waiting. (For SUSPEND without
activity and for complete pauses see test_suspend.py.)"""

import pytest

import waiting
import wire
from test_views import TRANSACTION

ALREADY = "already suspended/paused"
NOT_PAUSED = "pooler is not paused/suspended"
NO_PAUSE_OF_DB = "database db is not paused"
HALF = "insert into nowhere values ('%s')" % ("x" * 100000)

# The waiting command of the first console, and its final answer.
FIRST = ["PAUSE", "PAUSE db", "SUSPEND", "WAIT_CLOSE", "SHUTDOWN WAIT_FOR_SERVERS",
         "SHUTDOWN WAIT_FOR_CLIENTS"]
WAITS = "waits"

# Commands during which the first one goes on waiting, with their answers in the order of FIRST.
STAYS = {
    "SHOW STATE": ["SHOW"] * 6,
    "SHOW FDS": ["SHOW"] * 6,
    "SET query_timeout = 7": ["SET query_timeout=7"] * 6,
    "KILL_CLIENT 999999": ["client not found"] * 6,
    "RELOAD": ["RELOAD"] * 6,
    "DISABLE db": ["DISABLE"] * 6,
    "ENABLE db": ["ENABLE"] * 6,
    "WAIT_CLOSE other": ["WAIT_CLOSE"] * 6,
    "WAIT_CLOSE db": ["WAIT_CLOSE"] * 3 + [WAITS] + ["WAIT_CLOSE"] * 2,
    "RESUME db": [NO_PAUSE_OF_DB, None] + [NO_PAUSE_OF_DB] * 4,
    "RESUME": [None, NOT_PAUSED, None, NOT_PAUSED] + ["pooler is shutting down"] * 2,
    "SUSPEND": [ALREADY, "cannot suspend with paused databases", ALREADY, None, ALREADY,
                "pooler is shutting down"],
    "KILL": [ALREADY, None, ALREADY, None, ALREADY, None],
    "KILL db": [ALREADY, None, ALREADY, None, ALREADY, None],
    "PAUSE other": [ALREADY, "PAUSE", ALREADY, "PAUSE", ALREADY, "PAUSE"],
    "PAUSE db": [ALREADY, WAITS, ALREADY, WAITS, ALREADY, WAITS],
    "PAUSE": [ALREADY, WAITS, ALREADY, WAITS, ALREADY, WAITS],
    "RECONNECT other": ["RECONNECT"] * 6,
    "RECONNECT": ["RECONNECT"] * 6,
}

# Commands that end the waiting, with their answers and the answer to the first console.
ENDS = {
    "PAUSE": {"RESUME": ("RESUME", "pause was interrupted by RESUME"), "SHUTDOWN": (None, None)},
    "PAUSE db": {"RESUME db": ("RESUME", "pause was interrupted by RESUME"),
                 "KILL db": ("KILL", "PAUSE"), "KILL": ("KILL", "PAUSE")},
    "SUSPEND": {"RESUME": ("RESUME", "suspend was interrupted by RESUME"),
                "SHUTDOWN": (None, None)},
    "WAIT_CLOSE": {"KILL db": ("KILL", "WAIT_CLOSE"), "KILL": ("KILL", "WAIT_CLOSE")},
    "SHUTDOWN WAIT_FOR_SERVERS": {"SHUTDOWN": (None, None)},
    "SHUTDOWN WAIT_FOR_CLIENTS": {"SHUTDOWN": (None, None)},
}


def answer(console, sql):
    """Returns the tag of the answer or the text of the error, or WAITS when no answer has come.
    (The console then answers its next command first.)"""
    console.send(wire.query(sql) + wire.query("SHOW VERSION"))
    told = outcome(console.finish())
    if told == "SHOW" and not sql.startswith("SHOW"):
        return WAITS
    assert console.finish().tag == "SHOW"
    return told


def outcome(result):
    return result.errors[0].text() if result.errors else result.tag


def still_waits(console):
    return console.query("SHOW VERSION").tag == "SHOW"


class Scene:
    """A client with an open transaction, and a console whose command waits for it."""

    def __init__(self, make_pooler, pg, first):
        self.pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=TRANSACTION)
        self.first = first
        self.busy = self.pooler.connect()
        self.busy.query("begin")
        if first == "SUSPEND":
            text = wire.query(HALF)
            self.busy.send(text[:90000])
            self.rest = text[90000:]
            waiting.wait_read(self.busy.sock)
        self.one, self.two, self.three = [self.pooler.console() for _ in range(3)]
        if first == "WAIT_CLOSE":
            self.one.query("RECONNECT db")
        told = answer(self.one, first)
        assert told == ("SHUTDOWN" if first.startswith("SHUTDOWN") else WAITS)

    def finish_work(self):
        if self.first == "SUSPEND":
            self.busy.send(self.rest)
        else:
            assert self.busy.query("commit").tag == "COMMIT"


@pytest.mark.parametrize("first", FIRST)
def test_commands_that_leave_it_waiting(make_pooler, pg, first):
    scene = Scene(make_pooler, pg, first)
    column = FIRST.index(first)
    for sql, answers in STAYS.items():
        if answers[column] is None:
            continue
        # While a command waits, its console would answer later commands out of order.
        console = scene.three if answers[column] == WAITS else scene.two
        assert answer(console, sql) == answers[column], (first, sql)
        assert still_waits(scene.one), (first, sql)
    scene.finish_work()
    if first.startswith("SHUTDOWN"):
        scene.busy.close()
        for console in scene.pooler.consoles:
            console.close()
        assert scene.pooler.wait_exit() == 0
    else:
        assert scene.one.finish().tag == first.split()[0]


@pytest.mark.parametrize("first", FIRST)
def test_commands_that_end_it(make_pooler, pg, first):
    for sql, (told, fate) in ENDS[first].items():
        scene = Scene(make_pooler, pg, first)
        if told is None:
            scene.two.send(wire.query(sql))
            scene.two.expect_closed()
            scene.one.expect_closed()
            assert scene.pooler.wait_exit() == 0
            continue
        assert answer(scene.two, sql) == told, (first, sql)
        assert outcome(scene.one.finish()) == fate, (first, sql)
        if sql.startswith("RESUME"):
            scene.finish_work()
            if first == "SUSPEND":
                assert scene.busy.finish().errors[0].field("C") == "42P01"
            else:
                assert scene.busy.value("select 1") == "1"

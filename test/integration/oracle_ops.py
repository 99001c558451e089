"""Protocol messages as small tuples: (client, kind, arguments...).

A sequence is a list of them, so it can be stored, cut down and printed. The kinds are the
letters of the protocol, and two that are not sent:

    wait    what was said so far is sent, and its answers are awaited
    cancel  like wait, for a statement that says it is asleep; then it is cancelled
"""

import functools
import re

import wire

ASLEEP = "now asleep"
SLEEP = "do $$ begin raise notice '%s'; perform pg_sleep(30); end $$" % ASLEEP

ENCODERS = {
    "Q": wire.query,
    "P": wire.parse,
    "B": lambda portal, name, values, formats, results: wire.bind(
        portal, name, values, formats, results),
    "D": wire.describe,
    "E": wire.execute,
    "C": wire.close,
    "H": wire.flush,
    "S": wire.sync,
    "F": lambda oid, values: wire.message("F", call_body(oid, values)),
    "d": wire.copy_data,
    "c": wire.copy_done,
    "f": wire.copy_fail,
}
UNSENT = ("wait", "cancel")
STATEMENTS = ("s1", "s2", "s3", "s4", "a statement with a long name, " + "x" * 60)
EXTENDED = "PBDECH"

TEXTS = {
    "Q": lambda sql: "Query %r" % short(sql),
    "P": lambda name, sql, types=(): "Parse %r %r%s" % (
        name, short(sql), " types %s" % (list(types),) if types else ""),
    "B": lambda portal, name, values, formats, results: (
        "Bind portal %r statement %r values %r formats %r results %r" % (
            portal, name, list(values), list(formats), list(results))),
    "D": lambda what, name: "Describe %s %r" % (what, name),
    "E": lambda portal, rows=0: "Execute %r%s" % (portal, " rows %d" % rows if rows else ""),
    "C": lambda what, name: "Close %s %r" % (what, name),
    "H": lambda: "Flush",
    "S": lambda: "Sync",
    "F": lambda oid, values: "FunctionCall %d %r" % (oid, list(values)),
    "d": lambda data: "CopyData %r" % short(data),
    "c": lambda: "CopyDone",
    "f": lambda text: "CopyFail %r" % text,
    "wait": lambda: "(wait for the answers)",
    "cancel": lambda: "(cancel it when it sleeps)",
}


def short(text):
    return text if len(text) < 200 else text[:150] + "... %d characters" % len(text)


def call_body(oid, values):
    """FunctionCall with arguments and result as text."""
    body = oid.to_bytes(4, "big") + b"\0\0" + len(values).to_bytes(2, "big")
    for value in values:
        raw = value.encode()
        body += len(raw).to_bytes(4, "big") + raw
    return body + b"\0\0"


def freeze(op):
    return tuple(tuple(x) if isinstance(x, list) else x for x in op)


@functools.lru_cache(4096)
def encoded(op):
    return ENCODERS[op[1]](*op[2:])


def line(op):
    return "client %d: %s" % (op[0], TEXTS[op[1]](*op[2:]))


def lines(ops):
    return "\n".join(line(op) for op in ops)


def turns(ops):
    """The ops cut where the next one is another client's."""
    found = []
    for op in ops:
        if not found or found[-1][-1][0] != op[0]:
            found.append([])
        found[-1].append(op)
    return found


# What a pooler in transaction mode cannot keep

CONTROLS = re.compile(r"\b(begin|start|commit|end|rollback|abort|prepare transaction)\b", re.I)
FROM_STDIN = re.compile(r"\bfrom stdin\b", re.I)


def controls(sql):
    return CONTROLS.search(re.sub(r"\$\$.*?\$\$", "", sql)) is not None


RESETS = re.compile(r"\b(reset|discard)\b", re.I)
TO_DEFAULT = re.compile(r"\bto default\b", re.I)


ROWS = re.compile(r"(select|show|values|with)\b|.*\breturning\b", re.I)
ENDS = re.compile(r"(commit|rollback)$")


class Watcher:
    """Says of each message of one client whether its answer could hang on which server runs
    it. Only the unnamed statement can do that (all other texts are chosen not to): it must
    have been parsed in the same cycle, or the same transaction block, for certain. And a
    statement without rows is not described in a block: when that is aborted PostgreSQL still
    describes it, and a server that lacks it cannot be brought to do so."""

    def __init__(self):
        self.sure = True  # the server is certainly not skipping messages up to a Sync
        self.block = False  # certainly in a transaction block
        self.unnamed = False  # what the unnamed statement is hangs on this client alone
        self.copying = False  # the server may be reading COPY data
        self.stdin = False  # an Execute may begin to
        self.ending = set()  # statements that may end the block
        self.may_block = False  # possibly in a block
        self.rowless = set()  # names of statements that may return no rows

    def allows(self, op):
        kind, args = op[1], op[2:]
        if (kind == "B" and args[1] == "") or (kind == "D" and args == ("S", "")):
            if not self.unnamed:
                return False
        if kind == "D" and args[0] == "S" and self.may_block and args[1] in self.rowless:
            return False
        self.see(kind, args)
        return True

    def see(self, kind, args):
        if kind == "Q":
            self.see_query(args[0])
        elif kind == "S":
            self.see_sync()
        elif kind in ("c", "f"):
            self.copying = False
        elif kind == "F":
            self.unnamed = self.unnamed and self.block
        elif kind in EXTENDED:
            self.sure = False
            self.see_extended(kind, args)

    def see_query(self, sql):
        if controls(sql):
            self.may_block = not (self.sure and ENDS.match(sql))
            self.block = self.sure and sql.startswith("begin") and ";" not in sql
        if FROM_STDIN.search(sql):
            self.copying = True
        self.unnamed = self.block and (self.unnamed or self.sure)
        if self.sure:
            self.ending.discard("")

    def see_sync(self):
        self.unnamed = self.unnamed and self.block
        if not self.copying:
            self.sure, self.stdin = True, False

    def see_extended(self, kind, args):
        if kind == "P":
            self.unnamed = self.unnamed or args[0] == ""
            self.stdin = self.stdin or FROM_STDIN.search(args[1]) is not None
            if controls(args[1]):
                self.ending.add(args[0])
            if not ROWS.match(args[1]):
                self.rowless.add(args[0])
        elif kind == "B" and args[1] in self.ending:
            self.block, self.may_block = False, True
        elif kind == "E" and self.stdin:
            self.copying = True


class ResetWatcher:
    """A client that asked for parameters in its startup packet gets them back behind the
    answer to RESET: it must wait for that before it says more that could hang on them. SET TO
    DEFAULT does not bring them back."""

    def __init__(self):
        self.resetting = set()  # statements that reset
        self.cycle = Watcher()
        self.portal = None  # what may be executed until the reset is over
        self.is_open = False

    def allows(self, op):
        kind, args = op[1], op[2:]
        if self.is_open and not (kind in ("S", "H", "c", "wait", "cancel", "D")
                                 or (kind == "E" and args[0] == self.portal)):
            return False
        if kind in "QP" and TO_DEFAULT.search(args[-1 if kind == "Q" else 1]):
            return False
        self.cycle.see(kind, args)
        if kind == "Q" and RESETS.search(args[0]):
            self.is_open, self.portal = True, None
        elif kind == "P" and RESETS.search(args[1]):
            self.resetting.add(args[0])
        elif kind == "B" and args[1] in self.resetting:
            self.is_open, self.portal = True, args[0]
        elif kind == "wait" and self.cycle.sure:
            self.is_open = False
        return True


class UnnamedPortalWatcher:
    """A simple query that failed in a transaction block leaves its unnamed portal behind, and
    PostgreSQL 15 reads freed memory when that is executed: only what was bound in the same cycle
    is."""

    def __init__(self):
        self.is_bound = False

    def allows(self, op):
        kind, args = op[1], op[2:]
        if kind in "QS":
            self.is_bound = False
        elif kind == "B" and args[0] == "":
            self.is_bound = True
        return kind != "E" or args[0] != "" or self.is_bound


ENDS_ITSELF = re.compile(r"begin; (select 1; commit|deallocate all; rollback)$")


class StatementWatcher:
    """In statement mode there are no transaction blocks."""

    def allows(self, op):
        sql = {"Q": -1, "P": 3}.get(op[1])
        return (sql is None or not re.search(r"^(begin|start)\b", op[sql], re.I)
                or ENDS_ITSELF.match(op[sql]) is not None)


class Watch:
    """The rules for all clients of a sequence."""

    def __init__(self, mode, restored):
        self.mode = mode
        self.restored = restored  # clients with parameters of their own
        self.watchers = {}

    def allows(self, op):
        if op[0] not in self.watchers:
            self.watchers[op[0]] = (
                ([StatementWatcher()] if self.mode == "statement" else [])
                + ([Watcher()] if self.mode != "session" else [])
                + ([ResetWatcher()] if op[0] in self.restored else [])
                + [UnnamedPortalWatcher()])
        return all(watcher.allows(op) for watcher in self.watchers[op[0]])


def is_safe(ops, mode, restored):
    """Whether the answers are the same whichever server connections run the transactions."""
    watch = Watch(mode, restored)
    return all(watch.allows(op) for op in ops)

"""Protocol messages as small tuples: (client, kind, arguments...).

A sequence is a list of them, so it can be stored, cut down and printed. The kinds are the
letters of the protocol, and four that are not sent:

    wait    what was said so far is sent, and its answers are awaited
    cancel  like wait, for a statement that says it is asleep; then it is cancelled
    hear    like wait, and all clients have got the notifications that are due
    act     an administrator does something, see oracle_acts
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
UNSENT = ("wait", "cancel", "hear")
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
    "hear": lambda: "(wait for the notifications)",
    "act": lambda what, at, ms: "(%s%s%s)" % (
        what, ", within the next message" if at else "", " for %d ms" % ms if ms else ""),
}


def short(text):
    return text if len(text) < 200 else text[:150] + "... %d characters" % len(text)


def call_body(oid, values):
    """Returns a FunctionCall with arguments and result as text."""
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
    """Splits the ops wherever the next one belongs to another client."""
    found = []
    for op in ops:
        if not found or found[-1][-1][0] != op[0]:
            found.append([])
        found[-1].append(op)
    return found


# Limits of a pooler in transaction mode

CONTROLS = re.compile(r"\b(begin|start|commit|end|rollback|abort|prepare transaction)\b", re.I)
FROM_STDIN = re.compile(r"\bfrom stdin\b", re.I)


def controls(sql):
    return CONTROLS.search(re.sub(r"\$\$.*?\$\$", "", sql)) is not None


RESETS = re.compile(r"\b(reset|discard)\b", re.I)
TO_DEFAULT = re.compile(r"\bto default\b", re.I)


ROWS = re.compile(r"(select|show|values|with)\b|.*\breturning\b", re.I)
ENDS = re.compile(r"(commit|rollback)$")


class Watcher:
    """Decides for each message of one client whether its answer could depend on which server
    connection runs it. Only the unnamed statement can cause that (all other texts are chosen so
    that they cannot): it must certainly have been parsed in the same cycle or the same transaction
    block. A statement without rows is not described in a block: after an error PostgreSQL still
    describes it, and a server that lacks the statement cannot be made to do so."""

    def __init__(self):
        self.sure = True  # The server is certainly not skipping messages up to a Sync.
        self.block = False  # The client is certainly in a transaction block.
        self.unnamed = False  # Only this client determines what the unnamed statement is.
        self.copying = False  # The server may be reading COPY data.
        self.stdin = False  # An Execute may start reading COPY data.
        self.ending = set()  # The names of statements that may end the block.
        self.may_block = False  # The client may be in a block.
        self.rowless = set()  # The names of statements that may return no rows.

    def allows(self, op):
        kind, args = op[1], op[2:]
        if (kind == "B" and args[1] == "") or (kind == "D" and args == ("S", "")):
            if not self.unnamed:
                return False
        return not (kind == "D" and args[0] == "S" and self.may_block and args[1] in self.rowless)

    def see(self, op):
        kind, args = op[1], op[2:]
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
    """Watches a client that set parameters in its startup packet. The pooler restores them after
    the answer to RESET, so the client must wait for that answer before it sends more that depends
    on them. SET TO DEFAULT does not restore them."""

    def __init__(self):
        self.resetting = set()  # The names of statements that reset parameters.
        self.cycle = Watcher()
        self.portal = None  # What the client may execute until the reset has finished.
        self.is_open = False

    def allows(self, op):
        kind, args = op[1], op[2:]
        if self.is_open and not (kind in ("S", "H", "c", "wait", "cancel", "hear", "act", "D")
                                 or (kind == "E" and args[0] == self.portal)):
            return False
        return not (kind in "QP" and TO_DEFAULT.search(args[-1 if kind == "Q" else 1]))

    def see(self, op):
        kind, args = op[1], op[2:]
        self.cycle.see(op)
        if kind == "Q" and RESETS.search(args[0]):
            self.is_open, self.portal = True, None
        elif kind == "P" and RESETS.search(args[1]):
            self.resetting.add(args[0])
        elif kind == "C" and args[0] == "S":
            self.resetting.discard(args[1])
        elif kind == "B" and args[1] in self.resetting:
            self.is_open, self.portal = True, args[0]
        elif kind in ("wait", "hear") and self.cycle.sure:
            self.is_open = False


class UnnamedPortalWatcher:
    """Watches unnamed portals. A simple query that fails in a transaction block leaves its unnamed
    portal behind, and PostgreSQL 15 reads freed memory when a client executes that. So a client may
    only execute what it bound in the same cycle."""

    def __init__(self):
        self.is_bound = False

    def allows(self, op):
        return op[1] != "E" or op[2] != "" or self.is_bound

    def see(self, op):
        if op[1] in "QS":
            self.is_bound = False
        elif op[1] == "B" and op[2] == "":
            self.is_bound = True


ENDS_ITSELF = re.compile(r"begin; (select 1; commit|deallocate all; rollback)$")


class StatementWatcher:
    """Watches a client in statement mode, which has no transaction blocks."""

    def allows(self, op):
        sql = {"Q": -1, "P": 3}.get(op[1])
        return (sql is None or not re.search(r"^(begin|start)\b", op[sql], re.I)
                or ENDS_ITSELF.match(op[sql]) is not None)

    def see(self, op):
        pass


class Watch:
    """Applies the rules to all clients of a sequence."""

    def __init__(self, mode, restored):
        self.mode = mode
        self.restored = restored  # The clients that set parameters in their startup packets.
        self.watchers = {}

    def allows(self, op):
        if op[0] not in self.watchers:
            self.watchers[op[0]] = (
                ([StatementWatcher()] if self.mode == "statement" else [])
                + ([Watcher()] if self.mode != "session" else [])
                + ([ResetWatcher()] if op[0] in self.restored else [])
                + [UnnamedPortalWatcher()])
        watchers = self.watchers[op[0]]
        if not all(watcher.allows(op) for watcher in watchers):
            return False
        for watcher in watchers:
            watcher.see(op)
        return True


def is_safe(ops, mode, restored):
    """Returns whether the answers are the same no matter which server connections run the
    transactions."""
    watch = Watch(mode, restored)
    return all(watch.allows(op) for op in ops)


def is_alone(ops):
    """Returns whether each client is certainly outside of a block when the next one begins."""
    watchers, last = {}, None
    for op in ops:
        before = watchers.get(last)
        if before and op[0] != last and (before.may_block or before.copying or not before.sure):
            return False
        last = op[0]
        watchers.setdefault(last, Watcher()).see(op)
    return True

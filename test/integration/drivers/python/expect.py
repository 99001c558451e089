"""Shared by the Python programs: the address of the server, test values of many types, comparison
of results."""

import datetime
import decimal
import os
import sys
import threading
import traceback
import uuid

WORKERS = 6
STATEMENTS = 12

HOST, PORT = os.environ["PGHOST"], int(os.environ["PGPORT"])
USER, SECRET, DATABASE = (os.environ[n] for n in ("PGUSER", "PGPASSWORD", "PGDATABASE"))

UTC = datetime.timezone.utc
VALUES = [
    ("int4", -2147483648), ("int8", 9223372036854775807), ("float8", 0.1), ("bool", True),
    ("numeric", decimal.Decimal("12345678901234567890.000123")),
    ("text", "it's \\ $1 ž \U0001f418\n"), ("text", ""), ("text", None),
    ("bytea", bytes(range(256))), ("date", datetime.date(2024, 2, 29)),
    ("timestamptz", datetime.datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)),
    ("uuid", uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")),
    ("int4[]", [1, -2, 3]), ("text[]", ["a,b", 'c"d', ""]),
]


def same(what, got, wanted):
    if got != wanted:
        raise AssertionError("%s: %.200r is not %.200r" % (what, got, wanted))


def ok(what):
    print("ok", what, flush=True)


class Fails:
    """`with Fails("22012"):` expects the block to raise an error with this SQLSTATE."""

    def __init__(self, state):
        self.state = state

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            raise AssertionError("no error where %s was expected" % self.state)
        found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if found is None and error.args and isinstance(error.args[0], dict):
            found = error.args[0].get("C")
        return found == self.state


def concurrently(work):
    """Runs work(number) in a thread for every worker, and ends the program when one of them
    fails."""
    failed = []

    def one(number):
        try:
            work(number)
        except BaseException:
            failed.append(traceback.format_exc())

    threads = [threading.Thread(target=one, args=(n,)) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit("%d of %d workers failed; the first:\n%s" % (len(failed), WORKERS, failed[0]))

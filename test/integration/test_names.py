"""Names that strangers send: what they do to the log, and to programs that watch it (operation.md 7)."""

import json
import os
import re

import pytest

import waiting
import wire

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")
PLAIN_LINE = re.compile(STAMP.pattern + r" \S+ \[\d+\] (FATAL|ERROR|WARNING|LOG|DEBUG|NOISE) ")

# What fail2ban makes of <ADDR> and <HOST>.
ADDRESS = r"\[?(?P<%s>(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*)\]?"

# Ends of lines that the filter looks for. As names they fit into the 63 bytes that PostgreSQL leaves.
END = b"@6.6.6.6:1 closing because: login rejected (age=0s)"
LINE = b"[1] LOG C-0x1: @6::6:1 closing because: login rejected (age=0s)"
LONG = b" UTC [1] LOG C-0x1: d/x@6.6.6.6:5432 closing because: password authentication failed (age=0s)"
CONTROLS = [bytes([code]) for code in [*range(1, 32), 127]] + [
    b"\r\n", b"\n\t", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9"]
BYTES = [bytes([code]) for code in range(1, 256)]


def shipped_filter():
    with open(os.path.join(TOP, "etc/fail2ban-filter.conf")) as file:
        text = re.search("^failregex = (.*)$", file.read(), re.M)[1]
    for tag in ("ADDR", "HOST"):
        text = text.replace("<%s>" % tag, ADDRESS % tag.lower())
    return re.compile(text)


def readings(log):
    """The lines of a log as different readers find them: most end a line at a line feed, some also at
    other characters; fail2ban looks at lines without a time, too."""
    yield log.decode("utf-8", "replace").split("\n")
    yield log.decode("utf-8", "replace").splitlines()
    yield log.decode("latin-1").split("\n")


def banned(log):
    wanted = shipped_filter()
    found = [wanted.search(STAMP.sub("", line)) for lines in readings(log) for line in lines]
    return {match["addr"] for match in found if match}


def log_of(pooler, name="stderr"):
    with open(pooler.path(name), "rb") as file:
        return file.read()


def attempt(pooler, *params):
    """Logs in with these pairs of the startup packet and goes away when asked for a proof."""
    with pooler.raw() as raw:
        raw.send(wire.startup(params))
        raw.recv()


def lies(codes):
    for code in codes:
        yield b"x" + code + b"x" + END
        yield b"x" + END + code
        yield code + LINE
        yield b"a" + code + LONG


def bother(pooler, codes):
    """Sends each of these names in every place that a stranger can fill."""
    for lie in lies(codes):
        attempt(pooler, (b"user", lie), (b"database", b"db"))
        attempt(pooler, (b"user", b"nobody"), (b"database", lie))
        attempt(pooler, (b"user", lie), (b"database", lie))
        attempt(pooler, (lie, b"value"), (b"user", b"nobody"))
        attempt(pooler, (b"user", b"nobody"), (b"nonsense", lie))
        attempt(pooler, (b"user", b"nobody"), (b"options", b"-c nonsense=" + lie.replace(b" ", b"\\ ")))
        attempt(pooler, (b"user", lie), (b"database", b"db"), (b"application_name", lie))


def expect_calm(pooler):
    log = log_of(pooler)
    assert b"pooler error" in log
    assert not banned(log) - {"127.0.0.1"}
    # a continued line of ours is the detail of an error and comes from no stranger
    for lines in readings(log):
        strange = [line for line in lines if line and not PLAIN_LINE.match(line)]
        assert not strange


@pytest.mark.parametrize("length", [62, 63, 64, 100, 127])
def test_long_names_are_cut_as_postgresql_cuts_them(make_pooler, pg, length):
    """One name decides: a rule for the name that PostgreSQL sees holds however long it was sent."""
    name = "n" * length
    used = name[:63]
    pg.do("create role \"%s\" login password 'of the long one'" % used, 'create database "%s"' % used)
    try:
        pooler = make_pooler(
            {"*": "host=127.0.0.1 port=%d" % pg.port}, start=False, settings={"auth_type": "hba"},
            userlist={name: "of the long one", "admin_user": "x", "trust_user": ""})
        pooler.settings["auth_hba_file"] = pooler.path("hba")
        pooler.write("hba", "host postgres %s all reject\nhost template1 %s all reject\nhost all all all trust\n" % (used, name))
        pooler.start()
        for database in ("postgres", "template1"):
            assert pooler.refusal(database, name) == pooler.refusal(database, used) == "login rejected"
        with pooler.connect(used, name) as client:
            assert client.value("select current_user || current_database()") == used * 2
        with pooler.connect(None, name) as client:
            assert client.value("select current_database()") == used
        if length > 63:
            assert pooler.refusal(name, "trust_user") == "no such database: " + name
        assert [row["name"] for row in pooler.show("USERS") if row["name"].startswith("n")] == [used]
        pooler.stop()
    finally:
        pg.do('drop database "%s" with (force)' % used, 'drop role "%s"' % used)


def test_the_filter_finds_what_it_is_for():
    line = "2026-11-22 16:00:00.123 UTC [7] LOG C-0x1f: %s closing because: login rejected (age=0s)\n"
    assert banned((line % "db/app@192.0.2.9:99").encode()) == {"192.0.2.9"}
    assert banned((line % "(nodb)/app@[2001:db8::7]:99").encode()) == {"2001:db8::7"}


@pytest.mark.parametrize("method", ["scram-sha-256", "md5", "trust", "plain"])
def test_no_name_ends_a_line(make_pooler, pg, method):
    """The names contain every byte, for known databases and for those that `*` makes."""
    pooler = make_pooler({"db": pg.conn(), "*": pg.conn()}, settings={"auth_type": method})
    bother(pooler, BYTES if method == "scram-sha-256" else CONTROLS)
    expect_calm(pooler)


@pytest.mark.parametrize("databases", ["db", "*"])
def test_no_name_ends_a_line_with_auth_query(make_pooler, pg, databases):
    """What the server says to such a name is in the log as well."""
    auth = pg.conn(auth_user="trust_user", auth_query="select $1::text, null::text where false")
    pooler = make_pooler({databases: auth}, userlist={"trust_user": ""}, settings={
        "auth_type": "md5", "max_user_connections": 4})
    bother(pooler, CONTROLS[::4] + [b"\n", b"\r", b"\x1b", b"a", b"\xff"])
    expect_calm(pooler)
    assert b"login failed: db=" in log_of(pooler)


def test_no_name_ends_a_line_of_rules_and_accounts(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "*": pg.conn()}, start=False, settings={"auth_type": "hba"})
    pooler.settings["auth_hba_file"] = pooler.path("hba")
    pooler.write("hba", "host db all all cert\nlocal all all peer\nhost all all all reject\n")
    pooler.start()
    bother(pooler, CONTROLS)
    for lie in lies(CONTROLS):
        with pooler.raw(unix=True) as raw:
            raw.send(wire.startup([(b"user", lie), (b"database", b"db")]))
            raw.recv()
    expect_calm(pooler)


def test_no_name_ends_a_line_of_json(make_pooler, pg):
    pooler = make_pooler({"*": pg.conn()}, settings={"log_format": "json", "verbose": 1})
    bother(pooler, BYTES[::3] + CONTROLS)
    for lines in readings(log_of(pooler)):
        for line in filter(None, lines):
            assert isinstance(json.loads(line), dict)
    assert not banned(log_of(pooler))


@pytest.mark.parametrize("name, shown", [
    (b"a b", "a b"), (b"a\nb\rc", r"a\nb\rc"), (b"\x1b[2J\x07", r"\x1b[2J\x07"), (b"a\tb", r"a\tb"),
    (b"\xc3\xa4", "\u00e4"), (b"\xc2\x9b", r"\u009b"), (b"a\\b\"", "a\\b\"")])
def test_what_a_name_looks_like(make_pooler, pg, name, shown):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "md5"})
    attempt(pooler, (b"user", name), (b"database", b"db"))
    word = '"%s"' % shown if " " in shown or (shown != name.decode() and "\\" in shown) else shown
    word = word.replace(r"\x", r"\u00")  # in quotes as in JSON
    pooler.wait_log(r" \(nodb\)/%s@127\.0\.0\.1:\d+ no such user: %s$" % (re.escape(shown), re.escape(word)))


@pytest.mark.parametrize("length", [63, 64, 127])
def test_what_is_set_for_a_long_name_holds(make_pooler, pg, length):
    """Settings and limits of a user hold however long the name is in [users], and as it was sent."""
    name = "m" * length
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, users={name: "max_user_client_connections=1"},
                         userlist={name: "", "admin_user": "x"}, settings={"auth_type": "trust"})
    for sent in sorted({name, name[:63], "m" * 127}):
        with pooler.connect("db", sent) as client:
            assert client.value("select 1") == "1"
            for other in (name, name[:63]):
                assert pooler.refusal("db", other) == "client connections exceeded (max_user_client_connections)"
        waiting.wait_for(lambda: pooler.show_one("LISTS", list="used_clients")["items"] == "1", "it has left")


STRANGE = ['a"b', "a,b", "a@b", "+a", "a b", "a'b", "a\\b", "/a", "all", "sameuser", "a#b", "a=b", "a;b", "%a", "a\tb", "\xe9", "'a'", '"a"']


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_name_is_one_name_everywhere(make_pooler, pg, name):
    """User list, rules, maps, PostgreSQL and the console mean the same one by it, and none by a part of it."""
    quoted = '"%s"' % name.replace('"', '""')
    pg.do("create role %s login password 'of the strange one'" % quoted, "create database %s owner %s" % (quoted, quoted))
    try:
        pooler = make_pooler({"*": "host=127.0.0.1 port=%d" % pg.port}, start=False, settings={"auth_type": "hba"},
                             userlist={name: "of the strange one", "a": "x", "b": "x", "admin_user": "x", "trust_user": ""})
        pooler.settings["auth_hba_file"] = pooler.path("hba")
        pooler.write("hba", "host pgbouncer admin_user all trust\nhost %s %s all scram-sha-256\nhost postgres %s all reject\n"
                            "host all trust_user all trust\nhost all all all reject\n" % (quoted, quoted, quoted))
        pooler.start()
        with pooler.connect(name, name) as client:
            assert client.value("select current_user || ' in ' || current_database()") == name + " in " + name
            row = [row for row in pooler.show("CLIENTS") if row["user"] == name]
            assert row and row[0]["database"] == name
        assert pooler.refusal(name, name, "wrong") == "SASL authentication failed"
        for user, database in (("a", name), ("b", name), (name, "postgres"), (name, "template1")):
            assert pooler.refusal(database, user, "x") == "login rejected"
        pooler.stop()
    finally:
        pg.do("drop database %s with (force)" % quoted, "drop role %s" % quoted)

"""The ini file, the user list, and reload (configuration.md 1 to 8)."""

import os
import re
import time

import pytest

import waiting
import wire


def errors(text):
    return re.findall(r" ERROR (.*)", text)


def refused(pooler, text):
    """Runs the program on this ini file, which it must refuse, and returns the ERROR lines."""
    code, _, err = pooler.run_ini(text)
    assert code == 1, err
    assert " FATAL cannot load config file\n" in err, err
    return errors(err)


# broken files

SYNTAX = {
    "no closing bracket": ("[pgbouncer\nx = 1\n", 1),
    "no equals sign": ("[pgbouncer]\npool_mode session\n", 2),
    "key alone at the end": ("[pgbouncer]\npool_mode", 2),
    "double-quoted key": ('[databases]\n"db" = host=a\n[pgbouncer]\n', 2),
    "empty quoted key": ("[databases]\n'' = host=a\n[pgbouncer]\n", 2),
    "unclosed quoted key": ("[databases]\n'db = host=a\n[pgbouncer]\n", 2),
    "stray character": ("[pgbouncer]\n\n!pool_mode = session\n", 3),
    "key with a space": ("[databases]\na b = host=x\n[pgbouncer]\n", 2),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax_errors(make_pooler, name):
    pooler = make_pooler(start=False)
    text, line = SYNTAX[name]
    assert refused(pooler, text) == [
        "syntax error in configuration (%s:%d), stopping loading" % (pooler.ini, line)]


BAD_VALUES = [
    ("listen_port", "x"), ("listen_port", ""), ("listen_port", "12x"), ("listen_port", "1 2"),
    ("listen_port", "6432 ; comment"), ("max_client_conn", "1e3"),
    ("syslog", "on"), ("syslog", "true"), ("syslog", "yes"), ("so_reuseport", ""),
    ("query_timeout", "-1"), ("query_timeout", "5s"), ("query_timeout", "1min"),
    ("query_timeout", ""), ("query_timeout", "1,5"), ("query_timeout", "abc"),
    ("pool_mode", "trans"), ("pool_mode", ""), ("pool_mode", "transaction,session"),
    ("auth_type", "kerberos"), ("auth_type", "password"), ("client_tls_sslmode", "on"),
    ("max_packet_size", "big"), ("unix_socket_mode", "0799"),
]


@pytest.mark.parametrize("key, value", BAD_VALUES)
def test_bad_values(make_pooler, key, value):
    pooler = make_pooler(start=False)
    found = refused(pooler, "[pgbouncer]\n# a comment\n%s = %s\n" % (key, value))
    assert found[-1] == 'invalid value "%s" for parameter %s in configuration (%s:3)' % (
        value, key, pooler.ini)


def test_unknown_setting(make_pooler):
    pooler = make_pooler(start=False)
    assert refused(pooler, "[pgbouncer]\nnonsense = 7\n") == [
        "unknown parameter: pgbouncer/nonsense",
        'invalid value "7" for parameter nonsense in configuration (%s:2)' % pooler.ini]


@pytest.mark.parametrize("section", ["nonsense", "PGBOUNCER", " pgbouncer", "pgbouncer ", ""])
def test_unknown_section(make_pooler, section):
    pooler = make_pooler(start=False)
    found = refused(pooler, "\n[%s]\nx = 1\n[pgbouncer]\n" % section)
    assert found[-1] == 'invalid section "%s" in configuration (%s:2)' % (section, pooler.ini)


def test_key_before_any_section(make_pooler):
    assert "load_init_file: value without section: pool_mode" in refused(
        make_pooler(start=False), "pool_mode = session\n[pgbouncer]\n")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "[databases]\ndb = host=a\n"])
def test_main_section_missing(make_pooler, text):
    assert refused(make_pooler(start=False), text)[-1] == (
        "load_init_file: main section missing from config file")


def test_included_file_that_is_missing(make_pooler):
    pooler = make_pooler(start=False)
    assert refused(pooler, "[pgbouncer]\n%include absent.ini\n") == [
        'could not load file "absent.ini": No such file or directory',
        "error processing include file in configuration (%s:2), stopping loading" % pooler.ini]


def test_error_in_an_included_file(make_pooler):
    pooler = make_pooler(start=False)
    part = pooler.write("part.ini", "\npool_mode = nonsense\n")
    found = refused(pooler, "[pgbouncer]\n%%include %s\n" % part)
    assert found[0] == 'invalid value "nonsense" for parameter pool_mode in configuration (%s:2)' % part
    assert found[-1] == (
        "error processing include file in configuration (%s:2), stopping loading" % pooler.ini)


def include_chain(pooler, depth):
    for level in range(1, depth):
        pooler.write("part%d.ini" % level, "%%include %s\n" % pooler.path("part%d.ini" % (level + 1)))
    pooler.write("part%d.ini" % depth, "pool_mode = statement\n")
    pooler.extra = "%%include %s\n" % pooler.path("part1.ini")


def test_includes_within_the_depth(make_pooler):
    pooler = make_pooler({"db": ""}, start=False)
    include_chain(pooler, 9)
    pooler.start()
    assert pooler.config()["pool_mode"] == "statement"


def test_includes_beyond_the_depth(make_pooler):
    pooler = make_pooler(start=False)
    include_chain(pooler, 12)
    found = refused(pooler, None)
    assert re.fullmatch(r"include nesting level too deep \(\S+:\d+\), stopping loading", found[0])


def test_file_that_includes_itself(make_pooler):
    pooler = make_pooler(start=False)
    found = refused(pooler, "[pgbouncer]\n%include pgbouncer.ini\n")
    assert found[0].startswith("include nesting level too deep (")


CONNSTR = [
    ("host", "syntax error in connection string"),
    ("host=", "syntax error in connection string"),
    ("host=''", "syntax error in connection string"),
    ("host='abc", "syntax error in connection string"),
    ("nonsense=1", "unrecognized connection parameter: nonsense"),
    ("HOST=a", "unrecognized connection parameter: HOST"),
    ("port=abc", "invalid port: abc"),
    ("port=0", "invalid port: 0"),
    ("pool_mode=fast", "invalid pool mode: fast"),
    ("load_balance_hosts=maybe", "invalid load_balance_hosts: maybe"),
]


@pytest.mark.parametrize("value, text", CONNSTR)
def test_broken_connection_strings(make_pooler, value, text):
    pooler = make_pooler(start=False)
    found = refused(pooler, "[databases]\ndb = %s\n[pgbouncer]\n" % value)
    if text:
        assert found[0] == text
    # The message may leave the value out, because it can hold a password.
    assert re.fullmatch(r'invalid value "(%s|\.\.\.)" for parameter db in configuration \(%s:2\)' % (
        re.escape(value), re.escape(pooler.ini)), found[-1])


@pytest.mark.parametrize("name", ["pgbouncer", "x" * 64])
def test_database_names_that_are_refused(make_pooler, name):
    found = refused(make_pooler(start=False), "[databases]\n%s = host=a\n[pgbouncer]\n" % name)
    if name == "pgbouncer":
        assert found[0] == 'database name "pgbouncer" is reserved'


@pytest.mark.parametrize("value, text", [
    ("nonsense=1", "unrecognized user parameter: nonsense"),
    ("pool_mode", "syntax error in user settings"),
    ("pool_mode=fast", "invalid pool mode: fast"),
])
def test_broken_users(make_pooler, value, text):
    assert refused(make_pooler(start=False), "[pgbouncer]\n[users]\nu = %s\n" % value)[0] == text


@pytest.mark.parametrize("key, value, text", [
    ("0", "host=a", "ids of peers must be a number larger than 0 and at most 65536"),
    ("x", "host=a", "ids of peers must be a number larger than 0 and at most 65536"),
    ("65537", "host=a", "ids of peers must be a number larger than 0 and at most 65536"),
    ("1", "port=6432", "host was not provided for peer 1"),
    ("1", "host=a nonsense=1", None),
    ("1", "host=a dbname=x", None),
])
def test_broken_peers(make_pooler, key, value, text):
    found = refused(make_pooler(start=False), "[pgbouncer]\n[peers]\n%s = %s\n" % (key, value))
    if text:
        assert found[0] == text


def test_console_as_auth_dbname(make_pooler):
    assert refused(make_pooler(start=False), "[pgbouncer]\nauth_dbname = pgbouncer\n")[0] == (
        'cannot use the reserved "pgbouncer" database as an auth_dbname')


# accepted syntax


def show_database(pooler, name):
    return pooler.show_one("DATABASES", name=name)


def test_ini_grammar(make_pooler):
    pooler = make_pooler(start=False)
    text = pooler.ini_text()
    text = ("; comment\n  # indented comment\n\n"
            "[databases]\n"
            "   indented = host=/tmp\n"
            "tight=host=/tmp port=1234\n"
            "blanks \t = \t host=/tmp   \n"
            "'quoted name !' = host=/tmp dbname='it''s' user=x password='a;b#c'\n"
            "dots.and-dashes_1 = dbname = spaced host = '/tmp'\n"
            "empty =\n"
            "twice = host=/one port=1111 dbname=first\n"
            "twice = host=/two\n"
            "* = host=/fallback\n"
            + text.replace("[databases]\n", "")
            + "log_stats = 0x0\r\nlisten_backlog = 0100\r\nstats_period =  25  \r\n"
              "pool_mode = TransAction\n"
              "[databases]\nlater = host=/later\n"
            + "\0garbage beyond the end [")
    pooler.ini_text = lambda: text
    pooler.start()
    rows = {r["name"]: r for r in pooler.show("DATABASES")}
    assert set(rows) == {"indented", "tight", "blanks", "quoted name !", "dots.and-dashes_1", "empty",
                         "twice", "later", "pgbouncer"}
    assert rows["tight"]["port"] == "1234" and rows["indented"]["port"] == "5432"
    assert rows["quoted name !"]["database"] == "it's"
    assert rows["quoted name !"]["force_user"] == "x"
    assert rows["dots.and-dashes_1"]["database"] == "spaced"
    assert rows["dots.and-dashes_1"]["host"] == "/tmp"
    assert rows["empty"]["host"] is None and rows["empty"]["database"] == "empty"
    assert (rows["twice"]["host"], rows["twice"]["port"], rows["twice"]["database"]) == (
        "/two", "5432", "twice")
    assert rows["later"]["host"] == "/later"
    config = pooler.config()
    assert config["log_stats"] == "0" and config["listen_backlog"] == "64"
    assert config["stats_period"] == "25" and config["pool_mode"] == "transaction"


def test_second_main_section_resets(make_pooler):
    pooler = make_pooler({"db": ""}, start=False)
    text = "[pgbouncer]\nmax_client_conn = 7\nquery_timeout = 9\n" + pooler.ini_text()
    pooler.ini_text = lambda: text
    pooler.start()
    config = pooler.config()
    assert config["max_client_conn"] == "100" and config["query_timeout"] == "0"


def test_include_continues_the_section(make_pooler):
    pooler = make_pooler({"db": ""}, start=False)
    part = pooler.write("part.ini", "max_client_conn = 77\n[databases]\nincluded = host=/tmp\n")
    pooler.extra = "%%include  %s  \nafter = host=/tmp\n" % part
    pooler.start()
    assert pooler.config()["max_client_conn"] == "77"
    names = {r["name"] for r in pooler.show("DATABASES")}
    assert {"included", "after"} <= names


def test_include_before_the_first_section(make_pooler):
    pooler = make_pooler({"db": ""}, start=False)
    part = pooler.write("part.ini", "[databases]\nincluded = host=/tmp\n")
    text = "%%include %s\nmore = host=/tmp\n" % part + pooler.ini_text()
    pooler.ini_text = lambda: text
    pooler.start()
    assert {"included", "more", "db"} <= {r["name"] for r in pooler.show("DATABASES")}


def test_database_keys(make_pooler):
    pooler = make_pooler({
        "full": "host=127.0.0.1 port=7 dbname=there user=x password=y pool_size=3 min_pool_size=1 "
                "reserve_pool=2 max_db_connections=9 max_db_client_connections=8 server_lifetime=11 "
                "pool_mode=statement connect_query='select 1' client_encoding=UTF8 datestyle=ISO "
                "timezone=UTC application_name=app auth_user=x auth_query='select 1' auth_dbname=y "
                "load_balance_hosts=disable query_wait_timeout=4",
        "garbage": "host=/tmp pool_size=abc",
        "hosts": "host=127.0.0.1,127.0.0.2 load_balance_hosts=disable",
    })
    row = show_database(pooler, "full")
    assert row == {
        "name": "full", "host": "127.0.0.1", "port": "7", "database": "there", "force_user": "x",
        "pool_size": "3", "min_pool_size": "1", "reserve_pool_size": "2", "server_lifetime": "11",
        "pool_mode": "statement", "load_balance_hosts": None, "max_connections": "9",
        "current_connections": row["current_connections"], "max_client_connections": "8",
        "current_client_connections": "0", "paused": "0", "disabled": "0"}
    assert show_database(pooler, "garbage")["pool_size"] == "0"
    assert show_database(pooler, "hosts")["load_balance_hosts"] == "disable"


def test_users_keys(make_pooler):
    pooler = make_pooler({"db": ""}, users={
        "u1": "pool_mode=session pool_size=4 reserve_pool_size=0 max_user_connections=5 "
              "max_user_client_connections=6 query_timeout=1 idle_transaction_timeout=2 "
              "transaction_timeout=3 query_wait_timeout=0 client_idle_timeout=9", "'odd name'": ""})
    row = pooler.show_one("USERS", name="u1")
    assert row["pool_mode"] == "session" and row["max_user_connections"] == "5"
    assert row["pool_size"] == "        4" and row["reserve_pool_size"] == "        0"
    assert row["max_user_client_connections"] == "6"
    row = pooler.show_one("USERS", name="odd name")
    assert row["pool_mode"] is None and row["pool_size"] == ""


def test_peers(make_pooler):
    pooler = make_pooler({"db": ""}, settings={"peer_id": 1}, peers={
        "2": "host=127.0.0.1", "10": "host=/tmp port=99 pool_size=3", "1": "host=/tmp"})
    assert pooler.show("PEERS") == [
        {"peer_id": "1", "host": "/tmp", "port": "6432", "pool_size": "20"},
        {"peer_id": "2", "host": "127.0.0.1", "port": "6432", "pool_size": "20"},
        {"peer_id": "10", "host": "/tmp", "port": "99", "pool_size": "3"}]


@pytest.mark.parametrize("value, shown", [("0.5", "0.5"), ("10", "10"), ("0", "0"), ("1.25", "1.25"),
                                          ("1000000", "1e+06"), ("0.0000005", "0")])
def test_times_are_shown(make_pooler, value, shown):
    pooler = make_pooler({"db": ""}, settings={"query_timeout": value})
    assert pooler.config()["query_timeout"] == shown


# the user list


def test_user_list_grammar(make_pooler, pg):
    secret = wire.ScramKeys("scram one").secret()
    text = ('; comment\n\n'
            '"plain" "one"\n'
            '  "indented" "two" anything "else" here\n'
            '"with ""quotes""" "a""b"\n'
            '"hash" "%s"\n'
            '"scram" "%s"\n'
            '"apart" between\n  "three"\n'
            '"twice" "old"\n"twice" "new"\n'
            '"almost" "md5XYZ"\n'
            '"nothing" ""\n' % (wire.md5_hash("hash", "four"), secret))
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, start=False,
                         settings={"auth_type": "md5"})
    write = pooler.write_files
    admins = '"admin_user" "%s"\n' % pooler.userlist["admin_user"]
    pooler.write_files = lambda: (write(), pooler.write("userlist.txt", admins + text))
    pooler.start()
    for user, secret in (("plain", "one"), ("indented", "two"), ('with "quotes"', 'a"b'),
                         ("hash", "four"), ("scram", "scram one"), ("apart", "three"),
                         ("twice", "new"), ("almost", "md5XYZ")):
        with pooler.connect(user=user, secret=secret) as client:
            assert client.value("select 1") == "1", user
    assert pooler.refusal(user="twice", secret="old") == "password authentication failed"
    assert pooler.refusal(user="nothing", secret="x") == "password authentication failed"
    assert {"plain", "nothing"} <= {r["name"] for r in pooler.show("USERS")}
    assert errors(pooler.log()) == []


@pytest.mark.parametrize("line, text", [
    ('bad "x"', "broken auth file"),
    ("# not a comment", "broken auth file"),
    ('"%s" "x"' % ("u" * 128), "username too long in auth file"),
    ('"bad" "%s"' % ("p" * 65531), "password too long in auth file"),
    ('"bad', "broken auth file"),
    ('"bad"', "broken auth file"),
    ('"bad" "x', "broken auth file"),
])
def test_broken_user_list(make_pooler, pg, line, text):
    # An open quote would swallow the next line, so it is placed on the last line.
    after = "" if line.startswith('"bad') and len(line) < 20 else '"second_user" "c"\n'
    pooler = make_pooler({"db": pg.conn()}, start=False)
    write = pooler.write_files
    pooler.write_files = lambda: (write(), pooler.write(
        "userlist.txt", '"trust_user" "a"\n"admin_user" "b"\n%s\n%s' % (line, after)))
    pooler.start()
    assert errors(pooler.log()) == [text]
    pooler.connect(user="trust_user").close()
    assert pooler.refusal(user="second_user") == '"trust" authentication failed'


def test_user_list_broken_at_every_line_of_a_reload(make_pooler, pg):
    """After a reload with a broken user list every user keeps the password that was valid
    before."""
    known = {"u%d" % n: "password %d" % n for n in range(5)}
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "plain"},
                         userlist=dict(known, admin_user="admin secret 91c"))
    before = views(pooler)
    good = pooler.read("userlist.txt").replace("password", "changed").splitlines()
    for number in range(len(good) + 1):
        pooler.write("userlist.txt", "\n".join(good[:number] + ["bad"] + good[number:]) + "\n")
        assert pooler.admin.query("RELOAD", check=False).errors, number
        assert views(pooler) == before
        for name, secret in known.items():
            pooler.connect("db", name, secret).close()
    pooler.write("userlist.txt", "\n".join(good) + "\n")
    pooler.reload()
    assert pooler.refusal("db", "u1", "password 1") == "password authentication failed"
    pooler.connect("db", "u1", "changed 1").close()


def test_longest_names_and_secrets(make_pooler, pg):
    name, secret = "u" * 127, "p" * 65530
    pooler = make_pooler({"db": pg.conn(user="trust_user"), "d" * 63: pg.conn(user="trust_user")},
                         settings={"auth_type": "plain"},
                         userlist={name: secret, "admin_user": "admin secret 91c"})
    with pooler.connect("d" * 63, name, secret) as client:
        assert client.value("select 1") == "1"


def test_missing_user_list(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_file": "/nonexistent/users"})
    assert errors(pooler.log()) == [
        "could not open auth_file /nonexistent/users: No such file or directory"]


# reload


BROKEN = [text for text, _ in SYNTAX.values()] + [
    "[pgbouncer]\npool_mode = session\nquery_timeout = x\n",
    "[pgbouncer]\nmax_client_conn = 5\nnonsense = 1\n",
    "[databases]\n[pgbouncer]\nmax_client_conn = 5\n[nonsense]\n",
    "[databases]\ndb = host=/elsewhere\ndb2 = port=x\n[pgbouncer]\n",
    "[databases]\ndb = host=/elsewhere\n",
    "max_client_conn = 5\n[pgbouncer]\n",
    "[pgbouncer]\nmax_client_conn = 5\n%include /nonexistent\n",
    "[pgbouncer]\nmax_client_conn = 5\n[users]\nu = pool_mode=x\n",
    "[pgbouncer]\nmax_client_conn = 5\n[peers]\n0 = host=x\n",
    "",
]


def views(pooler):
    """Returns everything that a reload could change."""
    databases = pooler.show("DATABASES")
    for row in databases:
        row.pop("current_connections")
        row.pop("current_client_connections")
    return (pooler.show("CONFIG"), databases, pooler.show("PEERS"),
            [(r["name"], r["pool_mode"], r["pool_size"]) for r in pooler.show("USERS")])


def test_broken_reload_changes_nothing(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "gone": pg.conn()}, peers={"3": "host=/tmp"},
                         users={"trust_user": "pool_size=3"},
                         settings={"pool_mode": "transaction", "query_timeout": 33})
    client = pooler.connect()
    client.query("begin")
    before = views(pooler)
    for text in BROKEN:
        pooler.write("pgbouncer.ini", text)
        mark = pooler.mark()
        result = pooler.admin.query("RELOAD", check=False)
        error = result.errors[0]
        assert [error.field(c) for c in "SCM"] == [
            "ERROR", "F0000", "RELOAD failed, see logs for additional details"], text
        logged = pooler.log_since(mark)
        # Tools count the lines of errors, so each is there once.
        assert all(logged.count(line) == 1 for line in error.field("D").split("\n")), (text, logged)
        assert result.status == "I"
        assert errors(pooler.log_since(mark)), text
        assert views(pooler) == before, text
        assert client.value("select 1") == "1"
    client.query("commit")
    pooler.write_files()
    pooler.reload()
    assert views(pooler) == before


def test_broken_at_every_line(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, users={"u": "pool_size=1"}, peers={"2": "host=/tmp"})
    before = views(pooler)
    lines = pooler.ini_text().replace("max_client_conn", "").splitlines()
    lines.insert(3, "max_client_conn = 55")
    for number in range(len(lines) + 1):
        text = lines[:number] + ["this line is broken"] + lines[number:]
        pooler.write("pgbouncer.ini", "\n".join(text) + "\n")
        assert pooler.admin.query("RELOAD", check=False).errors, number
        assert views(pooler) == before, number


def test_file_that_is_gone_at_reload(pooler):
    before = views(pooler)
    os.unlink(pooler.ini)
    mark = pooler.mark()
    assert pooler.admin.query("RELOAD", check=False).errors[0].field("C") == "F0000"
    assert 'could not load file "%s": No such file or directory' % pooler.ini in pooler.log_since(mark)
    assert views(pooler) == before


def test_reload_takes_new_values(pooler, pg):
    pooler.users["trust_user"] = "pool_size=2"
    pooler.peers["9"] = "host=/tmp"
    pooler.databases["new"] = pg.conn("other")
    pooler.change(max_client_conn=55, query_timeout=12.5)
    config = pooler.config()
    assert config["max_client_conn"] == "55" and config["query_timeout"] == "12.5"
    assert pooler.show_one("USERS", name="trust_user")["pool_size"].strip() == "2"
    assert [r["peer_id"] for r in pooler.show("PEERS")] == ["9"]
    with pooler.connect("new") as client:
        assert client.value("select current_database()") == "other"


def test_reload_resets_what_set_changed(pooler):
    pooler.set("max_client_conn", 7)
    pooler.set("query_timeout", "1.5")
    assert pooler.config()["max_client_conn"] == "7"
    pooler.reload()
    assert pooler.config()["max_client_conn"] == "100"
    assert pooler.config()["query_timeout"] == "0"


def test_restart_only_settings_stay(pooler):
    before = pooler.config()
    pooler.change(listen_port=1, unix_socket_dir="/elsewhere", listen_addr="::1", pkt_buf=75,
                  listen_backlog=3, unix_socket_mode="0700", pidfile="x")
    after = pooler.config()
    for name in ("listen_port", "unix_socket_dir", "listen_addr", "pkt_buf", "listen_backlog",
                 "unix_socket_mode", "pidfile"):
        assert after[name] == before[name]
    pooler.connect().close()


def test_removed_database(pooler, pg):
    pooler.databases["keep"] = pg.conn()
    pooler.reload()
    pooler.write_files()
    pooler.reload()
    kept, lost = pooler.connect("keep"), pooler.connect("db")
    kept.query("select 1")
    lost.query("select 1")
    del pooler.databases["db"]
    mark = pooler.mark()
    pooler.write_files()
    pooler.reload()
    lost.expect_fatal("database removed")
    assert ("WARNING dropping database 'db' as it does not exist anymore or inactive auto-database"
            in pooler.log_since(mark))
    assert kept.value("select 1") == "1"
    assert pooler.refusal("db") == "no such database: db"
    waiting.wait_for(lambda: pooler.pool("db") == {}, "pool is gone")


@pytest.mark.parametrize("change", ["dbname=other", "port", "host", "connect_query='select 5'"])
def test_changed_database_is_recycled(pooler, pg, change):
    client, idle = pooler.connect(), pooler.connect()
    idle.query("select 1")
    client.query("begin")
    pid = client.value("select pg_backend_pid()")
    pooler.databases["db"] = {
        "dbname=other": pg.conn("other"), "host": pg.unix_conn(),
        "port": pg.conn().replace("port=%d" % pg.port, "port=1"),
        "connect_query='select 5'": pg.conn() + " connect_query='select 5'"}[change]
    pooler.write_files()
    pooler.reload()
    assert client.value("select pg_backend_pid()") == pid
    client.query("commit")
    pooler.wait_pool(sv_idle=0, sv_active=0)
    pooler.wait_log(r"closing because: (close_needed|database configuration changed) \(age")
    if change != "port":
        assert client.value("select pg_backend_pid()") != pid


def test_unchanged_database_is_left_alone(pooler, pg):
    client = pooler.connect()
    pid = client.value("select pg_backend_pid()")
    pooler.databases["db"] += " pool_size=7 pool_mode=transaction max_db_connections=9"
    pooler.write_files()
    pooler.reload()
    assert client.value("select pg_backend_pid()") == pid
    assert pooler.pool()["sv_idle"] == 1
    assert pooler.show_one("DATABASES", name="db")["pool_size"] == "7"


def test_forced_user_cannot_be_lost(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user")})
    pooler.databases["db"] = pg.conn()
    pooler.write_files()
    mark = pooler.mark()
    pooler.reload()
    assert "WARNING losing forced user not supported, keeping old setting" in pooler.log_since(mark)
    assert pooler.show_one("DATABASES", name="db")["force_user"] == "trust_user"


def test_reload_of_the_user_list(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "md5"},
                         userlist={"admin_user": "admin secret 91c", "a": "one", "b": "two"})
    pooler.connect(user="a").close()
    pooler.userlist = {"admin_user": "admin secret 91c", "a": "changed value", "c": "three"}
    pooler.write_files()
    pooler.reload()
    assert pooler.refusal(user="a", secret="one") == "password authentication failed"
    pooler.connect(user="a").close()
    pooler.connect(user="c").close()
    assert pooler.refusal(user="b", secret="two") == "password authentication failed"
    # Trust asks for no password.
    pooler.set("auth_type", "trust")
    pooler.connect(user="b").close()
    assert pooler.refusal(user="never_listed") == '"trust" authentication failed'


def test_conffile_can_be_set(pooler):
    other = pooler.write("other.ini", pooler.ini_text() + "max_client_conn = 88\n")
    pooler.set("conffile", other)
    pooler.reload()
    assert pooler.config()["max_client_conn"] == "88"


# the fallback database


def test_auto_database(make_pooler, pg):
    pooler = make_pooler({"*": "host=127.0.0.1 port=%d" % pg.port})
    with pooler.connect("other") as client:
        assert client.value("select current_database()") == "other"
        assert pooler.show_one("DATABASES", name="other")["database"] == "other"
        pooler.reload()
        assert client.value("select 1") == "1"
    pooler.wait_log(r" LOG .*registered new auto-database: other$")
    assert [r["name"] for r in pooler.show("DATABASES") if r["name"] == "*"] == []


def test_auto_database_with_a_long_name(make_pooler, pg):
    pooler = make_pooler({"*": pg.conn()})
    assert pooler.refusal("x" * 64) == "no such database: " + "x" * 64
    assert pooler.refusal("y" * 5000).startswith("no such database: yyyy")
    with pooler.connect("z" * 63) as client:
        assert client.value("select 1") == "1"


def test_auto_database_with_a_broken_template(make_pooler):
    pooler = make_pooler({"*": "port=abc"})
    assert pooler.refusal("any") == "no such database: any"


def test_idle_auto_database_is_dropped(make_pooler, pg):
    pooler = make_pooler({"*": "host=127.0.0.1 port=%d" % pg.port},
                         settings={"autodb_idle_timeout": 0.5, "server_idle_timeout": 0.3})
    pooler.connect("other").close()
    waiting.wait_for(lambda: "other" not in [r["name"] for r in pooler.show("DATABASES")], "hidden")
    with pooler.connect("other") as client:
        assert client.value("select current_database()") == "other"


def test_changed_template(make_pooler, pg):
    pooler = make_pooler({"*": "host=127.0.0.1 port=%d dbname=other" % pg.port},
                         settings={"pool_mode": "transaction"})
    with pooler.connect("any") as client:
        assert client.value("select current_database()") == "other"
        pooler.databases["*"] = "host=127.0.0.1 port=%d dbname=postgres" % pg.port
        pooler.write_files()
        pooler.reload()
        waiting.wait_for(lambda: client.value("select current_database()") == "postgres", "new template")


# messages of a reload


RELOADED = "LOG configuration reloaded, changed: "


def reloaded(pooler):
    """Returns the log line that ends a reload."""
    mark = pooler.mark()
    pooler.reload()
    lines = [line for line in pooler.log_since(mark).splitlines() if RELOADED in line]
    assert len(lines) == 1, lines
    return lines[0].split(RELOADED)[1]


def settle(pooler):
    """Waits until the file is more than a second old: a change within the second of its timestamp
    could go unnoticed."""
    path = pooler.path("userlist.txt")
    waiting.wait_for(lambda: os.stat(path).st_ctime + 1.1 < time.time(), "old files", pause=0.1)


def test_a_reload_tells_what_changed(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "gone": pg.conn()}, users={"trust_user": "pool_size=3"})
    settle(pooler)
    pooler.reload()
    assert reloaded(pooler) == "nothing"
    pooler.settings.update(pool_mode="transaction", query_timeout=5)
    pooler.write("pgbouncer.ini", pooler.ini_text())
    assert reloaded(pooler) == "settings pool_mode, query_timeout"
    pooler.databases.update(new=pg.conn(), db=pg.conn(pool_size=3))
    del pooler.databases["gone"]
    pooler.users["trust_user"] = "pool_size=4"
    pooler.write("pgbouncer.ini", pooler.ini_text())
    assert reloaded(pooler) == "databases 1 added, 1 changed, 1 removed; users 1 changed"
    pooler.set("query_timeout", "7")
    assert reloaded(pooler) == "settings query_timeout"
    assert pooler.config()["query_timeout"] == "5"


def test_a_changed_user_list_is_read(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "md5"},
                         userlist={"trust_user": "", "ann": "one", "admin_user": "admin"})
    pooler.connect(user="ann", secret="one").close()
    settle(pooler)
    pooler.reload()
    assert "auth_file" not in reloaded(pooler)
    pooler.write("userlist.txt", '"ann" "two"\n"admin_user" "admin"\n')
    assert "auth_file read, 2 users" in reloaded(pooler)
    pooler.connect(user="ann", secret="two").close()
    assert pooler.refusal(user="ann", secret="one") == "password authentication failed"


def test_errors_are_told_on_the_console(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    pooler.write("pgbouncer.ini", pooler.ini_text() + "\n[pgbouncer]\nno_such_setting = 1\n")
    error = pooler.admin.query("RELOAD", check=False).errors[0]
    assert error.text() == "RELOAD failed, see logs for additional details"
    assert "no_such_setting" in error.field("D") and pooler.ini + ":" in error.field("D")
    error = pooler.admin.query("SET pool_mode = 'nonsense'", check=False).errors[0]
    assert error.text() == "SET failed"
    assert "must be one of: session, transaction, statement" in error.field("D")


def test_values_that_mean_nothing_are_taken(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "min_pool_size": -1, "query_wait_notify": -1, "stats_period": 0, "query_timeout": "1e2"})
    pooler.wait_log(r"WARNING .*stats_period: 0 means nothing here, 1 is used")
    config = pooler.config()
    assert [config[k] for k in ("min_pool_size", "query_wait_notify", "stats_period",
                                "query_timeout")] == ["0", "0", "1", "100"]
    result = pooler.admin.query("SET min_pool_size = '-3'")
    assert result.tag == "SET min_pool_size=-3"
    assert pooler.config()["min_pool_size"] == "0"


def test_check_config_warns_of_what_looks_forgotten(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, userlist={"a": "md5" + "0" * 32}, start=False, settings={
        "auth_type": "scram-sha-256", "auth_user": "nobody_there", "role_check_user": "no_watcher"})
    pooler.write_files()
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 0, out
    assert 'auth_user: user "nobody_there" is not in auth_file' in out
    assert 'role_check_user: user "no_watcher" is not in auth_file' in out
    assert "MD5 secrets only" in out
    pooler.write("hba", "hostssl all all all md5\n")
    pooler.settings.update(auth_type="hba", auth_hba_file=pooler.path("hba"))
    pooler.write_files()
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 0 and "hba:1: warning: the rule never matches" in out, out
    pooler.write("hba", "# nothing\n")
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 0 and "auth_hba_file: it has no rules" in out, out


def test_check_config_goes_on_after_the_first_problem(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={
        "pool_mode": "nonsense", "logfile": "/nonexistent/log", "auth_type": "hba",
        "auth_hba_file": "/nonexistent/hba"})
    pooler.write_files()
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 1
    for text in ("pool_mode", "there is no folder /nonexistent", "could not open hba config file"):
        assert text in out, out


# a long user list

def long_list(*first, count=4000):
    """Returns a list so long that a helper thread reads it."""
    lines = ['"%s" "%s"' % entry for entry in (("admin_user", "admin secret 91c"),) + first]
    return "\n".join(lines + ['"somebody%d" "%s"' % (i, "x" * 60) for i in range(count)]) + "\n"


@pytest.fixture
def crowded(make_pooler, pg):
    """A pooler whose auth_file is a pipe from now on, so that the test controls how long reading
    takes."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, start=False, settings={
        "auth_type": "plain", "pool_mode": "transaction"})
    pooler.userlist = {"admin_user": "admin secret 91c", "goes": "1", "stays": "2", "changes": "3"}
    pooler.start()
    os.unlink(pooler.path("userlist.txt"))
    os.mkfifo(pooler.path("userlist.txt"))
    waiting.give(pooler.path("userlist.txt"))
    return pooler


def begin_reload(pooler):
    console = pooler.console()
    mark = pooler.mark()
    console.send(wire.query("RELOAD"))
    pooler.wait_log("RELOAD command issued", mark)
    return console


def feed(pooler, text):
    """Writes the list when the pooler has opened the pipe, and returns when the pooler has read
    it."""
    with open(pooler.path("userlist.txt"), "w") as pipe:
        pipe.write(text)


NEXT = long_list(("stays", "2"), ("changes", "4"), ("comes", "5"))


def assert_next_is_in_force(pooler):
    for user, secret in (("stays", "2"), ("changes", "4"), ("comes", "5"), ("somebody3999", "x" * 60)):
        assert pooler.connect(user=user, secret=secret).value("select 1") == "1"
    for user, secret in (("goes", "1"), ("changes", "3")):
        pooler.refusal(user=user, secret=secret)


def test_a_long_list_holds_up_nobody(crowded):
    client = crowded.connect(user="stays", secret="2")
    console = begin_reload(crowded)
    console.send(wire.query("SHOW VERSION"))
    assert client.value("select 1") == "1"
    assert crowded.connect(user="goes", secret="1").value("select 2") == "2"
    crowded.refusal(user="comes", secret="5")
    assert not console.has_data(0.01)
    feed(crowded, NEXT)
    assert console.finish().tag == "RELOAD"
    assert console.finish().names == ["version"]
    assert_next_is_in_force(crowded)
    assert client.value("select 3") == "3"
    assert re.search("configuration reloaded, changed: .*auth_file read, 4004 users", crowded.log())


def test_a_long_list_with_a_fault_changes_nothing(crowded):
    console = begin_reload(crowded)
    feed(crowded, NEXT + '"broken\n')
    result = console.finish()
    assert result.errors[0].field("C") == "F0000"
    assert "userlist.txt:4005" in result.errors[0].field("D")
    assert crowded.connect(user="goes", secret="1").value("select 1") == "1"
    crowded.refusal(user="comes", secret="5")


def test_reloads_of_a_long_list_in_a_row(crowded):
    """A RELOAD during another one makes the pooler read the list once more."""
    first = begin_reload(crowded)
    second, third = begin_reload(crowded), begin_reload(crowded)
    crowded.signal("HUP")
    crowded.wait_log("got SIGHUP, re-reading config")
    gone = begin_reload(crowded)
    gone.close()
    feed(crowded, long_list(("stays", "2")))
    assert first.finish().tag == "RELOAD"
    crowded.refusal(user="comes", secret="5")
    feed(crowded, NEXT)
    assert second.finish().tag == third.finish().tag == "RELOAD"
    assert_next_is_in_force(crowded)
    assert crowded.log().count("configuration reloaded") == 2


def test_set_amid_a_reload_of_a_long_list(crowded):
    """SET waits for the reload, which has not read the settings yet and would restore the old
    value."""
    other = crowded.console()
    console = begin_reload(crowded)
    other.send(wire.query("SET query_timeout = '77'"))
    feed(crowded, NEXT)
    assert other.finish().tag == "SET query_timeout=77"
    assert console.finish().tag == "RELOAD"
    assert crowded.config()["query_timeout"] == "77"
    assert_next_is_in_force(crowded)


@pytest.mark.parametrize("how", ["TERM", "QUIT"])
def test_shutdown_amid_a_reload_of_a_long_list(crowded, how):
    console = begin_reload(crowded)
    crowded.signal(how)
    console.close()
    for client in crowded.consoles:
        client.close()
    assert crowded.wait_exit(60) == 0


def reload_through_pipe(pooler, text, client):
    console = begin_reload(pooler)
    assert client.value("select 1") == "1"
    assert pooler.connect("moves").value("select current_database()") == "postgres"
    with open(pooler.ini, "w") as pipe:
        pipe.write(text)
    return console.finish()


def test_a_long_ini_file_holds_up_nobody(make_pooler, pg):
    """What a file says is compared with what is in force, and only that is put in force which
    differs."""
    pooler = make_pooler({"db": pg.conn(), "goes": pg.conn(), "moves": pg.conn("postgres")})
    client = pooler.connect("db")
    pooler.databases = {"db": pg.conn(), "moves": pg.conn("other"), "comes": pg.conn()}
    pooler.databases.update({"other%d" % i: pg.conn() for i in range(50)})
    pooler.settings["query_timeout"] = 99
    good, path = pooler.ini_text(), pooler.ini
    os.unlink(path)
    os.mkfifo(path)
    waiting.give(path)
    result = reload_through_pipe(pooler, good + "nonsense\n", client)
    assert "pgbouncer.ini:%d" % (good.count("\n") + 1) in result.errors[0].field("D")
    assert pooler.config()["query_timeout"] == "0"
    assert reload_through_pipe(pooler, good, client).tag == "RELOAD"
    assert pooler.config()["query_timeout"] == "99"
    assert "databases 51 added, 1 changed, 1 removed" in pooler.log()
    assert pooler.connect("moves").value("select current_database()") == "other"
    assert pooler.connect("comes").value("select 2") == client.value("select 2") == "2"
    assert "no such database: goes" in str(pooler.refusal("goes"))


@pytest.mark.parametrize("mode, folder, users_told, ini_told", [
    (0o644, 0o755, "read", False), (0o646, 0o755, "write", True), (0o646, 0o750, None, False),
    (0o640, 0o755, None, False), (0o600, 0o777, None, False)])
def test_check_tells_of_files_that_others_can_use(make_pooler, pg, mode, folder, users_told, ini_told):
    """Group rights of the pooler's own group are no strangers' rights, nor is a file within a closed folder open."""
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.write_files()
    os.chmod(pooler.dir, folder)
    for name in (pooler.ini, pooler.path("userlist.txt")):
        os.chmod(name, mode)
        os.chown(name, -1, pooler.account.pw_gid)
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 0, out
    assert ("warning: auth_file: other accounts can %s the secrets in" % users_told in out) == bool(users_told)
    assert ("other accounts can write this file" in out) == ini_told


def test_check_tells_of_other_groups(make_pooler, pg):
    if os.getuid() != 0:
        pytest.skip("only root gives files to other groups")
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.write_files()
    os.chmod(pooler.dir, 0o755)
    os.chmod(pooler.path("userlist.txt"), 0o640)
    os.chown(pooler.path("userlist.txt"), -1, 100)
    _, out, _ = pooler.run("--check-config", pooler.ini)
    assert "other accounts can read the secrets in" in out

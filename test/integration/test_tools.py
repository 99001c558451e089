"""The tools of the command line that prepare a start (pgbouncer(1)): --explain-config and
--make-userlist."""

import os
import pty
import re
import socket
import stat

import pytest

import postgres
import wire
from postgres import SUPERUSER, USERS


def words(text):
    """Returns the text with each run of white space as one blank."""
    return " ".join(text.split())


# explain-config


def test_explain_config(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "forced": pg.conn(user="trust_user", pool_size=7)},
                         start=False, userlist={"one": "a", "two": "b"},
                         settings={"pool_mode": "transaction", "admin_users": "nobody"})
    code, out, err = pooler.run_ini(None, "--explain-config")
    assert (code, err) == (0, "")
    checked = pooler.run("--check-config", pooler.ini)[1]
    assert checked and out.startswith(checked), "the findings come first"
    said = words(out)
    assert "%s:%d 2 47 47 " % (pg.host, pg.port) in said
    line = pooler.ini_text().splitlines().index("pool_mode = transaction") + 1
    assert "pool_mode transaction line %d " % line in said
    assert "* idle_transaction_timeout is off: " in said


def test_explain_config_has_the_exit_status_of_check_config(make_pooler):
    pooler = make_pooler(start=False)
    code, out, _ = pooler.run_ini("[databases]\nx =\n[pgbouncer]\nnonsense = 1\n",
                                  "--explain-config")
    assert code == 1
    assert re.search(r"^%s:4: unknown parameter" % re.escape(pooler.ini), out, re.M)
    assert "Database x (line 2)" in out


def test_explain_config_looks_at_what_the_running_pooler_counts(make_pooler, pg):
    """A text that one client sends again and again is worth a sentence, if nothing saves it yet."""
    pooler = make_pooler({"db": pg.conn(), "saving": pg.conn(prepare_unnamed=3)}, settings={"pool_mode": "transaction"})
    advice = r"\* database (\S+): (\d+) of (\d+) queries parsed an unnamed statement whose text"

    def advised():
        code, out, err = pooler.run("--explain-config", pooler.ini)
        assert (code, err) == (0, "")
        return re.findall(advice, words(out))

    def send(database, count):
        with pooler.connect(database) as client:
            for _ in range(count):
                client.send(wire.parse("", "select 1"), wire.bind(), wire.execute(), wire.sync())
                assert client.finish().kinds() == "12DCZ"

    send("db", 50)
    assert advised() == []
    send("db", 70)
    send("saving", 150)
    assert advised() == [("db", "118", "120")]
    pooler.set("prepare_unnamed", "2")
    send("db", 5)
    assert advised() == []
    pooler.stop()
    assert advised() == []


def test_explain_config_says_why_the_running_pooler_was_not_asked(make_pooler, pg):
    with socket.socket(socket.AF_UNIX) as stranger:
        pooler = make_pooler({"db": pg.conn()}, start=False)
        pooler.write_files()
        path = os.path.join(pooler.dir, ".s.PGSQL.%d" % pooler.port)
        stranger.bind(path)
        os.chmod(path, 0o777)
        code, out, err = pooler.run("--explain-config", pooler.ini)
        assert (code, err) == (0, "")
        assert "The pooler at %s could not be asked for what it counts: " % path in words(out)


# make-userlist

SECRET = "of the odd one 1f7"
ODD = 'tool "odd" name'
LEFT_OUT = {"tool_expired": "its password has expired, VALID UNTIL 2001-01-01 00:00:00+00",
            "trust_user": "it has no password"}


@pytest.fixture(scope="module")
def roles(cluster):
    """The cluster with roles that lists of users find hard."""
    postgres.keeper.learn(SECRET)
    names = {'"%s"' % ODD.replace('"', '""'): "login", "tool_reader": "login",
             "tool_expired": "login valid until '2001-01-01'", "tool_nologin": "nologin"}
    with cluster.client() as owner:
        for name, more in names.items():
            owner.query("create role %s password '%s' %s" % (name, SECRET, more))
        owner.query("grant select on pg_authid to tool_reader")
    yield cluster
    with cluster.client() as owner:
        owner.query("revoke select on pg_authid from tool_reader")
        for name in names:
            owner.query("drop role " + name)


def conninfo(pg, user=SUPERUSER, **more):
    return postgres.connstr(host=pg.host, port=pg.port, user=user, **more)


def make(pooler, *args):
    """Runs --make-userlist and returns (code, stdout, lines of stderr without the program's
    name)."""
    code, out, err = pooler.run("--make-userlist", *args)
    for secret, _, _ in USERS.values():
        assert not secret or secret not in out + err
    assert SECRET not in out + err
    assert all(line.startswith(pooler.binary + ": ") for line in err.splitlines()), err
    return code, out, [line.partition(": ")[2] for line in err.splitlines()]


def test_a_pooler_accepts_the_logins_of_the_list(make_pooler, roles):
    pooler = make_pooler({"db": roles.conn()}, start=False, settings={"auth_type": "md5"})
    pooler.settings["auth_file"] = pooler.path("made.txt")
    code, out, said = make(pooler, conninfo(roles), "-o", pooler.path("made.txt"))
    assert (code, out) == (0, "")
    assert said == sorted(said)
    for name, why in LEFT_OUT.items():
        assert 'role "%s" is left out: %s' % (name, why) in said
    assert stat.S_IMODE(os.stat(pooler.path("made.txt")).st_mode) == 0o600
    pooler.start()
    for user in ("scram_user", "md5_user"):
        with pooler.connect(user=user, secret=USERS[user][0]) as client:
            assert client.value("select current_user") == user
    with pooler.connect(user=ODD, secret=SECRET) as client:
        assert client.value("select current_user") == ODD
    for user in ("tool_expired", "tool_nologin"):
        with pytest.raises(wire.Refused):
            pooler.connect(user=user, secret=SECRET)


def test_list_on_stdout(make_pooler, roles):
    pooler = make_pooler(start=False)
    code, out, said = make(pooler, conninfo(roles))
    assert code == 0
    entries = [line for line in out.splitlines() if not line.startswith(";")]
    assert '"md5_user" "%s"' % roles.secret_of("md5_user") in entries
    assert '"tool ""odd"" name" "%s"' % roles.secret_of(ODD) in entries
    assert entries == sorted(entries)
    assert '; "trust_user" is left out: it has no password' in out.splitlines()
    assert make(pooler, conninfo(roles))[1] == out
    # Others see the same: a URI, and a role that was let in to read the secrets.
    uri = "postgresql://tool_reader:%s@%s:%d" % (SECRET.replace(" ", "%20"), roles.host, roles.port)
    assert make(pooler, uri)[1] == out


@pytest.mark.parametrize("text, why", [
    ("host=127.0.0.1 port=1 user=x", r"127\.0\.0\.1:1: could not connect: Connection refused"),
    ("host={0.dir} port=1 user=x", r"unix:1: sbuf_connect failed to connect to unix:.*: No such file"),
    ("{1} user=scram_user password=wrong",
     r'server login failed: FATAL password authentication failed for user "scram_user"'),
    ("{1} user=scram_user", r"the server asks for a password, but there is no terminal to ask for it; "
     r"PGPASSWORD or a password file can hold it"),
    ("{1} user=trust_user", r'role "trust_user" may not read pg_authid, .*log in as a superuser'),
    ("{1} user=trust_user dbname=nowhere", r'server login failed: FATAL database "nowhere" does not exist'),
    ("{1} user=trust_user sslmode=require", r"server refused SSL"),
    ("{1} nonsense=1", r"unrecognized connection parameter: nonsense"),
    ("{1} connect_timeout=abc", r'invalid integer value "abc" for connection option "connect_timeout"'),
    ("nonsense", r"write key=value pairs .*"),
])
def test_what_goes_wrong_is_told(make_pooler, roles, text, why):
    pooler = make_pooler(start=False)
    text = text.format(roles, "host=%s port=%d" % (roles.host, roles.port))
    path = pooler.path("list")
    # A session of its own has no terminal.
    code, out, err = pooler.run("--make-userlist", text, "-o", path, start_new_session=True)
    assert (code, out) == (1, "")
    assert re.search(": %s$" % why, err.strip()) or re.search(": " + why, err), err
    assert len(err.splitlines()) == 1
    assert not os.path.exists(path)


def test_file_that_others_can_read_is_not_overwritten(make_pooler, pg):
    pooler = make_pooler(start=False)
    path = pooler.write("list", "mine")
    os.chmod(path, 0o644)
    code, out, said = make(pooler, conninfo(pg), "-o", path)
    assert (code, out) == (1, "")
    assert said == ["%s is open to every account that gets into its folder: first chmod o-rwx %s"
                    % (path, path)]
    assert pooler.read("list") == "mine"
    os.chmod(path, 0o640)
    assert make(pooler, conninfo(pg), "-o", path)[0] == 0
    assert '"scram_user" "SCRAM-SHA-256$' in pooler.read("list")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_password_is_asked_for_on_the_terminal(make_pooler, roles):
    pooler = make_pooler(start=False)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(pooler.binary, [pooler.binary, "--make-userlist", conninfo(roles, "tool_reader")],
                  pooler.environment())
    shown = b""
    while not shown.endswith(b"Password: "):
        shown += os.read(terminal, 1000)
    os.write(terminal, SECRET.encode() + b"\n")
    try:
        while part := os.read(terminal, 1000):
            shown += part
    except OSError:
        pass  # The other end is closed.
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert SECRET.encode() not in shown
    assert b'"scram_user" "SCRAM-SHA-256$' in shown


def test_misuse_of_make_userlist(make_pooler):
    pooler = make_pooler(start=False)
    for args, why in ((["--make-userlist", "host=x", "user=y"], "takes one CONNINFO: quote it"),
                      (["-o", "list", pooler.ini], "--output belongs to --make-userlist")):
        code, out, err = pooler.run(*args)
        assert (code, out) == (1, "") and why in err

"""Authentication methods by rule: auth_hba_file and auth_ident_file (configuration.md 9, 10;
protocol.md 4)."""

import os
import re
import shutil
import socket
import subprocess

import pytest

import codes
import waiting
import wire

PLAIN = "open sesame 41"
USERS = {
    "p": PLAIN,
    "m": wire.md5_hash("m", PLAIN),
    "s": wire.ScramKeys(PLAIN).secret(),
    "empty": "",
    "admin_user": "admin secret 91c",
}
CONSOLE = "host pgbouncer admin_user all md5\n"


@pytest.fixture
def ruled(make_pooler, pg):
    """ruled(rules, ident=None) returns a pooler with these rules, after one for the test's own
    console."""
    def make(rules, ident=None, start=True, database=None, **settings):
        entry = pg.conn(user="trust_user") if database is None else database
        pooler = make_pooler({"db": entry}, userlist=USERS, start=False)
        pooler.settings.update(auth_type="hba", auth_hba_file=pooler.path("hba"), **settings)
        pooler.write("hba", CONSOLE + rules)
        if ident is not None:
            pooler.settings["auth_ident_file"] = pooler.path("ident")
            pooler.write("ident", ident)
        return pooler.start() if start else pooler
    return make


# the rule decides the method

WAYS = {
    ("trust", "p"): [0], ("trust", "m"): [0], ("trust", "s"): [0], ("trust", "empty"): [0],
    ("password", "p"): [3, 0], ("password", "m"): [3, 0], ("password", "s"): [3, 0],
    ("md5", "p"): [5, 0], ("md5", "m"): [5, 0], ("md5", "s"): [10, 11, 12, 0],
    ("scram-sha-256", "p"): [10, 11, 12, 0], ("scram-sha-256", "s"): [10, 11, 12, 0],
}


@pytest.mark.parametrize("method, user", WAYS)
def test_right_password(ruled, method, user):
    pooler = ruled("host all all all %s\n" % method)
    with pooler.connect(user=user, secret=PLAIN) as client:
        assert client.auth_codes() == WAYS[method, user]
        assert client.value("select current_user") == "trust_user"


FAILURE = {"password": "password authentication failed", "md5": "password authentication failed",
           "scram-sha-256": "SASL authentication failed", "trust": '"trust" authentication failed',
           "reject": "login rejected", "cert": "certificate authentication failed",
           "peer": "unix socket login rejected"}


@pytest.mark.parametrize("database", ["db", "absent"])
@pytest.mark.parametrize("user", ["p", "m", "s", "empty", "unknown"])
@pytest.mark.parametrize("method", FAILURE)
def test_wrong_password(ruled, method, user, database):
    pooler = ruled("host all all all %s\n" % method)
    text = FAILURE[method]
    if method == "md5" and user == "s":
        text = FAILURE["scram-sha-256"]
    client = pooler.client(database, user, "wrong")
    if method == "trust" and user != "unknown":
        if database == "db":
            client.login().close()
            return
        text = "no such database: absent"
    with pytest.raises(wire.Refused) as refused:
        client.login()
    assert refused.value.message.raw() == wire.fields("E", codes.fatal(text))
    client.expect_closed()
    pooler.wait_log(r"closing because: %s \(age" % re.escape(text))


def test_no_rule_fits(ruled):
    pooler = ruled("host db p 10.0.0.0/8 trust\nhost db p all trust\n")
    pooler.connect(user="p").close()
    for database, user in (("db", "m"), ("absent", "p"), ("db", "unknown")):
        assert pooler.refusal(database, user, PLAIN) == "no authentication method is found"
    assert pooler.refusal(user="p", unix=True) == "no authentication method is found"


def test_the_first_rule_that_fits_counts(ruled):
    pooler = ruled("host db p 127.0.0.2/32 trust\nhost db m all reject\n"
                   "hostssl all all all trust\nhostnossl db p all md5\nhost all all all trust\n")
    with pooler.connect(user="p", secret=PLAIN) as client:
        assert client.auth_codes() == [5, 0]
    assert pooler.refusal(user="m", secret=PLAIN) == "login rejected"
    with pooler.connect(user="s") as client:
        assert client.auth_codes() == [0]


def test_replication_is_a_database_of_its_own(ruled):
    pooler = ruled("host all all all md5\nhost replication all all trust\n")
    with pooler.connect(user="p"):
        pass  # The pooler caches the server's parameters from this login.
    # Physical replication matches only a rule for replication; logical replication matches by
    # database.
    with pooler.client(user="empty", replication="true") as client:
        client.send(client.startup_packet())
        assert client.recv().raw() == wire.auth(0)
    with pooler.client(user="p", replication="database") as client:
        client.send(client.startup_packet())
        assert client.recv().body[3] == 5
    with pooler.client(user="p") as client:
        client.send(client.startup_packet())
        assert client.recv().body[3] == 5


def test_console_asks_for_rights_after_the_proof(ruled):
    pooler = ruled("host pgbouncer m,unknown all md5\nhost pgbouncer all all reject\n")
    assert pooler.admin.query("SHOW VERSION").rows
    assert pooler.refusal("pgbouncer", "p", PLAIN) == "login rejected"
    assert pooler.refusal("pgbouncer", "other", "x") == "login rejected"
    assert pooler.refusal("pgbouncer", "m", PLAIN) == "not allowed"
    for user in ("m", "unknown"):
        assert pooler.refusal("pgbouncer", user, "x") == "password authentication failed"


def test_rules_for_replication_are_not_for_the_console(ruled):
    pooler = ruled("host replication admin_user all trust\nhost all all all md5\n")
    assert pooler.refusal("pgbouncer", "admin_user", secret="mistyped 4d", replication="true") == (
        "password authentication failed")
    with pooler.connect("pgbouncer", "admin_user", replication="true") as console:
        assert console.query("SHOW VERSION").rows


def test_own_console_needs_no_rule(ruled):
    pooler = ruled("")
    done = psql(pooler, waiting.unprivileged(), "pgbouncer", "pgbouncer", "SHOW VERSION")
    assert done.stdout.startswith("PgBouncer "), done.stderr


# peer: the operating system account of a client on a unix socket


def psql(pooler, account, user, database="db", sql="select current_user"):
    """Logs in through the unix socket as this account of the operating system."""
    return subprocess.run(
        [shutil.which("psql"), "-w", "-Atc", sql,
         "host=%s port=%d dbname=%s user=%s" % (pooler.dir, pooler.port, database, user)],
        capture_output=True, text=True, env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        **waiting.run_as(account))


def test_peer(ruled):
    account = waiting.unprivileged()
    name = account.pw_name
    pooler = ruled("local all mapped peer map=m\nlocal all all peer\n",
                   "m %s p\nm %s all\n" % ("nobody-at-all", name))
    pooler.userlist.update({name: "", "mapped": "", "other": ""})
    pooler.write_files()
    pooler.reload()
    for user in (name, "mapped"):
        done = psql(pooler, account, user)
        assert done.stdout == "trust_user\n", done.stderr
    for user in ("other", "unknown"):
        assert "unix socket login rejected" in psql(pooler, account, user).stderr
    pooler.wait_log(r"WARNING .*account %s \(uid \d+\) may not log in as other" % name)


def test_peer_by_a_map_that_names_somebody_else(ruled):
    account = waiting.unprivileged()
    pooler = ruled("local all all peer map=m\n", "m somebody p\n")
    assert "unix socket login rejected" in psql(pooler, account, "p").stderr
    pooler.wait_log(r"ERROR C-0x\w+: \S+ ident map m cannot be matched$")


# errors in the files, and when the files are read


def test_bad_lines_refuse_the_start(ruled):
    pooler = ruled("host all all all kerberos\nhostx all all all trust\nhost all all trust\n"
                   "host all all all md5 map=none\nhost all p all trust\n", "broken\n", start=False)
    code, _, log = pooler.run_ini()
    assert code == 1
    for line, text in ((2, "unsupported method: buf=kerberos"), (3, "unknown type")):
        assert re.search(r"ERROR hba line %d: %s$" % (line, text), log, re.M), log
    for line in (2, 3, 4, 5):
        assert re.search(r"ERROR could not parse hba config line %d$" % line, log, re.M), log
    assert re.search(r"ERROR could not parse ident config line 1$", log, re.M)
    assert "\n\t%s:2\n" % pooler.path("hba") in log
    assert re.search(r"FATAL cannot load config file$", log, re.M), log


GOOD = {"hba": ["local all all reject", "host db m 10.0.0.0/8 reject", "host all p all trust map=m",
                "host all all all ldap ldapserver=h ldapsuffix=x ldaptls=1", "host all all all reject"],
        "ident": ["m somebody p", "m /^a$ all", "n other \"all\""]}
BROKEN = {"unknown": lambda line: "x" + line, "cut": lambda line: line.split()[0],
          "quote": lambda line: line + ' "', "more": lambda line: line + " stray,word"}


@pytest.mark.parametrize("slip", BROKEN)
@pytest.mark.parametrize("kind", GOOD)
def test_reload_fails_whole_with_any_line_broken(ruled, kind, slip):
    files = {"hba": CONSOLE + "host all p all trust\n", "ident": "m a b\n"}
    pooler = ruled(files["hba"][len(CONSOLE):], files["ident"])
    before = pooler.config()
    pooler.settings["max_client_conn"] = "77"
    pooler.write_files()
    for number in range(len(GOOD[kind])):
        lines = {name: list(lines) for name, lines in GOOD.items()}
        lines[kind][number] = BROKEN[slip](lines[kind][number])
        # A map with the name `unknown` is valid, so this line breaks the syntax instead.
        if (kind, slip) == ("ident", "unknown"):
            lines[kind][number] = '"' + lines[kind][number]
        for name in lines:
            pooler.write(name, CONSOLE * (name == "hba") + "\n".join(lines[name]) + "\n")
        mark = pooler.mark()
        assert pooler.admin.query("RELOAD", check=False).errors, lines[kind][number]
        place = "%s:%d$" % (re.escape(pooler.path(kind)), number + 1 + (kind == "hba"))
        pooler.wait_log(r"ERROR could not parse %s config line \d+\n\t%s" % (kind, place), mark)
        assert pooler.config() == before
        pooler.connect(user="p").close()
        assert pooler.refusal(user="m") == "no authentication method is found"


def test_reject_with_host_bits(ruled):
    pooler = ruled("host all m 127.0.0.5/8 reject\nhost all p 127.0.0.5/8 trust\nhost all m all trust\n")
    pooler.wait_log("WARNING address does not match mask")
    assert pooler.refusal(user="m") == "login rejected"
    assert pooler.refusal(user="p") == "no authentication method is found"


def test_check_config_lists_bad_lines(ruled):
    pooler = ruled("host all all all kerberos\nhost all p all trust\nbad\n", "one two\n",
                   start=False)
    pooler.write_files()
    code, out, _ = pooler.run("--check-config", pooler.ini)
    lines = out.splitlines()
    assert code == 1
    for place in ("%s:2: " % pooler.path("hba"), "%s:4: " % pooler.path("hba"),
                  "%s:1: " % pooler.path("ident")):
        assert len([line for line in lines if line.startswith(place)]) == 1, out


def test_missing_files_at_the_start(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, userlist=USERS, settings={
        "auth_type": "hba", "auth_hba_file": "/nonexistent/hba",
        "auth_ident_file": "/nonexistent/ident"})
    for kind in ("hba", "ident"):
        pooler.wait_log(r"ERROR could not open %s config file /nonexistent/%s: "
                        "No such file or directory$" % (kind, kind))
    assert pooler.refusal(user="p", secret=PLAIN) == "no authentication method is found"
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 1 and "auth_hba_file: could not open" in out, out


@pytest.mark.parametrize("broken", ["auth_hba_file", "auth_ident_file"])
def test_failed_reload_changes_nothing(ruled, broken):
    pooler = ruled("host all p all trust\n", "m a b\n")
    admin = pooler.admin
    before = pooler.config()
    pooler.write("hba", CONSOLE + "host all p all reject\n")
    pooler.settings.update({broken: "/nonexistent/file", "max_client_conn": "77"})
    pooler.write_files()
    mark = pooler.mark()
    refused = admin.query("RELOAD", check=False).errors[0]
    assert [refused.field(c) for c in "SCM"] == [
        "ERROR", "F0000", "RELOAD failed, see logs for additional details"]
    assert "/nonexistent/file" in refused.field("D")
    pooler.wait_log("WARNING config file loading failed", mark)
    pooler.wait_log("ERROR could not open .* config file /nonexistent/file", mark)
    assert pooler.config() == before
    pooler.connect(user="p").close()


def test_reload_takes_new_rules(ruled):
    pooler = ruled("host all p all trust\n")
    with pooler.connect(user="p") as client:
        pooler.write("hba", CONSOLE + "host all p all reject\n")
        pooler.reload()
        assert client.value("select 1") == "1"
    assert pooler.refusal(user="p") == "login rejected"
    pooler.change(auth_type="md5")
    assert pooler.refusal(user="p", secret="wrong") == "password authentication failed"
    pooler.change(auth_type="hba")
    assert pooler.refusal(user="p") == "login rejected"


def test_set_loads_rules_or_is_refused(ruled):
    pooler = ruled("host all p all trust\n")
    pooler.change(auth_type="md5")
    pooler.write("other", CONSOLE + "host all p all reject\n")
    pooler.set("auth_type", "hba")
    pooler.connect(user="p").close()
    pooler.set("auth_hba_file", pooler.path("other"))
    assert pooler.refusal(user="p") == "login rejected"
    refused = pooler.admin.query("SET auth_hba_file = '/nonexistent/hba'", check=False)
    assert len(refused.errors) == 1
    assert pooler.config()["auth_hba_file"] == pooler.path("other")
    assert pooler.refusal(user="p") == "login rejected"


# host names in rules


def test_host_name(ruled):
    """The pooler resolves the name while the client waits, and keeps what the client sends
    meanwhile."""
    name = socket.gethostbyaddr("127.0.0.1")[0]
    pooler = ruled("host all m nowhere.invalid trust\nhost all p %s trust\n"
                   "host all all all password\n" % name)
    with pooler.connect(user="p") as client:
        assert client.auth_codes() == [0]
    with pooler.client(user="m") as client:
        client.send(client.startup_packet(), wire.password(PLAIN))
        client.recv_until("Z")

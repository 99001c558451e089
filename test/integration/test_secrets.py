"""No log line, view or error contains a secret. When a pooler stops, every test searches its output
(see keeper.py). The tests here provoke output that could contain secrets."""

import os
import urllib.request

import pytest

import certs
import keeper
import pam
import postgres
import programs
import slapd
import waiting
import wire

VIEWS = ("HELP CONFIG DATABASES POOLS CLIENTS SERVERS USERS VERSION PEERS LISTS MEM STATE STATS "
         "STATS_TOTALS STATS_AVERAGES TOTALS SOCKETS ACTIVE_SOCKETS").split()

PLAIN = "front door 41f"
FORCED = postgres.USERS["md5_user"][0]
TYPED = "mistyped password 77e"


def parts(secret):
    """Yields the secret and every part of it that allows a login by itself."""
    yield secret
    if secret.startswith("SCRAM-SHA-256$"):
        stored, server = secret.rsplit("$", 1)[1].split(":")
        yield stored
        yield server


@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_nothing_is_told(make_pooler, pg, auth_type):
    scram = pg.secret_of("scram_user")
    metrics = waiting.PORTS.take()
    users = {"plain_one": PLAIN, "md5_one": wire.md5_hash("md5_one", PLAIN), "scram_user": scram,
             "md5_user": FORCED, "admin_user": "admin secret 91c"}
    pooler = make_pooler(
        {"db": pg.conn(), "forced": pg.conn(user="md5_user", password=FORCED)},
        settings={"auth_type": auth_type, "verbose": 3, "stats_period": 1,
                  "metrics_listen": "127.0.0.1:%d" % metrics}, userlist=users,
        args=["-v", "-v", "-v"])
    told = []
    scram_secret = postgres.USERS["scram_user"][0]
    for database, user, secret in (
            ("forced", "plain_one", PLAIN), ("forced", "md5_one", PLAIN), ("db", "scram_user", scram_secret),
            ("forced", "scram_user", scram_secret), ("db", "md5_user", FORCED),
            ("forced", "plain_one", TYPED), ("absent", "plain_one", PLAIN), ("db", "unknown", TYPED),
            ("db", "plain_one", PLAIN)):
        client = pooler.client(database, user, secret)
        try:
            client.login()
            client.query("select 1")
        except (wire.Refused, wire.Closed):
            pass
        told += [m.raw() for m in client.login_messages]
        client.close()
    console = pooler.admin
    for view in VIEWS:
        told += [m.raw() for m in console.query("SHOW " + view).messages]
    for sql in ("SET nonsense = 'x'", "SET auth_file = '/nonexistent'", "RELOAD", "KILL_CLIENT 77"):
        told += [m.raw() for m in console.query(sql, check=False).messages]
    for accepted in ("text/plain", "application/openmetrics-text", "application/vnd.google.protobuf"):
        asked = urllib.request.Request("http://127.0.0.1:%d/metrics" % metrics, headers={"Accept": accepted})
        with urllib.request.urlopen(asked) as answer:
            told.append(answer.read())
    everything = pooler.log().encode() + b"".join(told)
    assert b"login attempt" in everything and b"pgbouncer_pools" in everything
    for secret in [PLAIN, TYPED, scram_secret, "admin secret 91c", *users.values()]:
        for part in parts(secret):
            assert part.encode() not in everything, part


def test_what_is_searched_for(make_pooler, pg, directory, pam_service):
    """The search at the end of each pooler covers the secrets of every kind that this run has
    used."""
    folder = waiting.scratch("keeper")
    key = certs.Authority(folder).issue("k", "k")
    with open(key.key_file) as pem:
        lines = pem.read().split("\n")
    waiting.discard(folder)
    role, verifier = "role secret 70f", wire.ScramKeys("kept as keys 2b").secret()
    pg.do("create role kept login password '%s'" % role)
    try:
        pooler = make_pooler({"db": pg.conn(password="of the entry 5c"), "bare": pg.conn(password="bare-secret-1")},
                             userlist={"u": "listed secret 2e", "v": verifier, "admin_user": "admin secret 91c"})
        pooler.write("hba", 'host all all all ldap ldapbindpasswd="bind secret 6d" ldapbasedn=x\n')
        pooler.refusal(user="u", secret="mistyped secret 9a")
        stored = pg.secret_of("kept")
        pooler.stop()
    finally:
        pg.do("drop role kept")
    for secret in (role, stored, verifier, "of the entry 5c", "bare-secret-1", "listed secret 2e", "bind secret 6d",
                   "mistyped secret 9a", slapd.SEARCHER_SECRET, *pam.USERS.values(), *lines[1:-2]):
        for part in parts(secret):
            assert part in keeper.SECRETS, part


@pytest.mark.parametrize("where", ["log", "console"])
def test_the_search_finds(make_pooler, pg, where):
    """A pooler that reveals a secret fails its test."""
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "md5"},
                         userlist={"u": "told secret 3b8", "admin_user": "admin secret 91c"})
    if where == "log":
        pooler.refusal(user="told secret 3b8", secret="x")
    else:
        pooler.admin.query("told secret 3b8", check=False)
    with pytest.raises(AssertionError, match="told secret 3b8"):
        pooler.stop()
    os.remove(pooler.path("stderr"))
    pooler.heard.clear()


def places_in_memory(pid, text):
    """Returns how often the bytes occur in the process's memory, except on the stack, where OpenSSL
    leaves copies for a while."""
    found = 0
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            area, rights = line.split()[:2]
            if rights.startswith("r") and "[v" not in line and "[stack]" not in line:
                begin, end = (int(part, 16) for part in area.split("-"))
                if end - begin < 1 << 28:  # Larger areas belong to a sanitizer.
                    memory.seek(begin)
                    found += memory.read(end - begin).count(text)
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="needs to see the memory of another account's process")
@pytest.mark.parametrize("user", ["plain_one", "scram_one", "unknown"])
@pytest.mark.parametrize("step", [0, 1])
def test_what_was_typed_is_not_kept(make_pooler, user, step):
    """A password that a client sent is erased, both in the receive buffer and where its parts were
    joined."""
    typed = "mistyped secret 60d %s %d" % (user, step)
    pooler = make_pooler({"db": "host=127.0.0.1 port=1"}, settings={"auth_type": "plain"},
                         userlist={"plain_one": PLAIN, "scram_one": wire.ScramKeys(PLAIN).secret(),
                                   "admin_user": "admin secret 91c"})
    with pooler.client(user=user, secret=typed) as client:
        client.send(client.startup_packet())
        client.recv_kinds("R")
        if step:
            client.send_slowly(wire.password(typed))
        else:
            client.send(wire.password(typed))
        client.expect_fatal("password authentication failed")
    assert places_in_memory(pooler.pid, PLAIN.encode()) or user == "scram_one"
    assert places_in_memory(pooler.pid, b"60d " + user.encode()) == 0


def test_broken_files_do_not_tell_either(make_pooler):
    """The message about a broken line does not contain the password on it."""
    secret = "do not repeat me 5a1"
    pooler = make_pooler(start=False)
    for text in ("[databases]\ndb = host=/tmp password='%s' nonsense=1\n[pgbouncer]\n" % secret,
                 "[databases]\ndb = host=/tmp password='%s' port=x\n[pgbouncer]\n" % secret):
        for args in ([], ["-t"]):
            code, out, err = pooler.run_ini(text, *args)
            assert code == 1 and secret not in out + err
    pooler.write_files()
    pooler.write("userlist.txt", '"user" "%s" \n"other "%s"\n' % (secret, secret))
    _, out, err = pooler.run("-t", pooler.ini)
    assert secret not in out + err


def test_secrets_of_removed_users_are_gone(make_pooler, pg):
    """After a reload that removes the user, the old password is refused, and no longer in memory."""
    may_look = os.getuid() == 0
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "md5"},
                         userlist={"u": PLAIN, "admin_user": "admin secret 91c"})
    pooler.connect(user="u", secret=PLAIN).close()
    assert not may_look or places_in_memory(pooler.pid, PLAIN.encode()) > 0
    pooler.userlist.pop("u")
    pooler.write_files()
    pooler.reload()
    if may_look:
        waiting.wait_for(lambda: places_in_memory(pooler.pid, PLAIN.encode()) == 0, "it is erased")
    assert pooler.refusal(user="u", secret=PLAIN) == "password authentication failed"
    assert pooler.refusal(user="u", secret="md5") == "password authentication failed"


@pytest.mark.skipif(os.getuid() != 0, reason="needs to see the process as another account does")
def test_environment_and_command_line(pooler):
    with open("/proc/%d/cmdline" % pooler.pid, "rb") as line:
        assert b"secret" not in line.read()
    assert programs.psql(pooler, "-c", "select 1") == "1\n"

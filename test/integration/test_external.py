"""Passwords that another system checks: an LDAP directory or PAM (configuration.md 11)."""

import contextlib
import re
import socket

import pytest

import codes
import pam
import slapd
import waiting
import wire

SECRETS = {uid: secret for uid, _, secret in slapd.USERS}
ADMIN = "admin secret 91c"
# The number of checks that run at a time, and the number of clients that wait for one.
THREADS, QUEUE = 4, 20


def options(port, host="127.0.0.1"):
    return 'ldapserver=%s ldapport=%d ldapprefix="uid=" ldapsuffix=",%s"' % (host, port, slapd.PEOPLE)


def search(port):
    return 'ldapserver=127.0.0.1 ldapport=%d ldapbasedn="%s" ldapbinddn="%s" ldapbindpasswd="%s"' % (
        port, slapd.BASE, slapd.SEARCHER, slapd.SEARCHER_SECRET)


@pytest.fixture
def judged(make_pooler, pg):
    """judged(rules=None, **settings) returns a pooler; with rules its auth_type is hba."""
    def make(rules=None, database=None, env=None, userlist=None, **settings):
        pooler = make_pooler({"db": database or pg.conn(user="trust_user")}, start=False, env=env,
                             userlist=dict({"admin_user": ADMIN, "p": "p secret"}, **(userlist or {})))
        if rules is not None:
            settings.update(auth_type="hba", auth_hba_file=pooler.path("hba"))
            pooler.write("hba", "host pgbouncer admin_user all md5\n" + rules)
        pooler.settings.update(settings)
        return pooler.start()
    return make


@pytest.fixture
def deaf():
    """Returns the port of a directory that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield listener.getsockname()[1]


def told(pooler, database, user, secret, **more):
    """Returns the raw answer to a login that fails."""
    client = pooler.client(database, user, secret, **more)
    with client:
        with pytest.raises(wire.Refused) as refused:
            client.login()
        client.expect_closed()
        return refused.value.message.raw()


LDAP_FAILED = wire.fields("E", codes.fatal("LDAP authentication failed"))
PAM_FAILED = wire.fields("E", codes.fatal("PAM authentication failed"))


# LDAP


@pytest.mark.parametrize("how", [options, search])
@pytest.mark.parametrize("by_rule", [False, True])
def test_ldap(judged, directory, how, by_rule):
    text = how(directory.port)
    pooler = judged("host all all all ldap %s\n" % text) if by_rule else judged(
        auth_type="ldap", auth_ldap_options=text, admin_users="ann")
    with pooler.connect(user="ann", secret=SECRETS["ann"]) as client:
        assert client.auth_codes() == [3, 0]
        assert client.value("select current_user") == "trust_user"
    for database in ("db", "absent"):
        for user, secret in (("ann", "wrong"), ("unknown", "x"), ("p", "p secret")):
            assert told(pooler, database, user, secret) == LDAP_FAILED
    assert pooler.refusal("absent", "ann", SECRETS["ann"]) == "no such database: absent"
    client = pooler.client(user="ann", secret="")
    with client, pytest.raises(wire.Refused) as refused:
        client.login()
    assert refused.value.text == "empty password returned by client"
    pooler.wait_log("WARNING C-.* LDAP")
    assert SECRETS["ann"] not in pooler.log() and slapd.SEARCHER_SECRET not in pooler.log()


def test_users_are_made_when_they_have_proven_themselves(judged, directory):
    pooler = judged("host all all all ldap %s\n" % options(directory.port))
    assert told(pooler, "db", "unknown", "x") == LDAP_FAILED
    pooler.connect(user="ann", secret=SECRETS["ann"]).close()
    names = [row["name"] for row in pooler.show("USERS")]
    assert "ann" in names and "unknown" not in names


@pytest.mark.parametrize("how", [options, search])
def test_no_spelling_of_a_name_evades_a_rule(judged, directory, how):
    """The directory takes all of these for ann, and the server is the same for everybody."""
    pooler = judged("host all ann all reject\nhost all all all ldap %s\n" % how(directory.port))
    for user in ("ann", "ANN", "Ann", "ann ", " ann", "a\u00adnn", "\uff41nn", "a\\6en", "ann,"):
        with pytest.raises(wire.Refused):
            pooler.connect(user=user, secret=SECRETS["ann"])
    assert pooler.log().count("a rule names the user in another spelling") >= 4
    pooler.connect(user="bob", secret=SECRETS["bob"]).close()


def test_a_name_stays_in_its_part_of_the_dn(judged, directory):
    """With a prefix, a name with a comma could lead to another branch of the directory."""
    text = 'ldapserver=127.0.0.1 ldapport=%d ldapprefix="uid=" ldapsuffix=",%s"' % (directory.port, slapd.BASE)
    pooler = judged("host all all all ldap %s\n" % text)
    inside = slapd.PEOPLE[:-len(slapd.BASE)].strip(",")
    assert told(pooler, "db", "ann," + inside, SECRETS["ann"]) == LDAP_FAILED


def test_ldaps_needs_no_starttls(judged, directory):
    text = options(directory.port).replace("ldapport", "ldapscheme=ldaps ldaptls=1 ldapport")
    pooler = judged("host all all all ldap %s\n" % text)
    pooler.wait_log("WARNING .*ldaptls=1 has no effect with ldaps")
    pooler = judged(auth_type="ldap", auth_ldap_options=text)
    pooler.wait_log("WARNING .*ldaptls=1 has no effect with ldaps")


@pytest.mark.parametrize("key", [
    'ldapbindpasswd', '"ldapbindpasswd"', 'ldapbind"passwd"', 'LDAPBINDPASSWD', 'l"dapbindpass"wd'])
def test_a_quoted_option_is_masked(judged, key):
    pooler = judged(auth_type="md5", auth_ldap_options="ldapserver=x %s=hidden1" % key)
    assert pooler.config()["auth_ldap_options"] == "ldapserver=x ldapbindpasswd=..."


def test_the_password_opens_the_server_too(judged, directory, pg):
    with pg.client() as owner:
        owner.query("set password_encryption = 'scram-sha-256'")
        owner.query("create role bob login password '%s'" % SECRETS["bob"])
    try:
        pooler = judged("host all all all ldap %s\n" % options(directory.port), database=pg.conn())
        with pooler.connect(user="bob", secret=SECRETS["bob"]) as client:
            assert client.value("select current_user") == "bob"
        assert SECRETS["bob"] not in pooler.log()
    finally:
        with pg.client() as owner:
            owner.query("drop role bob")


def test_the_password_of_the_searcher_is_not_shown(judged, directory):
    pooler = judged(auth_type="md5", auth_ldap_options=search(directory.port))
    shown = pooler.config()["auth_ldap_options"]
    assert shown == search(directory.port).split("ldapbindpasswd")[0] + "ldapbindpasswd=..."


BAD_OPTIONS = {
    "": "LDAP needs one of ldapbasedn",
    "ldapserver=x ldapsuffix=y nonsense=1": 'invalid LDAP option: "nonsense"',
    "ldapserver=x ldapsuffix=y stray ldaptls=1": "LDAP options cannot be read from character 27 on",
    "ldapserver=x ldapsuffix=y ldaptls= 1": "LDAP options cannot be read from character 27 on",
    "ldapserver=x ldapsuffix=y ldaptls=true": 'invalid LDAP option: ldaptls="true"; write 0 or 1',
}


@pytest.mark.parametrize("text", BAD_OPTIONS)
@pytest.mark.parametrize("where", ["rule", "setting"])
def test_bad_ldap_options_are_refused_at_load(judged, directory, where, text):
    """Such options would turn StartTLS off or refuse every login."""
    if where == "rule":
        good, bad = "host all all all ldap %s\n" % options(directory.port), "host all all all ldap " + text
        pooler = judged(good)
        pooler.write("hba", pooler.read("hba").replace(good, bad + "\n"))
    else:
        pooler = judged(auth_type="ldap", auth_ldap_options=options(directory.port))
        pooler.settings["auth_ldap_options"] = text
        pooler.write_files()
    mark = pooler.mark()
    pooler.signal("HUP")
    pooler.wait_log("WARNING config file loading failed", mark)
    pooler.wait_log("ERROR .*" + re.escape(BAD_OPTIONS[text]), mark)
    pooler.connect(user="ann", secret=SECRETS["ann"]).close()
    code, _, err = pooler.run_ini()
    assert code == 1 and BAD_OPTIONS[text] in err, err
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 1 and BAD_OPTIONS[text] in out, out


def test_ldap_needs_options(judged, directory):
    pooler = judged(auth_type="md5")
    assert pooler.admin.query("SET auth_type = 'ldap'", check=False).errors
    assert pooler.config()["auth_type"] == "md5"
    pooler.set("auth_ldap_options", options(directory.port))
    pooler.set("auth_type", "ldap")
    pooler.connect(user="ann", secret=SECRETS["ann"]).close()


def test_auth_user_does_not_go_together_with_ldap(judged, pg, directory):
    pooler = judged("host all all all ldap %s\n" % options(directory.port),
                    database=pg.conn(user="trust_user") + " auth_user=owner")
    assert pooler.refusal(user="ann", secret=SECRETS["ann"]) == "bouncer config error"


def test_console_rights_come_after_the_directory(judged, directory):
    pooler = judged(auth_type="ldap", auth_ldap_options=options(directory.port), admin_users="ann")
    with pooler.connect("pgbouncer", "ann", SECRETS["ann"]) as console:
        assert console.query("SHOW VERSION").rows
    assert pooler.refusal("pgbouncer", "bob", SECRETS["bob"]) == "not allowed"
    for user in ("ann", "bob", "nobody"):
        assert told(pooler, "pgbouncer", user, "wrong") == LDAP_FAILED


# a slow directory delays no other client


def ask(pooler, user="ann", secret="some secret"):
    """Returns a client whose password is being checked."""
    client = pooler.client(user=user, secret=secret)
    client.send(client.startup_packet())
    client.recv_kinds("R")
    client.send(wire.password(secret))
    return client


def test_a_deaf_directory_delays_nobody(judged, deaf):
    pooler = judged("host all p all md5\nhost all all all ldap %s\n" % options(deaf))
    with pooler.connect(user="p") as settled, ask(pooler) as judged_client:
        with pooler.connect(user="p") as client:
            assert client.value("select 1") == "1"
        assert settled.value("select 2") == "2"
        assert pooler.show("LISTS")
        assert not judged_client.has_data(0.001)


@pytest.mark.one_worker  # Each worker has a queue.
def test_a_full_queue_refuses(judged, deaf):
    pooler = judged("host all p all md5\nhost all all all ldap %s\n" % options(deaf))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(ask(pooler)) for _ in range(THREADS + QUEUE + 3)]
        clients[-1].expect_fatal("too many logins are waiting for external authentication", "53300")
        with pooler.connect(user="p") as client:
            assert client.value("select 1") == "1"


def test_clients_that_leave_make_room(judged, deaf):
    pooler = judged("host all p all md5\nhost all all all ldap %s\n" % options(deaf))
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(ask(pooler)) for _ in range(QUEUE)]
            assert not clients[-1].has_data(0.05)
        waiting.wait_for(lambda: [r for r in pooler.show("LISTS") if r["list"] == "login_clients"
                                  and r["items"] == "0"], "logins are gone")


def test_login_timeout_ends_the_wait(judged, deaf):
    pooler = judged("host all p all md5\nhost all all all ldap %s\n" % options(deaf),
                    client_login_timeout="0.5")
    with ask(pooler) as client:
        client.expect_fatal("client_login_timeout")


# PAM


@pytest.mark.parametrize("by_rule", [False, True])
def test_pam(judged, pam_service, by_rule):
    if by_rule:
        pooler = judged("host all all all pam\nlocal all all pam\n", env=pam_service.env())
    else:
        pooler = judged(auth_type="pam", env=pam_service.env())
    secret = pam.USERS["pam_ann"]
    for unix in (False, True):
        with pooler.connect(user="pam_ann", secret=secret, unix=unix) as client:
            assert client.auth_codes() == [3, 0]
            assert client.value("select current_user") == "trust_user"
    for database in ("db", "absent"):
        for user, wrong in (("pam_ann", "wrong"), ("unknown", "x"),
                            (pam.LOCKED, pam.USERS[pam.LOCKED])):
            assert told(pooler, database, user, wrong) == PAM_FAILED
    assert pooler.refusal("absent", "pam_ann", secret) == "no such database: absent"
    pooler.wait_log("WARNING C-.*")
    assert secret not in pooler.log()

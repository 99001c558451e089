"""EXPLAIN LOGIN on the console."""

import pytest

import wire

PLAIN = "explained secret 93"
USERS = {
    "p": PLAIN, "m": wire.md5_hash("m", PLAIN), "s": wire.ScramKeys(PLAIN).secret(), "empty": "",
    "admin_user": "admin secret 91c", "stats_user": "stats secret 5e0",
}
RULES = """host pgbouncer admin_user all md5
host pgbouncer stats_user all md5
host all p 10.0.0.0/8 reject   # far away
host all all 127.0.0.0/8 md5
host forced all all scram-sha-256
local all all peer
host named all name.invalid trust
host all ldapper all ldap ldapserver=x ldapprefix=a
"""


@pytest.fixture
def pooler(make_pooler, pg):
    made = make_pooler({"db": pg.conn(), "forced": pg.conn(user="trust_user", password="secret of entry"),
                        "asked": pg.conn(auth_user="owner", auth_dbname="db"),
                        "forced_plain": pg.conn(user="p"), "closed": pg.conn()},
                       userlist=USERS, start=False)
    made.settings.update(auth_type="hba", auth_hba_file=made.path("hba"))
    made.write("hba", RULES)
    made.start().admin.query("DISABLE closed")
    return made


def explain(console, text):
    result = console.query("EXPLAIN LOGIN " + text)
    assert result.tag == "EXPLAIN" and result.names == ["item", "value"]
    told = dict(result.rows)
    assert PLAIN not in str(told) and "secret of entry" not in str(told)
    assert not any(secret and secret in str(told) for secret in USERS.values())
    return told


def test_the_whole_way(pooler):
    told = explain(pooler.admin, "p db 127.0.0.1")
    assert told == {
        "connection": "TCP from 127.0.0.1, without TLS",
        "database": "db",
        "rule": "%s:4: host all all 127.0.0.0/8 md5" % pooler.path("hba"),
        "method": "md5",
        "client secret": "auth_file, plain password",
        "login": "possible",
        "pool": "database db, user p",
        "server user": "p",
        "server secret": "auth_file, plain password",
        "server login": "works with password, md5 and scram-sha-256",
    }


def test_another_spelling_is_rejected_as_the_login_is(make_pooler, pg):
    made = make_pooler({"db": pg.conn()}, userlist=USERS, start=False)
    made.settings.update(auth_type="hba", auth_hba_file=made.path("hba"))
    made.write("hba", "host pgbouncer all all md5\nhost all p all reject\n"
                      "host all all all ldap ldapserver=x ldapprefix=a\n")
    made.start()
    told = explain(made.admin, "P db 127.0.0.1")
    assert "this rule has the name in another spelling" in told["user"]
    with pytest.raises(wire.Refused) as refused:
        made.connect(user="P", secret=PLAIN)
    assert told["login"] == "refused: " + refused.value.text


def test_without_an_address_it_is_the_own_one(pooler):
    assert explain(pooler.admin, "p db;") == explain(pooler.admin, "p db '127.0.0.1'")


@pytest.mark.parametrize("text, item, value", [
    ("p db 10.1.2.3", "login", "refused: login rejected"),
    ("p db unix", "login", "possible"),
    ("p db unix", "connection", "unix socket"),
    ("unknown db ::1", "rule", "none fits"),
    ("unknown db ::1", "login", "refused: no authentication method is found"),
    ("unknown db", "login", "refused: password authentication failed"),
    ("unknown db", "client secret", "none: the user is not known"),
    ("empty db", "login", "refused: password authentication failed"),
    ("p absent", "login", "refused after its proof: no such database: absent"),
    ("m db", "server login", "works with md5; not where the server asks for scram-sha-256 or password"),
    ("s db", "login", "possible, by scram-sha-256 because of the kind of the secret"),
    ("s db", "server login", "works with scram-sha-256, by the keys of the client's own login; "
     "not where the server asks for md5 or password"),
    ("m forced 192.0.2.1", "login", "refused: SASL authentication failed"),
    ("s forced 192.0.2.1", "server secret", "password= of the database, plain password"),
    ("s forced 192.0.2.1", "server user", "trust_user, forced by the database"),
    ("s forced_plain", "server secret", "auth_file, plain password"),
    ("anybody asked", "client secret", "auth_query as user owner in database db, of the kind it finds"),
    ("anybody asked", "server secret", "what auth_query finds"),
    ("ldapper db 192.0.2.1", "client secret", "judged by the LDAP directory"),
    ("ldapper db 192.0.2.1", "server secret", "the password the client logs in with"),
    ("ldapper asked 192.0.2.1", "login", "refused: bouncer config error"),
    ("p pgbouncer", "login", "refused: not allowed"),
    ("p closed", "login", 'refused after its proof: database "closed" is disabled'),
    ("pgbouncer pgbouncer unix", "own account", "possible without any proof; what follows is for other accounts"),
    ("admin_user pgbouncer", "login", "possible"),
    ("p named 192.0.2.1", "rule", "none fits"),
    ('"p" "db" "10.0.0.1"', "method", "reject"),
])
def test_items(pooler, text, item, value):
    assert explain(pooler.admin, text)[item] == value


def test_a_database_that_a_worker_has_made(make_pooler, pg):
    """The console's own thread has no databases of clients."""
    pooler = make_pooler({"*": pg.conn()}, settings={"workers": 2})
    assert explain(pooler.admin, "trust_user made")["database"] == "made, to be made from the fallback entry *"
    with pooler.connect("made"):
        assert explain(pooler.admin, "trust_user made")["database"] == "made"


def test_host_names_are_not_looked_up(pooler):
    told = explain(pooler.admin, "p named 192.0.2.1")
    assert told["host name"].startswith("%s:7: host named all name.invalid trust: " % pooler.path("hba"))


def test_who_may_and_what_is_wrong(pooler):
    with pooler.connect("pgbouncer", "stats_user") as console:
        assert explain(console, "p db")["method"] == "md5"
    for text in ("EXPLAIN", "EXPLAIN LOGIN", "EXPLAIN LOGIN p", "EXPLAIN LOGIN p db 1 2", "EXPLAIN p db",
                 "EXPLAIN LOGIN p db = 1"):
        refused = pooler.admin.query(text, check=False).errors[0]
        assert refused.raw() == wire.error(
            "ERROR", "08P01", "invalid command '%s', use SHOW HELP;" % text)
    refused = pooler.admin.query("EXPLAIN LOGIN p db 1.2.3", check=False).errors[0]
    assert refused.raw() == wire.error("ERROR", "08P01", "not an address: 1.2.3")


def test_other_methods_of_the_whole_pooler(make_pooler, pg):
    pooler = make_pooler({"*": pg.conn(), "forced": pg.conn(user="trust_user")},
                         settings={"auth_type": "any"})
    assert explain(pooler.admin, "x forced")["rule"] == "auth_type=any"
    assert explain(pooler.admin, "x forced")["server user"] == "trust_user, forced by the database"
    assert explain(pooler.admin, "x other")["database"] == "other, to be made from the fallback entry *"
    pooler.set("auth_type", "trust")
    assert explain(pooler.admin, "x other")["login"] == 'refused: "trust" authentication failed'
    pooler.set("auth_type", "scram-sha-256")
    assert explain(pooler.admin, "x other")["login"] == "refused: SASL authentication failed"
    assert not [row for row in pooler.show("DATABASES") if row["name"] == "other"]


@pytest.mark.parametrize("text, item, value", [
    ("x other", "pool", "database other, user trust_user"),
    ("x other", "server user", "trust_user, forced by the database"),
    ("x other", "server secret", "password= of the database, plain password"),
    ("x other", "client secret", "auth_query as user owner in database where, of the kind it finds"),
    ("x other", "login", "possible"),
    ("x %s" % (60 * "n"), "login", "possible"),
])
def test_what_the_fallback_says(make_pooler, pg, text, item, value):
    pooler = make_pooler({"*": pg.conn(user="trust_user", password="secret of entry", auth_user="owner",
                                       auth_dbname="where")}, settings={"auth_type": "md5"})
    assert explain(pooler.admin, text)[item] == value


def test_a_fallback_that_cannot_be_read(make_pooler):
    pooler = make_pooler({"*": "nonsense=1"}, settings={"auth_type": "any"})
    told = explain(pooler.admin, "x other")
    assert told["login"] == "refused after its proof: no such database: other"


def test_console_for_anybody(make_pooler, pg):
    """With auth_type=any every user may read the console."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "any"})
    assert explain(pooler.admin, "anybody pgbouncer")["login"] == "possible"
    assert pooler.connect("pgbouncer", "anybody").query("SHOW VERSION").rows


def test_passwords_without_channel_binding(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "plain", "client_channel_binding": "require"},
                         userlist=USERS, start=False)
    with pooler.start().console(user="admin_user", unix=True) as console:
        told = explain(console, "p db 127.0.0.1")["login"]
        assert told == "refused: " + pooler.refusal(user="p", secret=PLAIN)
        assert explain(console, "p db unix")["login"] == "possible"

"""Settings per database and per user, and startup parameters of a database entry."""
import wire

TRANSACTION = {"pool_mode": "transaction"}


def test_startup_parameters_of_an_entry(make_pooler, pg):
    """The pooler sends param.NAME with the login, so that RESET restores this value."""
    pooler = make_pooler(
        {"db": pg.conn() + " param.search_path='pg_catalog, public' param.geqo=off"},
        settings=TRANSACTION)
    with pooler.connect("db") as client:
        assert client.value("show search_path") == "pg_catalog, public"
        assert client.value("show geqo") == "off"
        client.query("set search_path = public")
        client.query("reset search_path")
        assert client.value("show search_path") == "pg_catalog, public"


def test_a_changed_startup_parameter_replaces_servers(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn() + " param.geqo=off"}, settings=TRANSACTION)
    with pooler.connect("db") as client:
        assert client.value("show geqo") == "off"
        pooler.databases["db"] = pg.conn() + " param.geqo=on"
        pooler.change()
        assert client.value("show geqo") == "on"


def test_what_the_server_does_not_know_is_its_error(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn() + " param.no_such_parameter=1"})
    assert "no_such_parameter" in pooler.refusal("db")


def test_timeouts_of_a_database(make_pooler, pg):
    """query_timeout of one database does not affect the other, and RELOAD changes it at once."""
    pooler = make_pooler({"short": pg.conn() + " query_timeout=1", "long": pg.conn()},
                         settings=TRANSACTION)
    with pooler.connect("short") as short, pooler.connect("long") as long:
        short.send(wire.query("select pg_sleep(30)"))
        short.expect_fatal("query timeout")
        assert long.value("select 1 from pg_sleep(1.5)") == "1"
    pooler.databases["short"] = pg.conn()
    pooler.change()
    with pooler.connect("short") as short:
        assert short.value("select 1 from pg_sleep(1.5)") == "1"


def test_idle_servers_of_a_database(make_pooler, pg):
    pooler = make_pooler({"short": pg.conn() + " server_idle_timeout=1", "long": pg.conn()},
                         settings=TRANSACTION)
    for name in ("short", "long"):
        with pooler.connect(name) as client:
            client.query("select 1")
    pooler.wait_pool("short", sv_idle=0)
    pooler.wait_pool("long", sv_idle=1)

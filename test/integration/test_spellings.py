"""Values of parameters as clients spell them: what the pooler tells, and what is in force, is what
PostgreSQL makes of them on a direct connection."""

import pytest

import wire

TRANSACTION = {"pool_mode": "transaction"}
EXTRA = "IntervalStyle, default_transaction_read_only, search_path, scram_iterations"

# Each parameter that PostgreSQL reports and a client may set, at spellings that PostgreSQL takes.
SPELLINGS = {
    "DateStyle": ["ISO", "iso", "MDY", "dmy", "YMD", "SQL", "sql,dmy", "German", "german, mdy",
                  "Postgres", "postgresql, european", "us", "NonEuropean", "ISO, MDY", " iso ,  ymd ",
                  "default", ""],
    "client_encoding": ["UTF8", "utf-8", "Unicode", "LATIN1", "iso-8859-1", "ISO88591", "win1252",
                        "windows-1252", "EUC_JP", "eucjp", "SQL_ASCII", "sql_ascii", "SJIS", "KOI8"],
    "TimeZone": ["UTC", "utc", "Europe/Berlin", "europe/berlin", "EUROPE/BERLIN", "est5edt", "-3",
                 "5.5", "<+02>-02", "foo4", "Zulu", "<UTC+1>-1"],
    "standard_conforming_strings": ["on", "off", "1", "0", "true", "FALSE", "yes", "n", "tr", "of"],
    "application_name": ["mine", "Mine", "", "it's", "back\\slash", "x" * 63, "x" * 64, "x" * 200,
                         "tab\there", "caf\u00e9", "\u65e5\u672c", "\u00e9" * 7],
    "IntervalStyle": ["postgres", "POSTGRES", "Iso_8601", "sql_standard", "postgres_verbose"],
    "default_transaction_read_only": ["on", "off", "1", "tr", "no", "FALSE"],
    "search_path": ["public", "a, b", "a,b", "A,b", '"A", b', '"$user",public', "", "user", "''"],
    "scram_iterations": ["4096", "5000", "0x1400", " 6000 "],
}
WRONG = {
    "DateStyle": ["nonsense", "iso, sql"],
    "client_encoding": ["utf-99", ""],
    "TimeZone": ["No/Such_Zone", "", "caf\u00e9"],
    "standard_conforming_strings": ["2", "", "o"],
    "IntervalStyle": ["iso", ""],
    "search_path": ["a,,b", '"a'],
    "scram_iterations": ["0", "many"],
}
# What a client may have left on the only server before.
LEFT = ["set datestyle = 'SQL, DMY'", "set client_encoding = 'LATIN2'", "set timezone = 'Asia/Tokyo'",
        "set intervalstyle = 'iso_8601'", "set application_name = 'left'"]


def named(parameters):
    return {name.lower(): value for name, value in parameters}


def told(client):
    """Returns what the client was told, without the parameters that only the server knows."""
    return {k: v for k, v in named(client.parameters()).items() if k in map(str.lower, SPELLINGS)}


def shown(client):
    return {name: client.query("show " + name).rows[0][0] for name in told(client)}


def news(result):
    return named(m.pair() for m in result.messages if m.kind == "S")


@pytest.fixture(params=["own", "18"])
def some_pg(request, cluster):
    if request.param == "own":
        return cluster
    import conftest
    return conftest.version(request.getfixturevalue("clusters"), request.param)


def pooled(make_pooler, server, **settings):
    return make_pooler({"db": server.conn(pool_size=1)},
                       settings=dict(TRANSACTION, track_extra_parameters=EXTRA, **settings))


def is_known(server, name):
    return name.lower() in named(server.parameters())


def leave(client):
    for sql in LEFT:
        client.query(sql)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_startup_values_as_on_a_direct_connection(make_pooler, some_pg, name):
    pooler = pooled(make_pooler, some_pg)
    other = pooler.connect()
    if not is_known(other, name):
        pytest.skip("not reported by this version")
    for value in SPELLINGS[name]:
        with some_pg.client(user="trust_user", **{name: value}) as direct:
            for _ in range(2):
                leave(other)
                with pooler.connect(**{name: value}) as client:
                    assert told(client) == told(direct), value
                    assert shown(client) == shown(direct), value
                    leave(other)
                    result = client.query("show " + name)
                    assert result.rows == direct.query("show " + name).rows, value
                    assert not news(result), value


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_set_values_as_on_a_direct_connection(make_pooler, some_pg, name):
    pooler = pooled(make_pooler, some_pg)
    other = pooler.connect()
    direct = some_pg.client(user="trust_user")
    if not is_known(direct, name):
        pytest.skip("not reported by this version")
    client = pooler.connect()
    for value in SPELLINGS[name]:
        sql = "set %s to '%s'" % (name, value.replace("'", "''"))
        leave(other)
        given, wanted = client.query(sql, check=False), direct.query(sql, check=False)
        assert news(given) == news(wanted), value
        assert bool(given.errors) == bool(wanted.errors), value
        leave(other)
        result = client.query("show " + name)
        assert result.rows == direct.query("show " + name).rows, value
        assert not news(result), value


@pytest.mark.parametrize("name", sorted(WRONG))
def test_values_that_are_refused(make_pooler, some_pg, name):
    """The login is refused with PostgreSQL's SQLSTATE, and no server connection is lost."""
    pooler = pooled(make_pooler, some_pg)
    with pooler.connect() as client:
        if not is_known(client, name):
            pytest.skip("not reported by this version")
        client.query("select 1")
    for value in WRONG[name]:
        with pytest.raises(wire.Refused) as refused:
            pooler.connect(**{name: value})
        with pytest.raises(wire.Refused) as wanted:
            some_pg.client(user="trust_user", **{name: value})
        assert refused.value.text == "invalid server parameter", value
        assert refused.value.code == wanted.value.code, value
        assert refused.value.message.field("D").lower() == wanted.value.text.lower(), value
    assert pooler.pool()["sv_idle"] == 1


@pytest.mark.timeout(240)
@pytest.mark.parametrize("order", [("UTF8", "LATIN1"), ("LATIN1", "UTF8"), ("UTF8", "EUC_JP")])
def test_values_of_clients_with_other_encodings(make_pooler, pg18, order):
    """Each client's search_path is set in its own encoding, whichever the server has before."""
    pooler = pooled(make_pooler, pg18)
    encodings = {"UTF8": ("utf-8", "caf\u00e9 \u65e5"), "LATIN1": ("latin-1", "caf\u00e9"),
                 "EUC_JP": ("euc_jp", "\u65e5\u672c")}
    clients = []
    for name in order:
        codec, path = encodings[name]
        client = pooler.connect(client_encoding=name, application_name=path)
        client.send(wire.query(('set search_path = "%s"' % path).encode(codec)))
        client.recv_until("Z")
        clients.append((client, codec, path))
    for client, codec, path in clients * 3:
        client.send(wire.query("show search_path"))
        row = [m for m in client.recv_until("Z") if m.kind == "D"][0]
        assert row.body[6:].decode(codec) == '"%s"' % path

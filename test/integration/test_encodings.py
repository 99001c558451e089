"""Values with bytes outside ASCII, for clients of different encodings. PostgreSQL 18 reports
search_path, the one parameter that most often has such bytes."""

import pytest

import wire
from test_takeover import restart, wait_end  # noqa: F401

TRANSACTION = {"pool_mode": "transaction"}
CODECS = {"UTF8": "utf-8", "LATIN1": "latin-1", "EUC_JP": "euc_jp", "SQL_ASCII": "utf-8"}
TEXTS = {"UTF8": "caf\u00e9 \u65e5", "LATIN1": "caf\u00e9", "EUC_JP": "\u65e5\u672c",
         "SQL_ASCII": "caf\u00e9"}


def pooled(make_pooler, server, **more):
    return make_pooler({"db": server.conn(pool_size=more.pop("pool_size", 1), **more)},
                       settings=TRANSACTION)


def run(client, sql, codec="utf-8"):
    """Returns all that the client is told up to ReadyForQuery, as kinds and bodies."""
    client.send(wire.query(sql.encode(codec)))
    return [(m.kind, m.body) for m in client.recv_until("Z")]


def shown_path(client):
    answer = run(client, "select pg_catalog.current_setting('search_path')")
    assert [kind for kind, _ in answer if kind != "S"] == list("TDCZ"), answer
    return [body for kind, body in answer if kind == "D"][0][6:]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("first,second", [("UTF8", "LATIN1"), ("LATIN1", "UTF8"), ("EUC_JP", "UTF8"),
                                          ("UTF8", "EUC_JP"), ("LATIN1", "SQL_ASCII")])
def test_values_stay_as_client_encoding_changes(make_pooler, pg18, first, second):
    """A value that was set under one client_encoding is the same after the client has changed it,
    also on a server that another client has used meanwhile."""
    pooler = pooled(make_pooler, pg18)
    text = TEXTS[first]
    clients = [pooler.connect(client_encoding=first), pg18.client(user="trust_user", client_encoding=first)]
    other = pooler.connect(client_encoding="LATIN1")
    told = []
    for client in clients:
        run(client, 'set search_path = "%s"' % text, CODECS[first])
        run(client, "set client_encoding = '%s'" % second)
        run(other, "set search_path = \"\u00fc\"", "latin-1")
        run(client, "set client_encoding = '%s'" % first)
        told.append([shown_path(client) for _ in range(2)])
        run(client, "set client_encoding = '%s'" % second)
        run(other, "set search_path = \"\u00fc\"", "latin-1")
        told[-1].append(run(client, "select 1"))
    assert told[0] == told[1]
    assert shown_path(other) == '"\u00fc"'.encode("latin-1")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("commands", [
    "set client_encoding = 'LATIN1'; set search_path = \"caf\u00e9\"",
    "set search_path = \"caf\u00e9\"; set client_encoding = 'LATIN1'"])
def test_values_that_are_reported_along_with_an_encoding(make_pooler, pg18, commands):
    pooler = pooled(make_pooler, pg18)
    client = pooler.connect(client_encoding="UTF8")
    other = pooler.connect(client_encoding="UTF8")
    run(client, commands)
    path = shown_path(client)
    run(other, "set search_path = 'other'")
    assert shown_path(client) == path


@pytest.mark.timeout(240)
@pytest.mark.parametrize("workers", [1, 2])
def test_values_keep_their_encoding_across_a_restart(make_pooler, pg18, restart, workers):
    """The value was set under an encoding that its client has left, and is asked for again by RESET."""
    pooler = make_pooler({"db": pg18.conn(pool_size=1)}, settings=dict(TRANSACTION, workers=workers))
    client, direct = pooler.connect(client_encoding="LATIN1"), pg18.client(
        user="trust_user", client_encoding="LATIN1")
    other = pooler.connect(client_encoding="LATIN1")
    for one in client, direct:
        run(one, "set search_path = \"caf\u00e9\"", "latin-1")
        run(one, "set client_encoding = 'UTF8'")
    for _ in range(2):
        run(other, "set search_path = \"\u00fc\"", "latin-1")
        wait_end(restart(pooler), pooler)
        assert shown_path(client) == shown_path(direct) == '"caf\u00e9"'.encode()
        assert shown_path(other) == '"\u00fc"'.encode("latin-1")


@pytest.fixture(scope="module", params=["LATIN1", "EUC_JP", "SQL_ASCII", "UTF8"])
def database(pg18, request):
    """The name of a database, and its encoding."""
    name = "in_" + request.param.lower()
    pg18.do("create database %s encoding '%s' locale 'C' template template0" % (name, request.param))
    yield name, request.param
    pg18.do("drop database %s with (force)" % name)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "EUC_JP", "SQL_ASCII"])
def test_databases_of_any_encoding(make_pooler, pg18, database, encoding):
    """A value set by a client is the same on a server that another client has used meanwhile, and told
    as a direct connection tells it. Where PostgreSQL refuses it, it does so through the pooler too."""
    name, own = database
    text = TEXTS["EUC_JP" if "EUC_JP" in (own, encoding) else "LATIN1"]
    pooler = make_pooler({"db": pg18.conn(name, pool_size=1)}, settings=TRANSACTION)
    stories = []
    other = pooler.connect(client_encoding="UTF8")
    for make in (lambda **more: pg18.client(database=name, user="trust_user", **more), pooler.connect):
        try:
            client = make(client_encoding=encoding)
        except wire.Refused as refused:
            stories.append(refused.code)
            continue
        story = [run(client, 'set search_path = "%s"' % text, CODECS[encoding])]
        run(other, "set search_path = 'other'")
        story.append(run(client, "select pg_catalog.current_setting('search_path')"))
        stories.append([[(kind, body) for kind, body in answer if kind != "E"] for answer in story])
    assert stories[0] == stories[1]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII", "LATIN1", "EUC_JP"])
@pytest.mark.parametrize("text", ["caf\u00e9", "caf\u00e9 \u65e5"])
def test_the_server_s_own_value(make_pooler, pg18, encoding, text):
    """Whoever has its encoding is told the value, and nobody gets its bytes in another one. PostgreSQL
    18 answers with errors for ever where a value that it is to report has no equivalent in the
    client_encoding; the RESET behind another client's SET must not cause that."""
    pg18.do("create database owning encoding 'UTF8' locale 'C' template template0",
            "alter database owning set search_path = \"%s\"" % text)
    try:
        pooler = make_pooler({"db": pg18.conn("owning", pool_size=1)}, settings=TRANSACTION)
        first = pooler.connect(client_encoding="UTF8")
        clients = [pooler.connect(client_encoding=encoding)]
        for _ in range(2):
            run(first, "set search_path = 'other'")
            assert [kind for kind, _ in run(clients[0], "select 1") if kind != "S"] == list("TDCZ")
            clients.append(pooler.connect(client_encoding=encoding))
        for client in clients:
            told = [m.body for m in client.login_messages if m.body.startswith(b"search_path\0")]
            wanted = [b'search_path\0"%s"\0' % text.encode()]
            assert told == (wanted if encoding in ("UTF8", "SQL_ASCII") else [])
        if encoding == "LATIN1" and "\u65e5" not in text:
            assert shown_path(clients[0]) == ('"%s"' % text).encode("latin-1")
    finally:
        pg18.do("drop database owning with (force)")

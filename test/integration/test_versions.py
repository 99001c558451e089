"""PostgreSQL 16, 17 and 18 behind the pooler, with what every application does."""

import pytest

import waiting
import wire

pytestmark = pytest.mark.timeout(240)  # The first test of a version downloads it.


@pytest.fixture(params=["transaction", "session"])
def mode(request):
    return request.param


@pytest.fixture
def pooled(make_pooler, other_pg, mode):
    return make_pooler({"db": other_pg.conn(pool_size=1 if mode == "transaction" else 4)},
                       settings={"pool_mode": mode, "max_prepared_statements": 10,
                                 "track_extra_parameters": "IntervalStyle, search_path"})


def clients(pooler, **params):
    """Returns one client of each protocol version."""
    old = pooler.connect(**params)
    new = pooler.client(**params)
    new.send(new.startup_packet(wire.PROTOCOL_3_2))
    return old, new.authenticate()


def test_simple(pooled, other_pg):
    for client in clients(pooled):
        assert client.value("show server_version") == other_pg.value("show server_version")
        result = client.query("select 1 as a; select 2; insert into pg_temp.nothing values (1)", check=False)
        assert result.rows == [("1",), ("2",)] and result.errors[0].field("C") == "42P01"
        assert client.query("").kinds() == "IZ"
        assert client.query("begin").status == "T"
        assert client.query("select 1/0", check=False).status == "E"
        assert client.query("rollback").status == "I"


def test_extended(pooled):
    for client in clients(pooled):
        client.send(wire.parse("", "select $1::int + 1"), wire.bind(values=["41"]),
                    wire.describe("P"), wire.execute(), wire.sync())
        result = client.finish()
        assert result.kinds() == "12TDCZ" and result.rows == [("42",)]
        client.send(wire.parse("", "select 1/$1::int"), wire.bind(values=["0"]),
                    wire.execute(), wire.sync(), wire.query("select 5"))
        assert client.finish().errors[0].field("C") == "22012"
        assert client.finish().value == "5"


def test_prepared(pooled):
    both = clients(pooled)
    for at, client in enumerate(both):
        client.send(wire.parse("mine", "select %d + $1::int" % at), wire.describe("S", "mine"),
                    wire.sync())
        assert client.finish().kinds() == "1tTZ"
    for turn in range(3):
        for at, client in enumerate(both):
            client.send(wire.bind(statement="mine", values=[str(turn)]), wire.execute(), wire.sync())
            result = client.finish()
            assert result.kinds() == "2DCZ" and result.rows == [(str(at + turn),)]


def test_copy(pooled):
    for client in clients(pooled):
        client.query("begin")
        client.query("create temp table t (a int, b text)")
        client.send(wire.query("copy t from stdin"))
        client.recv_kinds("G")
        client.send(*[wire.copy_data("%d\tx%d\n" % (i, i)) for i in range(1000)], wire.copy_done())
        assert client.finish().tag == "COPY 1000"
        client.send(wire.query("copy t to stdout"))
        messages = client.recv_until("Z")
        assert [m.kind for m in messages] == ["H"] + ["d"] * 1000 + ["c", "C", "Z"]
        client.send(wire.query("copy t from stdin"))
        client.recv_kinds("G")
        client.send(wire.copy_data("not a number\n"), wire.copy_done())
        assert client.finish().status == "E"
        client.query("rollback")


def test_cancel(pooled, other_pg):
    for client in clients(pooled):
        client.send(wire.query("select pg_sleep(30)"))
        waiting.wait_for(lambda: other_pg.backends("query like '%sleep(30)%' and state='active'"),
                         "runs")
        client.cancel()
        result = client.finish()
        assert result.errors[0].field("C") == "57014" and result.status == "I"
        assert client.value("select 1") == "1"
    assert not other_pg.backends("query like '%sleep(30)%' and state='active'")


def test_parameters(pooled, other_pg, mode):
    one, two = clients(pooled, DateStyle="German, DMY", TimeZone="Asia/Tokyo")
    plain = pooled.connect()
    for client in (one, two):
        assert client.value("show timezone") == "Asia/Tokyo"
        assert client.value("select date '2024-12-31'") == "31.12.2024"
        assert plain.value("show timezone") != "Asia/Tokyo"
    two.query("set intervalstyle = 'iso_8601'")
    assert one.value("select interval '1 day'") == "1 day"
    assert two.value("select interval '1 day'") == "P1D"
    assert two.query("reset timezone").tag == "RESET"
    assert two.value("show timezone") == "Asia/Tokyo"


def test_search_path_where_it_is_reported(pooled, other_pg):
    other_pg.do("create schema if not exists one", "create schema if not exists \"Two words\"")
    is_reported = int(other_pg.value("show server_version_num")) >= 180000
    asking, plain = pooled.connect(search_path='one, "Two words"'), pooled.connect()
    for client in clients(pooled):
        assert ("search_path" in dict(client.parameters())) == is_reported
    for _ in range(2):
        assert (asking.value("show search_path") == 'one, "Two words"') == is_reported
        assert plain.value("show search_path") == '"$user", public'
    if is_reported:
        asking.query("set search_path = ''")
        assert plain.value("show search_path") == '"$user", public'
        assert asking.value("show search_path") == '""'

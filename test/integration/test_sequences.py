"""session_state=keep: currval() and lastval() never tell another client's number, nor an old one."""

import pytest

import wire
from test_keep import backend, error_of, extended, make, make_shared, named, owner, simple  # noqa: F401
from test_takeover import restart, wait_end  # noqa: F401

RUNS = pytest.mark.parametrize("run", [simple, extended, named], ids=["simple", "extended", "named"])
QUERIES = pytest.mark.parametrize("query", ["select currval('here_id_seq')", "select LASTVAL()",
                                            "do $$ begin perform \"lastval\"(); end $$"])


@pytest.fixture(autouse=True)
def table(pg):
    pg.do("drop table if exists here; create table here (id serial, v int); grant all on here to public;"
          "grant all on sequence here_id_seq to public")


def insert(client, run=simple):
    result = run(client, "insert into here (v) values (1) returning id")
    assert not result.errors
    return result.rows[0][0]


def is_undefined(client, query, run=simple):
    result = run(client, query)
    return bool(result.errors) and error_of(result)["C"] == "55000"


@RUNS
@QUERIES
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_number_of_another_client(make_shared, run, query, engine, workers):  # noqa: F811
    pooler = make_shared(1, io_engine=engine, workers=workers)
    one, other = owner(pooler), owner(pooler)
    for _ in range(3):
        insert(one, run)
        insert(other, run)
        assert is_undefined(one, query, run)


@RUNS
@pytest.mark.parametrize("tracked", [0, 200])
def test_behind_begin(make_shared, run, tracked):  # noqa: F811
    """Also the first such text of a client, and also when the transaction has begun."""
    pooler = make_shared(1, max_prepared_statements=tracked)
    one, other = owner(pooler), owner(pooler)
    insert(other)
    for _ in range(2):
        assert not simple(one, "BEGIN;").errors
        assert is_undefined(one, "select lastval()", run)
        simple(one, "rollback")
        insert(other)


@RUNS
def test_in_one_transaction(make_shared, run):  # noqa: F811
    pooler = make_shared(1)
    one, other = owner(pooler), owner(pooler)
    for _ in range(3):
        insert(other)
        assert not run(one, "begin").errors
        number = insert(one, run)
        assert run(one, "select currval('here_id_seq')").rows[0][0] == number
        assert run(one, "select lastval()").rows[0][0] == number
        assert not run(one, "commit").errors


@RUNS
def test_nobody_in_between(make, run):  # noqa: F811
    pooler = make(1)
    one, other = owner(pooler), owner(pooler)
    for _ in range(2):
        number = insert(one, run)
        assert run(one, "select currval('here_id_seq')").rows[0][0] == number
        other.query("select 1")
        assert is_undefined(one, "select currval('here_id_seq')", run)
        number = insert(one, run)
        assert run(one, "select lastval()").rows[0][0] == number


def test_old_number_of_the_same_client(make):  # noqa: F811
    """It has got a newer one from another server."""
    pooler = make(2)
    one, blocker = owner(pooler), owner(pooler)
    insert(one)
    first = backend(one)
    blocker.query("begin")
    if backend(blocker) != first:
        blocker.query("rollback")
        pytest.skip("the blocker got another server")
    insert(one)
    assert backend(one) != first
    other = owner(pooler)
    other.query("begin")
    blocker.query("rollback")
    assert is_undefined(one, "select lastval()")
    assert backend(one) == first


def test_prepared_before(make):  # noqa: F811
    pooler = make(1)
    one, other = owner(pooler), owner(pooler)
    one.send(wire.parse("last", "select lastval()"), wire.sync())
    one.recv_until("Z")
    for _ in range(3):
        insert(other)
        one.send(wire.bind(statement="last"), wire.execute(), wire.sync())
        assert error_of(wire.Result(one.recv_until("Z")))["C"] == "55000"
        number = insert(one)
        one.send(wire.bind(statement="last"), wire.execute(), wire.sync())
        assert wire.Result(one.recv_until("Z")).rows[0][0] == number


def test_others_pay_nothing(make):  # noqa: F811
    pooler = make(1, verbose=2)
    one, other, reader = owner(pooler), owner(pooler), owner(pooler)
    reader.query("select lastval()", check=False)
    since = pooler.mark()
    for _ in range(3):
        insert(one)
        insert(other)
    assert "DISCARD SEQUENCES" not in pooler.log_since(since)
    reader.query("select 1")
    reader.query("select 2")
    assert pooler.log_since(since).count("DISCARD SEQUENCES") == 1


def test_with_settings(make):  # noqa: F811
    """Both go along in one message."""
    pooler = make(1, verbose=2)
    one, other = owner(pooler), owner(pooler)
    one.query("set work_mem = '1MB'")
    simple(one, "select lastval()")
    insert(other)
    since = pooler.mark()
    assert is_undefined(one, "select lastval(), current_setting('work_mem')")
    assert one.value("show work_mem") == "1MB"
    assert pooler.log_since(since).count("varcache_apply: ") == 1


def test_takeover(make, restart):  # noqa: F811
    pooler = make(1)
    one, other = owner(pooler), owner(pooler)
    one.query("begin")
    number = insert(one)
    wait_end(restart(pooler), pooler)
    assert one.value("select lastval()") == number
    one.query("commit")
    insert(other)
    one.query("begin")
    insert_elsewhere = "select count(*) from here"
    one.query(insert_elsewhere)
    assert is_undefined(one, "select lastval()")
    one.query("rollback")

"""The unnamed statement of a server belongs to the client that has parsed it (protocol.md 12)."""

import pytest

import waiting
import wire

BAD = wire.parse("bad", "select no_such_column")
NOT_TEXT = wire.message("P", b"\0select '\xff'\0\0\0")
USE = wire.bind() + wire.execute()
MINE = wire.parse("", "select 'mine'")
LATER = wire.parse("", "select 'later'")
SYNC = wire.sync()


# What a client sends while another one's unnamed statement may be on the server: lists of
# segments that are sent in one write.
SEQUENCES = {
    "bind": [[USE + SYNC]],
    "bind in a portal": [[wire.bind("c") + wire.execute("c") + SYNC]],
    "bind behind a named one": [[wire.parse("n", "select 'named'") + wire.bind("", "n") + wire.execute()
                                 + wire.close("S", "n") + USE + SYNC]],
    "describe": [[wire.describe("S") + SYNC]],
    "close": [[wire.close("S") + USE + SYNC]],
    "close first": [[wire.close("S") + SYNC, USE + SYNC]],
    "query first": [[wire.query("select 1"), USE + SYNC]],
    "failed query first": [[wire.query("select no_such_column"), USE + SYNC]],
    "skipped parse": [[BAD + MINE + USE + SYNC, USE + SYNC]],
    "skipped parse, later": [[BAD + MINE + SYNC], [USE + SYNC]],
    "failed parse": [[wire.parse("", "select no_such_column") + SYNC, USE + SYNC]],
    "failed parse, later": [[wire.parse("", "select no_such_column") + SYNC], [USE + SYNC]],
    "parse that cannot be read": [[NOT_TEXT + SYNC, USE + SYNC]],
    "parse that cannot be read, later": [[NOT_TEXT + SYNC], [USE + SYNC]],
    "own": [[MINE + USE + SYNC]],
    "own twice": [[MINE + USE + USE + SYNC], [USE + SYNC]],
    "own in a block": [[wire.query("begin")], [MINE + SYNC], [USE + SYNC], [USE + SYNC, USE + SYNC],
                       [wire.query("commit")]],
    "own, then a skipped one": [[wire.query("begin"), MINE + SYNC], [wire.query("savepoint s")],
                                [BAD + LATER + SYNC], [wire.query("rollback to s")],
                                [USE + SYNC], [wire.query("commit")]],
    "own, then a skipped one in one write": [
        [wire.query("begin"), wire.query("savepoint s"), MINE + SYNC, BAD + LATER + SYNC,
         wire.query("rollback to s"), USE + SYNC, wire.query("commit")]],
    "own, then a skipped one outside a block": [[MINE + SYNC], [BAD + LATER + SYNC], [USE + SYNC],
                                                [USE + SYNC]],
    "own, then a skipped one, step by step": [[MINE + SYNC], [BAD + wire.flush() + LATER + SYNC],
                                              [USE + SYNC]],
    "own, then one that fails": [[wire.query("begin"), MINE + SYNC], [wire.query("savepoint s")],
                                 [wire.parse("", "select no_such_column") + SYNC],
                                 [wire.query("rollback to s"), USE + SYNC], [wire.query("rollback")]],
    "own, then one that cannot be read": [[wire.query("begin"), MINE + SYNC], [wire.query("savepoint s")],
                                          [NOT_TEXT + SYNC], [wire.query("rollback to s")],
                                          [USE + SYNC], [wire.query("rollback")]],
    "own, closed": [[wire.query("begin"), MINE + SYNC], [wire.close("S") + SYNC], [USE + SYNC],
                    [wire.query("rollback")]],
    "own, then a query": [[wire.query("begin"), MINE + SYNC], [wire.query("select 1")], [USE + SYNC],
                          [wire.query("rollback")]],
    "bind in a block": [[wire.query("begin")], [USE + SYNC], [USE + SYNC], [wire.query("rollback")]],
    "bind in a failed block": [[wire.query("begin"), wire.query("select no_such_column")], [USE + SYNC],
                               [wire.query("rollback")]],
    "without a sync between": [[wire.query("begin")], [MINE + wire.flush() + USE + SYNC],
                               [BAD + USE + SYNC], [wire.query("rollback")]],
}


def play(client, bursts):
    """Sends each list of segments in one write and returns all messages of the answers."""
    heard = []
    for segments in bursts:
        client.send(*segments)
        for _ in segments:
            heard += [m.raw() for m in client.recv_until("Z")]
    return heard


KINDS = [("transaction", 200), ("transaction", 1), ("transaction", 0), ("session", 200)]


@pytest.fixture(params=KINDS, ids=lambda kind: "%s-%d" % kind)
def pooler(request, shared_pooler, make_pooler, pg):
    mode, prepared = request.param
    start = make_pooler if mode == "session" else shared_pooler  # Without server_reset_query, statements stay.
    return start({"db": pg.conn()}, settings={
        "pool_mode": mode, "max_prepared_statements": str(prepared), "default_pool_size": "1",
        "server_reset_query": ""})


@pytest.mark.parametrize("name", SEQUENCES)
def test_like_a_direct_connection(pooler, pg, name):
    with pg.client() as direct:
        wanted = play(direct, SEQUENCES[name])
    for _ in range(2):
        with pooler.connect() as other:
            other.send(wire.parse("", "select 'secret of another client'"), SYNC)
            assert other.finish().kinds() == "1Z"
        with pooler.connect() as client:
            assert play(client, SEQUENCES[name]) == wanted
    waiting.wait_for(lambda: pooler.pool()["sv_idle"] + pooler.pool()["sv_used"] == 1, "one server rests")


@pytest.mark.parametrize("size, error", [(20000, None), (2000000, None), (2200000, "26000")])
def test_long_texts(make_pooler, pg, size, error):
    """lib/pq and others send Bind behind the Sync of their Parse, whose text may be an INSERT of many rows."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    client, other = pooler.connect(), pooler.connect()
    client.send(wire.parse("", "select 'mine' -- " + "x" * size) + SYNC)
    client.finish()
    for _ in range(2):
        assert other.value("select 'other'") == "other"
        client.send(USE + SYNC)
        result = client.finish()
        assert [e.field("C") for e in result.errors] == ([error] if error else [])
        assert error or result.value == "mine"

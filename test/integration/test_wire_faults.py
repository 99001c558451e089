"""A server that sends something unexpected, in the wrong order or malformed is closed, never used
again, counted and logged; its client gets one clean error (protocol.md 11)."""

import pytest

import waiting
import wire

T, C, Z = wire.row_description([("v", 25, -1)]), wire.command_complete("SELECT 1"), wire.ready()
PARSED, BOUND, CLOSED = wire.message("1"), wire.message("2"), wire.message("3")
COPY_IN, COPY_OUT = wire.message("G", b"\0\0\0"), wire.message("H", b"\0\0\0")
QUERY = wire.query("select broken")
EXTENDED = wire.parse("", "select broken") + wire.bind() + wire.execute() + wire.sync()

UNKNOWN = "unknown pkt"

# What the log says in front of the reason.
NAMED = {
    "unknown pkt": r"unexpected pkt from server: '(.|\\x01)'( \(\w+\))?$",
    "bad packet": r"unreadable pkt from server: 'Z' \(ReadyForQuery\)$",
    "bad pkt header": r"bad pkt header from server: '[CZ]' with length \d+$",
}

# (what the client sends, what the server sends, why the pooler closes the server connection)
FAULTS = {
    "ready at once": (QUERY, Z, UNKNOWN),
    "ready within a copy": (QUERY, COPY_OUT + Z, UNKNOWN),
    "unknown type": (QUERY, T + wire.message("!", b"x"), UNKNOWN),
    "a client's type": (QUERY, T + wire.message("Q", b"x"), UNKNOWN),
    "authentication": (QUERY, T + wire.auth(0), UNKNOWN),
    "key": (QUERY, wire.backend_key(b"k" * 8), UNKNOWN),
    "extended answer to a query": (QUERY, PARSED, UNKNOWN),
    "extended answer within a query": (QUERY, T + C + BOUND, UNKNOWN),
    "copy data without a copy": (QUERY, wire.copy_data("x"), UNKNOWN),
    "end of a copy the client is sending": (QUERY, COPY_IN + C, UNKNOWN),
    "short length": (QUERY, T + b"C\0\0\0\x01", "bad pkt header"),
    "negative length": (QUERY, T + b"C\xff\xff\xff\xfe", "bad pkt header"),
    "no printable type": (QUERY, T + wire.message("\x01", b"x"), UNKNOWN),
    "ready without status": (QUERY, T + C + wire.message("Z"), "bad pkt header"),
    "ready with too much": (QUERY, T + C + wire.message("Z", b"IIII"), "bad packet"),
    "ready with a wrong status": (QUERY, T + C + wire.message("Z", b"x"), "bad packet"),
    "broken parameter": (QUERY, wire.message("S", b"abc"), "broken ParameterStatus packet"),
    "bound before parsed": (EXTENDED, BOUND, UNKNOWN),
    "parsed twice": (EXTENDED, PARSED * 2, UNKNOWN),
    "done before bound": (EXTENDED, PARSED + C, UNKNOWN),
    "closed unasked": (EXTENDED, PARSED + BOUND + CLOSED, UNKNOWN),
    "ready before done": (EXTENDED, PARSED + BOUND + Z, UNKNOWN),
    "described unasked": (EXTENDED, PARSED + BOUND + T, UNKNOWN),
}


def protocol_errors(pooler):
    return int(pooler.show_one("STATE", key="server_protocol_errors")["value"])


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_a_server(make_pooler, fake, name, mode):
    asked, answer, reason = FAULTS[name]

    def script(session):
        session.login()
        if session.number > 0:
            session.serve()
            return
        session.recv_until("QS")
        session.send(answer)
        session.recv_until("X")

    server = fake(script)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings={"pool_mode": mode})
    victim = pooler.connect()
    victim.send(asked)
    told = []
    while not told or told[-1].kind != "E":
        told.append(victim.recv())
    victim.expect_closed()
    assert [m.kind for m in told].count("E") == 1
    assert told[-1].field("S") == "FATAL" and told[-1].field("C") == "08P01"
    waiting.wait_for(lambda: server.sessions[0].ended.is_set(), "server closed")
    assert told[-1].field("M") == reason
    if reason in NAMED:
        pooler.wait_log("ERROR S-0x.* " + NAMED[reason])
    pooler.wait_log(r" S-0x\S+: db/\S+ closing because: %s \(age" % told[-1].field("M"))
    assert protocol_errors(pooler) == 1
    assert pooler.connect().value("select 1") == "fake"
    assert len(server.sessions) == 2
    assert protocol_errors(pooler) == 1


def test_requests_within_a_copy_with_syncs(make_pooler, pg):
    """PostgreSQL closes the connection after such a message, and so does the pooler."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    pg.do("create table if not exists within_copy (n int)", "grant all on within_copy to public")
    client, other = pooler.connect(), pooler.connect()
    start = wire.parse("", "copy within_copy from stdin") + wire.bind() + wire.execute()
    client.send(start, wire.sync(), wire.query("select 1"))
    assert [m.kind for m in client.recv_until("E")][:3] == ["1", "2", "G"]
    with pytest.raises(wire.Closed):
        while True:
            assert client.recv().kind == "E"
    assert other.value("select 1") == "1"


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_flush_with_a_body(make_pooler, pg, mode):
    """PostgreSQL answers it with an error, and skips what follows up to a Sync, which would be queries of the next
    client and the pooler's own."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": mode})
    for before in (b"", wire.query("select 1"), wire.query("select 1") + wire.parse("", "select 2")):
        with pooler.connect() as client:
            client.send(before + wire.message("H", b"x"))
            assert client.recv_until("E")[-1].text() == "bad packet header: '480000000578'"
            client.expect_closed()
        with pooler.connect() as other:
            assert other.value("select 3") == "3"

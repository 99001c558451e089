"""COPY, pipelines and message sizes: the pooler tracks which answers are outstanding (protocol.md
2, 11)."""

import hashlib
import random
import struct
import threading

import pytest

import waiting
import wire

TRANSACTION = {"pool_mode": "transaction"}
MODES = pytest.mark.parametrize("mode", ["session", "transaction", "statement"])


def maker(start, pg):
    def make(mode="transaction", **settings):
        return start({"db": pg.conn(pool_size=1)}, settings=dict(settings, pool_mode=mode))
    return make


@pytest.fixture
def narrow(shared_pooler, pg):
    """narrow(mode) returns a pooler with one server connection for all clients."""
    return maker(shared_pooler, pg)


@pytest.fixture
def narrow_alone(make_pooler, pg):
    """The same, for cases that measure."""
    return maker(make_pooler, pg)


@pytest.fixture
def table(pg):
    name = "t%d" % random.randrange(10 ** 9)
    pg.do("create table %s (n int, v text)" % name, "grant all on %s to public" % name)
    yield name
    pg.do("drop table %s" % name)


def copy_out(client, sql):
    """Returns (the data, the tag)."""
    client.send(wire.query(sql))
    first = client.recv()
    assert first.kind == "H", first
    data = []
    while True:
        msg = client.recv()
        if msg.kind == "d":
            data.append(msg.body)
        else:
            break
    assert msg.kind == "c"
    tag, ready = client.recv_kinds("CZ")
    return b"".join(data), tag.tag()


def copy_in(client, sql, parts, end=None):
    client.send(wire.query(sql))
    assert client.recv().kind == "G"
    for part in parts:
        client.send(wire.copy_data(part))
    client.send(end or wire.copy_done())
    return client.finish()


def in_use(pooler):
    return pooler.pool()["sv_active"]


# COPY


@MODES
@pytest.mark.parametrize("rows", [0, 1, 3000, 200000])
def test_copy_out(narrow, pg, mode, rows):
    sql = "copy (select n, repeat('x', n %% 50) from generate_series(1, %d) n) to stdout" % rows
    with pg.client() as direct:
        expected = copy_out(direct, sql)
    client = narrow(mode).connect()
    assert copy_out(client, sql) == expected
    assert expected[1] == "COPY %d" % rows
    assert client.value("select 1") == "1"


@MODES
@pytest.mark.parametrize("rows, piece", [(0, 1), (1, 1), (200, 1), (200, 7), (50000, 8191),
                                         (50000, 200000)])
def test_copy_in(narrow, pg, table, mode, rows, piece):
    data = b"".join(b"%d\tvalue %d\n" % (n, n) for n in range(rows))
    pooler = narrow(mode)
    client = pooler.connect()
    parts = (data[at:at + piece] for at in range(0, len(data), piece))
    result = copy_in(client, "copy %s from stdin" % table, parts)
    assert result.kinds() == "CZ" and result.tag == "COPY %d" % rows
    other = pooler.connect() if mode != "session" else client
    assert other.value("select count(*) from %s" % table) == str(rows)


def test_copy_in_byte_by_byte_on_the_wire(narrow, table):
    client = narrow().connect()
    stream = (wire.query("copy %s from stdin" % table) + wire.copy_data("1\ta\n") + wire.copy_data("")
              + wire.copy_data("2\tb\n") + wire.copy_done() + wire.query("select 5"))
    client.send_slowly(stream)
    assert "".join(m.kind for m in client.recv_until("Z")) == "GCZ"
    assert client.finish().value == "5"


@MODES
def test_copy_fail(narrow, table, mode):
    pooler = narrow(mode)
    client = pooler.connect()
    result = copy_in(client, "copy %s from stdin" % table, [b"1\ta\n"], wire.copy_fail("changed my mind"))
    assert result.kinds() == "EZ" and result.errors[0].field("C") == "57014"
    assert client.value("select count(*) from %s" % table) == "0"
    if mode != "session":
        pooler.wait_pool(sv_active=0)


@MODES
def test_copy_that_the_server_ends(narrow, table, mode):
    """The client still sends data when the server has reported an error. No other client is
    affected."""
    pooler = narrow(mode)
    client = pooler.connect()
    client.send(wire.query("copy %s from stdin" % table))
    client.recv_kinds("G")
    client.send(wire.copy_data("not a number\tx\n"))
    for _ in range(2000):
        client.send(wire.copy_data("1\t" + "y" * 500 + "\n"))
    result = client.finish()
    assert result.kinds() == "EZ" and result.errors[0].field("C") == "22P02"
    client.send(wire.copy_data("1\tlate\n") * 100 + wire.copy_done())
    assert client.value("select 7") == "7"
    assert client.value("select count(*) from %s" % table) == "0"
    if mode != "session":
        pooler.wait_pool(sv_active=0)
        assert pooler.connect().value("select 8") == "8"


@pytest.mark.parametrize("late", [wire.copy_data("x"), wire.copy_done(), wire.copy_fail("x"),
                                  wire.copy_data("x") * 500 + wire.copy_done()])
def test_copy_messages_out_of_place(narrow, table, late):
    pooler = narrow()
    client, other = pooler.connect(), pooler.connect()
    client.query("select 1")
    client.send(late)
    assert other.value("select 2") == "2"
    assert client.value("select 3") == "3"
    copy_in(client, "copy %s from stdin" % table, [b"1\ta\n"], wire.copy_fail("no"))
    client.send(late)
    assert other.value("select 4") == "4"
    assert client.value("select 5") == "5"
    pooler.wait_pool(sv_active=0, cl_waiting=0)


def test_late_copy_data_of_many_clients(narrow, table):
    """Clients go on sending COPY data after an error, and no server connection is lost."""
    pooler = narrow()
    for _ in range(30):
        client = pooler.connect()
        client.send(wire.query("copy %s from stdin" % table), wire.copy_data("bad\n") * 3,
                    wire.copy_fail("x"), wire.copy_data("late\n"), wire.copy_done())
        client.recv_until("Z")
        client.close()
    pooler.wait_pool(sv_active=0, cl_active=0, cl_waiting=0)
    assert pooler.connect().value("select 1") == "1"


LATE = [wire.copy_data("late\n") * 3, wire.copy_done(), wire.copy_fail("late"),
        wire.copy_data("late\n") + wire.copy_done() + wire.copy_fail("late")]


@MODES
@pytest.mark.parametrize("late", LATE)
def test_late_copy_messages_in_the_extended_protocol(narrow, table, mode, late):
    """Late COPY messages after a CopyFail, after an error, or after the Sync are ignored, and no
    server connection is lost."""
    pooler = narrow(mode)
    client, other = pooler.connect(), pooler.connect()
    start = wire.parse("", "copy %s from stdin" % table) + wire.bind() + wire.execute()
    client.send(start, wire.copy_fail("no"), late, wire.sync(), late)
    client.recv_kinds("12GEZ")
    client.send(start, wire.copy_data("bad\n"), late, wire.sync(), late, wire.sync())
    client.recv_kinds("12GEZZ")
    if mode != "session":
        assert other.value("select 1") == "1"
    client.send(late, wire.query("select 2"))
    client.recv_kinds("TDCZ")
    if mode != "session":
        pooler.wait_pool(sv_active=0, cl_waiting=0)


ASK = wire.parse("", "select 'behind'") + wire.bind() + wire.execute()
BAD_ROW, GOOD_ROW = wire.copy_data("bad\trow\n"), wire.copy_data("1\ta\n")


@MODES
@pytest.mark.parametrize("rest", [
    wire.sync() + BAD_ROW + wire.copy_done() + ASK + wire.sync(),
    BAD_ROW + wire.sync() + wire.copy_done() + ASK + wire.sync(),
    wire.sync() + BAD_ROW + wire.sync() + wire.sync() + wire.copy_done() + ASK + wire.sync(),
    wire.sync() + BAD_ROW + wire.copy_done() + wire.query("select 1") + ASK + wire.sync(),
    wire.sync() + BAD_ROW + wire.copy_done() + wire.sync() + ASK + wire.sync(),
    wire.sync() + wire.copy_fail("no") + ASK + ASK + wire.sync() + ASK + wire.sync(),
    wire.sync() + GOOD_ROW + wire.copy_done() + ASK + wire.sync(),
])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("simple", [False, True])
def test_syncs_within_a_copy_that_fails(narrow, pg, table, mode, rest, waits, simple):
    """The number of Syncs that the server read during the COPY decides what it skips and how many
    ReadyForQuery it sends."""
    sql = "copy %s from stdin" % table
    start = wire.query(sql) if simple else (
        wire.parse("", sql) + wire.bind() + wire.execute() + wire.flush())
    told = []
    for client in (pg.client("trust_user"), narrow(mode).connect()):
        with client:
            client.send(start, *([] if waits else [rest]))
            messages = client.recv_until("G")
            if waits:
                client.send(rest)
            client.send(wire.query("select 'the end'"))
            while not messages[-1].body.endswith(b"the end"):
                messages.append(client.recv())
            told.append("".join(m.kind for m in messages))
    assert told[0] == told[1]


def test_copy_in_the_extended_protocol(narrow, table):
    pooler = narrow()
    client = pooler.connect()
    start = (wire.parse("", "copy %s from stdin" % table) + wire.bind() + wire.execute())
    client.send(start, wire.copy_data("1\ta\n"), wire.copy_done(), wire.sync())
    assert "".join(m.kind for m in client.recv_until("Z")) == "12GCZ"
    # A Sync before the end of COPY gets no ReadyForQuery.
    client.send(start, wire.sync(), wire.copy_data("2\tb\n"), wire.copy_done(), wire.sync())
    assert "".join(m.kind for m in client.recv_until("Z")) == "12GCZ"
    client.send(start, wire.copy_data("x\n"), wire.copy_done(), wire.sync())
    assert "".join(m.kind for m in client.recv_until("Z")) == "12GEZ"
    pooler.wait_pool(sv_active=0)
    assert client.value("select count(*) from %s" % table) == "2"


def test_other_clients_wait_for_the_copy(narrow, table):
    pooler = narrow()
    client, other = pooler.connect(), pooler.connect()
    client.send(wire.query("copy %s from stdin" % table))
    client.recv_kinds("G")
    other.send(wire.query("select count(*) from %s" % table))
    pooler.wait_pool(cl_waiting=1)
    for number in range(5):
        client.send(wire.copy_data("%d\tx\n" % number))
    assert not other.has_data(0.2)
    client.send(wire.copy_done())
    assert client.finish().tag == "COPY 5"
    assert other.finish().value == "5"


def test_copy_both_ways_in_one_query(narrow, table):
    client = narrow().connect()
    client.send(wire.query("copy %s from stdin; select 1; copy %s to stdout; select 2" % (table, table)))
    client.recv_kinds("G")
    client.send(wire.copy_data("1\ta\n"), wire.copy_done())
    kinds = "".join(m.kind for m in client.recv_until("Z"))
    assert kinds == "CTDCHdcCTDCZ"


# COPY data that is split at any byte


STREAM = (wire.query("select 1") + wire.parse("", "select $1::int + 1", (23,))
          + wire.bind("", "", ["41"]) + wire.describe("P") + wire.execute() + wire.sync()
          + wire.query("begin; select 2; commit") + wire.query(""))
ANSWER = "TDCZ12TDCZCTDCCZIZ"


@pytest.mark.parametrize("pkt_buf", [75, 4096])
def test_client_messages_cut_at_every_byte(narrow, pkt_buf):
    pooler = narrow(pkt_buf=pkt_buf)
    client, other = pooler.connect(), pooler.connect()
    for at in range(1, len(STREAM)):
        client.send(STREAM[:at])
        if at % 16 == 0:
            waiting.wait_read(client.sock)  # The two parts have to arrive separately.
        client.send(STREAM[at:])
        client.recv_kinds(ANSWER)
    assert other.value("select 3") == "3"
    client.send_slowly(STREAM)
    client.recv_kinds(ANSWER)


def test_server_messages_cut_at_every_byte(make_pooler, fake):
    reply = (wire.row_description([("a", 25, -1), ("b", 23, 4)]) + wire.data_row(["x" * 30, None])
             + wire.parameter_status("TimeZone", "UTC")
             + wire.fields("N", [("S", "NOTICE"), ("C", "00000"), ("M", "hello")])
             + wire.data_row(["", "5"]) + wire.command_complete("SELECT 2") + wire.ready())

    def script(session):
        session.login()
        for at in range(1, len(reply)):
            session.recv_until("Q")
            session.send(reply[:at])
            if at % 16 == 0:
                waiting.wait_read(session.sock)  # The two parts have to arrive separately.
            session.send(reply[at:])
        session.recv_until("Q")
        session.send_slowly(reply)
        session.recv_until("X")

    pooler = make_pooler({"db": fake(script).conn()}, settings=TRANSACTION)
    client = pooler.connect()
    for _ in range(len(reply)):
        client.send(wire.query("go"))
        assert client.recv_exact(len(reply)) == reply


# pipelines


ONE = wire.parse("", "select 1") + wire.bind() + wire.execute() + wire.sync()
BAD = wire.parse("", "select nonsense") + wire.bind() + wire.execute() + wire.sync()


@MODES
def test_many_syncs(narrow, mode):
    pooler = narrow(mode)
    client = pooler.connect()
    client.send(ONE * 200)
    client.recv_kinds("12DCZ" * 200)
    if mode != "session":
        pooler.wait_pool(sv_active=0)


def test_errors_in_a_pipeline(narrow):
    client = narrow().connect()
    client.send(ONE, BAD, ONE, BAD, BAD, ONE)
    client.recv_kinds("12DCZ" "EZ" "12DCZ" "EZ" "EZ" "12DCZ")
    late = wire.parse("", "select 1/n from generate_series(0, 0) n") + wire.bind() + wire.execute() + wire.execute() + wire.sync()
    client.send(late, ONE)
    client.recv_kinds("12EZ" "12DCZ")
    assert client.value("select 4") == "4"


def test_simple_queries_in_a_row(narrow):
    client = narrow().connect()
    client.send(wire.query("select 1") * 50, wire.query("nonsense"), wire.query("select 2"))
    client.recv_kinds("TDCZ" * 50 + "EZ" + "TDCZ")


def test_flush_without_sync(narrow):
    pooler = narrow()
    client, other = pooler.connect(), pooler.connect()
    client.send(wire.parse("", "select 1"), wire.bind(), wire.describe("P"), wire.execute(), wire.flush())
    client.recv_kinds("12TDC")
    other.send(wire.query("select 2"))
    pooler.wait_pool(cl_waiting=1)
    assert not other.has_data(0.2)
    client.send(wire.sync())
    client.recv_kinds("Z")
    assert other.finish().value == "2"


def test_sync_alone(narrow):
    pooler = narrow()
    client = pooler.connect()
    client.send(wire.sync() * 5)
    client.recv_kinds("ZZZZZ")
    pooler.wait_pool(sv_active=0)


def test_server_is_kept_between_sync_and_ready(narrow):
    """The server connection stays assigned until the last ReadyForQuery of a pipeline."""
    pooler = narrow()
    client, other = pooler.connect(), pooler.connect()
    slow = wire.parse("", "select pg_sleep(0.3)") + wire.bind() + wire.execute() + wire.sync()
    client.send(ONE + slow + ONE)
    client.recv_kinds("12DCZ")
    other.send(wire.query("select 2"))
    assert not other.has_data(0.1)
    client.recv_kinds("12DCZ12DCZ")
    assert other.finish().value == "2"


def test_transaction_in_a_pipeline(narrow):
    pooler = narrow()
    client, other = pooler.connect(), pooler.connect()
    client.send(wire.query("begin"), ONE, wire.query("select 2"))
    client.recv_kinds("CZ12DCZTDCZ")
    assert in_use(pooler) == 1
    client.send(wire.query("commit"), wire.query("select 3"))
    client.recv_kinds("CZTDCZ")
    assert other.value("select 4") == "4"


def test_portals_and_suspension(narrow):
    pooler = narrow()
    client = pooler.connect()
    client.send(wire.query("begin"), wire.parse("", "select generate_series(1, 5)"), wire.bind("p", ""),
                wire.execute("p", 2), wire.execute("p", 2), wire.execute("p", 2), wire.close("P", "p"),
                wire.describe("P", "p"), wire.sync(), wire.query("rollback"))
    client.recv_kinds("CZ" "12" "DDs" "DDs" "DC" "3" "E" "Z" "CZ")
    pooler.wait_pool(sv_active=0)


def test_function_call(narrow):
    client = narrow().connect()
    # OID 177 is int4pl.
    body = struct.pack("!ihhh", 177, 1, 1, 2) + struct.pack("!iiii", 4, 40, 4, 2) + struct.pack("!h", 1)
    client.send(wire.message("F", body) + wire.query("select 1"))
    messages = client.recv_kinds("VZTDCZ")
    assert messages[0].body == struct.pack("!ii", 4, 42)


def test_named_statements_in_session_mode(narrow):
    client = narrow("session").connect()
    client.send(wire.parse("s1", "select $1::text", (25,)), wire.describe("S", "s1"), wire.sync())
    client.recv_kinds("1tTZ")
    for number in range(5):
        client.send(wire.bind("", "s1", [str(number)]), wire.execute(), wire.sync())
        assert client.recv_kinds("2DCZ")[1].values() == (str(number),)
    client.send(wire.close("S", "s1"), wire.bind("", "s1", ["x"]), wire.execute(), wire.sync())
    client.recv_kinds("3EZ")


def test_notices_and_notifications(narrow):
    client = narrow("session").connect()
    client.query("listen here")
    result = client.query("do $$ begin raise notice 'n1'; raise notice 'n2'; end $$")
    assert [n.text() for n in result.notices] == ["n1", "n2"]
    other = client.query("notify here, 'payload'")
    assert "A" in other.kinds()


def random_pipeline(rand):
    """Returns random messages that every server answers with the same bytes. They end outside a
    transaction."""
    parts = []
    for _ in range(rand.randint(1, 12)):
        kind = rand.randrange(12)
        number = rand.randrange(1000)
        if kind < 3:
            parts.append(wire.query("select %d" % number))
        elif kind == 3:
            parts.append(wire.query("select %d; select nonsense; select 2" % number))
        elif kind == 4:
            parts.append(wire.query(""))
        elif kind == 5:
            parts.append(wire.query("begin; select %d" % number))
        elif kind == 6:
            parts.append(wire.query("copy (select generate_series(1, %d)) to stdout" % (number % 40)))
        elif kind == 7:
            parts.append(wire.sync())
        elif kind == 8:
            parts.append(BAD)
        elif kind == 9:
            parts.append(wire.parse("", "select $1::int", (23,)) + wire.bind("", "", ["x"])
                         + wire.execute() + wire.flush() + wire.sync())
        else:
            parts.append(wire.parse("", "select generate_series(1, $1::int)", (23,)) + wire.describe("S")
                         + wire.bind("", "", [str(number % 300)]) + wire.describe("P")
                         + wire.execute("", rand.choice([0, 0, 5])) + wire.close("P", "")
                         + rand.choice([b"", wire.flush()]) + wire.sync())
    parts.append(wire.query("rollback"))
    parts.append(wire.query("select 'the end'"))
    return b"".join(parts)


def until_the_end(client):
    """Returns every byte up to the answer of the last query."""
    got = []
    while True:
        msg = client.recv()
        got.append(msg.raw())
        if msg.kind == "D" and msg.body.endswith(b"the end"):
            return got + [m.raw() for m in client.recv_until("Z")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_random_pipelines_like_a_direct_connection(make_pooler, pg, seed, mode):
    """Several clients share one server connection. A direct connection gives the expected
    answers."""
    pooler = make_pooler({"db": pg.conn(pool_size=1 if mode == "transaction" else 10)},
                         settings={"pool_mode": mode})
    failures = []

    def run(number):
        rand = random.Random(seed * 100 + number)
        try:
            with pg.client("trust_user") as direct, pooler.connect() as client:
                for _ in range(25):
                    stream = random_pipeline(rand)
                    direct.send(stream)
                    expected = until_the_end(direct)
                    cut = rand.randrange(len(stream))
                    client.send(stream[:cut])
                    client.send(stream[cut:])
                    assert until_the_end(client) == expected
        except Exception as failure:
            failures.append((seed, number, failure))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    pooler.wait_pool(cl_active=0, cl_waiting=0, sv_active=0)


# message sizes


LIMIT = 24 << 20


def test_big_result_in_little_memory(narrow_alone):
    """A client reads a result of 60 MB late, and the pooler buffers only little of it."""
    pooler = narrow_alone()
    client = pooler.connect()
    client.query("select 1")
    before = pooler.rss()
    rows, width = 60000, 1000
    client.send(wire.query("select repeat('x', %d) from generate_series(1, %d)" % (width, rows)))
    assert client.has_data(10)
    # A pooler without flow control would read all of the result in this time.
    waiting.holds_for(lambda: pooler.rss() - before < LIMIT, 0.5, "little memory")
    count = 0
    while True:
        msg = client.recv()
        count += msg.kind == "D"
        if msg.kind == "Z":
            break
    assert count == rows
    assert pooler.rss() - before < LIMIT
    assert client.value("select 1") == "1"


def test_others_go_on_beside_a_client_that_does_not_read(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION)
    stuck, other = pooler.connect(), pooler.connect()
    stuck.send(wire.query("select repeat('x', 1000) from generate_series(1, 100000)"))
    assert stuck.has_data(10)
    for _ in range(50):
        assert other.value("select 1") == "1"
    stuck.close()
    pooler.wait_pool(sv_active=0)


@pytest.mark.parametrize("pkt_buf", [128, 4096])
def test_one_big_row(narrow_alone, pkt_buf):
    pooler = narrow_alone(pkt_buf=pkt_buf)
    client = pooler.connect()
    before = pooler.rss()
    client.send(wire.query("select repeat('x', 30000000)"))
    _, row, _, _ = client.recv_kinds("TDCZ")
    assert len(row.body) == 30000000 + 6
    assert pooler.rss() - before < LIMIT


def test_big_query_in_little_memory(narrow_alone):
    pooler = narrow_alone()
    client = pooler.connect()
    before = pooler.rss()
    size = 30000000
    sender = threading.Thread(target=client.send, args=(
        wire.query("select length('%s')" % ("y" * size)),))
    sender.start()
    assert client.finish().value == str(size)
    sender.join(10)
    assert pooler.rss() - before < LIMIT


def test_big_query_that_waits(narrow_alone):
    pooler = narrow_alone()
    holder, client = pooler.connect(), pooler.connect()
    holder.query("begin")
    before = pooler.rss()
    size = 30000000
    sender = threading.Thread(target=client.send, args=(
        wire.query("select md5('%s')" % ("z" * size)),))
    sender.start()
    pooler.wait_pool(cl_waiting=1)
    # A pooler without flow control would read all of the data in this time.
    waiting.holds_for(lambda: pooler.rss() - before < LIMIT, 0.3, "little memory")
    holder.query("commit")
    assert client.finish().value == hashlib.md5(b"z" * size).hexdigest()
    sender.join(10)


def test_big_bind(narrow):
    client = narrow().connect()
    size = 5000000
    client.send(wire.parse("", "select length($1)", (25,)), wire.bind("", "", ["b" * size]),
                wire.execute(), wire.sync())
    assert client.recv_kinds("12DCZ")[2].values() == (str(size),)


def test_thousands_of_messages_at_once(narrow):
    client = narrow().connect()
    done = []

    def read():
        for _ in range(5000):
            client.recv_kinds("12DCZ")
        done.append(True)

    reader = threading.Thread(target=read)
    reader.start()
    client.send(ONE * 5000)
    reader.join(50)
    assert done


def test_idle_clients_cost_little(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, max_client_conn=2000))
    pooler.connect().query("select 1")
    before = pooler.rss()
    clients = [pooler.connect() for _ in range(500)]
    for client in clients:
        client.query("select 1")
    assert (pooler.rss() - before) / 500 < 8192 or pooler.is_for_threads()
    for client in clients:
        client.close()
    waiting.wait_for(lambda: pooler.pool()["cl_active"] == 0, "gone")


def test_other_amounts_per_turn(pooler):
    """sbuf_loopcnt sets how often the pooler reads from one connection before it serves others.
    With every value, also when it changes, no data is lost."""
    with pooler.connect() as client:
        for value in (1, 0, 1000):
            pooler.set("sbuf_loopcnt", value)
            client.send(wire.query("select repeat('x', 1000) from generate_series(1, 3000)"))
            rows = client.finish().rows
            assert len(rows) == 3000 and {len(row[0]) for row in rows} == {1000}

"""Startup packets before authentication, with exact answers, and misplaced messages in every phase
(protocol.md 2, 3)."""

import struct

import pytest

import waiting
import wire


@pytest.fixture
def pooler(shared_pooler, pg):
    """The usual pooler, which all cases have one after the other."""
    return shared_pooler({"db": pg.conn()}, settings={"pool_mode": "transaction"})


BOTH = pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])


def packet(params, **more):
    return wire.startup(params, **more)


GOOD = [("user", "trust_user"), ("database", "db")]


def attempt(pooler, data, unix=False):
    raw = pooler.raw(unix)
    raw.send(data)
    return raw


def is_in(raw):
    """Asserts that the login succeeded."""
    return raw.recv_until("Z")[-1].body == b"I"


# encryption requests


@BOTH
@pytest.mark.parametrize("requests", [["ssl"], ["gss"], ["ssl", "gss"], ["gss", "ssl"],
                                      ["ssl", "ssl"], ["gss", "gss", "ssl", "gss"]])
def test_encryption_requests_get_n(pooler, unix, requests):
    with pooler.raw(unix) as raw:
        for name in requests:
            raw.send(wire.ssl_request() if name == "ssl" else wire.gssenc_request())
            assert raw.recv_exact(1) == b"N"
        raw.send(packet(GOOD))
        assert is_in(raw)
        raw.send(wire.query("select 1"))
        assert wire.Result(raw.recv_until("Z")).value == "1"


@pytest.mark.parametrize("request_bytes, text", [
    (wire.ssl_request(), "received unencrypted data after SSL request"),
    (wire.gssenc_request(), "received unencrypted data after GSSAPI encryption request"),
], ids=["ssl", "gss"])
@pytest.mark.parametrize("extra", [packet(GOOD), b"x"], ids=["startup", "byte"])
def test_data_behind_an_encryption_request(pooler, request_bytes, text, extra):
    raw = attempt(pooler, request_bytes + extra)
    first = raw.recv_exact(1)
    if first == b"N":
        raw.expect_fatal(text)
    else:
        raw.pending = first + raw.pending
        raw.expect_fatal(text)


def test_encryption_request_in_pieces(pooler):
    with pooler.raw() as raw:
        raw.send_slowly(wire.ssl_request())
        assert raw.recv_exact(1) == b"N"
        raw.send_slowly(packet(GOOD))
        assert is_in(raw)


# headers of startup packets


@pytest.mark.parametrize("data, text", [
    (wire.special(0x20000), "old V2 protocol not supported"),
    (wire.special(0x20000, b"x" * 288), "old V2 protocol not supported"),
    (wire.special(0x40000), "bad packet header: '0000000800040000'"),
    (wire.special(0x10000), "bad packet header: '0000000800010000'"),
    (wire.special(0), "bad packet header: '0000000800000000'"),
    (wire.special(0x12345678), "bad packet header: '0000000812345678'"),
    (struct.pack("!ii", 7, wire.PROTOCOL_3_0), "bad packet header: '0000000700030000'"),
    (struct.pack("!ii", 0, wire.PROTOCOL_3_0), "bad packet header: '0000000000030000'"),
    (struct.pack("!ii", 4, wire.SSL_REQUEST), "bad packet header: '0000000404d2162f'"),
])
def test_bad_first_headers(pooler, data, text):
    attempt(pooler, data).expect_fatal(text)


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 8, struct.pack("!ii", 65536, wire.PROTOCOL_3_0),
    struct.pack("!ii", 0x7fffffff, wire.PROTOCOL_3_0), struct.pack("!ii", -1, wire.PROTOCOL_3_0),
    b"\x00\x01" + b"\0" * 6, b"\x80\x00\x00\x08\x00\x03\x00\x00"])
def test_nonsense_first(pooler, data):
    raw = attempt(pooler, data)
    try:
        msg = raw.recv()
        assert msg.kind == "E" and msg.field("S") == "FATAL"
    except wire.Closed:
        pass
    raw.pending = b""
    raw.expect_closed()
    pooler.connect().close()


@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 20])
def test_clients_that_leave_early(pooler, length):
    data = packet(GOOD)[:length]
    attempt(pooler, data).close()
    assert pooler.connect().value("select 1") == "1"


def test_startup_in_pieces(pooler):
    with pooler.raw() as raw:
        raw.send_slowly(packet(GOOD + [("application_name", "in pieces")]))
        assert is_in(raw)


# very long and unusual packets


def test_largest_startup_packet(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"ignore_startup_parameters": "filler"})
    room = 65535 - len(packet(GOOD + [("filler", "")]))
    raw = attempt(pooler, packet(GOOD + [("filler", "x" * room)]))
    assert is_in(raw)


@pytest.mark.parametrize("pkt_buf", [75, 4096])
def test_startup_larger_than_pkt_buf(make_pooler, pg, pkt_buf):
    pooler = make_pooler({"db": pg.conn()}, settings={"pkt_buf": pkt_buf})
    with pooler.connect(application_name="a" * 5000) as client:
        assert client.value("select 1") == "1"


@pytest.mark.parametrize("field", ["user", "database", "application_name", "client_encoding", "options",
                                   "replication", "nonsense"])
@pytest.mark.parametrize("length", [1, 63, 64, 127, 128, 129, 255, 256, 1023, 1024, 8191, 60000])
def test_field_lengths(pooler, field, length):
    """Whatever the length of a field, the client gets an answer and other clients are not
    affected."""
    params = dict(GOOD)
    params[field] = "x" * length
    raw = attempt(pooler, packet(params))
    try:
        raw.recv_until("ZE")
    except wire.Closed:
        pass
    raw.close()
    assert pooler.is_running()


@pytest.mark.parametrize("auth_type", ["trust", "scram-sha-256"])
def test_field_lengths_where_every_name_is_a_database(make_pooler, pg, auth_type):
    pooler = make_pooler({"*": pg.conn()}, settings={"auth_type": auth_type, "application_name_add_host": 1})
    for field in ("user", "database", "application_name", "replication"):
        for length in (1, 62, 63, 64, 65, 127, 128, 255, 256, 1023, 4096, 65000):
            params = dict(GOOD, database="postgres")
            params[field] = "%" * length
            with attempt(pooler, packet(params)) as raw:
                try:
                    raw.recv_until("ZER")
                except wire.Closed:
                    pass
    pooler.set("auth_type", "trust")
    assert pooler.connect("postgres").value("select 1") == "1"


@pytest.mark.parametrize("params, terminator, text", [
    ([], b"\0", "no username supplied"),
    ([("database", "db")], b"\0", "no username supplied"),
    ([("user", ""), ("database", "db")], b"\0", "no username supplied"),
    (GOOD + [("nonsense", "1")], b"\0", "unsupported startup parameter: nonsense"),
    (GOOD + [("search_path", "x")], b"\0", "unsupported startup parameter: search_path"),
    (GOOD + [("extra_float_digits", "3")], b"\0",
     "unsupported startup parameter: extra_float_digits"),
    (GOOD + [("USER", "x")], b"\0", "unsupported startup parameter: USER"),
    (GOOD, b"", "invalid startup packet layout: expected terminator as last byte"),
    (GOOD, b"\0\0", "invalid startup packet layout: expected terminator as last byte"),
    (GOOD, b"\0x", "invalid startup packet layout: expected terminator as last byte"),
    (GOOD, b"name without value\0", "invalid startup packet layout: expected terminator as last byte"),
    (GOOD, b"name\0value without end", "invalid startup packet layout: expected terminator as last byte"),
    (GOOD, b"\0" + wire.startup_body(GOOD),
     "invalid startup packet layout: expected terminator as last byte"),
    ([("user", "u" * 128), ("database", "db")], b"\0", "username too long"),
])
def test_packets_that_are_refused(pooler, params, terminator, text):
    attempt(pooler, packet(params, terminator=terminator)).expect_fatal(text)


def test_unsupported_parameter_is_logged(pooler):
    attempt(pooler, packet(GOOD + [("nonsense", "val ue")])).expect_fatal(
        "unsupported startup parameter: nonsense")
    pooler.wait_log(r" WARNING C-0x\S+ \(nodb\)/\(nouser\)@\S+ unsupported startup parameter: nonsense=\"val ue\"$")


def test_database_is_the_user_when_absent(make_pooler, pg):
    pooler = make_pooler({"trust_user": pg.conn("other")})
    for params in ([("user", "trust_user")], [("user", "trust_user"), ("database", "")]):
        with attempt(pooler, packet(params)) as raw:
            assert is_in(raw)
            raw.send(wire.query("select current_database()"))
            assert wire.Result(raw.recv_until("Z")).value == "other"


@pytest.mark.parametrize("name", ["client_encoding", "Client_Encoding", "CLIENT_ENCODING"])
def test_tracked_parameters_in_any_case(pooler, name):
    with pooler.connect(**{name: "LATIN1"}) as client:
        assert dict(client.parameters())["client_encoding"] == "LATIN1"
        assert client.value("show client_encoding") == "LATIN1"


@pytest.mark.parametrize("listed", ["nonsense,extra_float_digits", "nonsense extra_float_digits",
                                    "a, nonsense ,\textra_float_digits"])
def test_ignored_parameters(make_pooler, pg, listed):
    pooler = make_pooler({"db": pg.conn()}, settings={"ignore_startup_parameters": listed})
    with pooler.connect(extra_float_digits="2", nonsense="1") as client:
        assert client.value("select 1") == "1"
    assert pooler.refusal(Nonsense="1") == "unsupported startup parameter: Nonsense"
    assert pooler.refusal(nonsens="1") == "unsupported startup parameter: nonsens"


# versions


def negotiate(newest, *names):
    return wire.message("v", struct.pack("!ii", newest, len(names))
                        + b"".join(wire.cstr(n) for n in names))


@pytest.mark.parametrize("version, newest, names", [
    (0x30001, 0x30000, []), (0x30003, 0x30002, []), (0x3FFFF, 0x30002, []),
    (0x30000, 0x30000, ["_pq_.one"]), (0x30002, 0x30002, ["_pq_.one", "_pq_.two"])])
def test_negotiation(pooler, version, newest, names):
    raw = attempt(pooler, packet(GOOD + [(n, "x") for n in names], version=version))
    assert raw.recv().raw() == negotiate(newest, *names)
    messages = raw.recv_until("Z")
    assert messages[0].raw() == wire.auth(0)
    assert not [m for m in messages if m.kind == "v"]
    raw.send(wire.query("select 1"))
    assert wire.Result(raw.recv_until("Z")).value == "1"


def test_negotiation_comes_before_authentication(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "md5"})
    raw = attempt(pooler, packet([("user", "md5_user"), ("database", "db")], version=0x30003))
    assert raw.recv().raw() == negotiate(0x30002)
    assert raw.recv().body[:4] == b"\0\0\0\x05"


def test_no_negotiation_without_need(pooler):
    for version in (wire.PROTOCOL_3_0, wire.PROTOCOL_3_2):
        assert attempt(pooler, packet(GOOD, version=version)).recv().raw() == wire.auth(0)


# options


OPTIONS = [
    ("-c application_name=one", "application_name", "one"),
    ("-capplication_name=one", "application_name", "one"),
    ("--application_name=one", "application_name", "one"),
    ("  -c   application_name=one  ", "application_name", "one"),
    ("-c application_name=with\\ space", "application_name", "with space"),
    ("-c application_name=back\\\\slash", "application_name", "back\\slash"),
    ("-c application_name=one -c application_name=two", "application_name", "two"),
    ("-c datestyle=German --application_name=x -c timezone=Asia/Tokyo", "TimeZone", "Asia/Tokyo"),
    ("", "application_name", ""),
]


@pytest.mark.parametrize("options, name, value", OPTIONS)
def test_options(pooler, options, name, value):
    with pooler.connect(options=options) as client:
        assert client.value("show " + name) == value


MALFORMED = ("unsupported options startup parameter: only '-c config=val' and '--config=val' "
             "are allowed")


@pytest.mark.parametrize("options, text", [
    ("-d 5", MALFORMED), ("-c", MALFORMED), ("-c application_name", MALFORMED),
    ("--application_name", MALFORMED), ("nonsense", MALFORMED), ("-x=1", MALFORMED),
    ("-c application_name=a -d", MALFORMED),
    ("-c search_path=x", "unsupported startup parameter in options: search_path"),
    ("--geqo=off", "unsupported startup parameter in options: geqo"),
])
def test_options_that_are_refused(pooler, options, text):
    assert pooler.refusal(options=options) == text


def test_options_that_are_ignored(make_pooler, pg):
    one = make_pooler({"db": pg.conn()}, settings={"ignore_startup_parameters": "geqo"})
    one.connect(options="-c geqo=off -c application_name=x").close()
    assert one.refusal(options="-c seq=off") == "unsupported startup parameter in options: seq"
    every = make_pooler({"db": pg.conn()}, settings={"ignore_startup_parameters": "options"})
    with every.connect(options="-c geqo=off -c application_name=x --whatever=1") as client:
        assert client.value("show application_name") == "x"
    assert every.refusal(options="-d 5") == MALFORMED


@pytest.mark.parametrize("value", ["false", "off", "0", "no", "f", "OFF", "nonsense", "n"])
def test_replication_that_is_none(pooler, value):
    with pooler.connect(replication=value) as client:
        assert client.value("select 1") == "1"
        assert pooler.show_one("CLIENTS", user="trust_user")["replication"] == "none"


# limits


def test_max_client_conn(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"max_client_conn": 3})
    clients = [pooler.connect() for _ in range(3)]
    assert pooler.refusal() == "no more connections allowed (max_client_conn)"
    assert pooler.admin.value("SHOW VERSION")
    pooler.admin.close()
    pooler.consoles.clear()
    clients.pop().close()
    pooler.wait_room()


def test_login_notice(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"login_notify_message": "be gentle"})
    notice = wire.fields("N", [("S", "NOTICE"), ("C", "00000"), ("M", "be gentle")])
    for client in (pooler.connect(), pooler.admin):
        kinds = "".join(m.kind for m in client.login_messages)
        assert kinds.endswith("KNZ")
        assert client.login_messages[-2].raw() == notice


# misplaced messages


def test_password_before_startup(pooler):
    attempt(pooler, wire.password("x")).expect_fatal("client password pkt before startup packet")


def test_second_startup_packet(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "md5"})
    raw = attempt(pooler, packet([("user", "md5_user"), ("database", "db")]))
    raw.recv_kinds("R")
    raw.send(packet([("user", "md5_user"), ("database", "db")]))
    raw.expect_fatal("client re-sent startup pkt")


FRONTEND = "BCDEFHPQSXcdfp"
REST = "".join(chr(c) for c in range(1, 256) if chr(c) not in FRONTEND)


def survives(pooler, raw):
    """Asserts that the pooler and the next client work, whatever happened to this connection."""
    raw.sock.settimeout(0.05)
    try:
        while raw.sock.recv(65536):
            pass
    except (OSError, wire.Closed):
        pass
    raw.close()
    assert pooler.is_running()


@pytest.mark.parametrize("phase", ["new", "password", "in", "transaction", "queued"])
def test_every_message_in_every_phase(make_pooler, pg, phase):
    pooler = make_pooler(
        {"db": pg.conn(user="trust_user", pool_size=1)},
        settings={"pool_mode": "transaction", "max_client_conn": 1000, "client_login_timeout": 0.5,
                  "auth_type": "md5" if phase == "password" else "trust"})
    holder = None
    if phase == "queued":
        holder = pooler.connect()
        holder.query("begin")
    for kind in FRONTEND + REST[::8]:
        for body in (b"", b"\0", b"x\0y\0\0\0\0\0", b"\xff" * 9):
            raw = pooler.raw()
            if phase != "new":
                raw.send(packet([("user", "md5_user"), ("database", "db")]))
                raw.recv_until("R" if phase == "password" else "Z")
            if phase == "transaction":
                raw.send(wire.query("begin"))
                raw.recv_until("Z")
            raw.send(wire.message(kind.encode("latin1"), body) + wire.sync())
            survives(pooler, raw) if phase != "queued" else raw.close()
    if holder:
        holder.query("commit")
        holder.close()
    good = pooler.connect(user="md5_user")
    assert good.value("select 1") == "1"


def is_copying(raw, direction):
    raw.send(packet([("user", "trust_user"), ("database", "db")]))
    raw.recv_until("Z")
    raw.send(wire.query("copy messages_in_phases %s" % direction))
    raw.recv_until("GH")


def is_on_the_console(raw, *commands):
    raw.send(packet([("user", "admin_user"), ("database", "pgbouncer")]))
    raw.recv_until("Z")
    raw.send(b"".join(wire.query(c) for c in commands))


def is_proving(raw):
    raw.send(packet([("user", "admin_user"), ("database", "scram")]))
    raw.recv_until("R")
    raw.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=abcdef"))
    raw.recv_until("R")


FURTHER_PHASES = {
    "copy in": lambda raw: is_copying(raw, "from stdin"),
    "copy out": lambda raw: is_copying(raw, "to stdout"),
    "console": is_on_the_console,
    "console that waits": lambda raw: is_on_the_console(raw, "PAUSE held"),
    "proof": is_proving,
    "welcome": lambda raw: raw.send(packet([("user", "trust_user"), ("database", "down")])),
}


@pytest.mark.parametrize("phase", FURTHER_PHASES)
def test_every_message_in_further_phases(make_pooler, pg, phase):
    pg.do("create table if not exists messages_in_phases (n int)",
          "insert into messages_in_phases select generate_series(1, 9)",
          "grant all on messages_in_phases to public")
    pooler = make_pooler(
        {"db": pg.conn(pool_size=2), "held": pg.conn(), "scram": pg.conn(), "down": "host=127.0.0.1 port=1"},
        settings={"pool_mode": "transaction", "max_client_conn": 1000, "client_login_timeout": 3,
                  "auth_type": "scram-sha-256" if phase == "proof" else "trust"})
    holder = None
    if phase == "console that waits":
        holder = pooler.connect("held")
        holder.query("begin")
    for kind in FRONTEND + REST[::8]:
        for body in (b"", b"\0", b"x\0y\0\0\0\0\0", b"\xff" * 9):
            raw = pooler.raw()
            FURTHER_PHASES[phase](raw)
            raw.send(wire.message(kind.encode("latin1"), body) + wire.sync())
            survives(pooler, raw)
    if holder:
        holder.query("commit")
        holder.close()
        pooler.wait_log("PAUSE 'held' command issued")
    if phase == "proof":
        pooler.set("auth_type", "trust")
    assert pooler.connect().value("select 1") == "1"
    pg.do("drop table messages_in_phases")


@pytest.mark.parametrize("kind", "QPBEDSHCcdfFX")
def test_other_messages_during_login(make_pooler, pg, kind):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "md5"})
    raw = attempt(pooler, packet([("user", "md5_user"), ("database", "db")]))
    raw.recv_kinds("R")
    raw.send(wire.message(kind, b"\0" * (12 if kind in "BF" else 6)))
    raw.expect_closed()
    if kind != "X":
        pooler.wait_log("closing because: bad packet")


def test_unterminated_password_waits_for_the_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "plain", "client_login_timeout": 0.5})
    raw = attempt(pooler, packet([("user", "md5_user"), ("database", "db")]))
    raw.recv_kinds("R")
    raw.send(wire.message("p", b"md5 secret 4b9"))
    raw.expect_fatal("client_login_timeout")


@pytest.mark.parametrize("kind", ["\x01", "a", "z", "!", "~", "R", "Z"])
def test_unknown_message(pooler, kind):
    client = pooler.connect()
    client.send(wire.message(kind, b"abc"))
    client.expect_fatal("unknown pkt")


def test_special_packet_after_login(pooler):
    for data in (packet(GOOD), wire.ssl_request()):
        client = pooler.connect()
        client.send(data)
        client.expect_fatal("unknown pkt")


def test_http_at_the_port_of_clients(pooler):
    mark = pooler.mark()
    with pooler.raw() as raw:
        raw.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        error = raw.recv_until("E")[-1]
    assert error.text() == "bad packet header: '474554202f6d6574' (an HTTP request)"
    assert error.field("H") == "Ask for metrics and health checks at the address of metrics_listen."
    pooler.wait_log(r"pooler error: bad packet header: '474554202f6d6574' \(an HTTP request\)", mark)


def test_what_to_do_about_an_unsupported_parameter(pooler):
    with pooler.client(nonsense="1") as client, pytest.raises(wire.Refused) as refused:
        client.login()
    assert refused.value.message.field("H").startswith("Add the parameter to ignore_startup_parameters, or to track")


@pytest.mark.parametrize("length", [0, 3, -1, -2147483648])
def test_bad_length_after_login(pooler, length):
    client = pooler.connect()
    data = b"Q" + struct.pack("!i", length) + b"abc"
    client.send(data)
    client.expect_fatal("bad packet header: '%s'" % data[:8].hex())


def test_max_packet_size(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"max_packet_size": 100})
    client = pooler.connect()
    fits = "select '%s'" % ("x" * (100 - 6 - len("select ''")))
    assert len(wire.query(fits)) == 100
    assert client.query(fits).rows
    data = wire.query(fits + " ")
    client.send(data)
    client.expect_fatal("bad packet header: '%s'" % data[:8].hex())


def test_pqexec_can_be_disabled(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"disable_pqexec": 1})
    client = pooler.connect()
    client.send(wire.parse("", "select 1"), wire.bind(), wire.execute(), wire.sync())
    client.recv_kinds("12DCZ")
    client.send(wire.query("select 1"))
    client.expect_fatal("PQexec disallowed")
    assert pooler.admin.query("SHOW VERSION").rows


# who is in is who has proven it


def other_user():
    return packet([("user", "admin_user"), ("database", "db")])


BEGINNINGS = {
    "startup packet": other_user,
    "startup packet of 3.2": lambda: packet([("user", "admin_user"), ("database", "db")], version=wire.PROTOCOL_3_2),
    "replication": lambda: packet([("user", "admin_user"), ("database", "db"), ("replication", "database")]),
    "console": lambda: packet([("user", "admin_user"), ("database", "pgbouncer")]),
    "SSLRequest": wire.ssl_request,
    "GSSENCRequest": wire.gssenc_request,
    "cancel request": lambda: wire.cancel_request(b"\0\0\0\1\0\0\0\2"),
    "old version": lambda: packet([("user", "admin_user")], version=0x20000),
}


def steps(method, user):
    """The messages of a client that proves to be this user, one after the other: functions of what came last."""
    scram = wire.ScramClient(SECRETS[user])
    if method == "scram-sha-256":
        return [lambda msg: wire.sasl_initial("SCRAM-SHA-256", scram.first()),
                lambda msg: wire.message("p", scram.final(msg.body[4:].decode()).encode())]
    if method == "md5":
        return [lambda msg: wire.password(wire.md5_answer(user, SECRETS[user], msg.body[4:8]))]
    return [lambda msg: wire.password(SECRETS[user])]


SECRETS = {"md5_user": "md5 secret", "scram_user": "scram secret", "plain_user": "plain secret"}


@pytest.mark.parametrize("database", ["db", "absent", "pgbouncer"])
@pytest.mark.parametrize("method", ["plain", "md5", "scram-sha-256"])
def test_no_later_packet_changes_who_logs_in(make_pooler, pg, method, database):
    """At each step of each exchange, alone and together with the message of that step, before and behind it."""
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={"auth_type": method, "max_client_conn": 1000})
    pooler.userlist.update(SECRETS)
    pooler.start()
    user = "plain_user"
    for name, begin in BEGINNINGS.items():
        for at in range(len(steps(method, user))):
            for order in ("alone", "before", "behind"):
                with attempt(pooler, packet([("user", user), ("database", database)])) as raw:
                    said = raw.recv()
                    messages = steps(method, user)
                    for step in messages[:at]:
                        raw.send(step(said))
                        said = raw.recv()
                    proof = messages[at](said)
                    raw.send({"alone": begin(), "before": begin() + proof, "behind": proof + begin()}[order])
                    seen = everything(raw)
                    # A proof that was whole before counts, for the user who gave it, and nobody else.
                    is_last = at == len(messages) - 1
                    assert b"Z" not in seen or (order == "behind" and is_last), (name, at, order, seen)
    assert "user=admin_user" not in pooler.log()
    assert "db/admin_user" not in pooler.log()


def everything(raw):
    """The kinds of messages that come until the connection ends."""
    kinds = b""
    raw.sock.settimeout(waiting.DEADLINE)
    try:
        while True:
            kinds += raw.recv().kind.encode()
    except (OSError, wire.Closed, IndexError):
        return kinds


SHAPES = ["-c=", "-c =", "-c =x", "--=", "--=x", "-c", "--", "-", "=", "\\", "-c \\", "-c a\\", "-c a=\\", "-c  ", " -c", "-c\\ =x",
          "-c -c", "-c -c=", "-c --", "-c -c -c=x", "--c=", "-c\t=", "-c\n", "\x0b-c=\x0c", "-c=" * 1000, "-c= " * 1000, "--= " * 1000,
          "\\" * 9999, "-c " * 3000, "-c a=b " * 1000, "=" * 9999]


@pytest.mark.parametrize("ignored", ["", "options", "geqo", ",", "=,-c"])
def test_options_of_every_shape_are_answered(make_pooler, pg, ignored):
    pooler = make_pooler({"db": pg.conn()}, settings={"ignore_startup_parameters": ignored})
    for name in ("options", "datestyle", "", "=", "-c="):
        for shape in SHAPES:
            with attempt(pooler, packet(GOOD + [(name, shape)])) as raw:
                assert everything_until(raw, "ZE"), (name, shape)
    assert pooler.connect().value("select 1") == "1"


def everything_until(raw, kinds):
    return raw.recv_until(kinds)[-1].kind in kinds


EDGES = [0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffb, 0xfffffffc, 0xfffffffe, 0xffffffff]


@pytest.mark.parametrize("most", [2147483647, 2147483648, 4294967295])
def test_lengths_at_the_edges_of_numbers(make_pooler, pg, fake, most):
    """Of each kind of message, from clients and servers, however great the greatest may be."""
    def script(session):
        session.login()
        kind = session.recv().body.decode().split("'")[1]
        length = EDGES[int(kind[1:])]
        session.send(kind[0].encode() + struct.pack("!I", length) + b"x" * 100)
        session.recv()

    server = fake(script)
    pooler = make_pooler({"db": pg.conn(), "bad": server.conn()},
                         settings={"max_packet_size": most, "pool_mode": "transaction", "query_timeout": 1, "client_login_timeout": 1})
    other = pooler.connect()
    before = pooler.rss()
    for length in EDGES:
        for kind in ["", *"pQPBDECdfcFHSX"]:
            with attempt(pooler, kind.encode() + struct.pack("!I", length) + struct.pack("!I", wire.PROTOCOL_3_0) + b"user\0x") as raw:
                assert everything(raw) in (b"", b"E")
            with pooler.connect() as client:
                client.send(kind.encode() + struct.pack("!I", length) + b"x\0y" * 30)
                assert other.value("select 1") == "1"
    for number in range(len(EDGES)):
        for kind in "TDZECSKNRAGdnst123":
            with pooler.connect("bad") as client:
                client.send(wire.query("select '%s%d'" % (kind, number)))
                waiting.wait_read(client.sock)
                assert other.value("select 1") == "1"
    assert pooler.is_for_threads() or pooler.rss() - before < 40 * 1024 * 1024

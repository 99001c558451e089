"""Scripted servers that send the same packets as PostgreSQL 9.6 to 14.

9.6 and 10 refuse protocol 3.2, later versions negotiate theirs; 9.6 has no SCRAM; versions before
14 report two parameters less."""

import struct

import pytest

import fakeserver
import waiting
import wire

KEY = b"\0\0\x30\x39\x12\x34\x56\x78"
REPORTED = [
    ("application_name", ""), ("client_encoding", "UTF8"), ("DateStyle", "ISO, MDY"),
    ("integer_datetimes", "on"), ("IntervalStyle", "postgres"), ("is_superuser", "off"),
    ("server_encoding", "UTF8"), ("session_authorization", "app"),
    ("standard_conforming_strings", "on"), ("TimeZone", "UTC")]
SINCE_14 = [("default_transaction_read_only", "off"), ("in_hot_standby", "off")]
VERSIONS = ["9.6.24", "10.23", "11.22", "12.22", "13.23", "14.19"]


def major(version):
    return float(version.rsplit(".", 1)[0])


def parameters(version):
    more = SINCE_14 if major(version) >= 14 else []
    return REPORTED + more + [("server_version", version)]


def has_password(session, version, secret):
    """Uses md5 for versions without SCRAM."""
    if major(version) < 10:
        session.send(wire.auth(5, b"salt"))
        user = dict(session.startup_params())["user"]
        return session.recv().body == wire.cstr(wire.md5_answer(user, secret, b"salt"))
    session.send(wire.auth(10, wire.cstr("SCRAM-SHA-256") + b"\0"))
    server = wire.ScramServer(wire.ScramKeys(secret))
    first = session.recv().body
    assert first.startswith(b"SCRAM-SHA-256\0")
    session.send(wire.auth(11, server.first(first[18:].decode()).encode()))
    assert server.is_proven(session.recv().body.decode())
    session.send(wire.auth(12, server.final().encode()))
    return True


def plays(version, secret, answers=()):
    def script(session):
        code = session.recv_startup()
        if code == wire.CANCEL_REQUEST:
            return
        if code > wire.PROTOCOL_3_0 and major(version) < 11:
            session.send(wire.fields("E", [
                ("S", "FATAL"), ("V", "FATAL"), ("C", "0A000"),
                ("M", "unsupported frontend protocol 3.2: server supports 1.0 to 3.0"),
                ("F", "postmaster.c"), ("L", "2072"), ("R", "ProcessStartupPacket")]))
            return
        if code > wire.PROTOCOL_3_0:
            session.send(wire.message("v", struct.pack("!ii", wire.PROTOCOL_3_0, 0)))
        assert has_password(session, version, secret)
        session.own = dict(parameters(version))
        session.send(fakeserver.welcome(KEY, parameters(version)))
        session.serve(answers)

    return script


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def played(make_pooler, fake, version):
    """played(answers) returns (pooler, fake server)."""
    def make(*answers, **settings):
        server = fake(plays(version, "old secret", answers))
        database = server.conn(user="app", password="'old secret'", pool_size=1)
        return make_pooler({"db": database}, settings=dict(
            {"pool_mode": "transaction", "server_login_retry": 60}, **settings)), server

    return make


def logged_in(server):
    return [s for s in server.sessions if s.kinds().strip("p")]


def test_login(played, version):
    pooler, server = played()
    for params in ({}, {"application_name": "mine"}):
        client = pooler.connect(**params)
        told = dict(client.parameters())
        assert told.pop("application_name") == params.get("application_name", "")
        assert told == {k: v for k, v in parameters(version) if k != "application_name"}
        assert client.value("select 1") == "fake"
    assert len(logged_in(server)) == 1
    codes = [s.startup_code for s in server.sessions]
    assert codes == [wire.PROTOCOL_3_2] + [wire.PROTOCOL_3_0] * (major(version) < 11)
    assert "login failed" not in pooler.log()


def test_parameters_are_kept_apart(played):
    pooler, server = played()
    one, two = pooler.connect(timezone="Asia/Tokyo"), pooler.connect(datestyle="German")
    for client in (one, two, one):
        assert client.query("select 1").kinds() == "TDCZ"
    session, = logged_in(server)
    sets = [q for q in session.queries() if q.startswith("SET")]
    assert sets[0] == "SET TimeZone='Asia/Tokyo';"
    # The client did not set this parameter, so it has the server's own value again.
    assert sorted(sets[1].rstrip(";").split(";")) == ["RESET TimeZone", "SET DateStyle='German'"]
    # This version does not report the parameter, so the pooler does not track it.
    assert "default_transaction_read_only" not in "".join(sets)


@pytest.mark.one_worker
def test_statements(played):
    pooler, server = played()
    one, two = pooler.connect(), pooler.connect()
    for client in (one, two):
        client.send(wire.parse("s", "select 1"), wire.bind("", "s"), wire.execute(), wire.sync())
        assert client.finish().kinds() == "12CZ"
    session, = logged_in(server)
    assert session.kinds().count("P") == 1


def test_cancel(played):
    pooler, server = played(("slow", lambda session, sql: None))
    client = pooler.connect()
    client.send(wire.query("slow"))
    pooler.wait_pool(user="app", sv_active=1)
    client.cancel()
    waiting.wait_for(lambda: server.cancels() == [KEY], "the cancel request with its key")


def test_errors_without_newer_fields(played):
    pooler, _ = played(("fails", wire.error("ERROR", "22012", "division by zero") + wire.ready()))
    client = pooler.connect()
    result = client.query("fails", check=False)
    assert result.errors[0].fields() == [
        ("S", "ERROR"), ("C", "22012"), ("M", "division by zero")]
    assert client.value("select 1") == "fake"

"""TLS together with everything else: handshakes that stall or fail, session resumption, changing
revocation lists, and features that need TLS on both sides at once."""

import os
import re
import socket
import ssl
import struct
import threading

import psycopg
import pytest

import certs
import fakeserver
import postgres
import programs
import waiting
import wire

IN_TLS = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
LIMIT = 24 << 20  # The number of bytes by which a pooler may grow, whatever is sent through it.
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture
def ca():
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    authority.server = authority.issue("server", "localhost", ["localhost", "127.0.0.1"])
    authority.client = authority.issue("client", "trust_user")
    yield authority
    waiting.discard(folder)


@pytest.fixture(scope="module")
def tls_pg(pg_bin):
    """PostgreSQL that requires TLS and allows replication."""
    folder = waiting.scratch("certs")
    server = postgres.Postgres(pg_bin)
    server.authority = certs.Authority(folder, "servers")
    pair = server.authority.issue("server", "localhost", ["localhost", "127.0.0.1"])
    try:
        server.create()
        server.do("alter system set ssl = on",
                  "alter system set ssl_cert_file = '%s'" % pair.cert_file,
                  "alter system set ssl_key_file = '%s'" % pair.key_file,
                  "create role streamer login replication",
                  "create table item (n int, note text)", "grant all on item to public")
        server.set_hba(["local all all trust", "hostssl replication all 127.0.0.1/32 trust",
                        "hostssl all all 127.0.0.1/32 trust"])
        yield server
    finally:
        server.remove()
        waiting.discard(folder)


@pytest.fixture
def tls_pooler(make_pooler, ca):
    def make(databases, **settings):
        pooler = make_pooler(databases, start=False, settings={
            "pool_mode": "transaction", "client_tls_sslmode": "prefer",
            "client_tls_cert_file": ca.server.cert_file, "client_tls_key_file": ca.server.key_file,
            "client_tls_ca_file": ca.file, "server_login_retry": "0.1", **settings},
            userlist={"trust_user": "", "second_user": "", "streamer": "",
                      "admin_user": "admin secret 91c"})
        pooler.quarantine_mb = 4  # The quarantine is small because some tests measure memory.
        return pooler.start()
    return make


@pytest.fixture
def both(tls_pooler, tls_pg):
    """A pooler with TLS towards clients and servers, each with its own certificate authority."""
    def make(**settings):
        text = postgres.connstr(host="localhost", port=tls_pg.port, dbname="postgres")
        return tls_pooler({"db": text, "replication": text}, **{
            "client_tls_sslmode": "require", "server_tls_sslmode": "verify-full",
            "server_tls_ca_file": tls_pg.authority.file, **settings})
    return make


def context(ca, pair=None, version=None):
    made = ssl.create_default_context(cafile=ca.file)
    if pair:
        made.load_cert_chain(pair.cert_file, pair.key_file)
    if version:
        made.minimum_version = made.maximum_version = version
    return made


def secured(pooler, made, user="trust_user", database="db", session=None):
    """Returns a client with TLS that is not logged in."""
    client = pooler.client(database, user)
    try:
        client.send(wire.ssl_request())
        assert client.recv_exact(1) == b"S"
        client.sock = made.wrap_socket(client.sock, server_hostname="localhost", session=session)
    except BaseException:
        client.close()
        raise
    return client


def console(pooler, ca):
    return secured(pooler, context(ca), "admin_user", "pgbouncer").login()


def is_let_in(pooler, made):
    try:
        with secured(pooler, made) as client:
            client.login()
            return True
    except (ssl.SSLError, ConnectionError, wire.Closed):
        return False


# session resumption


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_session_comes_back_with_its_certificate(tls_pooler, pg, ca, version):
    """The client sends its certificate only in the first handshake, and the resumed session keeps
    it."""
    pooler = tls_pooler({"db": pg.conn()}, auth_type="cert", client_tls_sslmode="verify-full")
    made = context(ca, ca.client, version)
    with secured(pooler, made) as client:
        client.login()
        session = client.sock.session
    with secured(pooler, made, session=session) as client:
        assert client.sock.session_reused
        assert client.login().query("select current_user").value == "trust_user"
        session = client.sock.session
    with secured(pooler, made, "second_user", session=session) as client:
        assert client.sock.session_reused
        client.send(client.startup_packet())
        client.expect_fatal("certificate authentication failed")


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_session_does_not_outlive_a_reload(tls_pooler, pg, ca, version):
    """After a reload the pooler may trust other certificates, so it resumes no older session."""
    pooler = tls_pooler({"db": pg.conn()}, client_tls_sslmode="verify-ca",
                        client_tls_crl_file=ca.revoke())
    made = context(ca, ca.client, version)
    with secured(pooler, made) as client:
        client.login()
        session = client.sock.session
    ca.revoke(ca.client)
    pooler.signal("HUP")
    pooler.wait_log("got SIGHUP, re-reading config")
    with pytest.raises((ssl.SSLError, ConnectionError, wire.Closed)):
        with secured(pooler, made, session=session) as client:
            client.login()
    pooler.wait_log("TLS handshake error: .*revoked")


# changing revocation lists


def by_reload(pooler, _):
    with pooler.console(unix=True) as admin:
        assert admin.query("RELOAD").tag == "RELOAD"


def by_signal(pooler, _):
    mark = pooler.mark()
    pooler.signal("HUP")
    pooler.wait_log("got SIGHUP", mark)


def by_set(pooler, side):
    value = pooler.settings[side + "_tls_crl_file"]
    with pooler.console(unix=True) as admin:
        admin.query("SET %s_tls_crl_file = '%s'" % (side, value))


def by_itself(pooler, _):
    pooler.wait_log("certificate files have changed, using them")


WAYS = [by_reload, by_signal, by_set, by_itself]


def watched(way):
    return {"tls_reload_period": "0.05" if way is by_itself else "0"}


@pytest.mark.parametrize("way", WAYS)
def test_client_is_revoked(tls_pooler, pg, ca, way):
    pooler = tls_pooler({"db": pg.conn()}, client_tls_sslmode="verify-ca",
                        client_tls_crl_file=ca.revoke(), **watched(way))
    made = context(ca, ca.client)
    assert is_let_in(pooler, made)
    ca.revoke(ca.client)
    way(pooler, "client")
    waiting.wait_for(lambda: not is_let_in(pooler, made), "it is refused")
    pooler.wait_log("TLS handshake error: .*revoked")


@pytest.mark.parametrize("way", WAYS)
def test_server_is_revoked(tls_pooler, fake, ca, way):
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(ca.server.cert_file, ca.server.key_file)

    def script(session):
        session.tls = server_side
        try:
            fakeserver.polite(session)
        except ssl.SSLError:
            pass

    server = fake(script)
    pooler = tls_pooler({"db": "host=localhost port=%d" % server.port},
                        server_tls_sslmode="verify-full", server_tls_ca_file=ca.file,
                        server_tls_crl_file=ca.revoke(), query_wait_timeout="1", **watched(way))
    with pooler.connect() as client:
        assert client.query("select 1").value == "fake"
    ca.revoke(ca.server)
    way(pooler, "server")
    with pooler.console(unix=True) as admin:
        admin.query("RECONNECT")
    with pooler.client() as client, pytest.raises(wire.Refused) as refused:
        client.login().query("select 1")
    assert refused.value.text == "query_wait_timeout"
    pooler.wait_log("TLS handshake error: .*revoked")


# handshakes that stall or fail


def hello(made):
    """Returns the first bytes of a client's handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        made.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


STAGES = ["asked", "begun", "answered", "directly"]


def halfway(pooler, made, stage):
    raw = pooler.raw()
    first = hello(made)
    if stage != "directly":
        raw.send(wire.ssl_request())
        assert raw.recv_exact(1) == b"S"
    if stage in ("begun", "directly"):
        raw.send(first[:50])
    elif stage == "answered":
        raw.send(first)
        assert raw.recv_exact(1) == b"\x16"
    return raw


@pytest.mark.parametrize("stage", STAGES)
def test_stalled_client_handshake_is_given_up(tls_pooler, pg, ca, stage):
    pooler = tls_pooler({"db": pg.conn()}, client_login_timeout="0.5")
    with halfway(pooler, context(ca), stage) as raw:
        mark = pooler.mark()
        try:
            while raw.sock.recv(65536):
                pass
        except ConnectionError:
            pass
        pooler.wait_log("closing because: client_login_timeout", mark)


def leave(raw, by_reset):
    if by_reset:
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


@pytest.mark.parametrize("by_reset", [False, True], ids=["closed", "reset"])
def test_clients_that_leave_amid_the_handshake_are_not_worth_a_line(tls_pooler, pg, ca, by_reset):
    pooler = tls_pooler({"db": pg.conn()})
    made = context(ca)
    with console(pooler, ca) as admin:
        admin.query("SHOW LISTS")
        fds, mark = pooler.fds(), pooler.mark()
        for stage in STAGES:
            raw = halfway(pooler, made, stage)
            waiting.wait_read(raw.sock)
            leave(raw, by_reset)

        def left():
            rows = {r["list"]: r["items"] for r in admin.query("SHOW LISTS").dicts()}
            return rows["used_clients"], rows["login_clients"], pooler.fds()

        waiting.wait_for(lambda: left() == ("1", "0", fds), "all are gone")
        assert pooler.log_since(mark) == ""


def test_storm_of_half_open_handshakes(tls_pooler, pg, ca):
    pooler = tls_pooler({"db": pg.conn()}, max_client_conn="600", client_login_timeout="600")
    made = context(ca)
    with secured(pooler, made) as client, console(pooler, ca) as admin:
        client.login()
        fds = pooler.fds()
        storm = [halfway(pooler, made, STAGES[n % len(STAGES)]) for n in range(400)]
        waiting.wait_for(lambda: pooler.fds() >= fds + 400, "all are let in")
        assert client.query("select 1").value == "1"
        with secured(pooler, made) as another:
            assert another.login().query("select 1").value == "1"
        for number, raw in enumerate(storm):
            leave(raw, number % 3 == 0)
        waiting.wait_for(lambda: {r["list"]: r["items"] for r in admin.query("SHOW LISTS").dicts()}[
            "login_clients"] == "0", "nobody is left")
        waiting.wait_for(lambda: pooler.fds() <= fds + 1, "descriptors are closed")
        assert client.query("select 1").value == "1"


@pytest.mark.parametrize("answer", [b"", b"S", b"S\x16\x03\x03"])
def test_stalled_server_handshake_is_given_up(tls_pooler, fake, answer):
    def script(session):
        session.recv_exact(8)
        session.send(answer[:1])
        if answer[1:]:
            session.recv_exact(5)
            session.send(answer[1:])
        session.recv_exact(1000000)

    pooler = tls_pooler({"db": fake(script).conn()}, server_tls_sslmode="require",
                        server_connect_timeout="0.3", query_wait_timeout="1")
    assert pooler.refusal() == "query_wait_timeout"
    pooler.wait_log("closing because: connect timeout")


# negotiated parameters


@pytest.mark.parametrize("settings, version, pattern", [
    ({"client_tls_ecdhcurve": "secp384r1"}, TLS12, r"^TLSv1\.2/ECDHE-\S+/ECDH=secp384r1$"),
    ({"client_tls_ecdhcurve": "secp384r1"}, TLS13, r"^TLSv1\.3/TLS_\S+/ECDH=secp384r1$"),
    ({"client_tls_ecdhcurve": "none"}, TLS13, r"^TLSv1\.3/TLS_\S+/ECDH="),
    ({"client_tls_ciphers": "DHE-RSA-AES256-GCM-SHA384"}, TLS12,
     r"^TLSv1\.2/DHE-RSA-AES256-GCM-SHA384(/DH=\d+)?$"),
])
def test_key_exchange(tls_pooler, pg, ca, settings, version, pattern):
    pair = ca.issue("rsa", "localhost", ["localhost"], kind="rsa")
    pooler = tls_pooler({"db": pg.conn()}, client_tls_cert_file=pair.cert_file,
                        client_tls_key_file=pair.key_file, **settings)
    with secured(pooler, context(ca, version=version)) as client:
        client.login()
        shown = pooler.show_one("CLIENTS", database="db")["tls"]
        assert re.search(pattern, shown), shown


def test_no_dh(tls_pooler, pg, ca):
    pair = ca.issue("rsa", "localhost", ["localhost"], kind="rsa")
    pooler = tls_pooler({"db": pg.conn()}, client_tls_cert_file=pair.cert_file,
                        client_tls_key_file=pair.key_file, client_tls_dheparams="none",
                        client_tls_ciphers="DHE-RSA-AES256-GCM-SHA384")
    assert not is_let_in(pooler, context(ca, version=TLS12))
    assert is_let_in(pooler, context(ca, version=TLS13))


@pytest.mark.parametrize("protocols, shown", [("tlsv1.2", "TLSv1.2/ECDHE-"), ("tlsv1.3", "TLSv1.3/TLS_")])
def test_servers_show_what_was_agreed_on(both, ca, protocols, shown):
    pooler = both(server_tls_protocols=protocols, client_tls_sslmode="prefer")
    with secured(pooler, context(ca)) as client:
        client.login()
        assert client.query("select version from pg_stat_ssl where pid = pg_backend_pid()"
                            ).value == shown.split("/")[0]
        assert pooler.show_one("SERVERS")["tls"].startswith(shown)


# databases of the `*` entry


def test_settings_of_the_star_reach_the_databases_it_makes(tls_pooler, tls_pg):
    text = "host=localhost port=%d " % tls_pg.port
    pooler = tls_pooler({"*": text + "sslmode=verify-full sslrootcert=" + tls_pg.authority.file},
                        server_tls_sslmode="disable")
    with pooler.connect("postgres") as client:
        assert client.query(IN_TLS).value == "t"
        pid = client.query("select pg_backend_pid()").value
        pooler.reload()
        # The settings are unchanged, so the server connection stays.
        assert client.query("select pg_backend_pid()").value == pid
        pooler.databases["*"] = text + "sslmode=require channel_binding=disable"
        pooler.change()
        assert client.query("select pg_backend_pid()").value != pid
        pooler.databases["*"] = text + "sslmode=disable"
        pooler.change(query_wait_timeout="0.5")
        client.send(wire.query("select 1"))
        assert "no encryption" in client.recv().text()


def test_star_with_a_broken_file_changes_nothing(tls_pooler, tls_pg):
    text = "host=localhost port=%d sslmode=require" % tls_pg.port
    pooler = tls_pooler({"*": text})
    with pooler.connect("postgres") as client:
        pid = client.query("select pg_backend_pid()").value
        pooler.databases["*"] = text + " sslrootcert=/nonexistent sslmode=verify-ca"
        pooler.write_files()
        assert pooler.admin.query("RELOAD", check=False).errors
        pooler.wait_log(r"ERROR \S*pgbouncer.ini:2: TLS setup failed: failed to load CA")
        assert client.query("select pg_backend_pid()").value == pid


# TLS towards clients and servers at once


def libpq(pooler, ca, **more):
    return psycopg.connect(host="localhost", hostaddr=pooler.host, port=pooler.port, dbname="db",
                           user="trust_user", sslmode="verify-full", sslrootcert=ca.file,
                           gssencmode="disable", autocommit=True, prepare_threshold=None, **more)


def test_copy_both_ways(both, ca):
    lines = "".join("%d\t%s\n" % (n, "x" * (n % 3000)) for n in range(20000))
    with libpq(both(), ca) as conn:
        conn.execute("truncate item")
        with conn.cursor().copy("copy item from stdin") as copy:
            copy.write(lines)
        with conn.cursor().copy("copy (select * from item order by n) to stdout") as copy:
            assert b"".join(bytes(b) for b in copy).decode() == lines


def test_slow_reader_costs_little_memory(both, ca):
    pooler = both()
    with secured(pooler, context(ca)) as client, secured(pooler, context(ca)) as other:
        client.login()
        other.login().query("select 1")
        before = pooler.rss()
        client.send(wire.query("select repeat('x', 10000) from generate_series(1, 10000)"))
        client.recv_kinds("TD")
        for _ in range(20):
            assert other.query("select 1").value == "1"
        assert pooler.rss() - before < LIMIT
        rows = sum(m.kind == "D" for m in client.recv_until("Z"))
        assert rows == 9999
        assert pooler.rss() - before < LIMIT


def test_idle_clients_cost_little(both, ca):
    pooler = both(max_client_conn="1500")
    made = context(ca)
    with secured(pooler, made) as client:
        client.login().query("select 1")
        before = pooler.rss()
        clients = [secured(pooler, made).login() for _ in range(1000)]
        for other in clients:
            other.query("select 1")
        assert (pooler.rss() - before) / 1000 < 32768 or pooler.is_for_threads()
        for other in clients:
            other.close()


def test_cancel_storm(both, ca):
    """Every query that is cancelled ends at once, and no other query is hit."""
    pooler = both(default_pool_size="2")
    hit = []

    def cancel_until(conn, over):
        # A server that has not begun with the query ignores a request.
        while not over.wait(0.05):
            conn.cancel_safe()

    def sleeper():
        with libpq(pooler, ca) as conn:
            for _ in range(10):
                over = threading.Event()
                canceller = threading.Thread(target=cancel_until, args=(conn, over))
                canceller.start()
                try:
                    conn.execute("select pg_sleep(20)")
                except psycopg.errors.QueryCanceled:
                    hit.append(1)
                over.set()
                canceller.join()

    threads = [threading.Thread(target=sleeper) for _ in range(3)]
    for thread in threads:
        thread.start()
    with libpq(pooler, ca) as conn:
        while any(thread.is_alive() for thread in threads):
            assert conn.execute("select 42").fetchone() == (42,)
    assert len(hit) == 30


def test_base_backup(both, tls_pg, ca):
    pooler = both()
    folder = waiting.scratch("backup")
    try:
        target = os.path.join(folder, "data")
        programs.run(pooler, tls_pg.program("pg_basebackup"), "-D", target, "-X", "stream", "-c",
                     "fast", user="streamer", PGSSLMODE="verify-ca", PGSSLROOTCERT=ca.file)
        programs.run(pooler, tls_pg.program("pg_verifybackup"), target)
    finally:
        waiting.discard(folder)


def test_newest_everything(tls_pooler, pg18, ca):
    """PostgreSQL 18 and protocol 3.2 with long keys, direct TLS towards clients and servers, and a
    cancel request."""
    if psycopg.pq.version() < 180000:
        pytest.skip("libpq %d does not speak protocol 3.2" % psycopg.pq.version())
    pg18.do("alter system set ssl = on",
            "alter system set ssl_cert_file = '%s'" % ca.server.cert_file,
            "alter system set ssl_key_file = '%s'" % ca.server.key_file,
            "select pg_reload_conf()")
    text = postgres.connstr(host="localhost", port=pg18.port, dbname="postgres",
                            sslmode="verify-full", sslnegotiation="direct", sslrootcert=ca.file)
    pooler = tls_pooler({"db": text}, client_tls_sslmode="require")
    try:
        with libpq(pooler, ca, sslnegotiation="direct", min_protocol_version="3.2",
                   max_protocol_version="3.2") as conn:
            assert conn.execute(IN_TLS).fetchone() == (True,)
            timer = threading.Timer(0.3, conn.cancel_safe)
            timer.start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                conn.execute("select pg_sleep(20)")
            timer.join()
            assert conn.execute("select 1").fetchone() == (1,)
    finally:
        pg18.do("alter system reset all", "select pg_reload_conf()")


def test_packets_that_are_too_long(both, ca):
    pooler = both(max_packet_size="100000")
    with secured(pooler, context(ca)) as client:
        client.login()
        with pytest.raises((wire.Closed, OSError)):  # The errors of ssl are subclasses of OSError.
            client.send(wire.query("select '%s'" % ("x" * 200000)))
            while client.recv().kind == "E":
                pass
    with secured(pooler, context(ca)) as client:
        assert client.login().query("select 1").value == "1"


# console commands


def test_pause_and_resume(both, ca):
    pooler = both()
    with secured(pooler, context(ca)) as client, console(pooler, ca) as admin:
        client.login().query("select 1")
        admin.query("PAUSE")
        client.send(wire.query("select 2"))
        waiting.wait_for(lambda: admin.query("SHOW POOLS").dicts()[0]["cl_waiting"] == "1", "it waits")
        admin.query("RESUME")
        assert client.finish().value == "2"


def test_kill_is_told_inside_tls(both, ca):
    pooler = both()
    with secured(pooler, context(ca)) as client, console(pooler, ca) as admin:
        client.login().query("begin")
        admin.query("KILL db")
        assert client.recv().field("S") == "FATAL"
        client.expect_closed()


@pytest.mark.parametrize("how", ["SHUTDOWN", "SHUTDOWN WAIT_FOR_CLIENTS"])
def test_shutdown(both, ca, how):
    pooler = both()
    client = secured(pooler, context(ca)).login()
    stalled = halfway(pooler, context(ca), "answered")
    client.query("select 1")
    with console(pooler, ca) as admin:
        admin.send(wire.query(how))
        if how != "SHUTDOWN":
            admin.recv_until("Z")
    if how != "SHUTDOWN":
        assert client.query("select 1").value == "1"
        client.close()
        stalled.close()
    assert pooler.wait_exit() == 0
    client.close()
    stalled.close()

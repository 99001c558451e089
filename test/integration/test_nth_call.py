"""The n-th call fails: memory whose size a peer chooses, sockets, files, threads, names. The program of
test/nth lets one call fail, for every n of what a scenario does (`make nth-call`), or for some of them.
After each the process lives, only who was concerned is hurt, new clients are served, and the log says why."""

import collections
import hashlib
import mmap
import os
import socket
import ssl
import struct

import pytest

import issuer as issuers
import kdc
import pam
import postgres
import slapd
import test_kerberos
import test_oauth
import waiting
import wire
from draining import Draining
from test_tls_life import ca, context, secured, tls_pg  # noqa: F401

# The share of the n that are tried.
SHARE = float(os.environ.get("NTH_SHARE", "0.06"))
FIRST = int(os.environ.get("NTH_FIRST", "0"))  # Where a sweep of takeovers goes on.
COUNTS = os.environ.get("NTH_COUNTS")  # The file that gets how many calls were tried.
MOST = 2000  # No scenario makes more calls.


class Calls:
    """The file that the program shares with the test: see test/nth/nth_calls.c."""

    def __init__(self, pooler, name="calls"):
        self.path = pooler.write(name, b"\0" * 104)
        self.file = open(self.path, "r+b")
        self.bytes = mmap.mmap(self.file.fileno(), 104)

    def fail(self, number, only="", times=1):
        self.bytes[0:104] = struct.pack("QQQ40x40s", 0, number, times, only.encode())

    def stop(self):
        """No further call fails. The count and what has failed can be looked at."""
        self.bytes[8:16] = struct.pack("Q", 0)

    @property
    def count(self):
        return struct.unpack("Q", self.bytes[0:8])[0]

    @property
    def failed(self):
        return self.bytes[24:64].rstrip(b"\0").decode()


def is_chosen(kind, number, share=SHARE):
    """The same n each time, so that a new failure comes from a change."""
    digest = hashlib.sha256(b"%s %d" % (kind.encode(), number)).digest()
    return SHARE >= 1 or digest[0] < share * 256


def note(what, total, seen):
    """For make nth-call: how many calls there are, and how often which one was made to fail."""
    seen.pop("", None)
    if COUNTS:
        with open(COUNTS, "a") as out:
            out.write("%s: %d calls, %d made to fail: %s\n" % (
                what, total, sum(seen.values()), ", ".join("%s %d" % pair for pair in seen.most_common())))


@pytest.fixture(scope="module")
def program(request):
    ours = os.path.abspath(request.config.getoption("--pooler"))
    path = os.path.join(os.path.dirname(ours), "test/nth/pgbouncer")
    if not os.access(path, os.X_OK):
        pytest.skip("%s is not built" % path)
    with waiting.within_reach(path) as reachable:
        yield reachable


# Only the user whose login is tried has to prove who it is.
RULES = """local all all trust
host all trust_user,admin_user all trust
host all all all %s
"""


def prepare(make_pooler, pg, program, method="trust", **settings):
    pooler = make_pooler({
        "db": pg.conn(pool_size=2), "quiet": pg.conn(pool_size=1, pool_mode="session"),
        "named": pg.conn(pool_size=3).replace("127.0.0.1", "localhost"),
        "judged": pg.conn(user="trust_user"), "kept": pg.conn(pool_size=6, session_state="keep"),
        "asked": pg.conn(auth_user="owner", auth_query="select usename, passwd from pg_shadow where usename=$1"),
    }, start=False, settings={
        "pool_mode": "transaction", "server_login_retry": "0.05", "max_prepared_statements": 10,
        "query_wait_timeout": 10, "io_engine": "epoll", "workers": 1, "auth_type": "hba", **settings})
    pooler.settings["auth_hba_file"] = pooler.write("hba", RULES % method)
    pooler.settings["pidfile"] = pooler.path("pid")
    pooler.binary = program
    pooler.may_log_fatal = True
    pooler.calls = Calls(pooler)
    pooler.env["NTH_CALLS"] = pooler.calls.path
    return pooler


def is_served(pooler):
    try:
        with pooler.connect() as client:
            return client.value("select 41 + 1") == "42"
    except (OSError, wire.Closed, wire.Refused, AssertionError):
        return False


# What clients do. Each ends with its connection closed.


def login(user, database="db"):
    def run(pooler):
        with pooler.connect(database, user) as client:
            client.query("select 1")
    return run


def query(pooler):
    with pooler.connect() as client:
        client.query("select repeat('x', 100000)")
        client.send(wire.parse("s", "select 2"), wire.bind("", "s"), wire.execute(), wire.sync())
        client.finish()
        client.query("select '%s'" % ("y" * 200000))


def statements(pooler):
    """What a client has done in its session, and what a server then has to get."""
    with pooler.connect("kept", application_name="x" * 50, search_path="pg_catalog") as client:
        client.query("set work_mem = '3MB'")
        client.query("listen heard")
        client.query("notify heard, 'text'")
        client.query("prepare p as select 3")
        client.query("begin; set local statement_timeout = 1000; execute p; commit")
        client.send(wire.parse("s", "select $1::text"), wire.bind("", "s", ["z" * 30000]), wire.execute(), wire.sync())
        client.finish()
        with pooler.connect("kept") as other:
            other.query("select 1")
        assert client.value("show work_mem") == "3MB"
        client.query("unlisten *")
        client.query("discard all")


def copy(pooler):
    with pooler.connect() as client:
        client.query("begin")
        client.query("create temporary table copied (t text) on commit drop")
        client.send(wire.query("copy copied from stdin"))
        client.recv_until("G")
        client.send(wire.copy_data("x" * 50000 + "\n") * 10, wire.copy_done())
        client.finish()
        client.send(wire.query("copy copied to stdout"))
        client.finish()
        client.query("commit")


def cancel(pooler):
    with pooler.connect() as client:
        client.send(wire.query("select pg_sleep(0.3)"))
        pooler.raw().sock.sendall(wire.cancel_request(client.key))
        client.finish()


def reload(pooler):
    with pooler.console(unix=True) as console:
        pooler.consoles.remove(console)
        console.query("RELOAD", check=False)


def web(pooler):
    for path in ("/metrics", "/", "/readyz", "/views/pools", "/views/history"):
        with socket.create_connection(("127.0.0.1", pooler.web_port), 10) as peer:
            peer.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path.encode())
            while peer.recv(65536):
                pass


def kill_and_pause(pooler):
    """What administrators do to clients."""
    with pooler.console(unix=True) as console:
        pooler.consoles.remove(console)
        for command in ("PAUSE db", "RESUME db", "DISABLE db", "ENABLE db", "RECONNECT db", "WAIT_CLOSE db", "SUSPEND",
                        "RESUME", "SET query_timeout=0", "KILL named", "RESUME named", "EXPLAIN LOGIN trust_user db"):
            console.query(command, check=False)


def undo(pooler):
    """What a failure has kept from being undone."""
    for command in ("RESUME", "RESUME db", "ENABLE db", "RESUME named"):
        pooler.admin.query(command, check=False)


def views(pooler):
    with pooler.console(unix=True) as console:
        pooler.consoles.remove(console)
        for view in ("POOLS", "CLIENTS", "SOCKETS", "MEM", "CONFIG"):
            console.query("SHOW " + view)


def name(pooler):
    with pooler.console(unix=True) as console:
        pooler.consoles.remove(console)
        console.query("RECONNECT named", check=False)
    with pooler.connect("named") as client:
        client.query("select 1")


# What some scenarios need. Each returns what clients do.


def rules(pooler, text):
    pooler.settings["auth_hba_file"] = pooler.write("hba", text + RULES % "trust")


def with_auth_query(pooler, pg, request):
    pg.do("alter user second_user password 'second'")
    request.addfinalizer(lambda: pg.do("alter user second_user password null"))
    pooler.userlist.pop("second_user")
    return lambda pooler: pooler.connect("asked", "second_user", "second").close()


def with_peer(pooler, pg, request):
    rules(pooler, "local db trust_user peer map=own\n")
    pooler.settings["auth_ident_file"] = pooler.write("ident", "own /. trust_user\n")

    def run(pooler):
        with pooler.connect(unix=True) as client:
            client.query("select 1")
    return run


def with_ldap(pooler, pg, request):
    directory = request.getfixturevalue("directory")
    rules(pooler, 'host judged ann all ldap ldapserver=127.0.0.1 ldapport=%d ldapbasedn="%s" ldapbinddn="%s" '
                  'ldapbindpasswd="%s"\n' % (directory.port, slapd.BASE, slapd.SEARCHER, slapd.SEARCHER_SECRET))
    pooler.env.update(directory.env())
    secret = next(secret for uid, _, secret in slapd.USERS if uid == "ann")
    return lambda pooler: pooler.connect("judged", "ann", secret).close()


def with_pam(pooler, pg, request):
    rules(pooler, "host judged pam_ann all pam\n")
    pooler.env.update(request.getfixturevalue("pam_service").env())
    return lambda pooler: pooler.connect("judged", "pam_ann", pam.USERS["pam_ann"]).close()


def with_oauth(pooler, pg, request):
    ca = request.getfixturevalue("ca")
    issuer = issuers.Issuer(ca.server)
    request.addfinalizer(issuer.go)
    rules(pooler, 'hostssl judged trust_user all oauth issuer="%s" scope="%s"\n' % (issuer.name, issuers.SCOPE))
    pooler.settings.update(
        client_tls_sslmode="allow", client_tls_cert_file=ca.server.cert_file, client_tls_key_file=ca.server.key_file,
        oauth_ca_file=ca.file, oauth_audience=issuers.AUDIENCE)

    def run(pooler):
        with test_oauth.Login(pooler, ca, issuer.token(), database="judged") as login:
            login.succeed()
    return run


def with_kerberos(pooler, pg, request):
    if kdc.missing():
        pytest.skip(kdc.missing())
    realm = kdc.Kdc()
    request.addfinalizer(realm.remove)
    realm.create()
    realm.add(test_kerberos.OF_POOLER)
    realm.add("ann")
    realm.kinit("ann")
    rules(pooler, "host judged ann all gss include_realm=0\n")
    pooler.env.update(realm.env(), KRB5RCACHEDIR=realm.dir)
    pooler.settings["krb_server_keyfile"] = realm.path("postgres-localhost.keytab")

    def run(pooler):
        with test_kerberos.client(pooler, realm, database="judged") as client:
            client.login()
    return run


def with_program(pooler, pg, request):
    """The password for servers is printed by a program."""
    secret = pooler.userlist["scram_user"]
    path = pooler.write("tell", "#!/bin/sh\necho '%s'\n" % secret)
    os.chmod(path, 0o755)
    pooler.databases["told"] = pg.conn(user="scram_user", server_password_command=path)

    def run(pooler):
        with pooler.console(unix=True) as console:
            pooler.consoles.remove(console)
            console.query("RECONNECT told", check=False)
        with pooler.connect("told") as client:
            client.query("select 1")
    return run


def with_more_files(pooler, pg, request):
    os.mkdir(pooler.path("rules"))
    pooler.write("rules/a.conf", "host all nobody samenet reject\n")
    pooler.write("names", "one, two\nthree\n")
    pooler.write("more.ini", "[users]\nmd5_user = pool_mode=session\n")
    rules(pooler, "host @names all all reject\ninclude_dir rules\ninclude_if_exists absent\n")
    pooler.settings["auth_ident_file"] = pooler.write("ident", "own /^(.*)$ trust_user\n")
    return reload


def with_web(pooler, pg, request):
    with socket.create_server(("127.0.0.1", 0)) as free:
        pooler.web_port = free.getsockname()[1]
    pooler.settings["metrics_listen"] = "127.0.0.1:%d" % pooler.web_port
    return web


SET_UPS = {"auth_query": with_auth_query, "peer": with_peer, "ldap": with_ldap, "pam": with_pam,
           "oauth": with_oauth, "kerberos": with_kerberos, "program": with_program, "files": with_more_files, "web": with_web}

# The method of logins, and what is done.
SCENARIOS = {
    "trust": ("trust", login("trust_user")),
    "md5": ("md5", login("md5_user")),
    "scram": ("scram-sha-256", login("scram_user")),
    "plain": ("password", login("md5_user")),
    "auth_query": ("md5", None),
    "peer": ("trust", None),
    "ldap": ("trust", None),
    "pam": ("trust", None),
    "oauth": ("trust", None),
    "kerberos": ("trust", None),
    "program": ("trust", None),
    "query": ("trust", query),
    "copy": ("trust", copy),
    "cancel": ("trust", cancel),
    "statements": ("trust", statements),
    "reload": ("trust", reload),
    "files": ("trust", None),
    "commands": ("trust", kill_and_pause),
    "web": ("trust", None),
    "views": ("trust", views),
    "name": ("trust", name),
}
SLOW = ("oauth", "kerberos", "statements")  # They are no part of make check.
SAYS = (" ERROR ", " WARNING ", "closing because")


def attempt(pooler, run, number, only=""):
    """Returns what it has met, or None."""
    pooler.calls.fail(number, only)
    try:
        run(pooler)
    except (OSError, wire.Closed, wire.Refused, AssertionError) as error:
        return error
    finally:
        pooler.calls.stop()
    return None


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("engine, workers", [("epoll", 1), ("auto", 1), ("epoll", 2)])
def test_only_the_touched_connection_is_hurt(make_pooler, pg, program, request, kind, engine, workers):
    if SHARE < 1 and ((engine, workers) != ("epoll", 1) or kind in SLOW):
        pytest.skip("it is part of make nth-call")
    method, run = SCENARIOS[kind]
    pooler = prepare(make_pooler, pg, program, method, dns_max_ttl=0, io_engine=engine, workers=workers)
    if kind in SET_UPS:
        run = SET_UPS[kind](pooler, pg, request)
    pooler.start()
    pooler.admin.query("SHOW VERSION")
    beside = pooler.connect("quiet")
    backend = beside.value("select pg_backend_pid()")
    for _ in range(2):
        assert attempt(pooler, run, 0) is None
    total = pooler.calls.count
    assert is_served(pooler)
    fds, seen = pooler.fds(), collections.Counter()
    for number in (n for n in range(1, total + total // 5) if is_chosen(kind, n)):
        mark = pooler.mark()
        error = attempt(pooler, run, number)
        failed = pooler.calls.failed
        seen[failed] += 1
        if run is kill_and_pause:
            undo(pooler)
        what = "%s: call %d of %d, %s, %r" % (kind, number, total, failed or "none", error)
        assert pooler.is_running(), what + "\n" + pooler.log_since(mark)[-2000:]
        assert beside.value("select pg_backend_pid()") == backend, what
        waiting.wait_for(lambda: is_served(pooler), what + ": new clients are served", 20)
        assert not error or failed, what
        if error:
            waiting.wait_for(lambda: any(word in pooler.log_since(mark) for word in SAYS), what + ": the log says it")
    note("%s, %s, %d workers" % (kind, engine, workers), total, seen)
    assert seen or SHARE < 1, "one of them has failed"
    waiting.wait_for(lambda: int(pooler.show_one("LISTS", list="login_clients")["items"]) == 0, "no login is left")
    assert is_served(pooler)
    waiting.wait_for(lambda: pooler.fds() <= fds + 6, "no descriptor is left")
    beside.close()


# Calls of which each of the first few fails in each run.
ALWAYS = ("accept4", "epoll_ctl", "socket", "connect", "recv", "send", "mem_try")


@pytest.mark.parametrize("call", ALWAYS)
def test_each_of_the_first(make_pooler, pg, program, call):
    """A connection that is gone before accept() stops nobody else (they waited for 5 s), and a descriptor that
    epoll had no room for is watched later (it never was: who got such a server waited for ever)."""
    pooler = prepare(make_pooler, pg, program)
    pooler.start()
    beside = pooler.connect("quiet")
    backend = beside.value("select pg_backend_pid()")
    for number in range(1, 6):
        pooler.admin.query("RECONNECT db")
        attempt(pooler, login("trust_user"), number, call)
        what = "%s %d" % (call, number)
        if number == 1 and call not in ("recv", "mem_try"):
            assert pooler.calls.failed == call
        waiting.wait_for(lambda: is_served(pooler), what, 3)
        assert beside.value("select pg_backend_pid()") == backend, what


TLS_CALLS = (
    "SSL_CTX_new", "SSL_CTX_use_certificate_chain_file", "SSL_CTX_use_PrivateKey_file", "SSL_CTX_check_private_key",
    "SSL_CTX_load_verify_locations", "SSL_load_client_CA_file", "BIO_new_file", "BIO_new", "SSL_new",
    "SSL_do_handshake", "SSL_read", "SSL_write", "SSL_CTX_set_cipher_list", "SSL_CTX_set_ciphersuites")


def tls_settings(ca, tls_pg):
    return {
        "client_tls_sslmode": "require", "client_tls_cert_file": ca.server.cert_file,
        "client_tls_key_file": ca.server.key_file, "client_tls_ca_file": ca.file,
        "client_tls_ciphers": "HIGH", "client_tls13_ciphers": "TLS_AES_256_GCM_SHA384",
        "server_tls_sslmode": "verify-full", "server_tls_ca_file": tls_pg.authority.file}


def tls_login(ca):
    def run(pooler):
        # Files that are as they were are not read again.
        for file in (ca.file, ca.server.cert_file, ca.server.key_file):
            os.utime(file)
        reload(pooler)
        with pooler.console(unix=True) as console:
            pooler.consoles.remove(console)
            console.query("RECONNECT db", check=False)
        try:
            with secured(pooler, context(ca)).login() as client:
                client.query("select repeat('x', 100000)")
        except ssl.SSLError as error:
            raise wire.Closed(str(error))
    return run


@pytest.mark.parametrize("call", TLS_CALLS)
def test_tls(make_pooler, tls_pg, ca, program, call):
    """Logins in TLS on both sides, and a reload that reads the files again: what fails hurts one connection, or
    refuses the reload, and the former files stay in force."""
    pooler = prepare(make_pooler, tls_pg, program, **tls_settings(ca, tls_pg))
    text = postgres.connstr(host="localhost", port=tls_pg.port, dbname="postgres")
    pooler.databases = {"db": text + " pool_size=2", "quiet": text + " pool_size=1 pool_mode=session"}
    pooler.start()
    run = tls_login(ca)
    beside = secured(pooler, context(ca), database="quiet").login()
    backend = beside.value("select pg_backend_pid()")
    for _ in range(2):
        assert attempt(pooler, run, 0, call) is None
    total, seen = pooler.calls.count, collections.Counter()
    assert total, "it is called"
    for number in range(1, total + 1):
        if number > 2 and not is_chosen(call, number):
            continue
        mark = pooler.mark()
        error = attempt(pooler, run, number, call)
        seen[pooler.calls.failed] += 1
        what = "%s, call %d of %d, %r" % (call, number, total, error)
        assert pooler.is_running(), what + "\n" + pooler.log_since(mark)[-2000:]
        assert beside.value("select pg_backend_pid()") == backend, what
        assert attempt(pooler, run, 0, call) is None, what + ": the next one is served"
        if error:
            assert any(word in pooler.log_since(mark) for word in SAYS), what + ": the log says it"
    note("TLS, " + call, total, seen)
    beside.close()


RING_CALLS = (
    "io_uring_queue_init_params", "io_uring_register_buf_ring", "io_uring_register_ring_fd", "io_uring_submit",
    "io_uring_get_events", "io_uring_submit_and_get_events", "io_uring_submit_and_wait",
    "io_uring_submit_and_wait_timeout")


@pytest.mark.parametrize("call", RING_CALLS)
def test_a_ring_that_fails(make_pooler, pg, program, call):
    """All go on without it, in the middle of what they do."""
    pooler = prepare(make_pooler, pg, program, io_engine="auto")
    total, seen = MOST, collections.Counter()
    for number in range(MOST):
        if number > total:
            break
        if number > 3 and not is_chosen(call, number):
            continue
        pooler.write("stderr", "")
        pooler.calls.fail(number, call)
        pooler.start()
        if "io_engine is epoll" in pooler.log() and not number:
            pytest.skip("no io_uring here")
        beside = pooler.connect("quiet")
        backend = beside.value("select pg_backend_pid()")
        for run in (query, copy, cancel):
            run(pooler)
        assert beside.value("select pg_backend_pid()") == backend, "%s %d" % (call, number)
        total = total if number else pooler.calls.count
        seen[pooler.calls.failed] += 1
        pooler.calls.stop()
        beside.close()
        assert is_served(pooler)
        pooler.signal("TERM")
        assert pooler.wait_exit() == 0, pooler.log()[-2000:]
        pooler.check_sanitizers()
        pooler.process = None
    note("ring, " + call, total, seen)


def ring_work(pooler):
    """One after the other: by the first that is hurt the rest is not reached."""
    for run in (query, copy, cancel, statements):
        run(pooler)


COMPLETIONS = {"POLL_ADD": ("ENOMEM", "EINTR", "ECANCELED")}
HARMLESS = {"RECV": ("EINTR", "EAGAIN", "ENOBUFS", "ECANCELED"), "POLL_ADD": ("EINTR", "ECANCELED")}
REASONS = ("ENOMEM", "ECONNRESET", "EINTR", "EAGAIN", "ENOBUFS", "ECANCELED")


@pytest.mark.parametrize("kind", ["RECV", "SEND", "SENDMSG", "POLL_ADD"])
def test_a_completion_that_fails(make_pooler, pg, program, kind):
    """A request on the ring ends with an error: nobody but its connection is hurt, and it goes on as it was."""
    pooler = prepare(make_pooler, pg, program, io_engine="auto")
    pooler.start()
    if "io_engine is epoll" in pooler.log():
        pytest.skip("no io_uring here")
    beside = pooler.connect("quiet")
    backend = beside.value("select pg_backend_pid()")
    reasons = COMPLETIONS.get(kind, REASONS)
    for _ in range(2):
        assert attempt(pooler, ring_work, 0, "%s %s" % (kind, reasons[0])) is None
    total = pooler.calls.count
    for why in reasons:
        call, seen = "%s %s" % (kind, why), collections.Counter()
        for number in (n for n in range(1, total + total // 5 + 1) if is_chosen(call, n, SHARE / 4)):
            mark = pooler.mark()
            error = attempt(pooler, ring_work, number, call)
            seen[pooler.calls.failed] += 1
            what = "%s, %d of %d, %r" % (call, number, total, error)
            assert pooler.is_running(), what + "\n" + pooler.log_since(mark)[-2000:]
            assert beside.value("select pg_backend_pid()") == backend, what
            waiting.wait_for(lambda: is_served(pooler), what + ": new clients are served", 20)
            if error:
                assert pooler.calls.failed and why not in HARMLESS.get(kind, ("EINTR", "EAGAIN")), what
                waiting.wait_for(lambda: any(word in pooler.log_since(mark) for word in SAYS), what + ": the log says it")
        note("completion, " + call, total, seen)
    assert "io_uring" not in "".join(line for line in pooler.log().splitlines() if "WARNING" in line)
    beside.close()


def ends(pooler, number):
    """Starts the program and waits until it serves, or has ended. The line about that may be what is lost."""
    pooler.calls.fail(number)
    pooler.launch()
    waiting.wait_for(lambda: pooler.process.poll() is not None or is_served(pooler),
                     "up or ended, with call %d" % number)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_start_and_a_shutdown(make_pooler, pg, program, workers):
    """A start fails with a reason, or serves, and ends when it is told to."""
    pooler = prepare(make_pooler, pg, program, workers=workers, auth_type="any")
    pooler.databases = {"db": pg.conn(user="trust_user")}
    total, seen = MOST, collections.Counter()
    for number in range(MOST):
        if number > total:
            break
        if number and not is_chosen("start %d" % workers, number):
            continue
        pooler.write("stderr", "")
        ends(pooler, number)
        failed = pooler.calls.failed
        seen[failed] += 1
        what = "call %d of %d, %s" % (number, total, failed or "none")
        if pooler.is_running():
            waiting.wait_for(lambda: is_served(pooler), what + ": clients are served", 20)
            pooler.signal("TERM")
            assert pooler.wait_exit() == 0, what + pooler.log()[-2000:]
            total = total if number else pooler.calls.count
        else:
            assert pooler.process.returncode == 1 and failed and pooler.log().strip(), what + pooler.log()[-2000:]
        pooler.check_sanitizers()
        pooler.process = None
        if os.path.exists(pooler.path("pid")):
            os.unlink(pooler.path("pid"))
    note("start and shutdown, %d workers" % workers, total, seen)


def begin_work(clients):
    """Queries that run, and one whose end is not sent yet, when the takeover begins."""
    for number, sql in enumerate((
            "select pg_sleep(0.2)", "select repeat('x', 1000000)", "begin; select pg_sleep(0.1)",
            "copy (select repeat('x', 10000) from generate_series(1, 100)) to stdout")):
        clients[number].send(wire.query(sql))
    clients[4].send(wire.parse("s", "select pg_sleep(0.1)"), wire.bind("", "s"), wire.execute(), wire.flush())
    clients[5].query("begin")
    clients[5].query("create temporary table copied (t text) on commit drop")
    clients[5].send(wire.query("copy copied from stdin"))
    clients[5].recv_until("G")
    clients[5].send(wire.copy_data("x" * 100))


def end_work(clients):
    """Which of them got whole answers."""
    ends = []
    for client, rest in zip(clients, [b""] * 4 + [wire.sync(), wire.copy_done()]):
        try:
            client.send(rest)
            ends.append(not client.finish().errors)
        except (OSError, wire.Closed, AssertionError):
            ends.append(False)
    return ends


def is_well(client, value):
    try:
        return client.value("select %d" % value) == str(value)
    except (OSError, wire.Closed, wire.Refused, AssertionError):
        return False


def is_near(pooler):
    """Its socket file and its pidfile are its own: the next process finds them. It warns of a pidfile that cannot
    be renamed, and goes on without it."""
    try:
        with pooler.connect(unix=True) as client:
            return client.value("select 5") == "5" and (
                pooler.calls.failed == "rename" or pooler.read("pid") == "%d\n" % pooler.pid)
    except (OSError, wire.Closed, wire.Refused):
        return False


# The old process keeps its last clients, until they leave, when it can hand no more of them on.
STAY = "takes no more clients"


@pytest.mark.parametrize("engine, workers, only, times, is_amid", [
    ("epoll", 1, "recvmsg", 1, False), ("epoll", 1, "recvmsg", 2, False), ("epoll", 2, "recvmsg", 1, False),
    ("epoll", 1, "rename", 1, False), *((engine, workers, "", 1, is_amid) for engine in ("epoll", "auto")
                                        for workers in (1, 2) for is_amid in (False, True))])
def test_a_takeover(make_pooler, pg, program, engine, workers, only, times, is_amid):
    """A call of either process fails: the new one serves, or the old one goes on, with its socket file and its
    pidfile. Nobody is lost but for one client whose own descriptor was concerned, be it amid queries."""
    if SHARE < 1 and engine != "epoll":
        pytest.skip("it is part of make nth-call")
    pooler = prepare(make_pooler, pg, program, workers=workers, auth_type="any", io_engine=engine)
    pooler.databases = {"db": pg.conn(user="trust_user", pool_size=7 if is_amid else 3)}
    pooler.args = []
    pooler.start()
    pooler.args = ["-R"]
    total, seen = MOST, collections.Counter()
    share = SHARE * 4 if only else SHARE / 8 if is_amid else SHARE / 4
    for number in range(MOST):
        if number > total + 1:  # The one behind a failure at the end succeeds.
            break
        if number and number <= total and (not only or workers > 1) and (
                number < FIRST or not is_chosen("takeover %d" % workers, number, share)):
            continue
        clients = [pooler.connect() for _ in range(7 if is_amid else 4)]
        clients[-1].query("begin")
        clients[-2].query("select 1")
        if is_amid:
            begin_work(clients)
        old, mark = pooler.process, pooler.mark()
        pooler.calls.fail(number, only, times)
        pooler.launch()
        ends = end_work(clients[:6]) if is_amid else []
        waiting.wait_for(lambda: pooler.process.poll() is not None or old.poll() is not None
                         or STAY in pooler.log_since(mark), "one of the two processes ends, with call %d" % number)
        pooler.calls.stop()
        failed = pooler.calls.failed
        seen[failed] += 1
        what = "call %d of %d, %s" % (number, total, failed or "none")
        if pooler.process.poll() is None:
            assert old.returncode in (0, None), (what, old.returncode, pooler.log_since(mark)[-3000:])
        else:
            assert pooler.process.returncode == 1 and failed, (what, pooler.log_since(mark)[-3000:])
            pooler.process = old
            assert pooler.is_running(), what
        well = [is_well(client, n) for n, client in enumerate(clients)]
        assert all(is_whole for is_whole, is_left in zip(ends, well) if is_left), (what, ends, well)
        assert well.count(False) <= (1 if failed else 0), (what, well, pooler.log_since(mark)[-3000:])
        waiting.wait_for(lambda: is_served(pooler) and is_near(pooler), what + ": new clients are served", 20)
        for client in clients:
            client.close()
        if pooler.process is not old:
            assert old.wait(45) == 0, (what, pooler.log_since(mark)[-3000:])
        pooler.check_sanitizers()
        total = total if number else pooler.calls.count
    note("takeover%s, %s, %d workers, %s" % (
        " amid queries" if is_amid else "", engine, workers, "%s %d times" % (only, times) if only else "all"), total, seen)


@pytest.mark.parametrize("engine", ["epoll", "auto"])
def test_a_takeover_from_a_process_that_keeps_its_clients(make_pooler, pg, program, engine):
    """It fails, and the old process goes on as before; or the new one serves, and has its files when the old one has
    ended."""
    pooler = prepare(make_pooler, pg, program, auth_type="any", io_engine=engine)
    pooler.databases = {"db": pg.conn(user="trust_user")}
    pooler.args = ["-R"]
    total, seen = MOST, collections.Counter()
    for number in range(MOST):
        if number > total:
            break
        if number and not is_chosen("drain", number):
            continue
        old = Draining(pooler.dir, pooler.port, "invalid command 'COMMAND', use SHOW HELP;")
        try:
            with old.client() as client:
                pooler.write("stderr", "")
                ends(pooler, number)
                old.ask(client)
                total = total if number else pooler.calls.count
                failed = pooler.calls.failed
                seen[failed] += 1
                what = "call %d of %d, %s" % (number, total, failed or "none")
                if pooler.is_running():
                    waiting.wait_for(lambda: is_served(pooler), what + ": clients are served", 20)
                else:
                    assert pooler.process.returncode == 1 and failed and pooler.log().strip(), what
                    old.client().close()
                    assert os.path.exists(pooler.path(".s.PGSQL.%d" % pooler.port)), what
            if pooler.is_running():
                assert old.wait() == 0, what
                waiting.wait_for(lambda: is_near(pooler), what + ": it has its files", 20)
                pooler.signal("TERM")
                assert pooler.wait_exit() == 0, what + pooler.log()[-2000:]
        finally:
            old.stop()
        pooler.check_sanitizers()
        pooler.process = None
        for name in "pid", ".s.PGSQL.%d" % pooler.port:
            if os.path.exists(pooler.path(name)):
                os.unlink(pooler.path(name))
    note("takeover from a process that keeps its clients, " + engine, total, seen)

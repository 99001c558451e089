"""The recipes of doc/recipes, step by step as they stand, and what each of them promises."""

import contextlib
import grp
import os
import re
import signal
import socket
import ssl
import tempfile
import threading

import pytest

import certs
import documents
import haproxy
import issuer as issuers
import kdc
import keeper
import postgres
import programs
import waiting
import wire
from test_rolling import Load
from test_takeover import Restarts, wait_end

SECRETS = {"shop": "recipe shop 4f1", "admin": "recipe admin 8c2"}
INI = "/etc/pgbouncer/pgbouncer.ini"


@pytest.fixture
def recipe(stage):
    """recipe(name, real) returns the stage of a recipe."""
    return lambda name, real, secrets=SECRETS: stage(os.path.join("doc/recipes", name) + ".md", real, secrets)


@pytest.fixture
def shop(pg):
    """The roles and the database of the recipes."""
    with given_roles(pg, SECRETS):
        yield pg


@contextlib.contextmanager
def given_roles(pg, secrets):
    for name, secret in secrets.items():
        pg.do("create role %s login password '%s'" % (name, secret))
    pg.do("create database shop")
    try:
        yield
    finally:
        pg.do("drop database shop with (force)", *["drop role %s" % name for name in secrets])


def of_superuser(pg, **more):
    return {"5432": str(pg.port), "user=postgres": "user=" + postgres.SUPERUSER,
            "-U postgres": "-U " + postgres.SUPERUSER, **more}


def client(stage, user="shop", database="shop", host="127.0.0.1"):
    return wire.Client(host, stage.port, user, database, SECRETS[user]).login()


def test_unix_socket(recipe, shop):
    """Nobody needs a password, and no port is open."""
    account = waiting.unprivileged()
    stage = recipe("unix-socket", {
        "pooler  pgbouncer  shop": "pooler  %s  shop" % account.pw_name,
        "www-data  shop": account.pw_name + "  shop", "root      admin": account.pw_name + "  admin",
        "= www-data": "= " + grp.getgrgid(account.pw_gid).gr_name,
        "/var/run/postgresql": shop.dir, "5432": str(shop.port)}, {})
    ident = os.path.join(shop.data, "pg_ident.conf")
    stage.instead["pg_ident.conf"] = lambda text: stage.write(ident, text)
    stage.instead["pg_hba.conf"] = lambda text: shop.set_hba(text.splitlines() + postgres.hba_lines())
    try:
        stage.play("Set up")
        stage.play("See that it works")
        assert not waiting.can_connect(stage.port)
        stage.play("What goes wrong")
        stage.wait_log("no authentication method is found")
        stage.write("ident.conf", "apps somebody shop\n")
        pooler = stage.poolers[INI]
        pooler.signal("HUP")
        pooler.wait_log("reload|RELOAD|got SIGHUP")
        with wire.Client(os.path.join(stage.dir, "run"), stage.port, "shop", "shop", None) as stranger:
            with pytest.raises(wire.Refused, match="unix socket login rejected"):
                stranger.login()
    finally:
        shop.set_hba(postgres.hba_lines())


@pytest.mark.skipif(not haproxy.PROGRAM, reason="haproxy is not installed")
def test_haproxy(recipe, shop):
    """Cancel requests find their pooler, the poolers know the address of the client, and one of
    them can be taken away."""
    stage = recipe("haproxy", of_superuser(shop, **{
        "10.0.0.10": "127.0.0.10", "10.0.0.11": "127.0.0.11", "10.0.0.12": "127.0.0.12",
        "10.0.0.20": "127.0.0.1", "9127": str(waiting.PORTS.take())}))
    stage.real["/run/pgbouncer1"], stage.real["/run/pgbouncer2"] = stage.folder("run1"), stage.folder("run2")
    stage.real["/etc/haproxy"] = stage.dir
    begun = []
    stage.instead["haproxy -D -f /etc/haproxy/haproxy.cfg"] = lambda: begun.append(stage.begin(
        "exec %s -db -f /etc/haproxy/haproxy.cfg" % haproxy.PROGRAM))
    one, two = "/etc/pgbouncer/pooler1.ini", "/etc/pgbouncer/pooler2.ini"
    try:
        stage.play("Set up")
        waiting.wait_for(lambda: can_connect(("127.0.0.10", stage.port)), "haproxy is up")
        stage.play("See that it works")
        for number in (11, 12):
            assert stage.give("curl -s http://10.0.0.%d:9127/readyz" % number) == "ready\n"
        sessions = [client(stage, host="127.0.0.10") for _ in range(6)]
        for session in sessions:
            session.send(wire.query("select pg_sleep(60)"))
        waiting.wait_for(lambda: shop.backends("query like '%sleep(60)%' and state = 'active'") == 6, "all run")
        for session in sessions:
            session.cancel()
            assert session.finish().errors[0].field("C") == "57014"
        ports = {str(session.sock.getsockname()[1]) for session in sessions}
        logs = stage.poolers[one].log() + stage.poolers[two].log()
        assert all("@127.0.0.1:%s login attempt" % port in logs for port in ports)
        stage.play("Take one pooler away")
        waiting.wait_for(lambda: not can_connect(("127.0.0.11", stage.port)), "it listens no more")
        for session in sessions:
            assert session.value("select 1") == "1"
            session.close()
        assert stage.poolers[one].wait_exit() == 0
        with client(stage, host="127.0.0.10") as fresh:
            assert fresh.value("select 2") == "2"
    finally:
        for process in begun:
            process.kill()
            process.communicate()


def can_connect(address):
    try:
        wire.open_socket(*address).close()
        return True
    except OSError:
        return False


@pytest.mark.skipif(not haproxy.PROGRAM, reason="haproxy is not installed")
def test_several_poolers(recipe, shop):
    """Three poolers behind haproxy, under load: all of them are upgraded, and one is taken out and comes
    back. No client gets an error, transactions go on, and cancel requests find their pooler."""
    stage = recipe("several-poolers", of_superuser(shop, **{
        "10.0.0.10": "127.0.0.10", "10.0.0.11": "127.0.0.11", "10.0.0.12": "127.0.0.12", "10.0.0.13": "127.0.0.13",
        "10.0.0.20": "127.0.0.1", "9127": str(waiting.PORTS.take())}))
    for name in ("pgbouncer1", "pgbouncer2", "pgbouncer3", "haproxy"):
        stage.real["/run/" + name] = stage.folder(name)
    stage.real["/etc/haproxy"] = stage.dir
    begun, restarts = [], Restarts()
    stage.instead["-R"] = restarts
    stage.instead["haproxy -D -f /etc/haproxy/haproxy.cfg"] = lambda: begun.append(stage.begin(
        "exec %s -db -f /etc/haproxy/haproxy.cfg" % haproxy.PROGRAM))
    load = None
    try:
        stage.play("Set up")
        waiting.wait_for(lambda: can_connect(("127.0.0.10", stage.port)), "haproxy is up")
        stage.play("See that it works")
        load = Load(lambda: client(stage, host="127.0.0.10"))
        sessions = [client(stage, host="127.0.0.10") for _ in range(6)]
        assert all(session.query("begin").status == "T" for session in sessions)
        load.more()
        stage.play("A new version on all of them")
        load.more()
        assert len(restarts.old) == 3
        for session in sessions:
            assert session.query("commit").tag == "COMMIT"
            session.send(wire.query("select pg_sleep(60)"))
        waiting.wait_for(lambda: shop.backends("query like '%sleep(60)%' and state = 'active'") == 6, "all run")
        for session in sessions:
            session.cancel()
            assert session.finish().errors[0].field("C") == "57014"
            session.close()

        one = stage.poolers["/etc/pgbouncer/pooler1.ini"]
        for state in ("drain", "ready"):
            stage.instead['echo "set server poolers/pooler1 state %s" | socat stdio /run/haproxy/admin.sock' % state] = (
                lambda state=state: told_haproxy(stage, state, load))
        stage.instead["pgbouncer -d /etc/pgbouncer/pooler1.ini"] = lambda: started_again(one, load)
        stage.play("A machine is taken out")
        load.more()
        waiting.wait_for(lambda: "login attempt" in one.log(), "it has clients again")
    finally:
        if load:
            load.end()
        for process in begun:
            process.kill()
            process.communicate()
        for process, pooler in zip(restarts.old, stage.poolers.values()):
            wait_end(process, pooler)


def told_haproxy(stage, state, load):
    """Clients that were on their way to the pooler are there afterwards."""
    with socket.socket(socket.AF_UNIX) as admin:
        admin.connect(os.path.join(stage.dir, "haproxy", "admin.sock"))
        admin.sendall(b"set server poolers/pooler1 state %s\n" % state.encode())
        assert admin.recv(1000).strip() == b""
    with load.door:
        pass


def started_again(pooler, load):
    assert pooler.wait_exit() == 0
    load.more()
    pooler.write("stderr", "")
    pooler.args = []
    pooler.start()


def test_segments(recipe, pg):
    """All clients are one role at the servers, with the startup options; one host gets more. That
    the shares are those of the weights is seen in test_cases.py, over more clients."""
    secrets = {"loader": "password of loader", "app": "password of app", "admin": "password of admin"}
    pg.do("create role loader login password 'password of loader'", "create database sales")
    port = waiting.PORTS.take()
    stage = recipe("segments", {"gp_role": "search_path", "10.1.7.1": "127.0.0.1", "10.1.7.2": "localhost",
                                "40000": str(pg.port), "6407": str(port)}, secrets)
    try:
        stage.play("Set up")
        script = stage.write("one.sql", "select 1;\n")
        pooler = stage.poolers["/etc/pgbouncer/segment7.ini"]
        pooler.port = port

        def is_shared():
            programs.pgbench(pooler, pg, "-n", "-f", script, "-c", 4, "-t", 500,
                             "sales", user="app", secret=secrets["app"])
            with wire.Client("127.0.0.1", port, "admin", "pgbouncer", secrets["admin"]).login() as console:
                shares = [int(row["assignments"]) for row in console.query("SHOW HOSTS").dicts()]
            return shares[0] > shares[1] > 0

        # On a busy machine all may be over before the first server is there.
        waiting.wait_for(is_shared, "most clients are at the first host")
        stage.play("See that it works")
    finally:
        pg.do("drop database sales with (force)", "drop role loader")


def test_auth_query(recipe, pg):
    """A new role gets in at once, a superuser does not."""
    secrets = {"shop": "password of shop", "admin": "password of admin", postgres.SUPERUSER: "owner secret 77"}
    stage = recipe("auth-query", of_superuser(pg), secrets)
    stage.instead["sql"] = pg.do
    pg.do("alter role %s password 'owner secret 77'" % postgres.SUPERUSER)
    try:
        stage.play("Set up")
        stage.play("See that it works")
        stage.play("What goes wrong")
        stage.wait_log("login failed: db=...")
        pg.do("alter role shop password 'another password 5d'")
        keeper.learn_stored()
        with wire.Client("127.0.0.1", stage.port, "shop", "postgres", "another password 5d").login() as changed:
            assert changed.value("select 1") == "1"
        pg.do("revoke usage on schema pooler from pooler")
        with pytest.raises(wire.Refused, match="bouncer config error"):
            wire.Client("127.0.0.1", stage.port, "shop", "postgres", "another password 5d").login()
        stage.wait_log("S: error in auth_query: ...")
    finally:
        pg.do("alter role %s password null" % postgres.SUPERUSER, "drop schema pooler cascade",
              "drop role pooler", "drop role shop")


def perf_works(stage):
    """Says whether perf can count here; it needs a kernel that lets it."""
    return stage.begin("perf record -q -e cpu-clock:u -o perf.data -- true").wait(30) == 0


def counted(told):
    """Returns [(calls, plans)] as pg_stat_statements has told them."""
    return [tuple(map(int, found)) for found in re.findall(r"pg_class where oid = \$1 +\| +(\d+) \| +(\d+)$", told, re.M)]


def test_busy_parsing(recipe, pg_bin):
    """What is saved is shown as it is written, and PostgreSQL has parsed the text a few times instead of
    each time."""
    server = postgres.Postgres(pg_bin)
    try:
        server.create()
        with given_roles(server, SECRETS):
            play_busy_parsing(recipe("busy-parsing", of_superuser(server)), server)
    finally:
        server.stop()
        server.remove()


def play_busy_parsing(stage, server):
    def load(text):
        with open(os.path.join(server.data, "postgresql.conf"), "a", encoding="utf-8") as conf:
            conf.write(text)
        server.restart()

    stage.instead["postgresql.conf"] = load
    stage.real["/tmp/busy-parsing.data"] = os.path.join(stage.dir, "perf.data")
    if not perf_works(stage):
        for command, _ in documents.commands("\n".join(documents.blocks_of(stage.path, "See it in PostgreSQL"))):
            if "perf " in command:
                stage.instead[command] = lambda: None
    stage.play("Set up")
    stage.play("Before")
    (calls, plans), = counted(stage.play("See it in PostgreSQL"))
    assert calls == plans == 500
    stage.play("Switch it on")
    (calls, plans), = counted(stage.play("Afterwards"))
    assert calls == 500 and plans < 20
    assert client(stage).value("select count(*) from pg_prepared_statements where statement like '%pg_class%oid%'") == "1"


def test_unchanged_application(recipe, shop):
    """Settings and a temporary table are the application's, and nobody else's."""
    stage = recipe("unchanged-application", {"5432": str(shop.port)})
    for heading in ("Set up", "What the application does", "How you see that it works"):
        stage.play(heading)


def test_tls(recipe, shop):
    """Both connections are bound, and what is not is refused."""
    stage = recipe("tls", of_superuser(shop, **{
        "pooler.example.com": "localhost", "db.example.com": "localhost", "10.0.0.0/8": "127.0.0.1/32",
        "listen_addr = *": "listen_addr = 127.0.0.1"}))
    stage.instead["postgresql.conf"] = lambda text: shop.do(*[
        "alter system set " + line.replace("'db.", "'%s/db." % stage.dir) for line in text.splitlines()])
    superuser = "host all %s 127.0.0.1/32 trust" % postgres.SUPERUSER
    stage.instead["pg_hba.conf"] = lambda text: shop.set_hba(["local all all trust", superuser, text])
    try:
        stage.play("Certificates")
        stage.play("Set up")
        stage.play("See that it works")
        stage.play("What goes wrong")
        stage.wait_log("SSL required")
        certs.Authority(stage.dir, "ca")
        to_pooler = "psql 'host=pooler.example.com port=6432 user=%s dbname=%s sslmode=require' -c '%s'"
        stage.give(to_pooler % ("admin", "pgbouncer", "RELOAD"))
        stage.give(to_pooler % ("admin", "pgbouncer", "RECONNECT"))
        waits = stage.begin(to_pooler % ("shop", "shop", "select 1"))
        stage.wait_log("TLS handshake error: ...certificate verify failed")
        waits.kill()
        waits.communicate()
    finally:
        shop.do("alter system reset all")
        shop.set_hba(postgres.hba_lines())


def test_restart_postgresql(recipe, shop):
    """A transaction under way ends first, a new one waits, and nobody sees an error."""
    stage = recipe("restart-postgresql", of_superuser(shop))
    stage.instead["systemctl restart postgresql"] = lambda: restart_seen(stage, shop, late)
    stage.play("Set up")
    with client(stage) as busy, client(stage) as late:
        busy.query("begin")
        before = busy.value("select pg_backend_pid()")
        assert late.value("select 1") == "1"
        ends = threading.Thread(target=end_when_paused, args=(stage, busy))
        ends.start()
        stage.play("Restart")
        ends.join()
        assert late.finish().value == "2"
        assert busy.value("select pg_backend_pid()") != before


def end_when_paused(stage, busy):
    stage.poolers[INI].wait_log("PAUSE")
    assert busy.query("commit").tag == "COMMIT"


def restart_seen(stage, pg, late):
    late.send(wire.query("select 2"))
    stage.play("See that it works")
    pg.restart()


def test_upgrade(recipe, shop):
    """Transactions and running queries survive it."""
    restarts = Restarts()
    stage = recipe("upgrade", of_superuser(shop))
    stage.instead["-R"] = restarts
    stage.play("Set up")
    try:
        with client(stage) as busy, client(stage) as running, client(stage) as idle:
            assert idle.value("select 1") == "1"
            busy.query("begin")
            backend = busy.value("select pg_backend_pid()")
            running.send(wire.query("select pg_sleep(0.3), 'done'"))
            waiting.wait_for(lambda: shop.backends("query like '%sleep(0.3)%' and state = 'active'") == 1, "it runs")
            stage.play("Upgrade")
            assert busy.value("select pg_backend_pid()") == backend
            assert busy.query("commit").tag == "COMMIT"
            assert running.finish().rows[0][1] == "done"
            assert idle.value("select 3") == "3"
        wait_end(restarts.old[0], stage.poolers[INI])
        text = documents.section(stage.path, "See that it works")
        quoted = [line for block in documents.BLOCK.finditer(text) for line in block[3].splitlines()]
        assert len(quoted) == 3
        for line in quoted:
            stage.wait_log(line)
    finally:
        for process in restarts.old:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()


def stand_in(stage, name, usage):
    """A program of a cloud, which prints the token of the moment if it is called as it has to be."""
    stage.write("bin/" + name, '#!/bin/sh\n[ "$*" = "%s" ] || { echo "Unable to locate credentials" >&2; exit 255; }\n'
                               'cat %s/token\n' % (usage, stage.dir), 0o700)
    return os.path.join(stage.dir, "bin", name)


def test_expiring_passwords(recipe, pg):
    """The token of each cloud's program lets the pooler in, and the next one does, too."""
    secrets = {"shop": "password of shop", "admin": "password of admin"}
    stage = recipe("expiring-passwords", of_superuser(pg, **{"mydb.abc.eu-central-1.rds.amazonaws.com": "localhost"}),
                   secrets)
    stage.real["/usr/local/bin/aws"] = stand_in(
        stage, "aws", "rds generate-db-auth-token --region eu-central-1 --hostname localhost --port %d --username shop" % pg.port)
    stage.real["/usr/bin/az"] = stand_in(
        stage, "az", "account get-access-token --resource-type oss-rdbms --query accessToken --output tsv")
    stage.real["/usr/bin/vault"] = stand_in(stage, "vault", "read -field=password database/static-creds/shop")
    pair = certs.Authority(stage.dir, "ca").issue("server", "localhost", ["localhost", "127.0.0.1"])
    stage.instead["sql"] = lambda text: pg.do(*[line for line in text.split(";") if line.strip()])
    pg.do("create role rds_iam", "create database shop", "alter system set ssl = on",
          "alter system set ssl_cert_file = '%s'" % pair.cert_file, "alter system set ssl_key_file = '%s'" % pair.key_file)
    pg.set_hba(["hostssl all shop 127.0.0.1/32 password", "hostssl all shop ::1/128 password",
                "host all shop all reject", *postgres.hba_lines()])
    numbers = iter(range(1, 100))

    def new_token():
        token = "X-Amz-Security-Token=Kq7+%d" % next(numbers)
        pg.do("alter role shop password '%s'" % token)
        stage.write("token", token + "\n", 0o600)

    def console(command):
        with wire.Client("127.0.0.1", stage.port, "admin", "pgbouncer", secrets["admin"]).login() as admin:
            admin.query(command)

    try:
        stage.write("token", "")
        stage.play("Amazon RDS")
        new_token()
        stage.play("See that it works")
        ini = os.path.join(stage.dir, "pgbouncer.ini")
        with open(ini, encoding="utf-8") as file:
            text = file.read()
        line = "server_password_command = %s/rds-password" % stage.dir
        assert line in text
        for heading, instead in (("Azure", line.replace("rds", "azure")), ("Vault", line.replace("rds", "vault")),
                                 ("Vault", "server_password_file = %s/token" % stage.dir)):
            stage.play(heading)
            stage.write(ini, text.replace(line, instead))
            console("RELOAD")
            for _ in range(2):
                new_token()
                console("RECONNECT")
                assert in_tls(stage, secrets["shop"])
        stage.write(ini, text)
        console("RELOAD")
        stage.play("What goes wrong")
        stand_in(stage, "aws", "something else")
        console("RELOAD")
        console("RECONNECT")
        with contextlib.suppress(wire.Refused, wire.Closed):
            assert not in_tls(stage, secrets["shop"])
        stage.wait_log("no password for user shop at ...: /etc/pgbouncer/rds-password: exit 255: Unable to locate credentials")
    finally:
        pg.do("alter system reset all", "drop database shop with (force)", "drop role shop, rds_iam")
        pg.set_hba(postgres.hba_lines())


def test_oauth(recipe, pg):
    """Whom a token names gets in as the role of the map, applications by their passwords."""
    secrets = {"app": "password of app", "admin": "password of admin"}
    analyst = "password of analyst 3a"
    with tempfile.TemporaryDirectory() as folder:
        pair = certs.Authority(folder, "ca").issue("server", "localhost", ["localhost", "127.0.0.1"])
        issuer = issuers.Issuer(pair, "/realms/staff")
        stage = recipe("oauth", of_superuser(pg, **{"https://login.example.com/realms/staff": issuer.name}), secrets)
        stage.real["/usr/bin/vault"] = stand_in(stage, "vault", "read -field=password database/static-creds/analyst")
        stage.write("token", analyst + "\n", 0o600)
        for name in ("server.crt", "server.key", "ca.crt"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                stage.write(name, file.read(), 0o600)
        pg.do("create database shop", "create role analyst login password '%s'" % analyst)
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.crt"))

        def log_in(**claims):
            session = wire.Client("127.0.0.1", stage.port, "analyst", "shop")
            session.send(wire.ssl_request())
            assert session.recv_exact(1) == b"S"
            session.sock = context.wrap_socket(session.sock, server_hostname="localhost")
            session.send(session.startup_packet())
            assert session.recv().body == b"\0\0\0\x0aOAUTHBEARER\0\0"
            session.send(wire.sasl_initial("OAUTHBEARER", issuers.first_message(issuer.token("7f3", **claims))))
            return session

        try:
            stage.play("The pooler")
            stage.play("See that it works")
            with log_in(preferred_username="ann") as session:
                assert session.recv().raw() == wire.auth(0)
                session.finish()
                assert session.value("select current_user") == "analyst"
            stage.play("After the first login")
            stage.wait_log("got ... keys of the issuer ...")
            stage.wait_log("the token is that of ..., who may log in as ... by the ident map staff")
            for claims, line in (
                    ({"preferred_username": "bob"},
                     "the token is that of ..., who may not log in as ... by the ident map staff"),
                    ({"aud": "x"}, "the token is not accepted: it is for another audience"),
                    ({"scope": "openid"}, "the token is not accepted: it lacks a scope"),
                    ({"iss": "x"}, "the token is not accepted: its issuer is ..."),
                    ({"exp": 1000}, "the token is not accepted: it has expired ... s ago")):
                with log_in(**claims) as session:
                    assert session.recv().body[:4] == b"\0\0\0\x0b"
                stage.wait_log(line)
        finally:
            issuer.go()
            pg.do("drop database shop with (force)", "drop role analyst")


@pytest.mark.skipif(kdc.missing() is not None, reason=str(kdc.missing()))
def test_kerberos(recipe, pg):
    """No file has a password, neither for clients nor for PostgreSQL."""
    realm = kdc.Kdc()
    ident = os.path.join(pg.data, "pg_ident.conf")
    try:
        realm.create()
        keytab = realm.add("postgres/127.0.0.1")
        for name in ("shop", "batch/shop", "ann"):
            realm.add(name)
            realm.kinit(name)
        stage = recipe("kerberos", {"pooler.example.com": "localhost", "db.example.com": "127.0.0.1",
                                    "port=5432": "port=%d" % pg.port}, {})
        for program in ("kadmin.local", "kinit", "kvno"):
            stage.link(program, kdc.program(program))
        stage.env.update(realm.env("shop.cache"), KRB5_KDC_PROFILE=realm.path("kdc.conf"), KRB5RCACHEDIR=realm.dir)
        stage.instead["pg_hba.conf"] = lambda text: pg.set_hba(text.splitlines() + postgres.hba_lines())
        stage.instead["pg_ident.conf"] = lambda text: stage.write(ident, text)
        pg.do("create role shop login", "create database shop", "alter system set krb_server_keyfile = '%s'" % keytab)
        for heading in ("Keys", "PostgreSQL", "The pooler", "See that it works"):
            stage.play(heading)
        query = "psql -h pooler.example.com -p 6432 -U shop shop -Atc 'select 1'"
        stage.env.update(realm.env("batch-shop.cache"))
        assert stage.give(query) == "1\n"
        stage.env.update(realm.env("ann.cache"))
        stage.give(query, "...FATAL: GSSAPI authentication failed for user \"shop\"\n")
        stage.wait_log("GSSAPI: ann@EXAMPLE.COM may not log in as shop")
        stage.env.update(realm.env("pooler.cache"))
        stage.play("What goes wrong")
    finally:
        realm.remove()
        pg.do("alter system reset krb_server_keyfile", "drop database if exists shop with (force)",
              "drop role if exists shop")
        pg.set_hba(postgres.hba_lines())


def in_tls(stage, secret):
    with wire.Client("127.0.0.1", stage.port, "shop", "shop", secret).login() as session:
        return session.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()") == "t"

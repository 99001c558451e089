"""The metrics listener: what it serves, to whom, and what it does to nobody."""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time

import pytest
import waiting
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import certs
import documents
from test_takeover import restart, wait_end  # noqa: F401

ETC = os.path.join(os.path.dirname(__file__), "../../etc")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROTOBUF = ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
            "encoding=delimited")
KEPT = 128  # Connections at a time.
PROMTOOL = shutil.which("promtool", path=os.environ.get("PATH", "") + ":" + os.path.expanduser("~/go/bin"))


class Listener:
    """Where a pooler serves metrics."""

    def __init__(self, port, context=None):
        self.port = port
        self.context = context

    def get(self, path="/metrics", method="GET", **headers):
        """Returns status, headers and text."""
        make = http.client.HTTPSConnection if self.context else http.client.HTTPConnection
        more = {"context": self.context} if self.context else {}
        connection = make("127.0.0.1", self.port, timeout=waiting.DEADLINE, **more)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def samples(self, accept="text/plain"):
        """Returns {(name, labels): value}."""
        status, headers, body = self.get(Accept=accept)
        assert status == 200
        parse = parse_openmetrics if "openmetrics" in headers["Content-Type"] else parse_text
        return {(s.name, tuple(sorted(s.labels.items()))): s.value
                for family in parse(body.decode()) for s in family.samples}

    def value(self, metric, **labels):
        return self.samples().get((metric, tuple(sorted(labels.items()))))

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=waiting.DEADLINE)


@pytest.fixture
def serve(make_pooler, pg):
    """serve(databases, SETTING=...) returns a pooler and its listener."""

    def start(databases=None, context=None, **settings):
        port = waiting.PORTS.take()
        pooler = make_pooler(databases or {"db": pg.conn()}, settings=dict(
            {"pool_mode": "transaction", "metrics_listen": "127.0.0.1:%d" % port}, **settings))
        pooler.wait_log("metrics are served on 127.0.0.1:%d" % port)
        return pooler, Listener(port, context)

    return start


# what is served


def number(row, column, micros=None):
    return int(row[column] or 0) + (int(row[micros]) / 1e6 if micros else 0)


def compare_with_show(pooler, samples):
    """Numbers that nothing changes meanwhile are those of SHOW."""

    def check(metric, value, /, **labels):
        assert samples[metric, tuple(sorted(labels.items()))] == value, (metric, labels)

    for row in pooler.show("POOLS"):
        labels = {"database": row["database"], "user": row["user"]}
        check("pgbouncer_pools_client_active_connections", number(row, "cl_active"), **labels)
        check("pgbouncer_pools_client_waiting_connections", number(row, "cl_waiting"), **labels)
        check("pgbouncer_pools_server_idle_connections", number(row, "sv_idle"), **labels)
        check("pgbouncer_pools_server_pinned_connections", number(row, "sv_pinned"), **labels)
        check("pgbouncer_pools_client_listening_connections", number(row, "cl_listening"), **labels)
    for row in pooler.show("STATS_TOTALS"):
        if row["database"] == "pgbouncer":
            continue
        for family in ("pgbouncer_stats_totals_", "pgbouncer_stats_"):
            check(family + "queries_pooled_total", number(row, "query_count"), database=row["database"])
            check(family + "received_bytes_total", number(row, "bytes_received"), database=row["database"])
            check(family + "sql_transactions_pooled_total", number(row, "xact_count"),
                  database=row["database"])
            check(family + "queries_duration_seconds_total", pytest.approx(number(row, "query_time") / 1e6),
                  database=row["database"])
    lists = {row["list"]: int(row["items"]) for row in pooler.show("LISTS")}
    for name in ("databases", "users", "pools", "used_clients", "used_servers"):
        check("pgbouncer_" + name, lists[name])
    for row in pooler.show("DATABASES"):
        labels = {"name": row["name"], "host": row["host"] or "", "port": row["port"],
                  "database": row["database"] or "", "force_user": row["force_user"] or "",
                  "pool_mode": row["pool_mode"] or ""}
        check("pgbouncer_databases_current_connections", number(row, "current_connections"), **labels)
        check("pgbouncer_databases_reserve_pool", number(row, "reserve_pool_size"), **labels)
    for row in pooler.show("HOSTS"):
        check("pgbouncer_hosts_assignments_total", number(row, "assignments"), database=row["database"],
              host=row["host"] or "", port=row["port"])
    for row in pooler.show("ERRORS"):
        check("pgbouncer_errors_total", number(row, "count"), error=row["error"], sqlstate=row["sqlstate"] or "")


@pytest.mark.parametrize("workers", [1, 2])
def test_numbers_are_those_of_show(serve, workers):
    pooler, listener = serve(workers=workers)
    with pooler.connect(application_name='a "b\\ c') as one, \
            pooler.connect(application_name=b"a\xff") as two:
        one.query("select 1")
        one.query("select 2")
        pooler.refusal("nosuchdb")
        pooler.wait_pool(cl_active=2, sv_active=0)
        pooler.admin.query("SHOW VERSION")
        for accept in ("text/plain", OPENMETRICS):
            compare_with_show(pooler, listener.samples(accept))
        samples = listener.samples()
        labels = {"database": "db", "user": "trust_user", "state": "idle"}
        assert samples["pgbouncer_client_connections", tuple(sorted(dict(
            labels, application_name='a "b\\ c').items()))] == 1
        assert samples["pgbouncer_client_connections", tuple(sorted(dict(
            labels, application_name=dict(two.parameters())["application_name"]).items()))] == 1
        duration = ("pgbouncer_query_duration_seconds_count", (("database", "db"), ("user", "trust_user")))
        assert samples[duration] == 2
        assert samples["pgbouncer_query_duration_seconds_bucket",
                       (("database", "db"), ("le", "+Inf"), ("user", "trust_user"))] == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_servers_that_stay_with_their_clients(serve, pg, workers):
    """Pinned servers up to max_pinned_servers, and the connection that listens for all, which is one of them."""
    pooler, listener = serve({"db": pg.conn(pool_size=5)}, session_state="keep", max_pinned_servers=2,
                             workers=workers)

    def is_told(pinned, listening=0):
        assert len(pooler.show("PINS")) == pinned - (listening > 0)
        samples = listener.samples()
        compare_with_show(pooler, samples)
        labels = (("database", "db"), ("user", "trust_user"))
        assert samples["pgbouncer_pools_server_pinned_connections", labels] == pinned
        assert samples["pgbouncer_pools_client_listening_connections", labels] == listening
        return {dict(labels)["sqlstate"]: value for (name, labels), value in samples.items()
                if name == "pgbouncer_errors_total" and value}

    with pooler.connect() as one, pooler.connect() as two, pooler.connect() as three:
        is_told(0)
        one.query("create temp table kept (n int)")
        is_told(1)
        two.query("select pg_advisory_lock(7)")
        assert "53400" not in is_told(2)
        refused = three.query("create temp table kept (n int)", check=False)
        assert dict(refused.errors[0].fields())["C"] == "53400"
        assert is_told(2)["53400"] == 1
        one.query("drop table kept")
        is_told(1)
        three.query("listen news")
        is_told(2, 1)
        two.query("select pg_advisory_unlock(7)")
        three.query("unlisten news")
        waiting.wait_for(lambda: pooler.pool()["sv_pinned"] == 0, "the connection that listens is closed")
        is_told(0)


def test_what_prometheus_asks_for_first_is_not_served(serve):
    _, listener = serve()
    _, headers, _ = listener.get(Accept=PROTOBUF + ";q=0.6," + OPENMETRICS + ";q=0.5,text/plain;q=0.3")
    assert headers["Content-Type"].startswith("application/openmetrics-text")


def test_too_many_application_names_are_other(serve):
    pooler, listener = serve(metrics_max_client_series=5)
    clients = [pooler.connect(application_name="app%d" % i) for i in range(8)]
    counts = {dict(labels)["application_name"]: value for (name, labels), value in listener.samples().items()
              if name == "pgbouncer_client_connections" and dict(labels)["database"] == "db"}
    assert len(counts) <= 5 and counts["other"] >= 4 and sum(counts.values()) == 8
    for client in clients:
        client.close()


def test_paths_and_methods(serve):
    _, listener = serve()
    assert listener.get("/healthz")[0] == 200
    assert b"/metrics" in listener.get("/")[2]
    assert listener.get("/nothere")[0] == 404
    status, headers, _ = listener.get(method="POST")
    assert status == 405 and headers["Allow"] == "GET, HEAD"
    status, headers, body = listener.get(method="HEAD")
    assert (status, body) == (200, b"") and headers["Content-Type"].startswith("text/plain; version=0.0.4")


def test_readiness(serve):
    """Not ready: paused, no server in reach, shutting down."""
    pooler, listener = serve({"db": "host=127.0.0.1 port=%d" % waiting.PORTS.take()}, server_login_retry=60)
    assert listener.get("/readyz")[::2] == (200, b"ready\n")
    pooler.admin.query("PAUSE")
    assert listener.get("/readyz")[::2] == (503, b"The pooler is paused.\n")
    pooler.admin.query("RESUME")
    with pooler.client() as client:
        client.send(client.startup_packet())
        waiting.wait_for(lambda: listener.get("/readyz")[::2] == (503, b"No server can be reached.\n"),
                         "the host to be down")
    assert listener.get("/healthz")[0] == 200
    with pooler.raw():
        pooler.admin.query("SHUTDOWN WAIT_FOR_CLIENTS")
        assert listener.get("/readyz")[::2] == (503, b"The pooler is shutting down.\n")


# where it listens


def test_reload_moves_it(serve):
    pooler, listener = serve()
    moved = Listener(waiting.PORTS.take())
    path = pooler.path("metrics.sock")
    pooler.change(metrics_listen="127.0.0.1:%d, unix:%s" % (moved.port, path))
    assert moved.get("/healthz")[0] == 200
    with pytest.raises(ConnectionRefusedError):
        listener.get("/healthz")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in sock.recv(1000)
    pooler.change(metrics_listen="")
    with pytest.raises(ConnectionRefusedError):
        moved.get("/healthz")
    assert not os.path.exists(path)


def test_online_restart_hands_it_on(serve, restart):  # noqa: F811
    pooler, listener = serve()
    path = pooler.path("metrics.sock")
    pooler.change(metrics_listen="127.0.0.1:%d, unix:%s" % (listener.port, path))
    began = listener.value("process_start_time_seconds")
    with pooler.connect(application_name="moved") as client:
        old = restart(pooler)
        waiting.wait_for(lambda: can_ask(listener) and listener.value("process_start_time_seconds") > began,
                         "the new process to serve metrics")
        assert listener.value("pgbouncer_client_connections", database="db", user="trust_user",
                              application_name="moved", state="idle") == 1
        wait_end(old, pooler)
        waiting.wait_for(lambda: os.path.exists(path), "the file that the old process left alone")
        client.query("select 1")


def can_ask(listener):
    try:
        return listener.get("/healthz")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("value, says", [
    ("9127", 'metrics_listen: "9127" has no port'),
    ("127.0.0.1:0", "has no port between 1 and 65535"),
    ("::1:9127", "is an IPv6 address without brackets"),
    ("unix:metrics", "has no absolute path"),
])
def test_bad_address_is_refused(make_pooler, pg, value, says):
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={"metrics_listen": value})
    pooler.write_files()
    code, out, err = pooler.run("--check-config", pooler.ini)
    assert code != 0 and says in out + err
    # What else is said is about the rights of files.
    told = [line for line in out.splitlines() if "chmod" not in line]
    assert len(told) == 1 and re.fullmatch(r"\S+pgbouncer.ini:\d+: metrics_listen: .*", told[0]), out


def test_tls(serve):
    folder = waiting.scratch("certs")
    try:
        authority = certs.Authority(folder)
        pair = authority.issue("server", "localhost", ["127.0.0.1"])
        context = ssl.create_default_context(cafile=authority.file)
        context.set_alpn_protocols(["h2", "http/1.1"])
        pooler, listener = serve(context=context, metrics_tls=1, client_tls_sslmode="require",
                                 client_tls_cert_file=pair.cert_file, client_tls_key_file=pair.key_file)
        assert listener.value("pgbouncer_up") == 1
        with listener.raw() as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert not plain.recv(1000).startswith(b"HTTP")
        with listener.raw():  # A handshake that never comes.
            assert listener.get("/healthz")[0] == 200
    finally:
        waiting.discard(folder)


def test_tls_needs_a_certificate(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False,
                         settings={"metrics_listen": "127.0.0.1:9127", "metrics_tls": 1})
    pooler.write_files()
    code, out, err = pooler.run("--check-config", pooler.ini)
    assert code != 0 and "metrics_tls needs a certificate" in out + err


# strangers


def closes(sock):
    """Does the other end close without an answer of 200?"""
    data = b""
    try:
        while True:
            more = sock.recv(65536)
            if not more:
                break
            data += more
    except ConnectionResetError:
        pass
    return b" 200 " not in data


def test_hostile_clients(serve):
    pooler, listener = serve()
    hostile = (b"\x00\x01\x02 garbage\r\n\r\n",
               b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n",
               b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000,
               b"POST / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n" + b"z" * 100000,
               b"GET /metrics HTTP/9.9\r\n\r\n",
               b"\x00\x00\x00\x08\x04\xd2\x16\x2f")
    with pooler.connect() as client:
        for text in hostile:
            with listener.raw() as sock:
                try:
                    sock.sendall(text)
                    sock.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                assert closes(sock), text[:30]
            client.query("select 1")
    assert listener.get("/healthz")[0] == 200


def test_slow_and_many_clients(serve):
    """Connections that ask for nothing, or do not read, are few, and hold up nobody for long."""
    pooler, listener = serve()
    before = pooler.fds()
    idle = [listener.raw() for _ in range(20)]
    sent = listener.raw()
    sent.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" + b"x" * 200000)  # ... and reads nothing
    assert listener.get("/healthz")[0] == 200
    with pooler.connect() as client:
        crowd = []
        for _ in range(300):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", listener.port))
            crowd.append(sock)
        client.query("select 1")
        assert pooler.fds() <= before + KEPT + 20 + 10
        for sock in crowd + idle + [sent]:
            sock.close()
        client.query("select 1")
    waiting.wait_for(lambda: listener.get("/healthz")[0] == 200, "the listener to answer")
    waiting.wait_for(lambda: pooler.fds() <= before + 2, "descriptors to be closed")


def test_scrapes_that_nobody_reads(serve):
    """Four answers are made at a time; whoever else asks is told so, and other paths are served."""
    databases = {"db%d" % i: "host=127.0.0.1 port=1" for i in range(3000)}
    _, listener = serve(databases)
    idle = []
    for _ in range(4):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", listener.port))
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert sock.recv(100)  # It is being written.
        idle.append(sock)
    assert listener.get()[0] == 503
    assert listener.get("/healthz")[0] == 200
    idle.pop().close()
    waiting.wait_for(lambda: listener.get()[0] == 200, "room for a scrape")
    for sock in idle:
        sock.close()


def test_silent_connections_give_way(serve):
    """A hundred connections a second that ask for nothing leave room for a health check."""
    _, listener = serve()
    idle = []
    for n in range(600):
        idle.append(listener.raw())
        time.sleep(0.01)  # The speed matters: they come more slowly than they are closed.
        if n % 100 == 99:
            began = time.monotonic()
            assert listener.get("/readyz")[0] == 200
            assert time.monotonic() - began < 3
    for sock in idle:
        sock.close()


MANY = {"db%d" % i: "host=127.0.0.1 port=1" for i in range(3000)}


def test_slow_readers_give_way(serve):
    """A scrape that nobody reads ends when another one asks for its place."""
    _, listener = serve(MANY)
    idle = []
    for _ in range(4):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", listener.port))
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert sock.recv(100)
        idle.append(sock)
    began = time.monotonic()
    waiting.wait_for(lambda: listener.get()[0] == 200, "room for a scrape")
    assert time.monotonic() - began < 20
    for sock in idle:
        sock.close()


def test_a_flood_leaves_room_for_health_checks(serve):
    """Of silent connections, of which hundreds come within a second, beside scrapes that nobody reads."""
    _, listener = serve(MANY)
    opened = [socket.socket() for _ in range(900)]
    for sock in opened[:6]:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", listener.port))
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    began, longest = time.monotonic(), 0
    for n, sock in enumerate(opened[6:]):
        time.sleep(max(0, began + n / 800 - time.monotonic()))  # Those of one second have no room.
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", listener.port))
        if n % 40 == 39:
            asked = time.monotonic()
            assert listener.get("/readyz")[0] == 200
            longest = max(longest, time.monotonic() - asked)
    for sock in opened:
        sock.close()
    assert longest < 3


def test_a_client_that_closes_its_side_gets_the_whole_answer(serve):
    _, listener = serve(MANY)
    with listener.raw() as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n0\r\n\r\n")
    assert len(answer) > 1000000


def test_reader_who_leaves(serve):
    """Scrapes whose readers leave end, and make room."""
    pooler, listener = serve()
    for _ in range(10):
        with listener.raw() as sock:
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    waiting.wait_for(lambda: listener.get()[0] == 200, "room for a scrape")


# dashboard and alerts


def metrics_in(expression):
    expression = re.sub(r'"[^"]*"', "", expression)
    return set(re.findall(r"\b(?:pgbouncer|process)_[a-z_]+", expression))


def rules():
    with open(os.path.join(ETC, "prometheus-alerts.yml")) as file:
        return re.findall(r"^ +expr: (.*)$", file.read(), re.M)


def dashboard():
    with open(os.path.join(ETC, "grafana-dashboard.json")) as file:
        return json.load(file)


def panels():
    board = dashboard()
    found = [t["expr"] for p in board["panels"] for t in p["targets"]]
    return found + [v["query"] for v in board["templating"]["list"] if v["type"] == "query"]


def test_each_alert_names_its_section_of_the_manual():
    with open(os.path.join(ETC, "prometheus-alerts.yml")) as file:
        alerts = file.read().split("- alert: ")[1:]
    assert len(alerts) == len(rules())
    for alert in alerts:
        path, anchor = re.search(r'^ +manual: "(doc/\w+\.md)#([\w-]+)"$', alert, re.M).groups()
        headings = re.findall("^##+ (.*)$", documents.document(path), re.M)
        assert anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings], alert


def test_the_panel_up_shows_a_pooler_that_is_down():
    """Prometheus itself makes the metric up; one that is down serves none, and is known from earlier."""
    [panel] = [panel for panel in dashboard()["panels"] if panel["title"] == "Up"]
    assert [target["expr"] for target in panel["targets"]] == ['up{instance=~"$instance"}']
    assert panel["fieldConfig"]["defaults"]["mappings"][0]["options"]["0"]["text"] == "down"
    [instances] = [v["query"] for v in dashboard()["templating"]["list"] if v["name"] == "instance"]
    assert "last_over_time(pgbouncer_up[7d])" in instances


def test_dashboard_and_alerts_use_what_is_served(serve):
    folder = waiting.scratch("certs")
    own = certs.Authority(folder).issue("own", "localhost")
    pooler, listener = serve(client_tls_sslmode="allow", client_tls_cert_file=own.cert_file,
                             client_tls_key_file=own.key_file)
    with pooler.connect() as client:
        client.query("select 1")
        served = {name for name, _ in listener.samples()}
    waiting.discard(folder)
    used = set().union(*map(metrics_in, rules() + panels()))
    assert len(rules()) > 10 and len(used) > 30
    assert used - served == set()


# Which alert is raised after how long, for which series.
ALERTS = """
rule_files: [%s/prometheus-alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: up{job="pgbouncer", instance="down"}
        values: 0x20
      - series: up{job="pgbouncer", instance="up"}
        values: 1x20
      - series: pgbouncer_used_clients{instance="a"}
        values: 91x20
      - series: pgbouncer_config_max_client_connections{instance="a"}
        values: 100x20
      - series: pgbouncer_hosts_state{database="d", host="h", port="1", state="down"}
        values: 0x5 1x15
    alert_rule_test:
      - {eval_time: 3m, alertname: PgBouncerDown, exp_alerts: [{
           exp_labels: {severity: critical, job: pgbouncer, instance: down},
           exp_annotations: {summary: The pooler down does not answer., manual: "doc/troubleshooting.md#what-you-see-what-to-ask-what-to-do"}}]}
      - {eval_time: 4m, alertname: PgBouncerClientsNearLimit, exp_alerts: []}
      - {eval_time: 6m, alertname: PgBouncerClientsNearLimit, exp_alerts: [{
           exp_labels: {severity: warning, instance: a},
           exp_annotations: {summary: The pooler a uses more than 90 %% of max_client_conn.,
             manual: "doc/troubleshooting.md#too-many-connections"}}]}
      - {eval_time: 4m, alertname: PgBouncerHostDown, exp_alerts: []}
      - {eval_time: 10m, alertname: PgBouncerHostDown, exp_alerts: [{
           exp_labels: {severity: critical, database: d, host: h, port: "1"},
           exp_annotations: {summary: "h:1 of d is down, hangs or refuses.",
             manual: "doc/troubleshooting.md#login-at-the-server-fails"}}]}
"""


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (make promtool)")
def test_promtool_accepts_rules_and_metrics(serve):
    pooler, listener = serve()

    def check(*args, text=None):
        done = subprocess.run([PROMTOOL, *args], input=text, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr

    with pooler.connect() as client:
        client.query("select 1")
        check("check", "metrics", text=listener.get(Accept="text/plain")[2])
    check("check", "config", os.path.join(ETC, "prometheus.yml"))
    check("test", "rules", pooler.write("alerts.yml", ALERTS % os.path.abspath(ETC)))


# what is freed


class Counted:
    """All counters of the databases (but those of their hosts) and the histograms of the pools, which never shrink
    while they are there."""

    def __init__(self, pooler, metrics):
        self.pooler, self.metrics, self.rows, self.samples, self.totals = pooler, metrics, {}, {}, {}

    def look(self):
        rows = {(row["database"], name): int(value) for row in self.pooler.show("STATS_TOTALS")
                for name, value in row.items() if name != "database"}
        samples = {key: value for key, value in self.metrics.samples().items()
                   if key[0].endswith(("_total", "_bucket", "_count", "_sum")) and "database" in dict(key[1])
                   and "_hosts_" not in key[0]}
        totals = {row["name"]: int(row["value"]) for row in self.pooler.show("TOTALS") if row["name"].startswith("total_")}
        for before, now in ((self.rows, rows), (self.samples, samples), (self.totals, totals)):
            less = {key: (before[key], now[key]) for key in before.keys() & now.keys() if now[key] < before[key]}
            assert not less, less
        self.rows, self.samples, self.totals = rows, samples, totals
        return rows


@pytest.mark.parametrize("workers", [1, 4])
def test_counters_stay_when_pools_are_freed(serve, pg, workers):
    pooler, metrics = serve({"db": pg.conn(), "other": pg.conn()}, workers=workers,
                            server_idle_timeout=0.1, pool_idle_timeout=0.1)
    counted = Counted(pooler, metrics)
    stays = pooler.connect("db", "trust_user")
    for _ in range(3):
        clients = [pooler.connect("db", user) for user in ["trust_user", "second_user"] * 4]
        for client in clients:
            assert client.value("select 1") == "1"
        counted.look()
        for client in clients:
            client.close()
        waiting.wait_for(lambda: counted.look() and not pooler.pool("db", "second_user"), "its pool is freed")
        pooler.databases["new"] = pg.conn()
        pooler.change()
        with pooler.connect("new") as client:
            assert client.value("select 1") == "1"
        counted.look()
        del pooler.databases["new"]
        pooler.change()
        assert stays.value("select 1") == "1"
    rows = counted.look()
    assert rows["db", "query_count"] >= 3 * 8 + 3
    assert pooler.admin.query("KILL db").tag == "KILL"
    waiting.wait_for(lambda: counted.look() and not pooler.pool("db", "trust_user"), "killed")
    assert counted.look()["db", "query_count"] == rows["db", "query_count"]


def test_counters_of_an_auto_database_that_some_workers_drop(serve, pg):
    """Each worker drops it when nobody there uses it. It keeps what they have counted until the last one does."""
    pooler, metrics = serve({"*": "host=%s port=%d" % (pg.host, pg.port)}, workers=4, server_idle_timeout=0.1,
                            pool_idle_timeout=0.1, autodb_idle_timeout=0.2)
    counted = Counted(pooler, metrics)
    clients = [pooler.connect("postgres") for _ in range(8)]
    for client in clients:
        assert client.value("select 1") == "1"
    for client in clients[1:]:
        client.close()
    waiting.holds_for(lambda: counted.look()["postgres", "query_count"] >= 8, 3, "nothing is lost", 0.05)
    assert counted.totals["total_query_count"] >= 8
    clients[0].close()
    waiting.wait_for(lambda: ("postgres", "query_count") not in counted.look(), "dropped everywhere")

"""Seventeen failures of a night. For each of them: what the client is told, the line of the log, the row of a view,
the metric, and the row of doc/troubleshooting.md that has the remedy. No cell is empty, with both engines and with one
worker and four."""

import contextlib
import re
import resource
import socket
import urllib.request

import pytest

import certs
import documents
import waiting
import wire

DOCUMENT = "doc/troubleshooting.md"
HERE = "host=127.0.0.1 port=%d "


class Night:
    """A pooler, and ways to make something fail."""

    def __init__(self, make_pooler, pg, engine, workers):
        self.make_pooler, self.pg, self.engine, self.workers, self.pooler = make_pooler, pg, engine, workers, None
        self.folder, self.open = waiting.scratch("night"), contextlib.ExitStack()

    def start(self, entry=None, start=True, **settings):
        self.port = waiting.PORTS.take()
        settings = {"metrics_listen": "127.0.0.1:%d" % self.port, "io_engine": self.engine, "workers": self.workers,
                    "pool_mode": "transaction", **settings}
        self.pooler = self.make_pooler({"db": entry or self.pg.conn()}, settings=settings, start=start)
        return self.pooler

    def client(self, *args, **more):
        return self.open.enter_context(self.pooler.client(*args, **more))

    def refused(self, *args, **more):
        """The error with which a login ends, with DETAIL and HINT."""
        with pytest.raises(wire.Refused) as refused:
            self.client(*args, **more).login()
        return told(refused.value.message)

    def metrics(self):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port, timeout=waiting.DEADLINE) as answer:
            return answer.read().decode()

    def close(self):
        self.open.close()
        waiting.discard(self.folder)


def told(message):
    return "\n".join(message.field(part) or "" for part in "MDH")


def hold(night, count):
    for _ in range(count):
        night.client().login().query("begin")


# Each of these returns what the client is told.


def server_down(night):
    night.start(HERE % waiting.PORTS.take(), query_wait_timeout=1)
    return night.refused()


def name_not_found(night):
    night.start("host=no-such-host.invalid", query_wait_timeout=1)
    return night.refused()


def server_refuses_password(night):
    night.start(night.pg.conn(user="scram_user", password="wrong"))
    return night.refused()


def server_says_nothing(night):
    silent = night.open.enter_context(socket.create_server(("127.0.0.1", 0)))
    night.start(HERE % silent.getsockname()[1], server_connect_timeout=0.3, query_wait_timeout=2)
    return night.refused()


def server_is_full(night):
    night.pg.do("alter role second_user connection limit 0")
    night.open.callback(night.pg.do, "alter role second_user connection limit -1")
    night.start(night.pg.conn(user="second_user"), query_wait_timeout=2)
    return night.refused()


def server_ends_amid_a_query(night):
    night.start()
    client = night.client().login()
    pid = client.value("select pg_backend_pid()")
    client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: night.pg.value("select state from pg_stat_activity where pid=%s" % pid) == "active", "runs")
    night.pg.value("select pg_terminate_backend(%s)" % pid)
    return told(client.recv_until("E")[-1])


def no_primary(night):
    night.start(night.pg.conn(target_session_attrs="standby"), query_wait_timeout=2)
    return night.refused()


def pool_is_full(night):
    night.start(night.pg.conn(pool_size=2), query_wait_timeout=1)
    hold(night, 2)
    client = night.client().login()
    client.send(wire.query("select 1"))
    return told(client.expect_error("query_wait_timeout"))


def queue_is_full(night):
    night.start(night.pg.conn(pool_size=1), max_waiting_clients=1)
    hold(night, 1)
    night.client().login().send(wire.query("select 1"))
    night.pooler.wait_pool(cl_waiting=1)
    client = night.client().login()
    client.send(wire.query("select 1"))
    return told(client.recv_until("E")[-1])


def too_many_clients(night):
    night.start(max_client_conn=2)
    for _ in range(2):
        night.client().login()
    return night.refused()


def too_few_descriptors(night):
    """Who asks is told before anybody is refused."""
    pooler = night.start(start=False, max_client_conn=1000)
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))
    pooler.start()
    return pooler.run("--explain-config", pooler.ini, preexec_fn=pooler.preexec)[1]


def wrong_password(night):
    night.start(auth_type="scram-sha-256")
    return night.refused(user="scram_user", secret="wrong")


def query_for_users_fails(night):
    night.start(night.pg.conn(), auth_type="scram-sha-256", auth_user="trust_user", auth_query="select n from nowhere")
    return night.refused(user="somebody", secret="x")


def paused(night):
    pooler = night.start(query_wait_timeout=1)
    client = night.client().login()
    client.query("select 1")
    pooler.admin.query("PAUSE")
    night.open.callback(pooler.admin.query, "RESUME")
    client.send(wire.query("select 1"))
    return told(client.expect_error("query_wait_timeout"))


def reload_refused(night):
    pooler = night.start()
    pooler.write("pgbouncer.ini", pooler.ini_text() + "[pgbouncer]\npol_mode = session\n")
    return told(pooler.admin.query("RELOAD", check=False).errors[0])


def certificate_has_expired(night):
    authority = certs.Authority(night.folder)
    pair = authority.issue("old", "old.example", ["localhost"], days=-3)
    pooler = night.start(start=False, client_tls_sslmode="allow", client_tls_cert_file=pair.cert_file,
                         client_tls_key_file=pair.key_file)
    pooler.write_files()
    told_by_check = pooler.run("--check-config", pooler.ini)[1]
    pooler.start()
    return told_by_check


def log_is_full(night):
    pooler = night.start(logfile="/dev/full")
    waiting.wait_for(lambda: "cannot write to logfile" in pooler.log(), "the log is told to be full")
    return pooler.log()


HOST = r"^pgbouncer_hosts_state\{.*state=\"%s\".*\} 1$"
ERROR = r"^pgbouncer_errors_total\{error=\"%s\".*\} [1-9]"

# What fails: client, log, (view, its rows), metric, words of the document. The log of one whose log is
# full is stderr; a service's client is whoever starts it.
TABLE = {
    server_down: (r"query_wait_timeout is 1; the last connection to a server failed: Connection refused",
                  r"could not connect: Connection refused", ("SHOW HOSTS", r"'state': 'down'.*Connection refused"),
                  HOST % "down", "connect failed"),
    name_not_found: (r"failed: DNS lookup failed: no-such-host\.invalid", r"DNS lookup failed: no-such-host\.invalid",
                     ("SHOW HOSTS", r"'state': 'down'.*DNS lookup failed"), HOST % "down", "DNS lookup failed"),
    server_refuses_password: (r"password authentication failed for user \"scram_user\"", r"server login failed: FATAL password auth",
                              ("EXPLAIN LOGIN trust_user db", r"last attempt.*password authentication failed"), ERROR % "other",
                              "server login failed: FATAL"),
    server_says_nothing: (r"failed: (connect timeout|server login timed out|.*timeout)", r"closing because: .*timeout",
                          ("SHOW HOSTS", r"'state': 'down'.*timeout"), HOST % "down", "connect timeout"),
    server_is_full: (r"too many connections for role", r"too many connections for role",
                     ("EXPLAIN LOGIN trust_user db", r"last attempt.*too many connections for role"), ERROR % "other",
                     "too many connections for role"),
    server_ends_amid_a_query: (r"terminating connection due to administrator command", r"closing because: server conn crashed\?",
                               ("SHOW ERRORS", r"'error': 'server_crashed'[^}]*'count': '1'"), ERROR % "server_crashed",
                               "server conn crashed?"),
    no_primary: (r"no host of database \"db\" is standby: .*it is a primary", r"no host of database \"db\" is standby",
                 ("SHOW HOSTS", r"'state': 'unfit'.*'reason': 'it is a primary"), HOST % "unfit", "target_session_attrs"),
    pool_is_full: (r"pool_size of database \"db\" and user \"trust_user\" is 2, and all .*\n.*SHOW BLOCKERS",
                   r"pooler error: query_wait_timeout\n\tquery_wait_timeout is 1; pool_size", ("SHOW ERRORS", r"'error': 'query_wait_timeout'[^}]*'count': '1'"),
                   ERROR % "query_wait_timeout", "SHOW BLOCKERS"),
    queue_is_full: (r"too many clients are waiting.*\n.*max_waiting_clients is 1", r"pooler error: too many clients are waiting",
                    ("SHOW BLOCKERS", r"'waiting': '1'"), ERROR % "too_many_waiting", "max_waiting_clients"),
    too_many_clients: (r"no more connections allowed \(max_client_conn\)\nmax_client_conn is 2", r"no more connections allowed",
                       ("SHOW LISTS", r"'used_clients', 'items': '\d"), ERROR % "no_more_connections", "used\\_clients"),
    too_few_descriptors: (r"\d+ descriptors may be needed, and\s+the\s+limit\s+is\s+500", r"WARNING \d+ file descriptors may be needed",
                          ("SHOW WARNINGS", r"\d+ file descriptors may be needed"), r"^process_max_fds 500$",
                          "no more connections allowed (descriptor limit)"),
    wrong_password: (r"SASL authentication failed|authentication failed", r"pooler error: .*authentication failed",
                     ("SHOW WARNINGS", r"authentication failed"), ERROR % r"\w+", "Login fails"),
    query_for_users_fails: (r"bouncer config error|authentication", r"S: error in auth_query: ERROR: relation",
                            ("SHOW WARNINGS", r"error in auth_query: ERROR: relation"), ERROR % r"\w+", "error in auth_query"),
    paused: (r"query_wait_timeout is 1; database \"db\" is paused", r"PAUSE command issued",
             ("SHOW STATE", r"'paused', 'value': 'yes'"), ERROR % "query_wait_timeout", "paused"),
    reload_refused: (r"unknown parameter: pgbouncer/pol_mode\n(.*\n)*did you mean pool_mode", r"unknown parameter: pgbouncer/pol_mode",
                     ("SHOW STATE", r"'config_last_reload_successful', 'value': '0'"),
                     r"^pgbouncer_config_last_reload_successful 0$", "config\\_last\\_reload\\_successful"),
    certificate_has_expired: (r"certificate CN=old\.example in \S+ has expired on", r"certificate CN=old\.example in \S+ has expired",
                              ("SHOW CERTIFICATES", r"'subject': 'CN=old\.example'.*'seconds_left': '-"),
                              r"^pgbouncer_certificate_expires_timestamp_seconds\{", "seconds\\_left is negative"),
    log_is_full: (r"cannot write to logfile '/dev/full': No space left", r"its lines are lost",
                  ("SHOW STATE", r"'log_error', 'value': 'No space left on device'"), r"^pgbouncer_log_lines_lost_total [1-9]",
                  "the disk is full"),
}


@pytest.fixture
def night(make_pooler, pg, request):
    made = Night(make_pooler, pg, *request.param)
    yield made
    made.close()


def test_the_table_has_seventeen():
    assert len(TABLE) == 17 and all(all(row) for row in TABLE.values())


@pytest.mark.parametrize("night", [(engine, workers) for engine in ("epoll", "io_uring") for workers in (1, 4)],
                         indirect=True, ids=lambda how: "%s-%d" % how)
@pytest.mark.parametrize("fails", TABLE, ids=lambda fails: fails.__name__)
def test_what_is_said(night, fails):
    client, log, (view, rows), metric, words = TABLE[fails]
    said = fails(night)
    assert re.search(client, said), said
    night.pooler.wait_log(log)
    waiting.wait_for(lambda: re.search(rows, str(night.pooler.admin.query(view).dicts())), "%s shows %r" % (view, rows))
    waiting.wait_for(lambda: re.search(metric, night.metrics(), re.M), metric)
    # The last cell of a row says what to do.
    cells = [re.split(r"(?<!\\)\|", line) for line in documents.document(DOCUMENT).splitlines() if line.startswith("|")]
    assert any(words in "|".join(row) and len(row[-2].strip()) > 10 for row in cells), words

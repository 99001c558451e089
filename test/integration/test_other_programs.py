"""Programs that administrators use beside the pooler, run on a real log or a real console
(doc/usage.md, "Other programs"). Those that are not installed are skipped."""

import fcntl
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

import programs
import toolchain
import waiting
from pooler import STATS

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
# Programs of requirements.txt come first: the machine may have others of the same name that do not work.
PLACES = ":".join((os.path.dirname(sys.executable), os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin",
                   os.path.expanduser("~/go/bin")))


def needs(*names):
    """Returns the path of the first program that is installed."""
    for name in names:
        path = shutil.which(name, path=PLACES)
        if path:
            return path
    return pytest.skip("%s is not installed" % names[0])


@pytest.fixture
def watched(make_pooler, pg):
    """A pooler that logs to a file, with users who may look at its console without a password."""
    pooler = make_pooler({"db": pg.conn(pool_size=5)}, start=False, settings={
        "pool_mode": "transaction", "stats_period": 1, "ignore_startup_parameters": "extra_float_digits"})
    pooler.metrics = waiting.PORTS.take()
    pooler.settings.update(logfile=pooler.path("pgbouncer.log"), metrics_listen="127.0.0.1:%d" % pooler.metrics)
    return pooler.start()


def used(pooler):
    """Some traffic, and refused logins."""
    with pooler.connect() as client:
        for _ in range(20):
            client.query("select 1")
    pooler.refusal(user="nobody_known")
    pooler.wait_log("pooler error.*authentication failed")
    pooler.wait_log(" stats: ")
    return pooler.path("pgbouncer.log")


# on the log


def test_pgbadger(watched):
    program = needs("pgbadger")
    log = used(watched)
    done = subprocess.run([program, "-q", "-f", "pgbouncer3", "-x", "json", "-o", watched.path("report.json"), log],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    with open(watched.path("report.json")) as report:
        told = json.load(report)
    assert told["pgb_connection_info"]["database"] == {"db": 2}
    assert [error["count"] for text, error in told["pgb_error_info"].items() if "authentication failed" in text] == [1]


FILTER = os.path.join(TOP, "etc/fail2ban-filter.conf")


def banned_by_fail2ban(program, pooler, lines):
    path = pooler.write("lines.log", "".join(line + "\n" for line in lines))
    done = subprocess.run([program, "-o", "ip", path, FILTER], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(done.stdout.split())


def banned_by_expression(lines):
    """What the filter finds, without fail2ban, which takes the time away from the front of a line."""
    with open(FILTER) as file:
        wanted = re.search("^failregex = (.*)$", file.read(), re.M)[1].replace(
            "<ADDR>", r"\[?([0-9a-f:]*:[0-9a-f:]+|\d+\.\d+\.\d+\.\d+)\]?")
    found = [re.search(wanted, line[len("2026-11-22 16:00:00.123"):]) for line in lines]
    return {match[1] for match in found if match}


def test_fail2ban(make_pooler, pg):
    """Refused logins count, also over IPv6, and none of a stranger's names brings somebody else's
    address into play."""
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "scram-sha-256"})
    lie = "x@6.6.6.6:1 closing because: SASL authentication failed"
    for database, user in (("db", "nobody"), ("db", lie + " (age=0s)"), (lie, "trust_user"), (lie + " (age=0s)", lie),
                           ("db", "a\n" + lie + " (age=0s)"), ("db", "x@6.6.6.6:1 no such user: y")):
        mark = pooler.mark()
        pooler.refusal(database=database, user=user, secret="wrong")
        pooler.wait_log(" pooler error: ", mark)
    lines = pooler.log().splitlines()
    front = lines[0][:lines[0].index("]") + 1]
    lines.append(front + " LOG C-0x1: (nodb)/nobody@[2001:db8::7]:99 closing because: password authentication failed (age=0s)")
    lines.append(front + " LOG C-0x1: db/app@192.0.2.9:99 closing because: client close request (age=0s)")
    wanted = {"127.0.0.1", "2001:db8::7"}
    assert banned_by_expression(lines) == wanted
    program = shutil.which("fail2ban-regex", path=PLACES)
    if program:
        assert banned_by_fail2ban(program, pooler, lines) == wanted


def test_logrotate(watched):
    """A real rotation by the file that packages install; the process goes on in the new log."""
    program = needs("logrotate")
    with open(os.path.join(TOP, "etc/pgbouncer.logrotate")) as file:
        text = file.read()
    assert "create 0640" in text and "su pgbouncer pgbouncer" in text
    watched.change(pidfile=None)
    watched.write("pid", "%d\n" % watched.pid)
    text = text.replace("/var/log/pgbouncer", watched.dir).replace("/run/pgbouncer/pgbouncer.pid", watched.path("pid"))
    text = re.sub(r"\n\tsu .*", "", text)
    rules = watched.write("rules", text)
    os.chmod(rules, 0o644)
    log = watched.path("pgbouncer.log")
    mine = waiting.run_as(watched.account)
    done = subprocess.run([program, "-f", "-s", watched.path("state"), rules], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, **mine)
    assert done.returncode == 0, done.stderr
    with open(log + ".1") as rotated:
        assert "process up" in rotated.read()
    waiting.wait_for(lambda: os.path.exists(log) and os.path.getsize(log), "it writes to the new log")


# on the console


@pytest.mark.parametrize("action, args", [
    ("pgbouncer_backends", ["--warning=90%", "--critical=95%"]),
    ("pgb_pool_cl_waiting", ["--warning=50", "--critical=80"]),
    ("pgb_pool_sv_idle", ["--warning=50", "--critical=80"]),
    ("pgb_pool_maxwait", ["--warning=50", "--critical=80"]),
    ("pgbouncer_checksum", ["--critical=0"]),
])
def test_check_postgres(watched, action, args):
    program = needs("check_postgres", "check_postgres.pl")
    with watched.connect() as client:
        client.query("select 1")
        done = programs.run(watched, program, "--action=" + action, "--dbname=pgbouncer", *args,
                            user=STATS[0], check=False, PGDATABASE="pgbouncer")
    said = done.stdout + done.stderr
    if action == "pgbouncer_checksum":  # It tells the sum that is to be given from then on.
        assert re.search(r"checksum: [0-9a-f]{32}", said), said
    else:
        assert re.match(r"POSTGRES_\w+ OK: ", said), said


EXPORTER = """
exporter_host: 127.0.0.1
exporter_port: %d
pgbouncers:
  - dsn: postgresql://%s:%s@127.0.0.1:%d/pgbouncer?sslmode=disable
    extra_labels:
      pool_id: 1
"""


@pytest.fixture
def exporter():
    """Returns (program, environment) of the exporter. It is installed by itself, because what it asks
    for would need a compiler and libpq's headers; the packages of the tests serve as well."""
    program = shutil.which("pgbouncer-exporter", path=PLACES)
    if program:
        return program, dict(os.environ)
    folder = os.path.join(os.path.dirname(toolchain.build_folder()), "exporter")
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = os.path.join(folder, "bin/pgbouncer-exporter")
        done = os.path.exists(program) or subprocess.run(
            [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", "--no-deps", "--upgrade",
             "--target", folder, "prometheus-pgbouncer-exporter", "PyYAML", "python-json-logger"],
            stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    if not done:
        pytest.skip("the exporter cannot be fetched")
    return program, dict(os.environ, PYTHONPATH=folder)


def numbers(port):
    """Returns {metric: value} of the database db, as a listener for Prometheus tells them."""
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as answer:
        families = parse_text(answer.read().decode())
    return {s.name: s.value for family in families for s in family.samples
            if s.labels.get("database") == "db" and s.labels.get("user") in (None, "trust_user")}


def test_exporter(watched, exporter):
    """The prometheus-pgbouncer-exporter of PyPI shows what the console says, and what the pooler's
    own listener shows under the same names."""
    program, env = exporter
    own = waiting.PORTS.take()
    config = watched.write("exporter.yml", EXPORTER % (own, STATS[0], STATS[1].replace(" ", "%20"), watched.port))
    with watched.connect() as client, programs.Program([program, "--config", config], env) as running:
        client.query("begin")
        waiting.wait_for(lambda: waiting.can_connect(own), "it listens")
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % own) as answer:
            told = answer.read().decode()
        theirs, same = numbers(own), numbers(watched.metrics)
        running.process.terminate()
        said = "".join(running.finish()[1:])
    assert "pgbouncer_up{" in told and not re.search("ERROR|Traceback", said), told + said
    for line in (r'pgbouncer_pools_client_active_connections\{database="db".*\} 1\.0',
                 r'pgbouncer_databases_database_pool_size\{.*database="db".*\} 5\.0',
                 r'pgbouncer_stats_queries_total\{database="db".*\} [12]\.0',
                 r'pgbouncer_config_max_client_conn\{.*\} 100\.0'):
        assert re.search("^%s$" % line, told, re.M), line + told
    common = {name for name in theirs if name in same}
    assert {name: theirs[name] for name in common} == {name: same[name] for name in common}
    assert {"pgbouncer_pools_client_active_connections", "pgbouncer_pools_server_active_connections"} < common, common


def test_pgcli(watched):
    program = needs("pgcli")
    said = programs.run(watched, program, "--no-password", "--list", PGDATABASE="db")
    assert "template1" in said


def test_health_check_of_the_container(watched):
    def ask():
        done = subprocess.run([os.path.join(TOP, "etc/packaging/container/pgbouncer-health"), watched.ini],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    assert ask() == (0, "")
    watched.signal("STOP")
    try:
        assert ask() == (1, "no answer on 127.0.0.1 port %d\n" % watched.port)
    finally:
        watched.signal("CONT")
    watched.signal("QUIT")
    watched.wait_exit()
    assert ask() == (1, "nobody listens on 127.0.0.1 port %d\n" % watched.port)


# load


def test_sysbench(make_pooler, cluster):
    program = needs("sysbench")
    if not glob.glob("/usr/share/sysbench/oltp_read_write.lua"):
        pytest.skip("sysbench has no scripts here")
    cluster.do("create database sysbench owner trust_user")
    pooler = make_pooler({"db": cluster.conn("sysbench", pool_size=3)}, settings={"pool_mode": "transaction"})
    command = ["--db-driver=pgsql", "--pgsql-host=127.0.0.1", "--pgsql-port=%d" % pooler.port, "--pgsql-user=trust_user",
               "--pgsql-db=db", "--tables=1", "--table-size=500", "oltp_read_write"]
    programs.run(pooler, program, *command, "prepare")
    pooler.admin.query("SET max_prepared_statements = 100")
    said = programs.run(pooler, program, "--threads=8", "--events=50", "--time=60", *command, "run")
    # Threads that change the same row get errors of PostgreSQL, and try again.
    assert re.search(r"transactions: +50 ", said) and re.search(r"reconnects: +0 ", said), said

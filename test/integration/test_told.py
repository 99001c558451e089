"""What client, log, console, metrics and --check-config say when something is wrong: each of them
names the cause."""

import os
import re
import shutil
import urllib.request

import pytest

import certs
import waiting


# certificates


@pytest.fixture(scope="module")
def ca():
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    authority.good = authority.issue("good", "localhost", ["localhost", "127.0.0.1"])
    authority.soon = authority.issue("soon", "soon.example", ["localhost"], days=20)
    authority.expired = authority.issue("expired", "old.example", ["localhost"], days=-3)
    authority.early = authority.issue("early", "early.example", ["localhost"], days=90, begin=30)
    yield authority
    waiting.discard(folder)


def with_certificate(make_pooler, pg, ca, pair, **more):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "client_tls_sslmode": "allow", "client_tls_cert_file": pair.cert_file,
        "client_tls_key_file": pair.key_file, **more}, start=False)
    pooler.write_files()
    return pooler


DATES = {
    "expired": (r"certificate CN=old\.example in \S+ has expired on 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC: "
                r"TLS connections that need it are refused; replace it", 1),
    "early": (r"certificate CN=early\.example in \S+ is not valid before 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC: "
              r"TLS connections that need it are refused; replace it", 1),
    "soon": (r"warning: certificate CN=soon\.example in \S+ expires on 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC: "
             r"replace it in time", 0),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_of_a_certificate_are_checked(make_pooler, pg, ca, name):
    pooler = with_certificate(make_pooler, pg, ca, getattr(ca, name))
    text, status = DATES[name]
    for option in ("--check-config", "--explain-config"):
        code, out, err = pooler.run(option, pooler.ini)
        assert re.search(r"^%s:\d+: client_tls_cert_file: %s$" % (re.escape(pooler.ini), text), out, re.M), out + err
        assert code == status


def test_an_authority_that_has_expired_is_told(make_pooler, pg, ca):
    """Of several authorities one that is valid is enough."""
    pooler = with_certificate(make_pooler, pg, ca, ca.good, client_tls_ca_file=ca.expired.cert_file)
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 1 and "client_tls_ca_file: certificate CN=old.example in " in out
    both = os.path.join(ca.folder, "both.crt")
    with open(both, "wb") as file:
        for path in (ca.expired.cert_file, ca.file):
            with open(path, "rb") as part:
                shutil.copyfileobj(part, file)
    waiting.give(both)
    pooler = with_certificate(make_pooler, pg, ca, ca.good, client_tls_ca_file=both)
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 0 and "certificate" not in out


def test_an_expired_certificate_is_told_at_each_load(make_pooler, pg, ca):
    used = ca.issue("used", "used.example", ["localhost"])
    port = waiting.PORTS.take()
    pooler = with_certificate(make_pooler, pg, ca, used, metrics_listen="127.0.0.1:%d" % port)
    pooler.start()
    assert "certificate" not in pooler.log()
    used.write(ca.soon)
    pooler.reload()
    pooler.wait_log(r"WARNING certificate CN=soon\.example in \S+ expires on")
    used.write(ca.expired)
    for _ in range(2):
        mark = len(pooler.log())
        pooler.reload()
        pooler.wait_log(r"ERROR certificate CN=old\.example in \S+ has expired on", mark)
    (row,) = [row for row in pooler.show("CERTIFICATES") if row["file"] == used.cert_file]
    assert row["setting"] == "client_tls_cert_file" and row["subject"] == "CN=old.example"
    assert int(row["seconds_left"]) < 0
    expires = int(ca.expired.certificate.not_valid_after_utc.timestamp())
    assert int(row["expires_at"]) == expires
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as answer:
        text = answer.read().decode()
    shown = re.search(r'^pgbouncer_certificate_expires_timestamp_seconds\{file="%s",setting="client_tls_cert_file"\} '
                      r'(\S+)$' % re.escape(used.cert_file), text, re.M)
    assert shown and float(shown.group(1)) == expires


# a reload that is refused


def test_a_refused_reload_tells_everything_and_is_remembered(make_pooler, pg):
    port = waiting.PORTS.take()
    pooler = make_pooler({"db": pg.conn()}, settings={"metrics_listen": "127.0.0.1:%d" % port})

    def state():
        return {row["key"]: row["value"] for row in pooler.show("STATE")}

    def successful():
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as answer:
            text = answer.read().decode()
        return re.search(r"^pgbouncer_config_last_reload_successful (\d)$", text, re.M).group(1)

    assert state()["config_last_reload_successful"] == "1" and successful() == "1"
    loaded = int(state()["config_loaded_at"])
    good = pooler.ini_text()
    pooler.write("pgbouncer.ini", good + "[pgbouncer]\npol_mode = session\nlisten_port = x\n[users]\nu = nosuch=1\n")
    line = good.count("\n") + 2
    mark = pooler.mark()
    detail = pooler.admin.query("RELOAD", check=False).errors[0].field("D")
    for part in ("unknown parameter: pgbouncer/pol_mode", "(%s:%d)" % (pooler.ini, line), "did you mean pool_mode?",
                 "%s:%d: invalid value" % (pooler.ini, line + 1),
                 "%s:%d: unrecognized user parameter: nosuch" % (pooler.ini, line + 3)):
        assert detail.count(part) == 1, detail
        assert pooler.log_since(mark).count(part) == 1, pooler.log_since(mark)
    assert state()["config_last_reload_successful"] == "0" and successful() == "0"
    assert int(state()["config_loaded_at"]) == loaded
    pooler.write("pgbouncer.ini", good)
    pooler.reload()
    assert state()["config_last_reload_successful"] == "1" and successful() == "1"
    assert int(state()["config_loaded_at"]) >= loaded


def test_a_good_configuration_is_told(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.write_files()
    code, out, _ = pooler.run("--check-config", pooler.ini)
    assert code == 0 and out.splitlines()[-1] == "%s: no problems" % pooler.ini


# a server that cannot be reached


UNREACHABLE = {
    "refused": ("host=127.0.0.1 port=%d", "Connection refused"),
    "no such name": ("host=no-such-host.invalid port=%d", r"DNS lookup failed: no-such-host\.invalid: .+"),
    "no such socket": ("host=/nowhere port=%d", "No such file or directory"),
}


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("name", UNREACHABLE)
def test_a_server_that_cannot_be_reached(make_pooler, name, workers):
    entry, reason = UNREACHABLE[name]
    pooler = make_pooler({"db": entry % waiting.PORTS.take()}, settings={"workers": workers})
    with pooler.client() as client:
        client.send(client.startup_packet())
        host = waiting.wait_for(lambda: next((row for row in pooler.show("HOSTS") if row["last_error"]), None),
                                "an attempt that failed")
        assert re.fullmatch(reason, host["last_error"]) and host["state"] == "down"
        # The client has no query yet, and waits all the same.
        waiting.wait_for(lambda: pooler.pool()["maxwait_us"] > 0 or pooler.pool()["maxwait"] > 0, "maxwait")
        told = dict(pooler.admin.query("EXPLAIN LOGIN trust_user db").rows)
        assert re.fullmatch(r"failed \d+ s ago: " + reason, told["last attempt"])


@pytest.mark.parametrize("workers", [1, 4])
def test_a_server_that_refuses_the_password(make_pooler, pg, workers):
    pooler = make_pooler({"db": pg.conn(user="scram_user", password="wrong"), "good": pg.conn()},
                         settings={"workers": workers})
    assert "last attempt" not in dict(pooler.admin.query("EXPLAIN LOGIN trust_user db").rows)
    pooler.refusal()
    told = dict(pooler.admin.query("EXPLAIN LOGIN trust_user db").rows)
    assert re.fullmatch(r"failed \d+ s ago: .*password authentication failed.*", told["last attempt"])
    pooler.connect("good").close()
    told = dict(pooler.admin.query("EXPLAIN LOGIN trust_user good").rows)
    assert re.fullmatch(r"worked \d+ s ago", told["last attempt"])


# a query for users that fails


@pytest.mark.parametrize("workers", [1, 4])
def test_auth_query_that_fails(make_pooler, pg, workers):
    """EXPLAIN LOGIN tells how the last auth_query has ended, and why, also if its own login fails."""
    pooler = make_pooler({"db": pg.conn(), "gone": "host=127.0.0.1 port=%d" % waiting.PORTS.take()}, settings={
        "workers": workers, "auth_type": "scram-sha-256", "auth_user": "trust_user", "auth_query": "select n from nowhere where n = $1",
        "query_wait_timeout": 1})

    def told(database="db"):
        return dict(pooler.admin.query("EXPLAIN LOGIN somebody " + database).rows).get("auth_query", "")

    assert told() == ""
    pooler.refusal(user="somebody", secret="x")
    assert re.fullmatch(r'failed \d+ s ago: relation "nowhere" does not exist', told())
    pooler.set("auth_query", "select $1::text, null::text")
    pooler.refusal(user="somebody", secret="x")
    assert re.fullmatch(r"worked \d+ s ago", told())
    pooler.refusal("gone", user="somebody", secret="x")
    assert re.fullmatch(r"failed \d+ s ago: Connection refused", told("gone"))

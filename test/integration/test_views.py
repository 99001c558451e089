"""The views of the admin console: columns, types, rows (operation.md 5)."""

import os
import re

import pytest

import tracer
import waiting
import wire

TEXT, INT4, INT8, NUMERIC = (25, -1), (23, 4), (20, 8), (1700, -1)
TRANSACTION = {"pool_mode": "transaction"}


def columns(spec):
    """Returns 'a:s b:i' as [(name, table, column, oid, size, typmod, format)]."""
    kinds = {"s": TEXT, "i": INT4, "q": INT8, "N": NUMERIC}
    return [(name, 0, 0, *kinds[kind], -1, 0) for name, kind in
            (item.split(":") for item in spec.split())]


def typed(names, kind):
    return " ".join("%s:%s" % (n, kind) for n in names.split())


SOCKET = ("type:s user:s database:s replication:s state:s addr:s port:i local_addr:s local_port:i "
          "connect_time:s request_time:s wait:i wait_us:i close_needed:i ptr:s link:s remote_pid:i "
          "tls:s application_name:s prepared_statements:i id:i")
AUTH = " auth_method:s"  # Not in PgBouncer, therefore the last column
COUNTS = ("server_assignment_count xact_count query_count received sent xact_time query_time wait_time "
          "client_parse_count server_parse_count bind_count client_login_count")
MORE = ("repeated_parse_count", "saved_parse_count")  # Not in PgBouncer
AVERAGES = COUNTS.replace(" received sent ", " recv sent ")
SHORT = ("server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time "
         "wait_time ")
BUFFERS = typed("recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail", "i")

VIEWS = {
    "VERSION": "version:s",
    "STATE": "key:s value:s",
    "CONFIG": "key:s value:s default:s changeable:s",
    "DATABASES": "name:s host:s port:i database:s force_user:s pool_size:i min_pool_size:i "
                 "reserve_pool_size:i server_lifetime:i pool_mode:s load_balance_hosts:s "
                 "max_connections:i current_connections:i max_client_connections:i "
                 "current_client_connections:i paused:i disabled:i",
    "POOLS": "database:s user:s " + typed(
        "cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel "
        "sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us", "i")
    + " pool_mode:s load_balance_hosts:s sv_pinned:i cl_listening:i",
    "CLIENTS": SOCKET + AUTH,
    "SERVERS": SOCKET + AUTH,
    "SOCKETS": SOCKET + " " + BUFFERS + AUTH,
    "ACTIVE_SOCKETS": SOCKET + " " + BUFFERS + AUTH,
    "USERS": "name:s pool_size:s reserve_pool_size:s pool_mode:s max_user_connections:i "
             "current_connections:i max_user_client_connections:i current_client_connections:i",
    "PEERS": "peer_id:i host:s port:i pool_size:i",
    "LISTS": "list:s items:i",
    "MEM": "name:s size:i used:i free:i memtotal:i",
    "STATS": "database:s " + typed(" ".join("total_" + c for c in COUNTS.split()), "N") + " "
             + typed(" ".join("avg_" + c for c in AVERAGES.split()), "N") + " "
             + typed(" ".join("total_%s" % c for c in MORE), "N") + " "
             + typed(" ".join("avg_" + c for c in MORE), "N"),
    "STATS_TOTALS": "database:s " + typed(
        SHORT + "client_parse_count server_parse_count bind_count client_login_count "
        + " ".join(MORE), "N"),
    "STATS_AVERAGES": "database:s " + typed(
        SHORT + "avg_client_parse_count avg_server_parse_count avg_bind_count "
                "avg_client_login_count " + " ".join("avg_" + c for c in MORE), "N"),
    "TOTALS": "name:s value:N",
    "ERRORS": "error:s sqlstate:s count:q message:s",
    "CERTIFICATES": "file:s setting:s subject:s valid_from:s valid_until:s expires_at:q seconds_left:q",
    "ISSUERS": "issuer:s keys:i age:q fetches:q failures:q last_failure:s",
    "WARNINGS": "time:s level:s message:s",
}


# columns of the views


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("ask", ["SHOW %s", "show %s;", "Select\t%s \n;"])
def test_columns_and_tag(shared_pooler, pg, view, ask):
    pooler = shared_pooler({"db": pg.conn()})
    result = pooler.admin.query(ask % view.lower() if ask[0] != "S" else ask % view)
    assert result.columns == columns(VIEWS[view])
    assert result.tag == "SHOW" and result.status == "I"
    assert result.kinds() == "T" + "D" * len(result.rows) + "CZ"


HELP = """
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW PEERS|PEER_POOLS
\tSHOW FDS|SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE
\tSHOW DNS_HOSTS|DNS_ZONES
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tSET key = arg
\tRELOAD
\tPAUSE [<db>]
\tRESUME [<db>]
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL [<db>]
\tKILL_CLIENT <client_id>
\tSUSPEND
\tSHUTDOWN
\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS
\tWAIT_CLOSE [<db>]
\tEXPLAIN LOGIN <user> <db> [<address>]
\tSWITCHOVER <db> [TO <host>]
\tTAKEOVER <format>
\tSHOW HOSTS|PREPARED_STATEMENTS|STATE_LEAKS|LATENCY|BLOCKERS|PINS|LISTENERS|ERRORS|CERTIFICATES|ISSUERS|WARNINGS|WORKERS"""


def test_help(pooler):
    result = pooler.admin.query("SHOW HELP")
    assert result.kinds() == "NCZ" and result.tag == "SHOW"
    fields = result.notices[0].fields()
    assert fields[:3] == [("S", "NOTICE"), ("C", "00000"), ("M", "Console usage")]
    assert fields[3] == ("D", HELP) or set(HELP.split("\n")) >= set(fields[3][1].split("\n"))


def test_version(pooler):
    assert pooler.admin.value("SHOW VERSION") == "PgBouncer 2.0.0"


def test_welcome(pooler):
    _, out, _ = pooler.run("-V")
    version = out.splitlines()[0].split()[1]
    base = [("server_version", version + "/bouncer"), ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"), ("DateStyle", "ISO"), ("TimeZone", "GMT"),
            ("standard_conforming_strings", "on"), ("is_superuser", "on")]
    assert pooler.admin.parameters() == base
    console = pooler.connect("pgbouncer", "admin_user", application_name="psql",
                             client_encoding="LATIN1")
    assert console.parameters()[:7] == base
    assert sorted(console.parameters()[7:]) == [("application_name", "psql"),
                                                ("client_encoding", "LATIN1")]


def test_state(pooler):
    def state():
        return [tuple(r.values()) for r in pooler.show("STATE")][:4]

    engine = ("io_engine", state()[3][1])
    assert engine[1] in ("epoll", "io_uring")
    assert state() == [("active", "yes"), ("paused", "no"), ("suspended", "no"), engine]
    pooler.admin.query("PAUSE")
    assert state() == [("active", "no"), ("paused", "yes"), ("suspended", "no"), engine]
    pooler.admin.query("RESUME")
    assert state()[0] == ("active", "yes")


def test_turns_of_the_loop(pooler):
    def counts():
        return {r["key"]: r["value"] for r in pooler.show("STATE")[4:-1]}

    before, after = counts(), counts()
    assert list(before) == ["turns", "longest_turn_us", "recent_longest_turn_us", "uptime_seconds",
                            "config_last_reload_successful", "config_loaded_at", "server_protocol_errors",
                            "log_lines_lost", "memory_limit_reached", "memory_limit_refused"]
    assert int(after["turns"]) > int(before["turns"]) > 0
    assert 0 <= int(before["uptime_seconds"]) <= int(after["uptime_seconds"]) < 600
    assert int(after["longest_turn_us"]) >= int(after["recent_longest_turn_us"]) > 0


# settings of configuration.md 4: name, default
DEFAULTS = dict(line.split(None, 1) for line in """
admin_users -
application_name_add_host 0
auth_hba_file -
auth_type md5
autodb_idle_timeout 3600
cancel_wait_timeout 10
client_idle_timeout 0
client_login_timeout 60
client_tls_ciphers default
client_tls_dheparams auto
client_tls_ecdhcurve auto
client_tls_protocols secure
client_tls_sslmode disable
default_pool_size 20
disable_pqexec 0
dns_max_ttl 15
dns_nxdomain_ttl 15
dns_zone_check_period 0
idle_transaction_timeout 0
ignore_startup_parameters -
job_name pgbouncer
listen_backlog 128
listen_port 6432
log_connections 1
log_disconnections 1
log_format plain
log_levels -
log_min_duration 0
log_pooler_errors 1
log_stats 1
max_client_conn 100
max_db_client_connections 0
max_db_connections 0
max_packet_size 2147483647
max_pinned_servers 0
max_prepared_statements 200
max_server_connections 0
max_user_client_connections 0
max_user_connections 0
min_pool_size 0
peer_id 0
pin_idle_timeout 0
pkt_buf 4096
pool_idle_timeout 0
pool_mode session
query_timeout 0
query_wait_notify 5
query_wait_timeout 120
reserve_pool_size 0
reserve_pool_timeout 5
sbuf_loopcnt 5
scram_iterations 4096
server_check_delay 30
server_check_query <empty>
server_connect_timeout 15
server_fast_close 0
server_idle_timeout 600
server_lifetime 3600
server_login_retry 15
server_reset_query DISCARD ALL
server_reset_query_always 0
server_round_robin 0
server_tls_protocols secure
server_tls_sslmode prefer
so_reuseport 0
stats_period 60
suspend_timeout 10
syslog 0
syslog_facility daemon
syslog_ident pgbouncer
tcp_defer_accept 1
tcp_keepalive 1
tcp_keepcnt 0
tcp_keepidle 0
tcp_keepintvl 0
tcp_socket_buffer 0
tcp_user_timeout 0
track_extra_parameters IntervalStyle
transaction_timeout 0
unix_socket_dir /tmp
unix_socket_mode 0777
""".strip().splitlines())

RESTART_ONLY = set("""disable_pqexec io_engine job_name listen_addr listen_backlog listen_port pidfile pkt_buf
resolv_conf so_reuseport track_extra_parameters unix_socket_dir unix_socket_group unix_socket_mode
user workers""".split())

NO_DEFAULT = set("""auth_dbname auth_file auth_ident_file auth_ldap_options auth_user role_check_user
client_tls13_ciphers conffile server_tls13_ciphers user verbose""".split())


def test_config(pooler):
    rows = pooler.show("CONFIG")
    by_name = {r["key"]: r for r in rows}
    assert {k for k, r in by_name.items() if r["changeable"] == "no"} == RESTART_ONLY
    assert {k for k, r in by_name.items() if r["default"] is None} == NO_DEFAULT - (
        {"auth_ldap_options"} if "auth_ldap_options" not in by_name else set())
    for name, value in DEFAULTS.items():
        assert by_name[name]["default"] == ("" if value == "-" else value), name
    names = [r["key"] for r in rows]
    # The reference lists pool_mode one position too early, so both orders are accepted.
    if names.index("pool_mode") + 1 == names.index("pool_idle_timeout"):
        names.insert(names.index("pool_mode") + 2, "pool_mode")
        names.remove("pool_mode")
    assert names == sorted(names)
    assert by_name["unix_socket_mode"]["value"] == "511"
    assert by_name["conffile"]["value"] == pooler.ini


def test_databases(make_pooler, pg):
    pooler = make_pooler({"zz": "host=/tmp port=99 dbname=x", "aa": pg.conn(user="trust_user")},
                         settings={"max_db_connections": 7, "max_db_client_connections": 8,
                                   "min_pool_size": 0, "server_lifetime": 33.7})
    with pooler.connect("aa") as client:
        client.query("select 1")
        rows = pooler.show("DATABASES")
    assert [r["name"] for r in rows] == ["aa", "pgbouncer", "zz"]
    assert rows[0] == {
        "name": "aa", "host": "127.0.0.1", "port": str(pg.port), "database": "postgres",
        "force_user": "trust_user", "pool_size": "20", "min_pool_size": "0", "reserve_pool_size": "0",
        "server_lifetime": "33", "pool_mode": None, "load_balance_hosts": None,
        "max_connections": "7", "current_connections": "1", "max_client_connections": "8",
        "current_client_connections": "1", "paused": "0", "disabled": "0"}
    console = rows[1]
    assert (console["host"], console["port"], console["database"], console["force_user"],
            console["pool_size"], console["pool_mode"]) == (
        None, str(pooler.port), "pgbouncer", "pgbouncer", "2", "statement")


def test_pools(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    one, two, idle = (pooler.connect() for _ in range(3))
    one.query("begin")
    two.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    row = waiting.wait_for(lambda: pooler.pool()["maxwait"] >= 1 and pooler.pool(), "a wait of a second")
    assert row["cl_active"] == 2 and row["sv_active"] == 1 and row["maxwait"] >= 1
    assert 0 <= row["maxwait_us"] < 1000000
    assert row["pool_mode"] == "transaction" and row["load_balance_hosts"] is None
    console = pooler.show_one("POOLS", database="pgbouncer")
    assert console["user"] == "pgbouncer" and console["pool_mode"] == "statement"
    assert [(r["database"], r["user"]) for r in pooler.show("POOLS")] == [
        ("db", "trust_user"), ("pgbouncer", "pgbouncer")]


STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


def test_clients_and_servers(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    linked = pooler.connect(application_name="app one")
    waiter, idle = pooler.connect(unix=True), pooler.connect(user="trust_user")
    linked.query("begin")
    backend = linked.value("select pg_backend_pid()")
    waiter.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    rows = [r for r in pooler.show("CLIENTS") if r["database"] == "db"]
    by_state = {r["state"]: r for r in rows}
    assert set(by_state) == {"active", "idle", "waiting"}
    active, server = by_state["active"], pooler.show("SERVERS")[0]
    assert active["type"] == "C" and server["type"] == "S"
    assert (active["user"], active["database"], active["replication"]) == ("trust_user", "db", "none")
    assert (active["addr"], active["port"]) == ("127.0.0.1", str(linked.sock.getsockname()[1]))
    assert (active["local_addr"], active["local_port"]) == ("127.0.0.1", str(pooler.port))
    assert (server["addr"], server["port"], server["local_addr"]) == ("127.0.0.1", str(pg.port),
                                                                     "127.0.0.1")
    assert server["state"] == "active" and server["remote_pid"] == backend
    assert active["link"] == server["ptr"] and server["link"] == active["ptr"]
    assert re.fullmatch("0x[0-9a-f]+", active["ptr"])
    assert active["application_name"] == "app one" == server["application_name"]
    assert active["tls"] == "" and active["close_needed"] == "0" and active["remote_pid"] == "0"
    assert active["prepared_statements"] == "0"
    assert re.fullmatch(STAMP, active["connect_time"]) and re.fullmatch(STAMP, active["request_time"])
    queued = by_state["waiting"]

    assert (queued["addr"], queued["port"], queued["remote_pid"]) == (
        "unix", str(pooler.port), str(os.getpid()))
    assert queued["link"] == "" and by_state["idle"]["link"] == ""
    console = pooler.show_one("CLIENTS", database="pgbouncer")
    assert (console["state"], console["user"]) == ("idle", "admin_user")
    ids = [int(r["id"]) for r in pooler.show("CLIENTS") + pooler.show("SERVERS")]
    assert len(set(ids)) == len(ids) and min(ids) >= 1


MANY = 250
FOR_MANY = dict(TRANSACTION, max_client_conn=400)


def show_clients(console):
    """Reads the answer to SHOW CLIENTS and returns its rows, without those of consoles."""
    rows = wire.Result(console.recv_until("Z")).dicts()
    return [row for row in rows if row["database"] == "db"]


def test_many_clients(make_pooler, pg):
    """The pooler sends the rows a few at a time, and later commands wait for their turn."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=FOR_MANY)
    clients = [pooler.connect() for _ in range(MANY)]
    clients[7].query("begin")
    clients[9].send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    console = pooler.console()
    console.send(wire.query("show clients"), wire.query("show version"))
    rows = show_clients(console)
    assert len({row["id"] for row in rows}) == MANY == len(rows)
    assert sorted({row["state"] for row in rows}) == ["active", "idle", "waiting"]
    assert "2.0" in wire.Result(console.recv_until("Z")).value
    # Some clients leave while the rows are sent, and all other clients are in the answer.
    for client in clients[::2]:
        if client is not clients[7]:
            client.close()
    console.send(wire.query("show clients"))
    left = {str(client.sock.getsockname()[1]) for client in clients[1::2]}
    assert left <= {row["port"] for row in show_clients(console)}


def test_many_clients_and_a_console_that_does_not_read(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(FOR_MANY, tcp_socket_buffer=16384))
    clients = [pooler.connect() for _ in range(MANY)]
    console, other = (pooler.connect("pgbouncer", "admin_user") for _ in range(2))
    times = 15
    console.send(*[wire.query("show clients")] * times)
    other.send(wire.query("show clients"))
    assert len(show_clients(other)) == MANY
    for _ in range(times):
        assert len(show_clients(console)) == MANY
    # A console that leaves while the rows are sent does no harm.
    console.send(*[wire.query("show clients")] * times)
    console.close()
    waiting.wait_for(lambda: len(pooler.show("CLIENTS")) == MANY + 2)
    assert clients[-1].value("select 1") == "1"


def test_sockets(pooler):
    client = pooler.connect()
    client.query("begin")
    states = sorted(r["state"] for r in pooler.show("SOCKETS"))
    assert "cl_active" in states and "sv_active" in states
    client.query("commit")
    login = pooler.raw()
    login.send(b"\0")
    waiting.wait_for(lambda: "cl_login" in [r["state"] for r in pooler.show("SOCKETS")], "login")
    assert all(r["send_remain"] == "0" for r in pooler.show("SOCKETS"))
    assert pooler.admin.query("SHOW ACTIVE_SOCKETS").tag == "SHOW"


def test_lists(pooler):
    client = pooler.connect()
    client.query("select 1")
    rows = [tuple(r.values()) for r in pooler.show("LISTS")]
    assert [r[0] for r in rows] == [
        "databases", "users", "peers", "pools", "peer_pools", "free_clients", "used_clients",
        "login_clients", "free_servers", "used_servers", "dns_names", "dns_zones", "dns_queries",
        "dns_pending"]
    numbers = {k: int(v) for k, v in rows}
    assert (numbers["databases"], numbers["pools"], numbers["used_clients"],
            numbers["used_servers"], numbers["dns_pending"]) == (2, 2, 2, 1, 0)
    assert numbers["users"] == len(pooler.show("USERS"))


def test_users(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="owner")}, users={
        "set_user": "pool_size=5 pool_mode=statement", "bare_user": ""})
    client = pooler.connect()
    client.query("select 1")
    rows = pooler.show("USERS")
    names = [r["name"] for r in rows]
    assert names == sorted(names)
    assert {"owner", "trust_user", "set_user", "bare_user", "admin_user", "pgbouncer"} <= set(names)
    by_name = {r["name"]: r for r in rows}
    assert by_name["set_user"]["pool_size"] == "        5"
    assert by_name["set_user"]["reserve_pool_size"] == ""
    assert by_name["set_user"]["pool_mode"] == "statement"
    assert by_name["bare_user"]["pool_mode"] is None
    assert by_name["owner"]["current_connections"] == "1"
    assert by_name["trust_user"]["current_client_connections"] == "1"
    pooler.refusal(user="not known")
    assert "not known" not in [r["name"] for r in pooler.show("USERS")]


def test_mem(pooler):
    rows = pooler.show("MEM")
    assert len(rows) > 3
    for row in rows:
        assert int(row["memtotal"]) >= int(row["size"]) * int(row["used"])


def test_stats(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=dict(TRANSACTION, stats_period=1))
    client = pooler.connect()
    for _ in range(3):
        client.query("select pg_sleep(0.02)")
    client.query("begin")
    client.query("select 1")
    client.query("commit")
    row = pooler.show_one("STATS", database="db")
    assert (row["total_xact_count"], row["total_query_count"]) == ("4", "6")
    assert row["total_server_assignment_count"] == "4"
    assert row["total_client_login_count"] == "1"
    assert 60000 <= int(row["total_query_time"]) < 2000000
    assert int(row["total_query_time"]) <= int(row["total_xact_time"])
    sent = sum(len(wire.query(q)) for q in ["select pg_sleep(0.02)"] * 3 + ["begin", "select 1", "commit"])
    assert int(row["total_received"]) == sent
    assert int(row["total_sent"]) > 100
    assert [r["database"] for r in pooler.show("STATS")] == ["db", "pgbouncer"]
    totals = pooler.show_one("STATS_TOTALS", database="db")
    assert totals["xact_count"] == "4" and totals["bytes_received"] == str(sent)
    waiting.wait_for(lambda: int(pooler.show_one("STATS", database="db")["avg_query_time"]) > 5000,
                     "averages")
    assert int(pooler.show_one("STATS_AVERAGES", database="db")["query_time"]) > 5000
    all_totals = {r["name"]: int(r["value"]) for r in pooler.show("TOTALS")}
    names = ("server_assignment_count xact_count query_count client_bytes server_bytes xact_time "
             "query_time wait_time ps_client_parse_count ps_server_parse_count ps_bind_count "
             "client_login_count").split()
    assert list(all_totals) == (["total_" + n for n in names] + ["avg_" + n for n in names]
                                + ["total_" + n for n in MORE] + ["avg_" + n for n in MORE])
    assert all_totals["total_xact_count"] >= 4


def test_wait_time(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    holder, waiter = pooler.connect(), pooler.connect()
    holder.query("begin")
    waiter.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    waiting.wait_for(lambda: pooler.pool()["maxwait_us"] >= 300000, "a wait of 0.3 s")
    holder.query("commit")
    waiter.finish()
    assert int(pooler.show_one("STATS", database="db")["total_wait_time"]) > 300000


def test_pipeline_counts_as_one_query(pooler):
    client = pooler.connect()
    client.send((wire.parse("", "select 1") + wire.bind() + wire.execute() + wire.sync()) * 5)
    client.recv_kinds("12DCZ" * 5)
    row = pooler.show_one("STATS", database="db")
    assert int(row["total_query_count"]) <= 5 and int(row["total_xact_count"]) >= 1


def test_sums_without_a_worker_say_so(make_pooler, pg):
    """Counters of views that add up would seem to go backward."""
    pooler = make_pooler({"db": pg.conn()}, settings={"workers": 2})
    console = pooler.admin
    with tracer.stopped(pooler.pid, "worker 0"):
        for view in ("STATS", "STATS_TOTALS", "TOTALS", "LATENCY", "LISTS", "STATE", "BLOCKERS"):
            answer = console.query("SHOW " + view)
            assert [notice.text() for notice in answer.notices] == [
                "1 of the workers did not answer in time; their rows are missing"], view
    waiting.wait_for(lambda: not console.query("SHOW STATS").notices, "all workers answer again")

"""The list of all scenarios."""

import signal

import database
import worker_counts
from felt import MANY, WAVE, Beside, HostDown, Lifetime, Reload, Show, Wave
from loads import Copy, Crowd, Pgbench, Program, Storm
from memory import POOLS, USERS, Idle, IdleTls, ManyPools, Pools, Statements, Users
from scenario import MEGABYTE

LARGE = "select repeat('x', %d) from generate_series(1, 10);\n" % MEGABYTE
MANY_ROWS = "select n, repeat('x', 90) from generate_series(1, 100000) n;\n"
ROWS_OF_1K = "select repeat('x', 1000) from generate_series(1, 20000);\n"
RELAYS = ("haproxy", "relay_epoll", "relay_uring")
ALL_OPPONENTS = ("direct", *RELAYS)

ALL = (
    Pgbench("select1", "select 1, simple protocol", [], script="select 1;\n", main=True,
            opponents=ALL_OPPONENTS),
    Pgbench("simple", "pgbench -S, simple protocol", ["-S", "-M", "simple"], main=True),
    Pgbench("extended", "pgbench -S, extended protocol", ["-S", "-M", "extended"], main=True,
            opponents=RELAYS),
    Pgbench("prepared", "pgbench -S, prepared statements, session mode", ["-S", "-M", "prepared"],
            mode="session"),
    Pgbench("shared", "pgbench -S, prepared in transaction mode; the reference: simple protocol",
            ["-S", "-M", "prepared"], against=["-S", "-M", "simple"], main=True, opponents=RELAYS),
    Program("pipeline", "10 queries per flush, extended protocol",
            lambda o: ("--kind", "extended", "--depth", 10), main=True, opponents=RELAYS),
    Program("one", "select 1, one client", lambda o: (), client_count=lambda o: 1, main=True,
            opponents=ALL_OPPONENTS),
    Program("fixed", "select 1 at a fixed 8,000 per second", lambda o: ("--rate", 8000), main=True,
            opponents=RELAYS),
    Pgbench("secured", "select 1 inside TLS", [], script="select 1;\n", is_secured=True, main=True,
            opponents=("relay_login",)),
    Pgbench("secured-c", "short connections (pgbench -S -C) inside TLS", ["-S", "-C"],
            is_secured=True, main=True, opponents=("relay_login",)),
    Pgbench("trust-c", "short connections, trust", ["-S", "-C"], main=True,
            opponents=("haproxy", "relay_login")),
    Pgbench("md5-c", "short connections, md5", ["-S", "-C"], auth="md5", main=True),
    Pgbench("scram-c", "short connections, SCRAM secret in the user list", ["-S", "-C"],
            auth="scram-sha-256", main=True),
    Pgbench("bulk", "20 MB in rows of 1 KB", [], client_count=4, script=ROWS_OF_1K, main=True,
            opponents=RELAYS),
    Copy("copy-in", "COPY of 70-byte rows from the client", True, main=True, opponents=RELAYS),
    Copy("copy-out", "COPY of 70-byte rows to the client", False, main=True, opponents=RELAYS),
    Crowd("crowd", "10,000 clients, 1,000 of them active (a tenth of --crowd)",
          lambda o: ("--active", max(1, o.crowd // 10)), client_count=lambda o: o.crowd, main=True),
    Pgbench("many", "pgbench -S, 600 clients over 56 servers", ["-S"], client_count=600, servers=56),
    Pgbench("large", "10 MB in 10 rows", [], client_count=4, script=LARGE),
    Pgbench("rows", "10 MB in 100,000 rows", [], client_count=4, script=MANY_ROWS),
    Storm("storm", "logins without a query, SCRAM secret in the user list"),
    Wave("wave", "%d SCRAM logins with plain-text secrets beside an established client" % WAVE),
    Idle("idle", "idle clients: memory, and CPU time while nothing happens", main=True),
    IdleTls("tls", "idle clients inside TLS: memory", main=True),
    Users("users", "%d users in the user list: memory" % USERS),
    Pools("pools", "%d pools in which nothing happens any more: memory" % POOLS),
    Statements("statements", "prepared statements in transaction mode: memory"),
    ManyPools("many-pools", "100,000 idle pools of unconfigured databases (--many-pools; reference: "
              "5,000, --reference-pools)"),
    Show("show", "SHOW CLIENTS on 10,000 (--crowd) beside established clients"),
    Lifetime("lifetime", "servers are replaced after 5 s: 32 clients, room for 40 servers", 40),
    Lifetime("lifetime-20", "servers are replaced after 5 s: 32 clients, a full pool of 20", 20),
    HostDown("host-dead", "one of two hosts refuses connections", signal.SIGKILL),
    HostDown("host-silent", "one of two hosts accepts connections and says nothing",
             signal.SIGSTOP),
    Reload("reload", "RELOAD of %d users and databases beside established clients" % MANY),
    Reload("user-list", "RELOAD of a changed list of 200,000 users beside established clients",
           users=200000, databases=0, is_ours_only=True),
    Beside("beside", "an unrelated busy process of nice 10 beside established clients: the limit of "
           "the three before"),
) + database.ALL + worker_counts.ALL

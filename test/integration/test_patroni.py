"""PostgreSQL under Patroni with etcd: the recipe doc/recipes/patroni.md, step by step, with clients that
write all the time. What else may happen there is measured by test/bench/patroni_failover.py."""

import os
import shutil
import subprocess

import pytest

import documents
import patroni
import postgres
import waiting
import wire
import writers
from test_takeover import Restarts, wait_end

RECIPE = "doc/recipes/patroni.md"
SECRETS = {"shop": "patroni shop 2e8", "admin": "patroni admin 71b"}
INI = "/etc/pgbouncer/pgbouncer.ini"
COUNT = 4


@pytest.fixture
def cluster(pg_bin):
    if patroni.missing():
        pytest.skip(patroni.missing())
    made = patroni.Cluster(pg_bin, {"ttl": 8, "loop_wait": 1, "retry_timeout": 2})
    try:
        yield made.create()
    finally:
        made.remove()


@pytest.fixture
def shop(stage, cluster):
    """The stage of the recipe, with its roles and database."""
    leader, candidate = cluster.primary, cluster.synchronous
    other, = set(cluster.nodes) - {leader, candidate}
    leader.do("create database shop", *["create role %s login password '%s'" % role for role in SECRETS.items()])
    with leader.client(database="shop") as owner:
        for sql in writers.TABLE:
            owner.query(sql)
    made = stage(RECIPE, {
        "10.0.0.21": leader.host, "10.0.0.22": candidate.host, "10.0.0.23": other.host, "5432": str(cluster.port),
        "dbname=shop": "port=%d dbname=shop" % cluster.port,
        "user=postgres": "port=%d user=%s" % (cluster.port, postgres.SUPERUSER),
        "/var/run/postgresql": leader.dir, "/usr/local/bin/patroni-switchover": "patroni-switchover",
        "--leader pg1": "--leader " + leader.name, "--candidate pg2": "--candidate " + candidate.name,
        "host=10.0.0.11": "host=127.0.0.1", "/etc/patroni/config.yml": leader.config}, SECRETS)
    shutil.copy(os.path.join(documents.TOP, "etc/patroni-switchover"), made.folder("bin"))
    made.instead["-R"] = Restarts()
    yield made
    for pooler in made.poolers.values():
        pooler.stop()


def connect(shop):
    client = wire.Client("127.0.0.1", shop.port, "shop", "shop", SECRETS["shop"])
    try:
        return client.login()
    except BaseException:
        client.close()
        raise


class Load:
    """Clients that write, one of them with a login for each row."""

    def __init__(self, shop):
        self.writers = [writers.Writer(lambda: connect(shop), number, number == 0) for number in range(COUNT)]
        for writer in self.writers:
            writer.start()
        self.more()

    def more(self):
        counts = [len(writer.acknowledged) for writer in self.writers]
        waiting.wait_for(lambda: all(len(w.acknowledged) > count + 5 for w, count in zip(self.writers, counts)),
                         "everybody writes", patroni.UP)

    def errors(self):
        return [error for writer in self.writers for error in writer.errors]

    def end(self, node):
        """Ends, and asserts that everything that was acknowledged is at this node."""
        writers.finish(self.writers)
        with node.client(database="shop") as owner:
            assert writers.lost(self.writers, owner) == 0


def test_recipe(shop, cluster):
    """Planned changes give nobody an error, those that Patroni begins at a node neither, nor those that are
    given up. When the leader is lost, and the pooler is restarted online meanwhile, only those who wrote just
    then get one."""
    shop.play("Set up")
    shop.play("See that it works")
    load = Load(shop)
    first = cluster.primary
    wrapped = documents.commands(documents.blocks_of(RECIPE, "A planned change")[0])[0][0]
    script = wrapped.split("-- patronictl")[0].strip()
    assert run(shop, script + " -- false") == 1
    load.more()
    with connect(shop) as busy:
        busy.query("begin")
        assert run(shop, script + " -t 1 -- touch %s/changed" % shop.dir) == 1, "a transaction does not end"
        assert busy.query("commit").tag == "COMMIT"
    load.more()
    assert not os.path.exists(os.path.join(shop.dir, "changed")) and cluster.primary is first

    shop.play("A planned change")
    load.more()
    second = cluster.primary
    assert second is not first and not load.errors()

    cluster.wait_whole()
    hook = documents.blocks_of(RECIPE, "A planned change")[1].strip().removeprefix("before_stop: ")
    pooler = shop.poolers[INI]
    mark = pooler.mark()
    assert run(shop, hook) == 0, "at a standby"
    assert "switchover" not in pooler.log_since(mark)
    assert run(shop, hook.replace("/var/run/postgresql", second.dir)) == 0
    assert "switchover of database 'shop': paused, waiting" in pooler.log_since(mark)
    cluster.switchover()
    load.more()
    assert cluster.primary is not second and not load.errors()

    cluster.wait_whole()
    lost = cluster.primary
    lost.kill()
    shop.wait_log("host ...: down: Connection refused")
    shop.give("pgbouncer -R -d " + INI)
    waiting.wait_for(lambda: cluster.primary, "another node leads", patroni.UP, 0.05)
    load.more()
    # Each of them is told once that the connection is lost, by the node or by the pooler.
    assert len(load.errors()) <= COUNT, load.errors()
    load.end(cluster.primary)
    wait_end(shop.instead["-R"].old[0], pooler)


def run(shop, command):
    return subprocess.run(["bash", "-c", shop.here(command)], **shop.options()).returncode

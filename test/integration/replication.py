"""Two PostgreSQL servers in streaming replication, whose roles a test can switch."""

import os
import shutil

import postgres
import waiting

REPLICATION_CONF = """
port = {port}
unix_socket_directories = '{dir}'
shared_buffers = 16MB
wal_retrieve_retry_interval = 100ms
wal_keep_size = 64MB
max_wal_size = 256MB
hot_standby = on
"""

UP = 60


class Pair:
    """A pair of servers. At first nodes[0] is the primary of nodes[1]."""

    def __init__(self, bindir):
        self.nodes = [postgres.Postgres(bindir), postgres.Postgres(bindir)]
        self.primary, self.standby = self.nodes

    def create(self):
        self.configure_later(self.primary)
        self.primary.create()
        self.primary.stop()
        self.configure(self.primary)
        self.primary.start()
        self.make_standby()
        return self

    def configure_later(self, node):
        """Allows replication over the unix socket."""
        write = node.write_hba
        node.write_hba = lambda lines: write(["local replication all trust"] + lines)

    def configure(self, node):
        with open(os.path.join(node.data, "postgresql.conf"), "a") as conf:
            conf.write(REPLICATION_CONF.format(port=node.port, dir=node.dir))

    def make_standby(self):
        """Makes a standby as a copy of the primary."""
        node, primary = self.standby, self.primary
        shutil.rmtree(node.data, ignore_errors=True)
        node.run(node.program("pg_basebackup"), "-D", node.data, "-h", primary.dir,
                 "-p", str(primary.port), "-U", postgres.SUPERUSER, "-X", "stream", "-c", "fast",
                 "--no-sync")
        self.configure(node)
        self.follow()

    def follow(self):
        """Starts the stopped standby and waits until it streams from the primary."""
        node, primary = self.standby, self.primary
        with open(os.path.join(node.data, "postgresql.conf"), "a") as conf:
            conf.write("primary_conninfo = 'host=%s port=%d user=%s application_name=standby'\n" % (
                primary.dir, primary.port, postgres.SUPERUSER))
        path = os.path.join(node.data, "standby.signal")
        open(path, "w").close()
        waiting.give(path)
        node.start()
        waiting.wait_for(self.is_streaming, "the standby streams", UP, 0.05)

    def is_streaming(self):
        return self.primary.value(
            "select count(*) from pg_stat_replication where state = 'streaming'") == "1"

    def wait_replayed(self):
        """Waits until the standby has replayed everything that was done at the primary, which need not
        be written yet when its client is told so (synchronous_commit)."""
        lsn = self.primary.value("select pg_current_wal_insert_lsn()")
        waiting.wait_for(lambda: self.standby.value(
            "select pg_last_wal_replay_lsn() >= '%s'" % lsn) == "t", "all is replayed", UP)

    def promote(self):
        """Promotes the standby. The test has stopped the old primary before."""
        self.standby.do("select pg_promote(true, 60)")
        self.primary, self.standby = self.standby, self.primary

    def switch(self):
        """Switches the roles as planned. Nothing is lost, because a stopping primary sends
        everything first."""
        self.primary.do("checkpoint")
        self.primary.stop("INT")
        self.promote()
        self.follow()

    def remove(self):
        for node in self.nodes:
            node.remove()

    def entry(self, more=""):
        """Returns the value of an entry of [databases]."""
        return "host=127.0.0.1,127.0.0.1 port=%d,%d dbname=postgres %s" % (
            self.nodes[0].port, self.nodes[1].port, more)

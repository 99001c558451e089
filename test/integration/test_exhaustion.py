"""What a process can run out of: memory, locked memory, threads. (Descriptors: test_robust.py; the disk:
test_log.py; ports and everything else that the kernel may refuse: test_nth_call.py.) Each is reached on purpose,
survived, told, and recovered from without a restart."""

import os
import re
import resource
import subprocess

import pytest

import waiting
import wire

MB = 1024 * 1024


def limit(pooler, name, value):
    """Sets the soft limit of the running process, as its own account."""
    subprocess.run(["prlimit", "--pid", str(pooler.pid), "--%s=%s:" % (name, value)], check=True, **pooler.switch())


def address_space(pooler):
    with open("/proc/%d/status" % pooler.pid) as status:
        return int(re.search(r"VmSize:\s+(\d+) kB", status.read()).group(1)) * 1024


# A small allocation that fails ends the process, and which one meets the limit depends on the moment.
@pytest.mark.skipif(not os.environ.get("EXHAUST_MEMORY"), reason="it is run by hand, with EXHAUST_MEMORY=1")
def test_memory(make_pooler, pg):
    """A client's message for which there is no memory ends that client; everybody else is served, and so is the
    next one when there is memory again. (With several workers the C library has reserved more addresses.)"""
    pooler = make_pooler({"db": pg.conn(pool_size=8)}, settings={
        "pool_mode": "transaction", "workers": 1, "max_prepared_statements": 10})
    if pooler.has_sanitizer():
        pytest.skip("a sanitizer does not live with a limit of addresses")
    beside, greedy = [pooler.connect() for _ in range(4)], pooler.connect()
    for client in beside:
        client.query("begin")
    mark = pooler.mark()
    limit(pooler, "as", address_space(pooler) + 24 * MB)
    greedy.sock.settimeout(5)
    with pytest.raises((OSError, wire.Closed, wire.Refused)):
        greedy.send(wire.parse("kept", "select '%s'" % ("y" * 60 * MB)), wire.sync())
        greedy.recv_until("Z")
        raise wire.Closed("it is served")
    for number, client in enumerate(beside):
        assert client.value("select %d" % number) == str(number)
    assert pooler.connect().value("select 1") == "1"
    limit(pooler, "as", "unlimited")
    pooler.wait_log("closing because: out of memory", mark)
    with pooler.connect() as again:
        assert len(again.value("select '%s'" % ("z" * 20 * MB))) == 20 * MB
    for client in beside:
        assert client.query("commit").tag == "COMMIT"


@pytest.mark.parametrize("workers", [1, 4])
def test_locked_memory(make_pooler, pg, workers):
    """Without memory that may be locked the pooler serves with epoll, or with a smaller ring, and says which."""
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={"io_engine": "auto", "workers": workers})
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    pooler.start()
    pooler.wait_log(r"LOG io_engine is (io_uring|epoll, because io_uring is not available: )")
    clients = [pooler.connect() for _ in range(2 * workers)]
    assert [client.value("select 1") for client in clients] == ["1"] * len(clients)


def test_threads(make_pooler, pg):
    """When no thread can be started, logins that need one are refused with the reason."""
    pooler = make_pooler({"db": pg.conn(pool_size=2)}, start=False, settings={"auth_type": "hba", "workers": 1})
    pooler.settings["auth_hba_file"] = pooler.write(
        "hba", "host pgbouncer all all trust\nhost all all all scram-sha-256\n")
    pooler.start()
    if pooler.account is None:
        pytest.skip("the kernel counts no threads of root")
    console, mark = pooler.admin, pooler.mark()
    assert console.value("SHOW VERSION")
    limit(pooler, "nproc", 1)
    for _ in range(3):
        assert pooler.refusal(user="scram_user").startswith("could not start a thread: ")
    pooler.wait_log("pooler error: could not start a thread: Resource temporarily unavailable", mark)
    assert console.value("SHOW VERSION")
    limit(pooler, "nproc", resource.getrlimit(resource.RLIMIT_NPROC)[1])

    def is_served():
        try:
            with pooler.connect(user="scram_user") as client:
                return client.value("select 1") == "1"
        except (wire.Refused, wire.Closed):
            return False

    waiting.wait_for(is_served, "logins succeed again", 20)

"""memory_limit: new work is refused before the machine has no memory left; who is served goes on."""

import pytest

import waiting
import wire

MB = 1024 * 1024
TOLD = "the pooler takes no new work for lack of memory (memory_limit)"


@pytest.fixture(params=[1, 4], ids=["1 worker", "4 workers"])
def workers(request):
    return request.param


def state(pooler):
    return {row["key"]: row["value"] for row in pooler.show("STATE")}


def greedy(clients, size):
    """These clients send most of a Parse that is kept until it is whole."""
    for n, client in enumerate(clients):
        whole = wire.parse("s%d" % n, "select '%s'" % ("x" * size))
        client.send(whole[:-100])
        client.rest = whole[-100:]


def test_new_work_is_refused_until_there_is_memory(make_pooler, pg, workers):
    pooler = make_pooler({"db": pg.conn(pool_size=60)}, start=False, settings={
        "workers": workers, "pool_mode": "transaction", "max_client_conn": 500})
    pooler.quarantine_mb = 0
    pooler.start()
    if pooler.is_for_threads():
        pytest.skip("memory cannot be measured with ThreadSanitizer")
    rich, served, idle = pooler.connect(), pooler.connect(), pooler.connect()
    served.query("begin")
    idle.query("select 1")
    held = [pooler.connect() for _ in range(30)]
    for client in held:
        client.query("begin")
    limit = pooler.rss() + 24 * MB
    pooler.set("memory_limit", "%dMB" % (limit // MB))
    assert pooler.config()["memory_limit"] == "%dMB" % (limit // MB)
    assert state(pooler)["memory_limit_reached"] == "0"
    greedy(held, 3 * MB // 2)
    waiting.wait_for(lambda: state(pooler)["memory_limit_reached"] == "1")
    pooler.wait_log(r"WARNING memory_limit is reached: the process uses \d+ MB, and takes no new clients and long queries")

    # new clients, but not at the console
    with pooler.client() as newcomer:
        newcomer.send(newcomer.startup_packet())
        error = newcomer.recv_until("E")[-1]
        assert (error.field("S"), error.field("C"), error.field("M")) == ("FATAL", "53200", TOLD)
        assert error.field("D").startswith("The process uses ")
        assert error.field("D").endswith("MB; memory_limit is %dMB." % (limit // MB))
        assert error.field("H").startswith("Try again later.")
    with pooler.console() as console:
        assert console.value("SHOW VERSION")

    # long queries of clients without a server; the connection goes on, and with it short queries
    result = idle.query("select '%s'" % ("y" * 3 * MB), check=False)
    assert result.kinds() == "EZ" and result.status == "I"
    assert (result.errors[0].field("S"), result.errors[0].field("C")) == ("ERROR", "53200")
    idle.send(wire.parse("", "select '%s'" % ("y" * 3 * MB)), wire.bind(), wire.execute(), wire.sync())
    assert idle.finish().kinds() == "EZ"
    assert idle.value("select 5") == "5"

    # who is served goes on, also with long queries
    assert len(served.value("select '%s'" % ("z" * 100000))) == 100000
    assert served.query("commit").status == "I"
    for client in held:
        client.send(client.rest, wire.sync())
        assert client.finish().kinds() == "1Z"
        client.close()

    # it ends by itself, and says so
    waiting.wait_for(lambda: state(pooler)["memory_limit_reached"] == "0")
    pooler.wait_log(r"LOG memory_limit is not reached any more: 3 clients and queries were refused")
    assert state(pooler)["memory_limit_refused"] == "3"
    assert len(rich.value("select '%s'" % ("y" * MB))) == MB
    assert pooler.connect().value("select 1") == "1"


def test_it_ends_when_it_is_switched_off(make_pooler, pg, workers):
    pooler = make_pooler({"db": pg.conn()}, settings={"workers": workers, "memory_limit": "1kB"})
    pooler.console()
    assert pooler.refusal() == TOLD
    pooler.set("memory_limit", "0")
    assert pooler.connect().value("select 1") == "1"


@pytest.mark.parametrize("text", ["-1", "1 MB", "1.5GB", "MB", "1PB", "99999999999999999999", "20000000TB", ""])
def test_sizes_that_cannot_be_read(make_pooler, text):
    pooler = make_pooler({}, start=False)
    pooler.settings["memory_limit"] = text
    code, out, err = pooler.run_ini(None, "--check-config")
    assert code == 1
    assert "must be a number of bytes such as 2147483648, 2048MB or 2GB" in out + err


@pytest.mark.parametrize("text, shown", [("0", "0"), ("1", "1"), ("1024", "1kB"), ("1500kb", "1500kB"),
                                         ("3072MB", "3GB"), ("5tb", "5TB"), ("2147483648", "2GB")])
def test_sizes_are_shown_with_a_unit(make_pooler, pg, text, shown):
    pooler = make_pooler({"db": pg.conn()}, settings={"memory_limit": text})
    assert pooler.config()["memory_limit"] == shown

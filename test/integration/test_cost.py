"""What logins cost everybody else: keys are derived beside the loop, and wrong proofs take as
long whoever they are for."""

import concurrent.futures
import time

import pytest

import wire

PLAIN = "costly secret 58"
# Some tens of milliseconds for one derivation: far above what else a login takes.
ROUNDS = 100000
USERS = {"p": PLAIN, "m": wire.md5_hash("m", PLAIN), "s": wire.ScramKeys(PLAIN, iterations=ROUNDS).secret(),
         "busy": "", "admin_user": "admin secret 91c"}


@pytest.fixture
def costly(make_pooler, pg):
    """costly(rules)"""
    def make(method, **settings):
        pooler = make_pooler({"db": pg.conn(user="trust_user")}, userlist=USERS, start=False)
        pooler.settings.update(dict(auth_type="hba", auth_hba_file=pooler.path("hba"),
                                    scram_iterations=str(ROUNDS)), **settings)
        pooler.write("hba", "host pgbouncer all all md5\nhost all busy all trust\nhost all all all %s\n" % method)
        return pooler.start()
    return make


def guess(pooler, user, code):
    """A wrong proof that costs the guesser nothing; gives the seconds until the answer."""
    with pooler.client(user=user, secret="wrong") as client:
        client.send(client.startup_packet())
        client.recv_kinds("R")
        if code == 10:
            client.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=abcdefghijkl"))
            first = client.recv_kinds("R")[0].body[4:].decode()
            nonce = first.split(",")[0]
            start = time.monotonic()
            client.send(wire.message("p", ("c=biws,%s,p=%s=" % (nonce, "A" * 43)).encode()))
        else:
            start = time.monotonic()
            client.send(wire.password("wrong"))
        client.recv_kinds("E")
        return time.monotonic() - start


@pytest.mark.parametrize("method, code", [("scram-sha-256", 10), ("password", 3)])
def test_time_does_not_tell_who_exists(costly, method, code):
    pooler = costly(method)
    times = {user: min(guess(pooler, user, code) for _ in range(4))
             for user in ("p", "m", "s", "unknown", "p", "another")}
    assert max(times.values()) < 4 * min(times.values()), times
    # the measure: a proof that needs no derivation
    assert min(times.values()) > 0.005, times


def test_right_proofs_cost_one_derivation(costly):
    pooler = costly("password")
    took = []
    for _ in range(4):
        start = time.monotonic()
        pooler.connect(user="s", secret=PLAIN).close()
        took.append(time.monotonic() - start)
    assert max(took[1:]) < took[0] / 2, took
    pooler.reload()
    start = time.monotonic()
    pooler.connect(user="s", secret=PLAIN).close()
    assert time.monotonic() - start > took[0] / 3


def test_a_storm_of_logins_delays_nobody(costly):
    """Each login derives for tens of milliseconds; queries of others do not wait for it."""
    pooler = costly("scram-sha-256")
    with pooler.connect(user="busy") as client:
        client.value("select 1")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            storm = [pool.submit(guess, pooler, "unknown%d" % n, 10) for n in range(40)]
            waits = []
            while not all(login.done() for login in storm):
                start = time.monotonic()
                assert client.value("select 2") == "2"
                waits.append(time.monotonic() - start)
            longest = max(login.result() for login in storm)
    waits.sort()
    assert longest > 0.02 and len(waits) > 10
    # on the loop, every query would have waited for at least one derivation
    assert waits[len(waits) // 2] < longest / 4, (waits[-1], longest)


def test_server_logins_derive_beside_the_loop(make_pooler, pg):
    """A server whose role has many rounds: others are served while its keys are derived."""
    with pg.client() as owner:
        owner.query("create role slow login password '%s'" % wire.ScramKeys(PLAIN, iterations=900000).secret())
    try:
        pooler = make_pooler({"db": pg.conn(), "slow": pg.conn(user="slow", password=PLAIN)})
        with pooler.connect() as client, pooler.client("slow") as waiting_client:
            client.value("select 1")
            waiting_client.send(waiting_client.startup_packet())
            waits, start = [], time.monotonic()
            while not waiting_client.has_data(0.001):
                asked = time.monotonic()
                client.value("select 2")
                waits.append(time.monotonic() - asked)
            took = time.monotonic() - start
            assert waiting_client.authenticate().value("select current_user") == "slow"
        assert max(waits) < took / 2, (max(waits), took)
    finally:
        with pg.client() as owner:
            owner.query("drop role slow")

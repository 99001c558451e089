"""What things cost, counted.

Logins: The pooler derives SCRAM keys in a helper thread and only when needed, and a
wrong proof costs the same derivation for every user.

The log gives the number of derivations. The order of answers shows that they run in a helper
thread: a query that is sent after a login that derives is answered before it.

Queries: instructions, one by one. They are the same in each run, however busy the machine is."""

import pytest

import postgres
import tracer
import wire

SCRAM_SECRET = postgres.USERS["scram_user"][0]
PLAIN = "costly secret 58"
ROUNDS = 100000
# One derivation takes some tenths of a second, which is longer than any query.
SLOW_ROUNDS = 900000
DERIVING = "] DEBUG deriving a SCRAM key, %d iterations"


def users(rounds):
    return {"p": PLAIN, "m": wire.md5_hash("m", PLAIN),
            "s": wire.ScramKeys(PLAIN, iterations=rounds).secret(),
            "busy": "", **{"known%d" % n: "password %d" % n for n in range(8)}, "admin_user": "admin secret 91c"}


@pytest.fixture
def costly(make_pooler, pg):
    """costly(method) returns a pooler with high iteration counts. Only the user busy logs in
    without a derivation."""
    def make(method, rounds=ROUNDS):
        pooler = make_pooler({"db": pg.conn(user="trust_user")}, userlist=users(rounds), start=False)
        pooler.settings.update(auth_type="hba", auth_hba_file=pooler.path("hba"), verbose=1,
                               scram_iterations=str(rounds))
        pooler.write("hba", "host pgbouncer all all md5\nhost all busy all trust\nhost all all all %s\n" % method)
        return pooler.start()
    return make


def derivations(pooler, since, rounds=ROUNDS):
    return pooler.log_since(since).count(DERIVING % rounds)


def send_guess(client, method):
    """Sends a wrong proof, which the client made without a derivation."""
    client.send(client.startup_packet())
    client.recv_kinds("R")
    if method != "scram-sha-256":
        client.send(wire.password("wrong"))
        return
    client.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=abcdefghijkl"))
    first = client.recv_kinds("R")[0].body[4:].decode()
    client.send(wire.message("p", ("c=biws,%s,p=%s=" % (first.split(",")[0], "A" * 43)).encode()))


@pytest.mark.parametrize("method", ["scram-sha-256", "password"])
def test_cost_does_not_tell_who_exists(costly, method):
    pooler = costly(method)
    counts = {}
    for user in ("p", "m", "s", "unknown", "p", "another"):
        since = pooler.mark()
        with pooler.client(user=user, secret="wrong") as client:
            send_guess(client, method)
            client.recv_kinds("E")
        counts[user] = derivations(pooler, since)
    assert set(counts.values()) == {1}, counts


@pytest.mark.one_worker  # Each worker derives keys for itself.
def test_right_proofs_cost_one_derivation(costly):
    pooler = costly("password")
    since = pooler.mark()
    for _ in range(4):
        pooler.connect(user="s", secret=PLAIN).close()
    assert derivations(pooler, since) == 1
    pooler.reload()
    pooler.connect(user="s", secret=PLAIN).close()
    assert derivations(pooler, since) == 2


@pytest.mark.parametrize("who", ["known", "unknown"])
def test_a_storm_of_logins_delays_nobody(costly, who):
    """The pooler answers queries while the helper thread derives one key after the other."""
    pooler = costly("scram-sha-256", SLOW_ROUNDS)
    with pooler.connect(user="busy") as client:
        client.value("select 1")
        storm = [pooler.client(user="%s%d" % (who, n), secret="wrong") for n in range(8)]
        try:
            for guesser in storm:
                send_guess(guesser, "scram-sha-256")
            for n in range(20):
                assert client.value("select %d" % n) == str(n)
            assert not any(guesser.has_data(0.001) for guesser in storm[1:])
        finally:
            for guesser in storm:
                guesser.close()


@pytest.mark.one_worker  # Each worker derives keys for itself.
@pytest.mark.parametrize("who", ["server", "client"])
def test_guesses_for_one_user_delay_nobody_else(make_pooler, pg, who):
    """Strangers guess the password of a user whose secret has many rounds. The derivation for another
    login has its turn after one of theirs."""
    guesses = 60
    pooler = make_pooler({"db": pg.conn(user="trust_user"), "own": pg.conn(user="scram_user", password=SCRAM_SECRET)},
                         settings={"auth_type": "plain", "client_login_timeout": 300},
                         userlist={"s": wire.ScramKeys(PLAIN, iterations=ROUNDS).secret(),
                                   "other": wire.ScramKeys(PLAIN).secret(), "busy": "", "t": "a plain word 5c2"})
    strangers = [pooler.client(user="s", secret="wrong") for _ in range(guesses)]
    pooler.connect(user="t", secret="a plain word 5c2").close()
    for guesser in strangers:
        send_guess(guesser, "plain")
    if who == "server":
        pooler.connect("own", "t", "a plain word 5c2").close()
    else:
        pooler.connect("db", "other", PLAIN).close()
    refused = sum(guesser.has_data(0.001) for guesser in strangers)
    assert refused < guesses / 4, refused
    for guesser in strangers:
        guesser.close()


def test_server_logins_derive_beside_the_loop(make_pooler, pg):
    """A role has a high iteration count. Other clients are served while the pooler derives its
    keys."""
    with pg.client() as owner:
        owner.query("create role slow login password '%s'" % wire.ScramKeys(
            PLAIN, iterations=SLOW_ROUNDS).secret())
    try:
        pooler = make_pooler({"db": pg.conn(), "slow": pg.conn(user="slow", password=PLAIN)},
                             settings={"verbose": 1, "server_connect_timeout": 300})
        with pooler.connect() as client, pooler.client("slow") as waiting_client:
            client.value("select 1")
            waiting_client.send(waiting_client.startup_packet())
            pooler.wait_log(DERIVING.replace("] ", "") % SLOW_ROUNDS)
            for n in range(20):
                assert client.value("select %d" % n) == str(n)
            assert not waiting_client.has_data(0.001)
            assert waiting_client.authenticate().value("select current_user") == "slow"
    finally:
        with pg.client() as owner:
            owner.query("drop role slow")


# ---- instructions ----

EXTENDED = [wire.parse("", "select 1"), wire.bind(), wire.describe("P", ""), wire.execute()]
QUERIES = {
    "simple": [wire.query("select 1")],
    "extended": EXTENDED + [wire.sync()],
    "pipeline of ten": EXTENDED * 10 + [wire.sync()],
}


def instructions(pooler, client, query):
    """How many the pooler runs for this query."""
    def run():
        client.send(*query)
        client.recv_until("Z")

    return tracer.count_instructions(pooler.pid, "pgbouncer", run)


@pytest.mark.one_worker  # The thread that serves all.
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_keep_costs_nothing_where_nothing_is_kept(make_pooler, pg, query, request, record_property):
    """A client that sets and leaves nothing. What happens from time to time, such as the clock of
    statistics, is left out by taking the least."""
    counts, measured = {}, []
    for state in ("forward", "keep"):
        pooler = make_pooler({"db": pg.conn(pool_size=4)}, settings={
            "pool_mode": "transaction", "session_state": state, "log_stats": 0})
        if pooler.has_sanitizer():
            pytest.skip("the program that people run is measured")
        measured.append((state, pooler, pooler.connect()))
    for count in range(25):
        for state, pooler, client in measured:
            one = instructions(pooler, client, query)
            if count > 2:  # It has run before.
                counts[state] = min(one, counts.get(state, one))
        if count > 4 and counts["keep"] <= counts["forward"] * 1.01:
            break
    record_property("figure", "instructions of select 1, %s: %d with forward, %d with keep" % (
        request.node.callspec.id, counts["forward"], counts["keep"]))
    assert counts["keep"] <= counts["forward"] * 1.01, counts

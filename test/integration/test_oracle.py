"""The oracle (oracle.py) for a few seconds: the pooler answers as PostgreSQL does."""

import os
import random
import time

import pytest

import oracle

SECONDS = 10.0
SEQUENCES = 1200
LEAST = 100  # even on a machine that is busy


@pytest.fixture
def make_oracle(pg, binary):
    made = []

    def make(kinds, mode, **more):
        made.append(oracle.Oracle(pg, binary, kinds, mode, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


# By random seeds it finds something new now and then, which is its purpose: the regular
# run is not the place for that.
pytestmark = pytest.mark.skipif(
    not os.environ.get("ORACLE"), reason="random: run `make oracle`, or set ORACLE=1")


def check(one):
    first = random.randrange(10 ** 9)
    print("seed %d" % first)
    found = None
    try:
        done = one.run(range(first, first + SEQUENCES), time.monotonic() + SECONDS)
    except oracle.Found as difference:
        found = str(difference)
    if found:
        pytest.fail(found, pytrace=False)
    assert done >= LEAST
    assert one.invalid < done / 20


@pytest.mark.timeout(180)
def test_transaction_mode(make_oracle):
    check(make_oracle(oracle.TRANSACTION, "transaction"))


@pytest.mark.timeout(180)
def test_transaction_mode_without_prepared_statements(make_oracle):
    kinds = [("transaction, none prepared", "transaction", 0)]
    check(make_oracle(kinds, "transaction", named=False))


@pytest.mark.timeout(180)
def test_session_mode(make_oracle):
    check(make_oracle(oracle.SESSION, "session"))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_serial", [True, False])
def test_the_oracle_sees_and_cuts_down(make_oracle, is_serial):
    """What a session keeps gets lost in transaction mode: the oracle must find that among much
    else, and say it in a few messages."""
    one = make_oracle([("transaction", "transaction", 200)], "session")
    noise = [(client, *op) for client in (1, 2) for op in (("S",), ("wait",), ("Q", "select 1"))]
    keeps = [(2, "Q", "set work_mem = '3MB'"), (2, "Q", "select 2"), (2, "wait")]
    loses = [(2, "Q", "discard all"), (1, "wait"), (1, "Q", "show work_mem")]
    ops = (noise * 4 + [(1, "Q", "set work_mem = '5MB'"), (1, "wait")] + noise * 3 + keeps
           + noise * 3 + loses + noise)
    with pytest.raises(oracle.Found) as found:
        for _ in range(20):
            one.check({"seed": 1, "serial": is_serial, "split": 5, "ops": ops})
    assert found.value.is_minimal
    assert len(found.value.sequence["ops"]) <= 5, str(found.value)
    assert "show work_mem" in str(found.value)

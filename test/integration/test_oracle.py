"""The oracle (oracle.py) on fixed sequences: the pooler answers as PostgreSQL does. `make oracle`
runs other sequences for hours."""

import os
import time

import pytest

import oracle
import oracle_ops
import oracle_sequences

# The number of sequences per test; ORACLE_SHARE=0.2 runs a fifth of them, and ORACLE_PARTS=1 one of
# the parts of each mode.
SEQUENCES = 500
SHARE = float(os.environ.get("ORACLE_SHARE", "1"))
PARTS = int(os.environ.get("ORACLE_PARTS", "5"))
SEED = 20261121
A_WHILE = 5.0
SAVING = (("prepare_unnamed", 2), ("defer_begin", 1))
LIMIT = 400.0  # In seconds; it takes about five on an idle machine.


@pytest.fixture
def make_oracle(pg, binary):
    made = []

    def make(kinds, mode, **more):
        made.append(oracle.Oracle(pg, binary, kinds, mode, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def run(one, seeds, seconds):
    """Returns how many sequences have run, without a difference."""
    found = None
    try:
        done = one.run(seeds, time.monotonic() + seconds)
    except oracle.Found as difference:
        found = str(difference)
    if found:
        pytest.fail(found, pytrace=False)
    assert one.left_behind == 0
    return done


def check(one, part=0, count=SEQUENCES):
    first = SEED + part * SEQUENCES
    count = max(int(count * SHARE), 20)
    done = run(one, range(first, first + count), LIMIT)
    assert done == count
    assert one.invalid < max(done / 20, 5)


def check_for_a_while(one):
    """How many sequences run depends on the machine."""
    assert run(one, range(SEED, SEED + SEQUENCES), A_WHILE) > 0


@pytest.mark.timeout(480)
@pytest.mark.parametrize("part", range(min(5, PARTS)))
def test_transaction_mode(make_oracle, part):
    check(make_oracle(oracle.TRANSACTION, "transaction"), part)


@pytest.mark.timeout(480)
def test_transaction_mode_without_prepared_statements(make_oracle):
    kinds = [("transaction, none prepared", "transaction", 0)]
    check(make_oracle(kinds, "transaction", named=False))


@pytest.mark.timeout(480)
def test_transaction_mode_with_all_that_saves(make_oracle):
    kinds = [("%d prepared" % n, "transaction", n) for n in (1, 3, 100)]
    check(make_oracle(kinds, "transaction", settings=SAVING + (("track_sql_prepare", 1),)))


@pytest.mark.timeout(480)
@pytest.mark.parametrize("part", range(min(2, PARTS)))
def test_statement_mode(make_oracle, part):
    check(make_oracle(oracle.STATEMENT, "statement"), part)


@pytest.mark.timeout(480)
@pytest.mark.parametrize("part", range(min(4, PARTS)))
def test_session_mode(make_oracle, part):
    check(make_oracle(oracle.SESSION, "session"), part)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["pieces", "session_pieces"])
def test_every_byte_is_split_and_joined(make_oracle, mode):
    """With both engines, and with rows and descriptions of all sizes."""
    check_for_a_while(make_oracle(oracle.KINDS[mode], mode))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("saving", [(), SAVING], ids=["", "prepare_unnamed and defer_begin"])
def test_changes_of_the_schema(make_oracle, saving):
    """With both engines, each with one worker and with 3."""
    check_for_a_while(make_oracle(oracle.SCHEMA, "schema", settings=saving))


def test_messages_that_are_left_out_change_nothing():
    """A client with parameters in its startup packet may not end a block behind a RESET, before it has
    waited. So it is still in that block, where a statement without rows is not described."""
    watch = oracle_ops.Watch("transaction", (1,))
    for op in ((1, "P", "s1", "savepoint a", ()), (1, "S"), (1, "Q", "begin"), (1, "Q", "reset all")):
        assert watch.allows(op)
    assert not watch.allows((1, "Q", "rollback"))
    assert watch.allows((1, "wait"))
    assert not watch.allows((1, "D", "S", "s1"))
    assert watch.allows((1, "Q", "rollback"))
    assert watch.allows((1, "D", "S", "s1"))


def test_clients_that_share_objects_leave_no_block_open():
    made = [oracle_sequences.make(seed, restored=(2, 3), is_migrating=True) for seed in range(SEED, SEED + 60)]
    alone = [sequence["ops"] for sequence in made if sequence["alone"]]
    assert alone and all(oracle_ops.is_alone(ops) for ops in alone)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", sorted(oracle.KEEP))
def test_session_state_is_kept(make_oracle, mode):
    """Pools of 1 to 3 servers with 4 clients, with both engines, and with 3 workers."""
    check_for_a_while(make_oracle(oracle.KEEP[mode], mode))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode, saving", [("engines", SAVING), ("session", ()), ("keep_2", ())])
def test_what_an_administrator_does_goes_unnoticed(make_oracle, mode, saving):
    """For example a RELOAD, a PAUSE, a RECONNECT and a takeover, between messages and within them."""
    check_for_a_while(make_oracle(oracle.KINDS[mode], mode, settings=saving, is_disturbed=True))


@pytest.mark.skipif(SHARE < 0.1, reason="shown by the run with more sequences")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_serial", [True, False])
def test_the_oracle_sees_and_cuts_down(make_oracle, is_serial):
    """Session state gets lost in transaction mode. The oracle must find that in a long sequence and
    reduce it to a few messages."""
    one = make_oracle([("transaction", "transaction", 200)], "session")
    noise = [(client, *op) for client in (1, 2) for op in (("S",), ("wait",), ("Q", "select 1"))]
    keeps = [(2, "Q", "set work_mem = '3MB'"), (2, "Q", "select 2"), (2, "wait")]
    loses = [(2, "Q", "discard all"), (1, "wait"), (1, "Q", "show work_mem")]
    ops = (noise * 2 + [(1, "Q", "set work_mem = '5MB'"), (1, "wait")] + noise + keeps
           + noise + loses + noise)
    with pytest.raises(oracle.Found) as found:
        for _ in range(20):
            one.check({"seed": 1, "serial": is_serial, "split": 5, "ops": ops})
    assert found.value.is_minimal
    # With clients at the same time a shorter sequence may show the difference in some runs only.
    most = 5 if is_serial else 9
    assert len(found.value.sequence["ops"]) <= most, str(found.value)
    assert "show work_mem" in str(found.value)

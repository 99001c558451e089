"""Commands that set and reset parameters, one behind the other, as on a direct connection."""

import itertools

import pytest

import wire

ASKED = {"timezone": "Asia/Tokyo", "application_name": "mine", "datestyle": "German, DMY"}
NAMES = ("TimeZone", "DateStyle", "application_name")
CHANGES = [
    "set timezone = 'UTC'", "set timezone = 'Europe/Rome'", "set local timezone = 'UTC'",
    "set local timezone = 'Europe/Rome'", "reset timezone", "set timezone to default",
    "set local timezone to default", "select set_config('timezone', 'UTC', false)",
    "select set_config('timezone', 'UTC', true)", "select set_config('timezone', null, false)",
    "do 'begin reset timezone; end'", "set datestyle = 'SQL'", "set datestyle = 'MDY'",
    "set local datestyle = 'ISO'", "reset datestyle", "set datestyle to default", "reset all",
    "discard all", "begin", "commit", "rollback", "savepoint s", "rollback to s", "select 1/0"]
BEFORE = "set timezone = 'Europe/Rome'; set datestyle = 'SQL, MDY'"


def run(sql):
    return wire.parse("", sql) + wire.bind() + wire.execute()


def pipeline(changes):
    return [b"".join(run(sql) for sql in changes) + wire.sync()]


def one_by_one(changes):
    return [run(sql) + wire.sync() for sql in changes]


FORMS = {
    "pipeline": pipeline,
    "one by one": one_by_one,
    "queries": lambda changes: [wire.query(sql) for sql in changes],
    "pipeline in a transaction": lambda changes: one_by_one(["begin"]) + pipeline(changes),
    "one by one in a transaction": lambda changes: one_by_one(["begin"]) + one_by_one(changes),
    "pipeline behind a SET": lambda changes: [wire.query(BEFORE)] + pipeline(changes),
    "queries behind a SET": lambda changes: [wire.query(BEFORE)] + [wire.query(c) for c in changes],
}


def is_left_out(changes):
    """What follows DISCARD ALL in a pipeline, and RESET ALL behind a SET LOCAL TO DEFAULT, which
    PostgreSQL does not count (protocol.md 7)."""
    pairs = list(zip(changes, changes[1:]))
    return any(first == "discard all" and "datestyle" in second for first, second in pairs) or (
        "set local timezone to default", "reset all") in pairs


def story(client, segments, end, is_shown, other):
    """Returns what the client is told of each segment, the values that it has been told, and those
    in force."""
    told, seen = dict(client.parameters()), []

    def note(result):
        told.update(m.pair() for m in result.messages if m.kind == "S")
        return result

    def show():
        seen.append([note(client.query("show " + name)).value for name in NAMES])
        seen.append([told[name] for name in NAMES])

    for segment in segments:
        client.send(segment)
        result = note(client.finish())
        seen.append(("".join(m.kind for m in result.messages if m.kind not in "SN"), result.status,
                     [m.field("C") for m in result.errors], [told[name] for name in NAMES]))
        if other and result.status == "I":
            other.query("select 1")
        if is_shown and result.status != "E":
            show()
    note(client.query(end))
    if other:
        other.query("select 1")
    show()
    return seen


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode, size, prepared", [
    ("transaction", 1, 200), ("transaction", 2, 200), ("transaction", 1, 0), ("session", 3, 200)])
def test_pairs_as_on_a_direct_connection(make_pooler, pg, mode, size, prepared):
    pooler = make_pooler({"db": pg.conn(pool_size=size)}, settings={
        "pool_mode": mode, "max_prepared_statements": prepared})
    other = pooler.connect(timezone="America/New_York")
    for number, changes in enumerate(itertools.product(CHANGES, repeat=2)):
        # A prime number of kinds of change, so that all forms meet all changes.
        form = sorted(FORMS)[(number + number // len(CHANGES)) % len(FORMS)]
        if is_left_out(changes):
            continue
        asked = ASKED if number % 5 else {}
        rest = (FORMS[form](changes), ("commit", "rollback")[number % 2], number % 3 == 0)
        with pg.client(user="trust_user", **asked) as direct:
            wanted = story(direct, *rest, None)
        with pooler.connect(**asked) as client:
            assert story(client, *rest, other if number % 4 else None) == wanted, (changes, form, rest)



@pytest.mark.parametrize("defer_begin", [0, 1])
def test_a_reset_of_the_pooler_is_not_the_clients(make_pooler, pg, defer_begin):
    """The pooler resets what the last client had set, and the client's SET LOCAL in the first transaction was taken
    for what a RESET of its own had brought about."""
    pooler = make_pooler({"db": pg.conn(pool_size=1, defer_begin=defer_begin)}, settings={"pool_mode": "transaction"})
    with pooler.connect(datestyle="German, DMY") as before, pooler.connect(timezone="Asia/Tokyo") as client:
        own = pooler.connect()
        zone = own.value("show timezone")
        own.close()
        for _ in range(3):
            assert before.value("show datestyle") == "German, DMY"
            if defer_begin:
                client.query("begin")
                client.query("set local timezone = '%s'" % zone)
            else:
                client.query("begin; set local timezone = '%s'" % zone)
            assert client.value("show timezone") == zone
            assert client.query("commit").tag == "COMMIT"
            assert client.value("show timezone") == "Asia/Tokyo"

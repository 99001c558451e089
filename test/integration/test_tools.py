"""The tools of the command line that prepare a start (pgbouncer(1)): --explain-config."""

import re


def words(text):
    """Returns the text with each run of white space as one blank."""
    return " ".join(text.split())


# explain-config


def test_explain_config(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "forced": pg.conn(user="trust_user", pool_size=7)},
                         start=False, userlist={"one": "a", "two": "b"},
                         settings={"pool_mode": "transaction", "admin_users": "nobody"})
    code, out, err = pooler.run_ini(None, "--explain-config")
    assert (code, err) == (0, "")
    checked = pooler.run("--check-config", pooler.ini)[1]
    assert checked and out.startswith(checked), "the findings come first"
    said = words(out)
    assert "%s:%d 2 47 47 " % (pg.host, pg.port) in said
    line = pooler.ini_text().splitlines().index("pool_mode = transaction") + 1
    assert "pool_mode transaction line %d " % line in said
    assert "* idle_transaction_timeout is off: " in said


def test_explain_config_has_the_exit_status_of_check_config(make_pooler):
    pooler = make_pooler(start=False)
    code, out, _ = pooler.run_ini("[databases]\nx =\n[pgbouncer]\nnonsense = 1\n",
                                  "--explain-config")
    assert code == 1
    assert re.search(r"^%s:4: unknown parameter" % re.escape(pooler.ini), out, re.M)
    assert "Database x (line 2)" in out

"""--check-config --for-pgbouncer: what PgBouncer 1.25 does not know of a configuration."""

import re

import documents

HEAD = "[databases]\n%s\n[users]\n%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"


def taken_out(pooler, text):
    """Returns (exit code, [(line, what)]) of what is told of an ini."""
    code, out, err = pooler.run_ini(text, "--check-config", "--for-pgbouncer")
    assert err == ""
    places = re.findall(r"^%s:(\d+): (?:(?:\S+): )?take out ([\w.]+): PgBouncer 1\.25 has " % re.escape(pooler.ini), out, re.M)
    assert ("%s: nothing that PgBouncer 1.25 does not know\n" % pooler.ini in out) == (not places), out
    return code, [(int(line), what) for line, what in places]


def test_keys_of_entries(make_pooler):
    pooler = make_pooler(start=False)
    databases = ("a = host=h port=6000 dbname=b pool_size=3 reserve_pool=1 server_lifetime=60 load_balance_hosts=disable\n"
                 "c = host=h,i port=1,2 weight=1 sslmode=require query_wait_timeout=4 load_balance_hosts=random param.x=y")
    users = "u = pool_mode=session query_timeout=3 prepare_unnamed=5"
    code, places = taken_out(pooler, HEAD % (databases, users))
    assert code == 1
    assert places == [(3, "port"), (3, "weight"), (3, "sslmode"), (3, "query_wait_timeout"), (3, "load_balance_hosts"),
                      (3, "param.x"), (5, "prepare_unnamed")]


def test_included_files(make_pooler):
    pooler = make_pooler(start=False)
    pooler.write("more.ini", "workers = 2\n[databases]\nb = dbname=x target_session_attrs=any\n")
    code, out, _ = pooler.run_ini((HEAD + "%%include %s\n") % ("a =", "u =", pooler.path("more.ini")),
                                  "--check-config", "--for-pgbouncer")
    assert code == 1
    assert "%s:1: take out workers: " % pooler.path("more.ini") in out, out
    assert "%s:3: b: take out target_session_attrs: " % pooler.path("more.ini") in out, out


def test_what_the_reference_says(make_pooler):
    """Each setting has an example, which is listed where the reference says so."""
    pooler = make_pooler(start=False)
    reference = documents.document("doc/settings.md")
    settings = re.findall(r"^#### (\w+)\n\n(.*)\n\n.*\n\nExample: `(.*)`", reference, re.M)
    names = re.findall(r"^#### (\w+)$", reference, re.M)
    assert [name for name, _, _ in settings] == names
    text = HEAD % ("a =", "u =")
    first = text.count("\n") + 1
    _, places = taken_out(pooler, text + "".join(example + "\n" for _, _, example in settings))
    assert places == [(first + i, name) for i, (name, facts, _) in enumerate(settings)
                      if facts.endswith("PgBouncer 1.25 does not know it.")]
    assert places


def test_it_belongs_to_check_config(make_pooler):
    pooler = make_pooler(start=False)
    code, _, err = pooler.run("--for-pgbouncer", pooler.ini)
    assert code == 1 and "--for-pgbouncer belongs to --check-config" in err
    assert taken_out(pooler, HEAD % ("a =", "u ="))[0] == 0

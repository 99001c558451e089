"""What the documents show works: configurations, commands of the console and the shell, the quick
start, the table of pool modes."""

import grp
import os
import re
import shlex

import pytest

import certs
import programs
import waiting
import wire
from documents import BLOCK, DOCUMENTS, blocks, commands, document
from pooler import STATS, Pooler

# The columns of the table of pool modes, and what their databases have in their entries.
MODES = {"session": "pool_mode=session", "transaction": "pool_mode=transaction",
         "statement": "pool_mode=statement", "keep": "pool_mode=transaction session_state=keep"}


@pytest.fixture(scope="module")
def pooler(binary, cluster):
    entries = {"app": "", "mydb": ""}
    for mode, own in [*MODES.items(), ("keep_statement", "pool_mode=statement session_state=keep")]:
        entries[mode] = " user=owner pool_size=%d " % (3 if mode.startswith("keep") else 2) + own
        entries[mode + "_tracked"] = entries[mode] + " track_sql_prepare=1"
    made = Pooler(binary, {name: cluster.conn() + more for name, more in entries.items()})
    try:
        yield made.start()
        made.stop()
    finally:
        made.remove()


# configurations


def test_no_configuration_stands_in_an_unmarked_block():
    for path in DOCUMENTS:
        found = re.search(r"^ {4,}(\[(?:databases|pgbouncer|users|peers)\]|SHOW \w+;)$", BLOCK.sub("", document(path)), re.M)
        assert not found, "%s: use a block of the language ini or console: %s" % (path, found[0])


def test_configurations(pooler):
    """Fragments are completed with an empty section [pgbouncer]. The files and folders that they
    name exist, with the rules that doc/security.md shows."""
    rules = [text for place, text in blocks("text") if "security.md" in place and text.startswith("local ")]
    authority = certs.Authority(pooler.dir, "ca")
    for name in ("server", "pooler"):
        authority.issue(name, "localhost", ["localhost"])
    pooler.write("hba.conf", "".join(rules))
    pooler.write("ident.conf", "apps www-data shop\n")
    group = grp.getgrgid(pooler.account.pw_gid).gr_name
    for name in os.listdir(pooler.dir):
        waiting.give(pooler.path(name))
    for place, text in blocks("ini"):
        if "[pgbouncer]" not in text:
            text += "\n[pgbouncer]\n"
        for folder in re.findall(r"/run/([\w-]+)$", text, re.M):
            os.makedirs(pooler.path(folder), exist_ok=True)
            waiting.give(pooler.path(folder))
        text = re.sub(r"/etc/pgbouncer|/var/log/pgbouncer|(?<=[= ])/run(?=/)", pooler.dir, text)
        for named in re.findall(r"^%include (\S+)", text, re.M):
            pooler.write(named, "[pgbouncer]\n")
        for named in re.findall(r"^server_password_(?:command|file) = (\S+)", text, re.M):
            os.makedirs(os.path.dirname(named), exist_ok=True)
            os.chmod(pooler.write(named, "#!/bin/sh\n"), 0o700)
        for setting, content in (("auth_hba_file", "".join(rules)), ("auth_ident_file", "apps www-data shop\n")):
            for named in re.findall(r"^%s = (\S+)" % setting, text, re.M):
                pooler.write(named, content)
        for named in re.findall(r"^(?:server_krb|krb_server)_keyfile = (\S+)", text, re.M):
            os.chmod(pooler.write(named, ""), 0o600)
        path = pooler.write("shown.ini", text.replace("www-data", group))
        code, out, err = pooler.run("--check-config", path)
        assert code == 0, "%s:\n%s%s" % (place, out, err)


# the console

# These commands end or stop something, or pass descriptors on.
DANGEROUS = ("SHUTDOWN", "SUSPEND", "KILL", "KILL_CLIENT", "SWITCHOVER", "TAKEOVER", "SHOW FDS")


def commands_of_blocks():
    """Where a block shows answers too, commands stand behind a prompt."""
    for place, text in blocks("console"):
        lines = re.findall(r"^pooler=> (.*)$", text, re.M) or text.rstrip("\n").split("\n")
        yield from ((place, line) for line in lines)


def commands_in_sentences(verbs):
    """Returns the commands that stand as code in a sentence or table, without those that leave
    words open, and without the table of errors. SET, SELECT and EXPLAIN are words of SQL, too."""
    verbs = "|".join(set(verbs) - {"SHOW", "SET", "SELECT", "EXPLAIN"})
    span = re.compile(r"`(SHOW [A-Z_]+|EXPLAIN LOGIN [^`<]+|(?:%s)(?: [^`<\[|]*)?)`" % verbs)
    for path in DOCUMENTS:
        text = BLOCK.sub("", document(path)).split("\n## Errors\n")[0]
        yield from ((path, found) for found in sorted(set(span.findall(text))))


def test_commands(pooler):
    """Blocks are run as they stand. What stands in a sentence, and what is dangerous, is given by a
    user who may only look, so that the console reads it and does nothing."""
    verbs = re.findall(r"^\t(\w+)", pooler.admin.query("SHOW HELP").notices[0].field("D"), re.M)
    looker = pooler.console(*STATS)
    for place, command in commands_of_blocks():
        console = looker if command.startswith(DANGEROUS) else pooler.admin
        for error in console.query(command, check=False).errors:
            assert console is looker and error.text() == "admin access needed", (place, command, error.text())
    sentences = list(commands_in_sentences(verbs))
    assert len(sentences) > 30
    for place, command in sentences:
        for error in looker.query(command, check=False).errors:
            assert error.text() == "admin access needed", (place, command, error.text())


def test_views_are_those_there_are(pooler):
    """Also where a view is named in a sentence without being code."""
    views = set(re.findall(r"\w+", " ".join(re.findall(
        r"^\tSHOW (.*)", pooler.admin.query("SHOW HELP").notices[0].field("D"), re.M))))
    for path in DOCUMENTS:
        named = set(re.findall(r"\bSHOW ([A-Z_]{2,})\b", document(path)))
        assert named <= views, (path, named - views)


# the shell


def shell_commands(program, text):
    """Returns the words of each command that starts this program."""
    return [shlex.split(line, comments=True) for line, _ in commands(text) if line.startswith(program + " ")]


def test_options_are_those_there_are(pooler):
    known = set(re.findall(r"(?<!\S)--?\w[\w-]*", pooler.run("--help")[1]))
    for place, text in blocks("sh"):
        for words in shell_commands("pgbouncer", text):
            options = {word.partition("=")[0] for word in words if word.startswith("-")}
            assert options <= known, (place, options - known)


SECRETS = {"app": "quick app 9b", "admin": "quick admin 3e"}


@pytest.fixture
def roles(cluster):
    """The roles and the database of the quick start."""
    cluster.do(*["create role %s login password '%s'" % role for role in SECRETS.items()], "create database mydb")
    yield
    cluster.do("drop database mydb with (force)", *["drop role %s" % name for name in SECRETS])


def test_quick_start(stage, cluster, roles):
    """A newcomer's steps as they stand, on another port, with another superuser's name. The archive
    that `make check-dist` builds and installs is built and installed by the commands of README.md."""
    ours = stage("README.md", {
        "5432": str(cluster.port), "9127": str(waiting.PORTS.take()), "user=postgres": "user=owner",
        "choose a password": SECRETS["admin"],
        "127.0.0.1 user=postgres": "127.0.0.1 user=owner port=%d" % cluster.port}, SECRETS)
    ours.instead.update({"sudo apt-get install " + " ".join(debian_packages()): lambda: None,
                         "make": lambda: None, "sudo make install": lambda: None})
    told = ours.play("Ten minutes to a pooler in front of your PostgreSQL")
    assert "The most server connections" in told, told
    assert re.search(r"^database +\| mydb\nuser +\| app$", told, re.M), told
    assert "\npgbouncer_up 1\n" in told and told.endswith("ready\n"), told[-3000:]


def test_one_limit_of_peers(make_pooler):
    """The highest number is the one that the documents name, and settings.md of peer_id, too."""
    for path in ("doc/peering.md", "doc/configuration.md"):
        assert re.findall(r"1\s+to\s+(\d+)", document(path)) == ["65535"], path
    assert re.findall(r"1 to (\d{4,})", document("doc/settings.md")) == ["65535", "65535"]
    ini = "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\npeer_id = %d\n[peers]\n%d = host=/tmp\n"
    pooler = make_pooler(start=False)
    for number, code in ((65535, 0), (65536, 1)):
        assert pooler.run_ini(ini % (number, 1), "--check-config")[0] == code
        assert pooler.run_ini(ini % (1, number), "--check-config")[0] == code


def debian_packages():
    """The packages that README.md names."""
    needs = document("test/setup/install-packages").split("need_build() {")[1].split("}")[0]
    return [words[2] for words in map(shlex.split, needs.strip().splitlines())]


def packages_of(command):
    """The packages that a command of doc/install.md installs."""
    found = re.findall(r"^%s install (.*)" % re.escape(command), document("doc/install.md"), re.M)
    return set(found[0].split())


def test_what_packages_are_built_with():
    """Somebody with a fresh machine gets all of it by one command."""
    debian = re.sub(r"\([^)]*\)|<[^>]*>|\[[^]]*\]", "", re.search(
        r"^Build-Depends: (.*)", document("etc/packaging/deb/control"), re.M)[1])
    needed = {name.strip() for name in debian.replace("-compat", "").split(",")}
    assert packages_of("sudo apt-get") == needed | {"build-essential"}
    assert set(debian_packages()) <= needed | {"build-essential"}
    fedora = set(re.findall(r"^BuildRequires: +(\S+)", document("etc/packaging/rpm/pgbouncer-next.spec"), re.M))
    assert packages_of("sudo dnf") == fedora - {"pkgconfig"} | {"pkgconf-pkg-config", "rpm-build"}


# the table of doc/usage.md: what works in which pool mode


def ask(client, sql):
    return client.query(sql, check=False)


def prepare(client, sql):
    client.send(wire.parse("docs_s", sql), wire.sync())
    return client.finish()


def execute(client, name):
    client.send(wire.bind("", name), wire.execute(), wire.sync())
    return client.finish()


class Kept:
    """A feature that leaves something behind on the server connection: after `begin`, `look` finds
    the value there."""

    def __init__(self, begin, look, value, by=(ask, ask)):
        self.begin, self.look, self.value, self.by = begin, look, value, by

    def start(self, client):
        return not self.by[0](client, self.begin).errors

    def is_there(self, client):
        result = self.by[1](client, self.look)
        return not result.errors and bool(result.rows) and result.rows[0][0] == self.value


class Listens(Kept):
    """The notification may come behind the answer to NOTIFY."""

    def is_there(self, client):
        result = ask(client, self.look)
        if result.errors:
            return False
        return any(m.kind == "A" for m in result.messages) or (
            client.has_data(0.5) and client.recv().kind == "A")


# Each server process has a lock of its own, so that nobody waits for what is left behind.
LOCK = "select pg_advisory_%slock(pg_backend_pid() * 10 + %d)"
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and objid = pg_backend_pid() * 10 + %d"
KEPT = {
    "`SET` of a parameter that is kept per client": Kept(
        "set timezone = 'Asia/Tokyo'", "show timezone", "Asia/Tokyo"),
    "`SET` of any other parameter": Kept("set work_mem = '77MB'", "show work_mem", "77MB"),
    "`SET LOCAL`": Kept("set local maintenance_work_mem = '78MB'", "show maintenance_work_mem", "78MB"),
    "`SET ROLE`": Kept("set role pg_read_all_data", "select current_user", "pg_read_all_data"),
    "Prepared statements of the protocol": Kept("select 7", "docs_s", "7", by=(prepare, execute)),
    "SQL commands `PREPARE` and `EXECUTE`": Kept("prepare docs_p as select 8", "execute docs_p", "8"),
    "Temporary tables": Kept("create temp table docs_t as select 9 as a", "select a from docs_t", "9"),
    "Cursors": Kept("declare docs_c cursor for select 10", "fetch docs_c", "10"),
    "Cursors `WITH HOLD`": Kept("declare docs_h cursor with hold for select 11", "fetch docs_h", "11"),
    "Savepoints": Kept("savepoint docs_v", "rollback to docs_v; select 12", "12"),
    "`LISTEN`": Listens("listen docs_l", "notify docs_l", None),
    "Advisory locks of the session": Kept(LOCK % ("", 1), LOCKS % 1, "1"),
    "Advisory locks of the transaction": Kept(LOCK % ("xact_", 2), LOCKS % 2, "1"),
    "`lastval()` and `currval()`": Kept("select nextval('docs_sequence')", "select lastval() > 0", "t"),
}
HELD = 4711  # An advisory lock that keeps a server connection busy.


def is_found_in_a_block(pooler, database, kept):
    with pooler.connect(database) as client:
        if ask_for_a_block(client):
            return False
        found = kept.start(client) and kept.is_there(client)
        client.query("rollback")
    return found


def ask_for_a_block(client):
    """Returns the error that a client gets who opens a transaction, if any."""
    client.send(wire.query("begin"))
    return client.recv_until("ZE")[-1].kind == "E"


def is_found_later(pooler, pg, database, kept):
    """Whether it is still there when another client has got the server connection in between, which
    with session_state=keep never finds it."""
    with pooler.connect(database) as client, pooler.connect(database) as other, pg.client() as holder:
        kept.start(client)
        assert not database.startswith("keep") or not kept.is_there(other)
        holder.query("select pg_advisory_lock(%d)" % HELD)
        other.send(wire.query("select pg_advisory_xact_lock(%d)" % HELD))
        waiting.wait_for(lambda: pg.value(
            "select count(*) from pg_locks where not granted and objid = %d" % HELD) == "1", "it waits")
        found = kept.is_there(client)
        holder.query("select pg_advisory_unlock(%d)" % HELD)
        other.finish()
    return found


def transaction_block(client, pg):
    return not ask_for_a_block(client) and not ask(client, "commit").errors


def several_statements(client, pg):
    return len(ask(client, "select 1; select 2").rows) == 2


def procedure(client, pg):
    return ask(client, "call docs_commit()").tag == "CALL"


def copy(client, pg):
    client.send(wire.query("copy docs_copy from stdin"))
    client.recv_until("G")
    client.send(wire.copy_data("1\n"), wire.copy_done())
    return client.finish().tag == "COPY 1" and ask(client, "copy docs_copy to stdout").tag != ""


def notify(client, pg):
    with pg.client() as listener:
        listener.query("listen docs_n")
        client.query("notify docs_n")
        return listener.recv_until("A")[-1].kind == "A"


def cancel(client, pg):
    client.send(wire.query("select pg_sleep(600)"))
    waiting.wait_for(lambda: pg.backends("query = 'select pg_sleep(600)' and state = 'active'") == 1, "it runs")
    client.cancel()
    return client.finish().errors[0].field("C") == "57014"


ONCE = {
    "Transaction blocks: `BEGIN`, `COMMIT`": transaction_block,
    "Several statements in one query": several_statements,
    "Procedures that commit": procedure,
    "`COPY`": copy,
    "`NOTIFY`": notify,
    "Cancelling a query": cancel,
}


def works_once(pooler, pg, label, mode):
    if label == "Replication connections":
        with pooler.connect(mode, replication="database") as client:
            return bool(ask(client, "IDENTIFY_SYSTEM").rows)
    with pooler.connect(mode) as client:
        return ONCE[label](client, pg)


def what_works(pooler, pg, label, mode):
    """Returns the cell of the table. What is left behind on server connections is gone afterwards."""
    if label not in KEPT:
        return "yes" if works_once(pooler, pg, label, mode) else "no"
    is_in_a_block = is_found_in_a_block(pooler, mode, KEPT[label])
    cell = ("yes" if is_found_later(pooler, pg, mode, KEPT[label])
            else "with `track_sql_prepare`" if is_found_later(pooler, pg, mode + "_tracked", KEPT[label])
            else "in one transaction" if is_in_a_block else "no")
    pooler.admin.query("RECONNECT")
    return cell


def table_of_modes():
    lines = document("doc/usage.md").split("\n")
    begin = lines.index("| | session | transaction | statement | keep |") + 2
    end = lines.index("", begin)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:end]]
    return {row[0]: dict(zip(MODES, row[1:], strict=True)) for row in rows}


@pytest.fixture(scope="module")
def objects(cluster):
    cluster.do("create sequence docs_sequence", "create table docs_copy (a int)",
               "create procedure docs_commit() language plpgsql as $$begin commit; end$$")
    yield
    cluster.do("drop sequence docs_sequence", "drop table docs_copy", "drop procedure docs_commit()")


def test_each_row_of_the_table_is_a_case():
    assert table_of_modes().keys() == {*ONCE, "Replication connections", *KEPT}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("label", table_of_modes())
def test_what_works_in_which_mode(pooler, cluster, objects, label, mode):
    assert what_works(pooler, cluster, label, mode) == table_of_modes()[label][mode]


@pytest.mark.parametrize("label", [label for label, row in table_of_modes().items() if row["keep"] == "yes"])
def test_what_is_kept_in_statement_mode(pooler, cluster, objects, label):
    """All of it, but for transaction blocks."""
    row = table_of_modes()[label]
    wanted = "yes" if label in KEPT else row["statement"]
    assert what_works(pooler, cluster, label, "keep_statement") == wanted

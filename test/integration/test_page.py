"""The page of the metrics server and the rows of views as JSON (metrics.md)."""

import json
import os
import re
import time
import urllib.error
import urllib.request

import pytest

import browser
import waiting
import wire


@pytest.fixture
def served(make_pooler, pg):
    """A pooler with a pool of two servers, whose page is at .url."""
    port = waiting.PORTS.take()
    pooler = make_pooler({"db": pg.conn(pool_size=2)}, settings={
        "metrics_listen": "127.0.0.1:%d" % port, "pool_mode": "transaction"})
    pooler.url = "http://127.0.0.1:%d/" % port
    return pooler


def get(pooler, path=""):
    with urllib.request.urlopen(pooler.url + path, timeout=waiting.DEADLINE) as answer:
        return answer.headers, answer.read().decode()


def rows(pooler, name):
    answer = json.loads(get(pooler, "views/" + name)[1])
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]


def is_missing(pooler, path):
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(pooler, path)
    return refused.value.code == 404


# rows


@pytest.mark.parametrize("name", ["blockers", "certificates", "databases", "errors", "hosts", "latency", "lists", "pools",
                                  "state", "stats", "totals", "version", "warnings", "workers"])
def test_rows_are_those_of_the_console(served, name):
    with served.connect() as client:
        client.query("select 1")
        served.refusal("nowhere")
        shown = served.show(name)
        same = rows(served, name)
        assert [list(row) for row in same] == [list(row) for row in shown]
        for mine, theirs in zip(same, shown, strict=True):
            for column, value in mine.items():
                if name in ("databases", "hosts", "version", "warnings") or value is None or isinstance(value, str):
                    assert name == "state" or theirs[column] == (None if value is None else str(value)), column


def test_numbers_are_numbers(served):
    served.connect().close()
    (row,) = [row for row in rows(served, "pools") if row["database"] == "db"]
    assert row["cl_active"] == int(row["cl_active"]) and row["load_balance_hosts"] is None


@pytest.mark.parametrize("name", ["clients", "servers", "users", "config", "fds", "prepared_statements", "sockets", "",
                                  "pools/", "Pools", "nonsense", "help"])
def test_what_is_not_for_everybody(served, name):
    assert is_missing(served, "views/" + name)


def test_history(served):
    """Sums grow, a second apart."""
    with served.connect() as client:
        before = rows(served, "history")
        for _ in range(3):
            client.query("select 1")
        last = waiting.wait_for(
            lambda: next((row for row in rows(served, "history")
                          if row["total_query_count"] >= before[0]["total_query_count"] + 3), None), "three queries")
        assert last["total_xact_count"] >= before[0]["total_xact_count"] + 3
        points = waiting.wait_for(lambda: (lambda r: r if len(r) > 2 else None)(rows(served, "history")), "three points")
        times = [row["time"] for row in points]
        assert times == sorted(times)


# the page


def test_headers_of_the_page(served):
    """Nothing comes from elsewhere, and what the page may do is exactly what it has."""
    headers, text = get(served)
    assert headers["Content-Type"] == "text/html; charset=utf-8" and headers["X-Content-Type-Options"] == "nosniff"
    policy = headers["Content-Security-Policy"]
    assert re.fullmatch(r"default-src 'none'; connect-src 'self'; style-src 'sha256-[\w+/]{43}='; script-src "
                        r"'sha256-[\w+/]{43}='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", policy)
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|style=|onclick|eval\(", text)


def test_the_page_can_be_switched_off(served):
    get(served)
    served.change(metrics_page=0)
    assert is_missing(served, "") and is_missing(served, "views/pools")
    get(served, "metrics")
    served.change(metrics_page=1)
    get(served)


def cell(column, key="db/trust_user"):
    return "document.querySelector('[data-key=\"%s\"] [data-column=%s]')?.textContent" % (key, column)


@pytest.fixture
def page(served):
    made = browser.Browser()
    try:
        made.look(1200)
        made.open(served.url)
        made.wait("document.getElementById('status')?.textContent === 'The pooler answers.'")
        yield made
    finally:
        made.close()


@browser.needed
def test_a_pool_that_fills(served, page):
    """Its numbers are those of SHOW POOLS, and that it is full and that clients wait is told in words."""
    clients = [served.connect() for _ in range(4)]
    for client in clients[:2]:
        client.query("begin")
    page.wait(cell("servers") + " === '2 of 2, full'")
    for client in clients[2:]:
        client.send(wire.query("select 1"))
    page.wait(cell("cl_waiting") + " === '2'")
    shown = served.pool()
    for column in ("cl_active", "cl_waiting", "sv_active", "sv_idle", "sv_used"):
        page.wait(cell(column) + " === '%d'" % shown[column])
    page.wait("document.getElementById('blockers').textContent.includes('idle in transaction')")
    for client in clients[:2]:
        client.query("commit")
    for client in clients[2:]:
        client.finish()
    page.wait(cell("cl_waiting") + " === '0'")
    page.wait("document.getElementById('blockers').textContent === 'Nobody waits.'")
    page.wait("document.querySelectorAll('#charts polyline').length === 5")
    for client in clients:
        client.close()
    assert not page.complaints, page.complaints


@browser.needed
def test_a_full_pool_is_shown_within_two_seconds(served, page):
    """On a machine that lets the browser run in one of some attempts."""
    with served.connect() as one, served.connect() as two, served.connect() as waits:
        times = []
        while not times or min(times) >= 2:
            assert len(times) < 5, times
            for client in (one, two):
                client.query("begin")
            waits.send(wire.query("select 1"))
            begun = time.monotonic()
            page.wait(cell("servers") + " === '2 of 2, full' && " + cell("cl_waiting") + " === '1'")
            times.append(time.monotonic() - begun)
            for client in (one, two):
                client.query("commit")
            waits.finish()
            page.wait(cell("cl_waiting") + " === '0'")


@browser.needed
def test_a_pooler_that_is_away(served, page):
    """The page says so, and recovers."""
    served.stop()
    page.wait("document.getElementById('status')?.textContent.startsWith('No answer since ')")
    assert page.value("document.body.className") == "is-away"
    served.start()
    page.wait("document.getElementById('status')?.textContent === 'The pooler answers.'")
    assert page.value("document.body.className") == ""


@browser.needed
def test_warnings_and_a_refused_reload(served, page):
    """Texts that strangers send stay texts."""
    served.refusal("<img src=x onerror=alert(1)>")
    page.wait("document.getElementById('warnings').textContent.includes('<img src=x onerror=alert(1)>')")
    assert page.value("document.querySelectorAll('img').length") == 0
    good = served.ini_text()
    served.write("pgbouncer.ini", good + "[pgbouncer]\nnonsense = 1\n")
    served.admin.query("RELOAD", check=False)
    page.wait("document.getElementById('reload').textContent.startsWith('The last RELOAD was refused')")
    served.write("pgbouncer.ini", good)
    served.reload()
    page.wait("document.getElementById('reload').textContent.startsWith('Configuration of ')")
    assert not page.complaints, page.complaints


@browser.needed
def test_sizes_colours_and_keyboard(served, page):
    with served.connect() as client:
        client.query("select 1")
        colours = set()
        for width in (360, 768, 1920):
            for scheme in ("light", "dark"):
                page.look(width, scheme=scheme)
                page.wait("window.innerWidth === %d" % width)
                page.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
                colours.add(page.value("getComputedStyle(document.body).backgroundColor"))
                if os.environ.get("PICTURES"):
                    page.wait(cell("cl_active") + " === '1'")
                    page.picture(os.path.join(os.environ["PICTURES"], "%d-%s.png" % (width, scheme)))
        assert len(colours) == 2
        # Each table can be reached and scrolled by the keyboard, and says what it is.
        names = set()
        for _ in range(7):
            page.press("Tab")
            names.add(page.value("document.activeElement.getAttribute('aria-label')"))
        assert names >= {"Pools", "Hosts", "Blockers", "Warnings", "Certificates"}
        assert page.value("[...document.querySelectorAll('thead th')].every(th => th.scope === 'col')")
        assert page.value("document.documentElement.lang") == "en"

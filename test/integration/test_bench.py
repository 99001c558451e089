"""The programs and scenarios of the benchmark work. The figures are not checked."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

import waiting

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BENCH = os.path.join(TOP, "test/bench/bench.py")
sys.path.append(os.path.dirname(BENCH))

import database  # noqa: E402
import machine  # noqa: E402

SCENARIOS = ("pipeline", "crowd", "idle", "show")


@pytest.fixture
def command(request):
    """The command that runs the benchmark."""
    pooler = os.path.abspath(request.config.getoption("--pooler"))
    if not os.path.exists(os.path.join(os.path.dirname(pooler), "test/bench/load")):
        pytest.skip("the programs of the benchmark are not built: make bench-programs")
    engine = os.environ.get("POOLER_IO_ENGINE") or "auto"
    return [sys.executable, BENCH, "--pooler", pooler, "--set", "io_engine=" + engine]


@pytest.fixture
def bench(command):
    """Runs the benchmark with these arguments and returns its output."""
    def run(*arguments):
        done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


def text_of(path):
    with open(path) as file:
        return file.read()


def test_scenarios_of_the_benchmark_work(bench, tmp_path):
    found = str(tmp_path / "figures.json")
    chosen = [word for name in SCENARIOS for word in ("--scenario", name)]
    table = bench("--quick", "--canned", "--against", "none", "--opponents", "all", "--json", found,
                  *chosen)
    with open(found) as figures:
        scenarios = json.load(figures)["scenarios"]
    assert list(scenarios) == list(SCENARIOS)
    for name, result in scenarios.items():
        assert name in table and "trouble" not in result
        assert result["rounds"]["pooler"][0][result["metrics"][0][0]] > 0
    document = shutil.copy(os.path.join(TOP, "doc/performance.md"), str(tmp_path))
    bench("--from", found, "--write-doc", document)
    with open(document) as written:
        text = written.read()
    assert "10 queries per flush, extended protocol | pooler |" in text
    bench("--from", found, "--write-doc", document)
    with open(document) as written:
        assert written.read() == text


def test_what_a_transaction_costs_together(bench, tmp_path):
    found = str(tmp_path / "figures.json")
    bench("--quick", "--against", "none", "--scenario", "block-far", "--json", found)
    with open(found) as figures:
        rounds = json.load(figures)["scenarios"]["block-far"]["rounds"]
    assert set(rounds) == {"pooler", "switched on", "direct"}
    for row, in rounds.values():
        assert row["tps"] > 0 and row["database"] > 0 and row["client"] > 0
        assert row["all"] == pytest.approx(row["database"] + row.get("cpu", 0) + row["client"])


@pytest.mark.parametrize("name", database.DRIVERS)
def test_drivers_take_the_place_of_pgbench(bench, tmp_path, name):
    try:
        database.program_of(name)
    except machine.Trouble as trouble:
        pytest.skip(str(trouble))
    found, scenario = str(tmp_path / "figures.json"), "unnamed-" + name
    bench("--quick", "--against", "none", "--opponents", "none", "--scenario", scenario, "--json", found)
    with open(found) as figures:
        rounds = json.load(figures)["scenarios"][scenario]["rounds"]
    assert set(rounds) == {"pooler", "switched on"}
    for row, in rounds.values():
        assert min(row[key] for key in ("tps", "database", "client", "cpu", "p99")) > 0


def test_an_interrupted_benchmark_keeps_what_it_has(command, tmp_path):
    """The rounds that are complete when SIGINT arrives are shown and written."""
    found, notes = str(tmp_path / "figures.json"), str(tmp_path / "notes")
    with open(notes, "wb") as err, subprocess.Popen(
            [*command, "--canned", "--against", "none", "--opponents", "none", "--scenario",
             "pipeline", "--scenario", "one", "--rounds", "10000", "--seconds", "0.1", "--json", found],
            stdout=subprocess.PIPE, stderr=err, text=True) as process:
        waiting.wait_for(lambda: "pipeline 2/10000" in text_of(notes) or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        table = process.communicate(timeout=60)[0]
    assert process.returncode == 130, text_of(notes)
    assert "pipeline    pooler" in table
    with open(found) as figures:
        scenarios = json.load(figures)["scenarios"]
    assert list(scenarios) == ["pipeline"] and len(scenarios["pipeline"]["rounds"]["pooler"]) >= 2


def test_workers_are_compared_with_one(bench, tmp_path):
    """The figures of several workers are ratios to one, and have a table of aims of their own. A
    relay with as many threads shows what the kernel has a part in."""
    found = str(tmp_path / "figures.json")
    bench("--workers", "--scenario", "elsewhere", "--scenario", "scale", "--rounds", "1",
          "--seconds", "0.1", "--json", found)
    with open(found) as figures:
        scenarios = json.load(figures)["scenarios"]
    result = scenarios["elsewhere"]
    assert [row[0]["busiest"] > 0 for row in result["rounds"].values()] == [True] * 4
    assert set(result["ratios"]) == {"2 workers", "4 workers", "8 workers"}
    assert result["rounds"]["1 worker"][0]["handed"] == 0 < result["rounds"]["8 workers"][0]["handed"]
    relays = [name for name in scenarios["scale"]["ratios"] if "thread" in name]
    assert relays == ["2 threads", "4 threads", "8 threads"]
    document = shutil.copy(os.path.join(TOP, "doc/performance.md"), str(tmp_path))
    assert "servers rest elsewhere: longest wait" in bench("--from", found, "--write-doc", document)
    assert "| servers rest elsewhere: longest wait |" in text_of(document)
    assert "| select 1, 32 clients: CPU time, divided by that |" in text_of(document)

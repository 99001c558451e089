"""The programs and scenarios of the benchmark work. The figures are not checked."""

import json
import os
import shutil
import subprocess
import sys

import pytest

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BENCH = os.path.join(TOP, "test/bench/bench.py")
SCENARIOS = ("pipeline", "crowd", "idle", "show")


@pytest.fixture
def bench(request):
    """Runs the benchmark with these arguments and returns its output."""
    pooler = os.path.abspath(request.config.getoption("--pooler"))
    if not os.path.exists(os.path.join(os.path.dirname(pooler), "test/bench/load")):
        pytest.skip("the programs of the benchmark are not built: make bench-programs")

    def run(*arguments):
        engine = os.environ.get("POOLER_IO_ENGINE") or "auto"
        done = subprocess.run(
            [sys.executable, BENCH, "--pooler", pooler, "--set", "io_engine=" + engine, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


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

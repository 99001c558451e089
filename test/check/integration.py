#!/usr/bin/env python3
"""Run the end-to-end tests against one binary, in parallel, and sum them up.

The last line is `N passed, N failed, N skipped`; errors count as failures.
"""
import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(HERE, "../.."))


# More failures than this are not caused by a busy machine.
AGAIN_MOST = 10


def counts(report):
    """(passed, failed, skipped) of a junit file."""
    passed = failed = skipped = 0
    for case in xml.parse(report).iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            failed += 1
        elif "skipped" in outcomes:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def figures(report):
    """What cases have measured, see record_property("figure", ...)."""
    if not os.path.exists(report):
        return []
    return [p.get("value") for p in xml.parse(report).iter("property") if p.get("name") == "figure"]


def failed_cases(report):
    """The cases of this report that failed, as pytest wants them named."""
    return sorted({"%s::%s" % (case.get("file"), case.get("name"))
                   for case in xml.parse(report).iter("testcase")
                   if case.get("file") and {child.tag for child in case} & {"failure", "error"}})


def try_again(argv, report, env):
    """Runs the few cases that failed once more, alone, and tells which pass then: those depend
    on how busy the machine is. They stay failures."""
    cases = failed_cases(report)
    if not cases or len(cases) > AGAIN_MOST:
        return
    print("once more, alone, to see what hangs on the load: %s" % " ".join(cases))
    sys.stdout.flush()
    again = report.replace(".xml", "-again.xml")
    argv = [again if word == report else word for word in argv]
    subprocess.run(argv + [os.path.join(TOP, "test/integration", case) for case in cases],
                   env=env)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pooler", required=True)
    parser.add_argument("--out", required=True, help="folder for the report")
    parser.add_argument("more", nargs="*", help="passed on to pytest")
    args = parser.parse_args()
    report = os.path.join(os.path.abspath(args.out), "report.xml")
    if os.path.exists(report):
        os.unlink(report)
    argv = [args.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", report,
            "-o", "junit_family=xunit1", "--dist", "worksteal", "--pooler", args.pooler]
    pg_bin = subprocess.run([os.path.join(TOP, "test/setup/pg-bin")], stdout=subprocess.PIPE)
    if pg_bin.returncode == 0:
        argv += ["--pg-bin", pg_bin.stdout.decode().strip()]
    whole = not any(os.path.exists(more.split("::")[0]) for more in args.more)
    if whole:
        argv.append(os.path.join(TOP, "test/integration"))
    # pytest rewrites assertions when it compiles a file, which takes seconds for all of them: once,
    # not in each of the processes that run cases.
    build = os.path.dirname(os.path.dirname(os.path.abspath(args.out)))
    env = dict(os.environ, PYTHONPYCACHEPREFIX=os.path.join(build, "pycache"))
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(argv + args.more + ["--collect-only", "-n", "0"], stdout=subprocess.DEVNULL, env=env)
    code = subprocess.run(argv + args.more, env=env).returncode
    try:
        passed, failed, skipped = counts(report)
    except (OSError, xml.ParseError):
        passed, failed, skipped = 0, 1, 0
    if code != 0 and failed == 0:
        failed = 1
    elif failed:
        try_again(argv[:-1] if whole else argv, report, env)
    for figure in figures(report):
        print("measured: %s" % figure)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Settings of a run of Django's own tests against the address in the environment, and a runner that writes which
of them have passed."""

import json
import os
import sys

if os.environ["SUITE_DRIVER"] == "psycopg2":
    sys.modules["psycopg"] = None  # Django prefers it

from django.test.runner import DiscoverRunner  # noqa: E402
from django.test.utils import iter_test_cases  # noqa: E402

DATABASES = {alias: {"ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": os.environ["PGUSER"],
                     "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}
             for alias, name in (("default", os.environ["PGDATABASE"]), ("other", os.environ["PGDATABASE"] + "_other"))}
SECRET_KEY = "of no use"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "suite_django.Runner"


class Runner(DiscoverRunner):
    def run_suite(self, suite, **kwargs):
        names = [test.id() for test in iter_test_cases(suite)]
        result = super().run_suite(suite, **kwargs)
        skipped = {test.id() for test, _ in result.skipped}
        bad = [test.id() for test, _ in result.failures + result.errors] + [
            test.id() for test in result.unexpectedSuccesses]

        def has_failed(name):
            # a subtest has more behind the name, and setUpClass only the class, in brackets
            return any(one.startswith(name) or "(%s)" % name.rpartition(".")[0] in one for one in bad)

        with open(os.environ["SUITE_REPORT"], "w") as report:
            json.dump({name: not has_failed(name) for name in names if name not in skipped}, report)
        return result

    def teardown_databases(self, old_config, **kwargs):
        """The databases of the tests are dropped, which is a result like the others."""
        super().teardown_databases(old_config, **kwargs)
        with open(os.environ["SUITE_REPORT"]) as report:
            results = json.load(report)
        with open(os.environ["SUITE_REPORT"], "w") as report:
            json.dump(dict(results, teardown_databases=True), report)

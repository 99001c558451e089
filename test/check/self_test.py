#!/usr/bin/env python3
"""Each check must fail on a small tree with one fault, and pass on one without."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import circles  # noqa: E402
import citations  # noqa: E402
import docs  # noqa: E402
import figures  # noqa: E402
import globals as writable  # noqa: E402
import headers  # noqa: E402
import includes  # noqa: E402
import lengths  # noqa: E402
import links  # noqa: E402
import names  # noqa: E402
import pages  # noqa: E402
import pictures  # noqa: E402
import programs  # noqa: E402
import quotes  # noqa: E402
import rooms  # noqa: E402
import structure  # noqa: E402
import settings  # noqa: E402
import sqlstates  # noqa: E402
import symbols  # noqa: E402
import tables  # noqa: E402
import words  # noqa: E402

GUARDED = "#ifndef %s\n#define %s\n%s\n#endif\n"


class Scratch(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.options = structure.parse(["--root", self.root, "--build", self.root,
                                        "--objects", os.path.join(self.root, "obj")])

    def put(self, path, content):
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as f:
            f.write(content)

    def header(self, path, body):
        name = headers.guard_name(path)
        self.put(path, GUARDED % (name, name, body))

    def compile(self, name, content):
        self.put("src/" + name + ".c", content)
        out = os.path.join(self.root, "obj", name + ".o")
        os.makedirs(os.path.dirname(out), exist_ok=True)
        subprocess.run(["cc", "-fPIE", "-fno-common", "-c", "-o", out,
                        os.path.join(self.root, "src", name + ".c")], check=True)
        symbols.symbols.cache_clear()

    def assertFinds(self, module, *parts):
        problems = module.check(self.options)
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def assertClean(self, module):
        self.assertEqual(module.check(self.options), [])


class Headers(Scratch):
    def test_good(self):
        self.header("include/base/a.h", "#include <stddef.h>\nstatic inline size_t one(void) { return 1; }")
        self.assertClean(headers)

    def test_needs_another(self):
        self.header("include/base/a.h", "size_t one(void);")
        self.assertFinds(headers, "include/base/a.h", "does not compile alone")

    def test_code_includes_its_header_first(self):
        self.header("include/base/a.h", "size_t one(void);")
        self.put("src/base/a.c", '#include "base/a.h"\n#include <stddef.h>\n')
        self.assertClean(headers)
        self.put("src/base/a.c", '#include <stddef.h>\n#include "base/a.h"\n')
        self.assertFinds(headers, "src/base/a.c", "base/a.h")

    def test_guard(self):
        self.put("include/base/a.h", GUARDED % ("A_H", "A_H", "int one(void);"))
        self.assertFinds(headers, "BASE_A_H")


class Includes(Scratch):
    def test_good(self):
        self.put("src/net/loop.c", '#include "net/loop.h"\n#include <event2/event.h>\n#include "base/log.h"\n')
        self.put("src/main.c", '#include "config.h"\n#include "daemon/daemon.h"\n#include "views/show.h"\n')
        self.put("test/unit/pool/test_pool.c", '#include "pool/pool.h"\n#include "wire/vars.h"\n')
        self.put("test/prop/prop_a.c", '/* links: base pool */\n#include "pool/pool.h"\n')
        self.assertClean(includes)

    def test_up(self):
        self.put("src/pool/pool.c", '#include "base/log.h"\n#include "session/conn.h"\n')
        self.assertFinds(includes, "src/pool/pool.c:2", "session/conn.h")

    def test_sibling(self):
        self.put("include/wire/codec.h", '#include "auth/scram.h"\n')
        self.assertFinds(includes, "include/wire/codec.h:1")

    def test_login_and_relay_are_blind_to_each_other(self):
        self.put("src/relay/front.c", '#include "login/login.h"\n')
        self.assertFinds(includes, "src/relay/front.c:1", "login/login.h")
        os.unlink(os.path.join(self.root, "src/relay/front.c"))
        self.put("include/login/login.h", '#include "relay/relay.h"\n')
        self.assertFinds(includes, "include/login/login.h:1", "relay/relay.h")

    def test_cancel_and_moving_are_blind_to_each_other(self):
        self.put("src/handoff/handoff_out.c", '#include "cancel/cancel.h"\n#include "broker/broker.h"\n')
        self.assertFinds(includes, "src/handoff/handoff_out.c:1", "cancel/cancel.h")
        os.unlink(os.path.join(self.root, "src/handoff/handoff_out.c"))
        self.put("include/cancel/cancel.h", '#include "session/server.h"\n#include "handoff/record.h"\n')
        self.assertFinds(includes, "include/cancel/cancel.h:2", "handoff/record.h")

    def test_session_is_below_the_broker(self):
        self.put("include/session/client.h", '#include "session/request.h"\n#include "broker/broker.h"\n')
        self.assertFinds(includes, "include/session/client.h:2", "broker/broker.h")

    def test_admin_and_metrics_are_siblings(self):
        self.put("src/metrics/metrics.c", '#include "views/show.h"\n#include "admin/reply.h"\n')
        self.assertFinds(includes, "src/metrics/metrics.c:2", "admin/reply.h")
        os.unlink(os.path.join(self.root, "src/metrics/metrics.c"))
        self.put("src/admin/console.c", '#include "views/show.h"\n#include "metrics/metrics.h"\n')
        self.assertFinds(includes, "src/admin/console.c:2", "metrics/metrics.h")

    def test_views_know_no_console(self):
        self.put("src/views/show.c", '#include "session/site.h"\n#include "admin/reply.h"\n')
        self.assertFinds(includes, "src/views/show.c:2", "admin/reply.h")

    def test_table(self):
        self.put("include/conf/settings.def", '#include "net/tls.h"\n')
        self.assertFinds(includes, "settings.def:1")

    def test_no_floor(self):
        self.put("src/base/log.c", '#include "log.h"\n')
        self.assertFinds(includes, "names no floor")

    def test_library(self):
        self.put("src/net/stream.c", "#include <event2/event.h>\n")
        self.assertFinds(includes, "src/net/loop")

    def test_unit_test(self):
        self.put("test/unit/wire/test_a.c", '#include "pool/pool.h"\n')
        self.assertFinds(includes, "test/unit/wire/test_a.c:1")

    def test_links_line(self):
        self.put("test/fuzz/fuzz_a.c", '/* links: base */\n#include "wire/codec.h"\n')
        self.assertFinds(includes, "fuzz_a.c:2")


class Objects(Scratch):
    def test_good(self):
        self.compile("base/a", "int one(void); int one(void) { return 1; }\n"
                     "extern const char *const names[]; const char *const names[] = {\"a\"};\n")
        self.compile("base/b", "int one(void); int two(void); int two(void) { return one() + 1; }\n")
        self.assertClean(circles)
        self.assertClean(writable)

    def test_circle_of_three(self):
        for a, b in (("a", "b"), ("b", "c"), ("c", "a")):
            self.compile("base/" + a, "int %s(void); int %s(void); int %s(void) { return %s(); }\n" % (a, b, a, b))
        self.assertFinds(circles, "base/a.o uses b of base/b.o", "base/c.o uses a of base/a.o")

    def test_names(self):
        self.put("include/base/mem_more.h", "struct arena;\nstruct slab {\n\tint a;\n};\n")
        self.compile("base/mem_more", "".join("int %s(void); int %s(void) { return 1; }\n" % (name, name) for name in (
            "mem_a", "mem_more_b", "arena_c", "slab_d")))
        self.compile("base/words", "int word_at(void); int word_at(void) { return 1; }\n"
                     "extern int words_of(void); int words_of(void) { return 2; }\n")
        self.assertClean(names)
        self.compile("base/words", "int wording(void); int wording(void) { return 1; }\n")
        self.assertFinds(names, "src/base/words.c", "wording")

    def test_globals(self):
        for text, name in (("static int seen; int f(void); int f(void) { return seen++; }\n", "seen"),
                           ("int f(void); int f(void) { static int n = 3; return n++; }\n", "n.0"),
                           ("extern int *p; int q; int *p = &q;\n", ""),
                           ("__thread int t;\n", "t")):
            with self.subTest(text=text):
                self.compile("base/a", text)
                problems = writable.check(self.options)
                self.assertTrue(problems and name in problems[0], problems)


class Text(Scratch):
    def test_words(self):
        self.put("src/base/a.c", "int a; /* fine: stubborn hackers at methods */\n")
        self.assertClean(words)
        self.put("src/base/a.c", "int a; /* TO" "DO: more */\n")
        self.assertFinds(words, "src/base/a.c:1")

    def test_settings(self):
        self.put("include/conf/settings.def", 'SETTING(first, INT, GLOBAL)\nSETTING(second, INT, USER)\n')
        self.put("test/unit/conf/test_settings.c", "first second\n")
        self.put("test/integration/test_first.py", "settings={'first': 1}\n")
        self.assertFinds(settings, "no test shows what second does")
        self.put("test/unit/pool/test_second.c", 'set("second", 1);\n')
        self.assertClean(settings)

    def test_sqlstates(self):
        row = 'ERROR_ROW(%s, FATAL, "08P01", NULL, "%s", "What to do.")\n'
        table = row % ("CRASHED", "server conn crashed?")
        self.put("include/base/errors.def", table)
        self.put("src/pool/a.c", '/* 08P01: "08P01" */\nint a = ERROR_CRASHED;\n')
        self.put("include/base/errors.h", '#define SQLSTATE_SUCCESS "00000"\n')
        self.assertClean(sqlstates)
        for line in ('char *d = "08P01";', 'int d = strcmp(f, "26000");',
                     'server_retire(s, "server conn crashed?");',
                     'client_fatal_text(client, sqlstate, "gone");'):
            self.put("src/pool/b.c", "int b;\n%s\n" % line)
            self.assertFinds(sqlstates, "src/pool/b.c:2")
        self.put("src/pool/b.c", "int b;\n")
        self.put("include/base/errors.def", table + row % ("LOST", "lost"))
        self.assertFinds(sqlstates, "nobody uses LOST")

    def test_figures(self):
        self.put("src/base/a.c", """
static bool is_set(struct a *a)
{
\ta->count = 1;
\treturn a->count == 1; /* is_set() */
}

static int twice(int n)
{
\treturn 2 * n;
}

static void kept(void)
{
\tint a = 1;
\tint b = 2;
\tint c = 3;
\tint d = twice(a) + twice(b) + c;
}

int a(void)
{
\tkept();
\treturn is_set(NULL);
}
""")
        self.put("include/pool/pool.h", "struct pool {\n\tint a, b; /* c; d */\n\tunion {\n\t\tint e;\n\t\tint f;\n"
                 "\t} g;\n\tvoid (*h)(int, int);\n\tbool is_a : 1;\n};\nstruct crew;\n")
        found = {name: value for name, (value, _) in figures.figures(self.root).items()}
        self.assertEqual(found["static functions of three lines or less with one caller"], 1)
        self.assertEqual(found["static functions with one caller"], 2)
        self.assertEqual(found["predicates that act"], 1)
        self.assertEqual(found["members of struct pool"], 5)
        self.assertEqual(found["words that are going"], 1)
        with mock.patch.dict(figures.BOUNDS, {"words that are going": (1, 0), "predicates that act": (1, 0)}):
            self.assertClean(figures)
        with mock.patch.dict(figures.BOUNDS, {"words that are going": (0, 0), "predicates that act": (1, 0)}):
            self.assertFinds(figures, "words that are going", "crew")

    def test_paths(self):
        self.put("doc/a.md", "see /wo" "rk/tree\n")
        self.assertFinds(words, "doc/a.md:1")

    def test_rooms(self):
        self.put("doc/architecture.md", "# A\n\n`base/b` is used.\n\n### base/: all\n\n* `a`, `b`: all.\n")
        self.put("src/base/a_more.c", "int a;\n")
        self.put("include/base/b.h", "int b;\n")
        self.assertClean(rooms)
        self.put("src/base/c.c", "int c;\n")
        self.assertFinds(rooms, "src/base/c.c")
        os.unlink(os.path.join(self.root, "src/base/c.c"))
        os.unlink(os.path.join(self.root, "include/base/b.h"))
        self.assertFinds(rooms, "doc/architecture.md:7", "base/b")

    def test_documents(self):
        text = "# T\n\n## One `[a-b]`\n\n.it's \\_x\n\n@rows@\n\n## Two words\n\n| task | settings |\n|---|---|\n| a \\_b | [c](#c), d |\n\n```\na-b\n'c\n```\n"
        page = (".SH ONE [a-b]\n.PP\n\\&.it\\(aqs _x\n@rows@\n.SH TWO WORDS\n"
                ".TP\n.B a _b\nc, d\n.PP\n.RS 4\n.nf\na\\-b\n\\(aqc\n.fi\n.RE")
        self.assertEqual(docs.troff_of(text), page)

    def test_tables(self):
        """Strings of several parts, | within them, NULL, and macros within a table."""
        row = tables.ROW.findall('ROW views | "a|\\"b" " END\\n" | NULL | "" END ROW other | "c" END')
        self.assertEqual([name for name, _ in row], ["views", "other"])
        self.assertEqual(tables.cells(row[0][1]), ['a|"b END\n', None, ""])
        source = tables.Tables(docs.TOP, ["cc"])
        self.assertIn("| `pgbouncer_pools_server_idle_connections` | gauge |", source.table("metrics", "md"))
        self.assertTrue(all(cause.endswith(".") for *_, cause, _ in source.rows["errors"]))
        for form, before, after in (("md", "\n#### ", "\n"), ("man", "\n\\fB", "\\fR\n"), ("ini", "\n;", " =")):
            text = source.table("settings", form)
            self.assertTrue(all(before + name + after in text for name in source.names))
        self.assertEqual(source.linked("see auth_user, user and a_b", "user"), "see [auth\\_user](#auth_user), user and a\\_b")

    def test_citations(self):
        self.put("doc/a.md", "# A\n\n## 1. One\n\n### 1.2 Two\n\n## 3 Three\n")
        self.put("src/base/a.c", "/* See a.md 1, 1.2 and\n * 3; doc/a.md. */\n")
        self.put("test/unit/a.py", "# as in [a](../../doc/a.md)\n")
        self.assertClean(citations)
        self.put("src/base/a.c", "/* See a.md 1,\n * 2. */\n")
        self.assertFinds(citations, "src/base/a.c", "no section 2")
        self.put("src/base/a.c", "/* See b.md. */\n")
        self.assertFinds(citations, "there is no b.md")

    def test_tests_that_documents_name(self):
        self.put("test/integration/test_a.py", "def test_one(pg):\n    pass\n")
        self.put("test/README.md", "`test_one` in `test_a.py`\n")
        self.assertClean(citations)
        self.put("test/README.md", "`test_two`\n")
        self.assertFinds(citations, "test/README.md", "test_two")

    def test_tests_that_promise_something(self):
        self.put("test/integration/test_a.py", "def test_one(pg):\n    pass\n")
        self.put("doc/security.md", "`test_one` in `test_a.py`\n")
        self.assertClean(citations)
        self.put("doc/security.md", "`test_gone`\n")
        self.assertFinds(citations, "doc/security.md", "test_gone")

    def test_links(self):
        self.put("LICENSE", "free\n")
        self.put("doc/a.md", "# A `[b]` and_c: (d)\n\n## Two\n\n## Two\n\n```text\n# no heading\n[x](nowhere.md)\n```\n"
                 "[own](#two-1) [license](../LICENSE) [world](https://example.com/x) `[code](nowhere.md)`\n")
        self.put("doc/in/a.md", "[the same](a.md#a-b-and_c-d)\n")
        self.assertClean(links)
        for target, problem in (("b.md", "there is no b.md"), ("a.md#three", "no heading"),
                                ("a.md#no-heading", "no heading"), ("#two-2", "no heading")):
            self.put("doc/in/a.md", "[it](%s)\n" % target)
            self.assertFinds(links, "doc/in/a.md", problem)

    def test_quotes(self):
        self.put("src/base/a.c", 'log("user \\"%s\\" is "\n    "gone");\nlog("closed: %s", why);\n')
        guide = ('| what | why |\n|---|---|\n| `no log` | x |\n\n| log line | why |\n|---|---|\n| `user "U" is gone` | x |\n'
                 "| `closing because: closed: ...` | x |\n| psql: `oh no` | x |\n%s")
        self.put("doc/in/troubleshooting.md", guide % "")
        self.assertClean(quotes)
        for guided in ("doc/recipes/a.md", "doc/in/troubleshooting.md"):
            self.put(guided, guide % "| `opened: ...` | x |\n")
            self.assertFinds(quotes, guided, "opened")
            self.put(guided, "")

    def test_links_of_pages(self):
        self.put("a.html", '<h1 id="one">A</h1><a href="b.html#two">b</a> <a href="https://example.com">c</a>')
        self.put("b.html", '<h1 id="two">B</h1><a href="#two">here</a>')
        self.assertEqual(list(pages.dead_links(self.root)), [])
        self.put("b.html", '<h1 id="2">B</h1><a href="c.html">c</a>')
        self.assertEqual(list(pages.dead_links(self.root)),
                         ["a.html: nothing is at b.html#two", "b.html: nothing is at c.html"])
        self.assertEqual([pages.page_of(path) for path in ("README.md", "doc/a.md", "test/README.md", "doc/b/c.md")],
                         ["index.html", "a.html", "test-README.html", "b-c.html"])

    def test_contents_of_pages(self):
        texts = {"README.md": "# R\n[b](doc/b.md) [a](doc/a.md#x) [i](doc/i.png) [c](src/c.c)", "doc/a.md": "# A", "doc/b.md": "# B",
                 "CONTRIBUTING.md": "# C", "doc/recipes/README.md": "# D\n[e](e.md)", "doc/recipes/e.md": "# E"}
        users, developers = pages.trees("README.md", texts).split("For developers")
        self.assertEqual([name for name in users.split() if name in ("a", "b", "recipes-README")], ["b", "a", "recipes-README"])
        self.assertIn("CONTRIBUTING", developers)
        self.assertIn("\nrecipes-e\n", pages.trees("doc/recipes/README.md", texts))
        self.assertEqual(pages.converted("README.md", texts), "# R\n[b](b.md) [a](a.md#x) [i](i.png) c")

    def test_lengths(self):
        self.put("src/base/a.c", "int a(void)\n{\n" + "\t;\n" * 90 + "}\n")
        self.assertEqual(len(lengths.warnings(self.options)), 1)


class Pictures(unittest.TestCase):
    def test_a_picture(self):
        drawn = pictures.svg('picture 20 10 "a & b"\n# said\nbox a 1 1 4 2 client "one|two"\nbox b 11 1 4 2 "<x>"\narrow a b dashed "to"\n')
        self.assertIn("<title>a &amp; b</title>", drawn)
        self.assertIn('<rect class="client" x="10" y="10" width="40" height="20" rx="4"/>', drawn)
        self.assertIn('x1="50" y1="20" x2="101" y2="20"', drawn)  # from edge to edge
        self.assertTrue(all(">%s</text>" % word in drawn for word in ("one", "two", "&lt;x&gt;", "to")), drawn)

    def test_each_text_is_a_picture_that_is_shown(self):
        folder = os.path.join(docs.TOP, "doc/in/pictures")
        usage = docs.read("doc/usage.md")
        for name in sorted(os.listdir(folder)):
            picture = name.replace(".txt", ".svg")
            self.assertIn("doc/" + picture, docs.DOCUMENTS)
            self.assertIn("](%s)" % picture, usage)


class Machine(unittest.TestCase):
    def test_programs_get_no_more_than_a_build_gives(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "test_x")
            with open(script, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nulimit -n\nulimit -Hn\nls /sys/class/net\ncat /proc/net/route\nexit 1\n")
            os.chmod(script, 0o755)
            said = subprocess.run([os.path.join(os.path.dirname(__file__), "programs.py"), script],
                                  stdout=subprocess.PIPE, check=False).stdout.decode().splitlines()
        self.assertEqual(said[1:3], ["1024", "1024"])
        if os.getuid() == 0 and sys.platform == "linux":
            self.assertEqual([line for line in said if line.endswith("0") and "\t" in line], [], "routes")


class Counting(unittest.TestCase):
    def test_counts(self):
        group = "[==========] Running 2 test(s).\n"
        good = group + "[  PASSED  ] 2 test(s).\n"
        bad = group + "[  FAILED  ] test_x\n[  PASSED  ] 1 test(s).\n[  FAILED  ] 1 test(s), listed below:\n"
        skip = group + "[  PASSED  ] 1 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] x\n"
        self.assertEqual(programs.count(good, 0), (2, 0, 0))
        self.assertEqual(programs.count(good, 1), (2, 1, 0))  # a leak found at exit
        self.assertEqual(programs.count(bad, 1), (1, 1, 0))
        self.assertEqual(programs.count(skip, 0), (1, 0, 1))
        self.assertEqual(programs.count(group, 0), (0, 1, 0))
        self.assertEqual(programs.count("seed 1\n", 0), (1, 0, 0))
        self.assertEqual(programs.count("", -6), (0, 1, 0))


def main():
    result = unittest.TextTestRunner(verbosity=0).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    failed = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (
        result.testsRun - failed - len(result.skipped), failed, len(result.skipped)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

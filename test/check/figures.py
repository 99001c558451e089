"""Counts what makes the code long or hard to read.  Each figure has a bound, and none may
grow: when a change lowers one, it lowers the bound too, down to the one that is wanted."""
import re

import tree

# name: (bound, wanted)
BOUNDS = {
    "lines of src and include": (103299, 76000),
    "files of src/daemon": (26, 26),
    "static functions of three lines or less with one caller": (20, 60),
    "static functions with one caller": (984, 1000),
    "predicates that act": (0, 0),
    "members of struct pool": (36, 40),
    "members of struct link": (25, 25),
    "members of struct client": (32, 32),
    "words that are going": (0, 0),
    "files of the workers' machinery": (11, 11),
    "lines of the workers' machinery": (2796, 2800),
    "tuned times of the workers' machinery": (9, 10),
    "lines of tests of the workers' machinery": (3997, 4000),
}

# What makes several threads one pooler, and the tests that are about nothing else: the
# rest of prop_pool is about one worker as well.
MACHINERY = ["src/%s.c" % name for name in """
broker/transfer daemon/rebalance daemon/rebalance_plan daemon/worker_threads net/mailbox
pool/central pool/exchange session/cancel_keys session/client_transfer session/migrate
session/workers""".split()]
MACHINERY_TESTS = re.compile(r"^test/.*/(?:test_workers(?:_\w+)?\.py|prop_pool/(?:workers|calm)\.c|"
                             r"test_(?:workers|exchange|transfer|cancel_workers|rebalance_plan)\.c)$")
TUNED_TIME = re.compile(r"\b[A-Z]\w*_(?:US|MS|S) = \d")

STRUCTS = {"pool": "include/pool/pool.h", "link": "include/session/server.h",
           "client": "include/session/client.h"}

# Names of files and structs that say less than the field's word for the same thing.
WORDS = """
crew team crew_member letter errand reminder tally wishes elsewhere spread relocate traveller
lend loan passing passage breath thread_time seat ask desk room share seekers newcomers kick
scout welcome greeting opening moving parcel bundle crates courier carrier carried messenger
moved segment way alias texts slow leaks shelves reading hush hearing roll spares rules mark
last_words judge remark courtesy slices floors ending modes configuration adoption changes
findings inquiry sheet facts harvest told deaf town world county hush hearing seekers newcomers
kick
""".split()

DEFINITION = re.compile(r"^static (?!inline)(?:[^;={}()]*?[ *])(\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}\n", re.M | re.S)
PREDICATE = re.compile(r"^(?:static )?(?:inline )?bool ((?:\w+_)?(?:is|has|may)_\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}\n",
                       re.M | re.S)
# An assignment to what a pointer points to, or a call that waits, locks or joins.
ACTS = re.compile(r"\w(?:->[\w.\[\]>-]+) (?:[-+|&^]?=|<<=) |\w->[\w.>-]+(?:\+\+|--)|(?:\+\+|--)\w+->|"
                  r"^\s*\*\w+ = |\bpthread_(?!self|equal)\w+\(|\b(?:poll|read|write|recv|send|waitpid|close)\(",
                  re.M)


def without_comments(text):
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def one_caller(text):
    """(name, lines of its body) of the static functions that one place of the file calls."""
    for name, _, body in DEFINITION.findall(text):
        if len(re.findall(r"\b%s\b" % name, text)) == 2 and len(re.findall(r"\b%s\(" % name, text)) == 2:
            yield name, len([line for line in body.splitlines() if line.strip()])


def acting_predicates(text):
    return [name for name, _, body in PREDICATE.findall(text) if ACTS.search(body)]


def members(text, struct):
    """How many members a struct has; a struct within it is one."""
    body = re.search(r"^struct %s \{\n(.*?)^\};" % struct, text, re.M | re.S)
    if not body:
        return 0
    inner = body.group(1)
    while re.search(r"\{[^{}]*\}", inner):
        inner = re.sub(r"\{[^{}]*\}", "", inner)
    return sum(1 + re.sub(r"\([^()]*\)", "", declaration).count(",")
               for declaration in inner.split(";") if declaration.strip())


def names_of(files, texts):
    found = {re.sub(r"\.\w+$", "", path.split("/")[-1]) for path in files}
    found |= {path.split("/")[1] for path in files}
    for text in texts.values():
        found |= set(re.findall(r"\b(?:struct|enum) (\w+)", text))
    return found


def figures(root):
    """{name: (value, what a reader may want to look at)}"""
    files = [f for f in tree.files(root) if f.startswith(("src/", "include/")) and f.endswith((".c", ".h", ".def"))]
    texts = {f: tree.text(root, f) for f in files}
    plain = {f: without_comments(text) for f, text in texts.items()}
    called = [(f, name, lines) for f in files if f.endswith(".c") for name, lines in one_caller(plain[f])]
    acting = ["%s: %s" % (f, name) for f in files for name in acting_predicates(plain[f])]
    words = sorted(set(WORDS) & names_of(files, plain))
    found = {
        "lines of src and include": (sum(text.count("\n") for text in texts.values()), []),
        "files of src/daemon": (sum(f.startswith("src/daemon/") for f in files), []),
        "static functions of three lines or less with one caller":
            (sum(lines <= 3 for _, _, lines in called), ["%s: %s" % c[:2] for c in called if c[2] <= 3]),
        "static functions with one caller": (len(called), []),
        "predicates that act": (len(acting), acting),
        "words that are going": (len(words), words),
        "files of the workers' machinery": (sum(f in texts for f in MACHINERY), []),
        "lines of the workers' machinery": (sum(texts.get(f, "").count("\n") for f in MACHINERY), []),
        "tuned times of the workers' machinery":
            (sum(len(TUNED_TIME.findall(texts.get(f, ""))) for f in MACHINERY + [
                f.replace("src/", "include/").replace(".c", ".h") for f in MACHINERY]), []),
        "lines of tests of the workers' machinery":
            (sum(tree.text(root, f).count("\n") for f in tree.files(root) if MACHINERY_TESTS.match(f)), []),
    }
    for struct, header in STRUCTS.items():
        found["members of struct " + struct] = (members(plain.get(header, ""), struct), [])
    return found


def lines(options):
    return ["%s: %d, at most %d%s" % (name, value, BOUNDS[name][0],
                                      "" if BOUNDS[name][0] <= BOUNDS[name][1] else ", wanted %d" % BOUNDS[name][1])
            for name, (value, _) in figures(options.root).items()]


def check(options):
    return ["%s: %d are more than %d%s" % (name, value, BOUNDS[name][0], "".join("\n      " + one for one in examples))
            for name, (value, examples) in figures(options.root).items() if value > BOUNDS[name][0]]

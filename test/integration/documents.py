"""The documents as tests read them: their blocks, and the steps of a recipe, taken as they stand."""

import glob
import os
import re
import subprocess

import keeper
import waiting
from pooler import settings_of_run

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
DOCUMENTS = ["README.md", *sorted(os.path.relpath(path, TOP) for pattern in ("doc/*.md", "doc/recipes/*.md")
                                  for path in glob.glob(os.path.join(TOP, pattern)))]
LANGUAGES = ("ini", "console", "sh", "sql", "text")
BLOCK = re.compile(r"^( *)```(.*)\n((?:.*\n)*?) *```$", re.M)
# The line in front of a block that is the content of a file.
FILE = re.compile(r"^`([^`\s]+)`[^`]*:$")


def document(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def unindented(block):
    return re.sub("^" + block[1], "", block[3], flags=re.M)


def blocks(language):
    """Returns [(place, text)] of the blocks of this language in all documents."""
    found = []
    for path in DOCUMENTS:
        text = document(path)
        for block in BLOCK.finditer(text):
            place = "%s:%d" % (path, text.count("\n", 0, block.start()) + 1)
            assert block[2] in LANGUAGES, "%s: the block is in none of %s" % (place, LANGUAGES)
            if block[2] == language:
                found.append((place, unindented(block)))
    assert found
    return found


def section(path, heading):
    """Returns the text under a heading `## heading`, up to the next one."""
    return document(path).split("\n## %s\n" % heading)[1].split("\n## ")[0]


def blocks_of(path, heading):
    """Returns the texts of the blocks under a heading."""
    return [unindented(block) for block in BLOCK.finditer(section(path, heading))]


def commands(text):
    """Returns [(command, its output)] of a block of the language sh. Where output is shown, a
    command stands behind `$ `, else each line is one."""
    text = text.replace("\\\n", "")
    if not text.startswith("$ "):
        return [(line.strip(), None) for line in text.splitlines() if line.strip()]
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    return [tuple(part.partition("\n")[::2]) for part in parts]


# output, compared by its shape


def shape(text):
    """Returns the text without what differs from run to run: numbers, pointers, widths."""
    text = re.sub(r"0x[0-9a-f]+|\d+", "0", text)
    text = re.sub(r"-{2,}", "--", text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "".join(line + "\n" for line in lines if line)


def pattern(shown):
    """Returns a regular expression for output of this shape, in which a line `...` stands for any
    lines, and `...` within a line for anything."""
    def line(text):
        if text == "...":
            return r"(?:.*\n)*?"
        return ".*?".join(map(re.escape, text.split("..."))) + r"\n"

    return "".join(map(line, shape(shown).splitlines()))


def assert_shown(command, shown, output):
    assert re.fullmatch(pattern(shown), shape(output)), (
        "%s\nshows:\n%s\nThe document has:\n%s" % (command, output, shown))


class Stage:
    """A machine for the steps of one document. The names and numbers in `real` stand for those
    shown. Each configuration that is started is a pooler of its own."""

    def __init__(self, make_pooler, binary, path, real, secrets=()):
        self.path, self.make_pooler, self.binary = path, make_pooler, binary
        self.dir = waiting.scratch("stage")
        self.poolers, self.instead = {}, {}
        self.env = {}  # more variables for commands and poolers
        self.port = waiting.PORTS.take()
        self.real = {"6432": str(self.port), "/etc/pgbouncer": self.dir, **real}
        for shown, folder in (("/run/pgbouncer", "run"), ("/var/log/pgbouncer", "log")):
            self.real[shown] = self.folder(folder)
        self.link("pgbouncer", binary)
        self.write(".pgpass", "".join("*:*:*:%s:%s\n" % pair for pair in dict(secrets).items()), 0o600)
        for secret in dict(secrets).values():
            keeper.learn(secret)

    def folder(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(path, exist_ok=True)
        waiting.give(path)
        return path

    def link(self, name, program):
        os.symlink(program, os.path.join(self.folder("bin"), name))

    def write(self, path, text, mode=0o644):
        path = os.path.join(self.dir, path)
        keeper.learn_file(text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        waiting.give(path)
        return path

    # names as shown and as they are here

    @staticmethod
    def replaced(text, pairs):
        names = sorted(pairs, key=len, reverse=True)
        any_name = "|".join(r"(?<!\d)%s(?!\d)" % name if name.isdigit() else re.escape(name) for name in names)
        return re.sub(any_name, lambda found: pairs[found[0]], text)

    def here(self, text):
        return self.replaced(text, self.real)

    def shown(self, text):
        """Where several names stand for one, the first of them is the one that is printed. A reader types
        passwords, which come from a file here."""
        text = re.sub(r"^password retrieved from file .*\n", "", text, flags=re.M)
        return self.replaced(text, {here: shown for shown, here in reversed(self.real.items())})

    # steps

    def play(self, heading):
        """Takes the steps under a heading: writes files, gives commands and compares what they
        print. Returns the output of all of them."""
        text, told = section(self.path, heading), ""
        for block in BLOCK.finditer(text):
            name = FILE.match(text[:block.start()].rstrip("\n").split("\n")[-1].strip())
            if name:
                self.put(name[1], unindented(block))
            elif block[2] == "sh":
                for command, output in commands(unindented(block)):
                    told += self.give(command, output)
            elif block[2] == "sql":
                self.instead["sql"](self.here(unindented(block)))
        return told

    def put(self, name, text):
        """Writes a file, or gives its text to who stands for it."""
        text = self.here(text)
        if name in self.instead:
            self.instead[name](text)
            return
        if name.endswith(".ini"):
            lines = "unix_socket_dir = %s\n" % self.folder("run")
            lines += "".join("%s = %s\n" % pair for pair in settings_of_run().items())
            text = text.replace("[pgbouncer]\n", "[pgbouncer]\n" + lines)
        self.write(self.here(name), text, 0o600 if "userlist" in name else 0o644)

    def give(self, command, output=None):
        """Gives a command. It prints what is shown, if anything is, and fails only if that is an
        error."""
        if command in self.instead:
            return self.instead[command]() or ""
        if re.match(r"pgbouncer (-R )?-d ", command):
            self.start(command.split()[-1], "-R" in command.split())
            return ""
        done = subprocess.run(["bash", "-c", self.here(command)], **self.options(), timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        fails = re.search(r"error:|ERROR:|FATAL:", output or "")
        assert (done.returncode != 0) == bool(fails), (command, done.returncode, done.stdout)
        if output:
            assert_shown(command, output, self.shown(done.stdout))
        return done.stdout

    def options(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        env.update(PATH="%s:%s" % (self.folder("bin"), env["PATH"]), HOME=self.dir, LC_ALL="C", TZ="UTC",
                   PGPASSFILE=os.path.join(self.dir, ".pgpass"), PGCONNECT_TIMEOUT="30", **self.env)
        return {"text": True, "cwd": self.dir, "env": env, "stdin": subprocess.DEVNULL,
                **waiting.run_as(waiting.unprivileged())}

    def begin(self, command):
        """Starts a command and returns its process."""
        return subprocess.Popen(["bash", "-c", self.here(command)], **self.options(),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    # poolers

    def start(self, ini, takes_over):
        """Starts the pooler of a configuration, or another process in its place."""
        pooler = self.poolers.get(ini)
        if pooler is None:
            pooler = self.poolers[ini] = self.make_pooler(start=False)
            pooler.port = self.port
            pooler.env.update(self.env)
            pooler.write_files = lambda: None
            pooler.command = lambda *_: ["env", "-C", self.dir, self.binary, *pooler.args, self.here(ini)]
        if takes_over:
            self.instead["-R"](pooler)
        else:
            pooler.start()

    def log(self, ini="/etc/pgbouncer/pgbouncer.ini"):
        return self.shown(self.poolers[ini].log())

    def wait_log(self, quote, ini="/etc/pgbouncer/pgbouncer.ini"):
        """Waits for a line of the log that has this text, which may have `...` in it."""
        wanted = re.compile(".*".join(re.escape(shape(part).strip()) for part in quote.split("...")))
        waiting.wait_for(lambda: wanted.search(shape(self.log(ini))),
                         "log line %r in:\n%s" % (quote, self.log(ini)[-2000:]))

    def said(self, quote, output):
        """Asserts that a program has printed this text."""
        assert re.search(pattern(quote).removesuffix(r"\n"), shape(self.shown(output))), (quote, output)

    def remove(self):
        waiting.discard(self.dir)

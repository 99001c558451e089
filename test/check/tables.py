"""The tables of the program (*.def) as text for the documents: the references in Markdown,
the manual pages and the sample file.  docs.py puts them into the texts of doc/in.

The preprocessor of C reads them, so that macros within them mean what they mean in the program."""
import os
import re
import subprocess

import tree

# Each row becomes ROW TABLE | string | string ... END; a cell without a string is NULL.
STUB = r"""
#define TEXT(...) #__VA_ARGS__
#define SETTING(name, type, level, group, flags, value, range, words, help) \
	ROW settings | #name | #type | #level | #group | #flags | value | #range | #words | help END
#include "conf/settings.def"
#define SETTING_TEXT(name, example, link, details) ROW setting_texts | #name | example | link | details END
#include "setting_texts.def"
#define SETTING_ALIAS(key, setting) ROW aliases | #key | #setting END
#include "conf/setting_aliases.def"
#define DATABASE_KEY(key, member, type, flags, help) ROW database_keys | #key | #flags | help END
#include "conf/database_keys.def"
#define PEER_KEY(key, member, type, flags, help) ROW peer_keys | #key | #flags | help END
#include "conf/peer_keys.def"
#define ERROR_ROW(id, severity, sqlstate, setting, text, cause, remedy) \
	ROW errors | #severity | sqlstate | text | cause | remedy END
#include "base/errors.def"
#define STATE(name, shown, socket, column, successors, deadline, help) \
	ROW states | #name | shown | socket | column | #successors | deadline | help END
#include "pool/states.def"
#define OPTION(id, letter, name, argument, help, details) \
	ROW options | #letter | name | argument | help | details END
#include "daemon/options.def"
#define COMMAND(name, arguments, rights, handler, usage, help) ROW commands | #name | #rights | usage | help END
#include "admin/commands.def"
#include "views/views.def"
#define COLUMN(name, type, value, help) ROW columns | #name | #type | help END
#define VIEW(name, line, rights, sites, walker, columns, help) ROW views | #name | #rights | help END columns(COLUMN)
VIEWS(VIEW)
#include "metrics/metrics.def"
#define OF_PROCESS(id, type, unit, name, labels, help) ROW of_process | #type | name | labels | help END
METRIC_OF_PROCESS(OF_PROCESS)
#define DURATION(kind, name, help) ROW durations | name | help END
METRIC_DURATIONS(DURATION)
#define SAMPLES(id, view, keys, ...) ROW samples | #id | #view | #keys | TEXT(__VA_ARGS__) END
METRIC_SAMPLES(SAMPLES)
#define METRIC(samples, type, unit, name, other, column, micros, help) \
	ROW metrics | #samples | #type | name | other | column | micros | help END
METRICS(METRIC)
"""
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
ROW = re.compile(r'\bROW (\w+) \|((?:"(?:\\.|[^"\\])*"|[^"E]|E(?!ND\b))*)END\b')

GROUPS = (("GROUP_PROCESS", "Process, files, listening"), ("GROUP_POOLING", "Pooling and limits"),
          ("GROUP_AUTH", "Authentication"), ("GROUP_HEALTH", "Server health and timeouts"), ("GROUP_DNS", "DNS"),
          ("GROUP_TLS", "TLS"), ("GROUP_NETWORK", "Low-level network"))
# settings with a value in the sample file, which has all others in comments
SAMPLE = {"admin_users": "admin", "auth_file": "/etc/pgbouncer/userlist.txt", "auth_type": "md5",
          "listen_addr": "127.0.0.1", "listen_port": "6432", "logfile": "/var/log/pgbouncer/pgbouncer.log",
          "pidfile": "/run/pgbouncer/pgbouncer.pid", "pool_mode": "transaction", "stats_users": "stats"}
UNKNOWN = " PgBouncer 1.25 does not know it"
PARAM = ("The startup parameter NAME of new server connections, for example param.search_path=app. Any number of "
         "them can be given. The parameters that have a key of their own are set by that key." + UNKNOWN + ".")


def cells(row):
    """The value of each cell: its strings together; None for NULL."""
    strings = iter(STRING.findall(row))
    found = []
    for cell in STRING.sub('"', row).split("|"):
        text = "".join(next(strings) for _ in range(cell.count('"')))
        text = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)
        found.append(text if '"' in cell else None)
    return found


class Setting:
    def __init__(self, row, words, texts, aliases):
        self.name, kind, level, self.group, flags, self.default, limits, of, self.help = row
        self.type = kind.lower()
        self.levels = {"GLOBAL": (), "BOTH": ("DATABASE", "USER")}.get(level, (level,))
        self.flags = set(re.findall(r"\w+", flags))
        # up to the one that the range names as the last
        names = [name for name, _ in words.get(of, ())]
        last = re.search(r", (\w+)\)", limits)
        count = names.index(last[1]) + 1 if last and last[1] in names else len(names)
        self.words = [word for _, word in words.get(of, ())][:count]
        self.value, self.link, self.details = texts[self.name]
        # reserve_pool is an older name besides the new one; all other aliases replace the name
        alias = aliases.get(self.name)
        is_older = alias and self.name.startswith(alias)
        self.key, self.other = (self.name, alias) if is_older else (alias or self.name, None)

    def facts(self):
        """ "Type: int. Default: 20. ..." """
        text = "Type: " + self.type
        if self.words:
            is_long = len(self.words) > 16
            text += " (%s)" % ", ".join(self.words[:4] + ["...", self.words[-1]] if is_long else self.words)
        text += ". Default: %s." % {None: "not set", "": "empty"}.get(self.default, self.default)
        if "RESTART" in self.flags:
            text += " Changes need a restart."
        if self.levels:
            text += " Can be set " + " and ".join("per " + level.lower() for level in self.levels)
            text += ", by the key %s." % self.key if self.key != self.name else "."
        unknown = [level for level in self.levels if "THEIR_%s_KEY" % level not in self.flags]
        if "OURS" in self.flags:
            text += UNKNOWN + "."
        elif unknown:
            text += UNKNOWN + " " + " and ".join("per " + level.lower() for level in unknown) + "."
        return text

    def own_rule(self):
        """What a value in an entry means that does not override the setting."""
        if "MAY_BE_EMPTY" in self.flags:
            return " '' means empty."
        if self.type not in ("int", "time"):
            return ""
        whole = " Whole seconds;" if self.type == "time" else ""
        if "ABOVE_ZERO" in self.flags:
            return whole + " 0 or less leaves it to the next level."
        if "BELOW_IS_ZERO" in self.flags:
            return " Whole seconds; a negative number means 0."
        if "FRACTIONS" in self.flags:
            return " Seconds, with a fraction or not; a negative number leaves it to the next level."
        return whole + (" a" if whole else " A") + " negative number leaves it to the next level."


def sentence(help_line):
    return help_line[0].upper() + help_line[1:] + "."


def escaped(text):
    return re.sub(r"([<*_\[\]])", r"\\\1", text)


def cell_of(text):
    return text.replace("|", "\\|")


def hyphens(text):
    """Escaped, so that they can be copied from a manual page."""
    return text.replace("-", "\\-")


def man(text):
    text = re.sub(r"[-\\']", lambda m: {"-": "\\-", "\\": "\\e", "'": "\\(aq"}[m[0]], text)
    return re.sub(r"^(\\\(aq|\.)", r"\\&\1", text, flags=re.M)


def header(*titles):
    return "| %s |\n|%s\n" % (" | ".join(titles), "---|" * len(titles))


class Tables:
    """The tables below root; cc: the words of the command of a C compiler."""
    def __init__(self, root, cc):
        made = subprocess.run(cc + ["-E", "-P", "-I", os.path.join(root, "include"),
                                    "-I", os.path.join(root, "doc/in"), "-x", "c", "-"],
                              input=STUB, stdout=subprocess.PIPE, universal_newlines=True, check=True, timeout=60)
        self.rows = {}
        for name, row in ROW.findall(made.stdout):
            if name == "columns":
                self.rows["views"][-1][-1].append(cells(row))
            else:
                self.rows.setdefault(name, []).append(cells(row) + ([[]] if name == "views" else []))
        words = {name: re.findall(r'(?:\[(\w+)\] = )?"([^"]*)"', array) for name, array in re.findall(
            r"const (\w+_words)\[\] = \{(.*?)\};", tree.text(root, "src/conf/settings.c"), re.S)}
        self.types = dict(re.findall(r'cell_(\w+) = \{"(\w+)"', tree.text(root, "src/views/row.c")))
        aliases = {setting: key for key, setting in self.rows["aliases"]}
        texts = {row[0]: row[1:] for row in self.rows["setting_texts"]}
        self.all_settings = [Setting(row, words, texts, aliases) for row in self.rows["settings"]]
        self.names = {setting.name for setting in self.all_settings}

    def table(self, what, form):
        """The text of a table in this form ("md", "man" or "ini")."""
        return getattr(self, what)(form).strip("\n")

    # ---- the configuration ----

    def linked(self, text, own):
        """Markdown in which the names of other settings lead to them."""
        def link(found):
            name = found[2]
            # words such as user and syslog are ordinary ones as well
            if "_" not in name or name == own or name not in self.names:
                return found[0]
            return "%s\0%s\1%s\0" % (found[1], name, name)
        parts = re.sub(r"(^|[ (\"])([a-z0-9_]+)", link, text).split("\0")
        return "".join("[%s](#%s)" % (escaped(part.split("\1")[0]), part.split("\1")[1]) if "\1" in part
                       else escaped(part) for part in parts)

    def item(self, form, term, facts, text):
        if form == "md":
            return ("\n#### %s\n\n%s\n\n" % (term, escaped(facts)) if facts else "\n* `%s`: " % term) + \
                self.linked(text, term) + "\n"
        return ".TP\n\\fB%s\\fR\n%s%s\n" % (man(term), man(facts) + "\n.br\n" if facts else "", man(text))

    def example(self, form, setting):
        if form == "man":
            return ".br\nExample: %s = %s\n" % (setting.name, man(setting.value))
        link = setting.link
        more = "; more in [%s](%s)" % (link[1:] if link[:1] == "#" else link.partition("#")[0], link) if link else ""
        return "\nExample: `%s = %s`%s.\n" % (setting.name, setting.value, more)

    def settings(self, form):
        title = {"md": "\n### %s\n", "man": ".SS %s\n", "ini": "\n##\n## %s\n##\n"}[form]
        found = "[pgbouncer]\n" if form == "ini" else ""
        for group, name in GROUPS:
            found += title % (man(name) if form == "man" else name)
            for one in self.all_settings:
                if one.group == group and form == "ini":
                    found += self.sample(one)
                elif one.group == group:
                    found += self.item(form, one.name, one.facts(), sentence(one.help) + " " + one.details)
                    found += self.example(form, one)
        return found

    @staticmethod
    def sample(one):
        value = ("" if one.type == "str" else "0") if one.default is None else one.default
        return "\n# %s%s\n;%s =%s\n%s" % (
            one.help, " (restart)" if "RESTART" in one.flags else "", one.name, value and " " + value,
            "%s = %s\n" % (one.name, SAMPLE[one.name]) if one.name in SAMPLE else "")

    def keys(self, form, rows):
        return "".join(self.item(form, key, None, sentence(text) + (UNKNOWN + "." if "KEY_OURS" in flags else ""))
                       for key, flags, text in rows)

    def own(self, form, level):
        """The settings that entries of this level can have."""
        return "".join(self.item(form, one.key, None, "Overrides the setting %s.%s%s" % (
            one.name, one.own_rule(), " %s is an older name of this key." % one.other if one.other else ""))
                       for one in self.all_settings if level in one.levels)

    def databases(self, form):
        return self.keys(form, self.rows["database_keys"]) + self.item(form, "param.NAME", None, PARAM) + \
            self.own(form, "DATABASE")

    def users(self, form):
        return self.own(form, "USER")

    def peers(self, form):
        return self.keys(form, self.rows["peer_keys"])

    # ---- the console ----

    def commands(self, form):
        found = header("command", "who", "what it does") if form == "md" else ""
        for name, rights, usage, text in self.rows["commands"]:
            usage = usage or name + " <view>"
            if form == "md":
                found += "| %s | %s | %s |\n" % ("<br>".join("`%s`" % cell_of(line) for line in usage.split("\n")),
                                                "all" if rights == "ANYONE" else "admin", cell_of(text))
            else:
                usage, text = (re.sub(r"[-\\]", lambda m: "\\" + ("e" if m[0] == "\\" else "-"), part)
                               .replace("\n", "\n.TQ\n.B ") for part in (usage, text))
                found += ".TP\n.B %s\n%s\n" % (usage, text)
        return found

    def views(self, _):
        found = ""
        for name, rights, text, columns in self.rows["views"]:
            found += "\n### SHOW %s\n\n%s\n%s" % (name, text, "For admins only.\n" if rights == "ADMIN" else "")
            if columns:
                found += "\n" + header("column", "type", "meaning")
            found += "".join("| %s | %s | %s |\n" % (column, self.types[kind], cell_of(meaning))
                             for column, kind, meaning in columns)
        return found

    # ---- the command line ----

    def options(self, form):
        found = header("option", "what it does") if form == "md" else ""
        for letter, name, argument, text, details in self.rows["options"]:
            letter = letter.strip("'") if letter != "0" else ""
            if form == "md":
                short = "`-%s%s`, " % (letter, " " + argument if argument else "") if letter else ""
                found += "| %s`--%s%s` | %s%s |\n" % (short, name, "=" + argument if argument else "", sentence(text),
                                                     details and " " + details)
            else:
                value = "\\fI%s\\fR" % argument if argument else ""
                short = "\\fB\\-%s\\fR%s, " % (letter, value and " " + value) if letter else ""
                found += ".TP\n%s\\fB\\-\\-%s\\fR%s\n%s\n" % (short, hyphens(name), value and "=" + value,
                                                             hyphens(sentence(text)))
                found += hyphens(details) + "\n" if details else ""
        return found

    # ---- what clients are told, states, metrics ----

    def errors(self, _):
        severities = {"EITHER": "ERROR or FATAL"}
        return header("text", "severity, SQLSTATE", "cause", "remedy") + "".join(
            "| `%s` | %s %s | %s | %s |\n" % (text, severities.get(severity, severity), sqlstate, cause, remedy)
            for severity, sqlstate, text, cause, remedy in self.rows["errors"])

    def states(self, _):
        found = header("SHOW SERVERS", "SHOW SOCKETS", "SHOW POOLS", "what it means", "may become", "limited by")
        for _, shown, socket, column, successors, deadline, text in self.rows["states"]:
            after = [row[1] for row in self.rows["states"] if "(%s)" % row[0] in successors]
            found += "| `%s` | `%s` | `%s` | %s | %s | %s |\n" % (shown, socket, column, text, ", ".join(after), deadline)
        return found

    def metrics(self, _):
        found = header("metric", "type", "labels", "from", "what it is")
        for kind, name, labels, text in self.rows["of_process"]:
            found += "| `%s` | %s | %s | | %s |\n" % (name, kind.lower(), labels, text)
        samples = {row[0]: row[1:] for row in self.rows["samples"]}
        for of, kind, name, other, column, micros, text in self.rows["metrics"]:
            view, keys, labels = samples[of]
            labels = re.findall(r"\w+", labels)
            # as family_label_count() in metrics/family.c
            if keys == "KEYS" or (kind == "GAUGE" and not column and not micros):
                labels = []
            elif of == "HOSTS" and kind != "INFO":
                labels = labels[:int(re.search(r"\d+", keys)[0])]
            found += "| `%s`%s | %s | %s | SHOW %s%s | %s |\n" % (
                name, "<br>`%s`" % other if other else "", "counter" if kind == "COUNTER" else "gauge",
                ", ".join(labels), view, "".join(" `%s`" % part for part in (column, micros) if part), text)
        for name, text in self.rows["durations"]:
            found += "| `%s` | histogram | database, user | | %s |\n" % (name, text)
        return found

"""The manifests of etc/kubernetes and the scripts of the container (doc/recipes/kubernetes.md), without a cluster:
schemas, the configuration in them, the environment that the container takes, and a rolling restart."""

import os
import random
import re
import shutil
import subprocess
import threading

import pytest

import waiting
from test_metrics import Listener
from test_rolling import Load

ETC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../etc")
SCRIPTS = os.path.join(ETC, "packaging/container")
VERSION = "1.31"
MANIFESTS = ["central", "peers", "sidecar"]


def documents_of(name):
    yaml = pytest.importorskip("yaml", reason="kubernetes-validate is not installed")
    with open(os.path.join(ETC, "kubernetes", name + ".yaml")) as text:
        return list(yaml.safe_load_all(text))


def of_kind(name, *kinds):
    return next(each for each in documents_of(name) if each["kind"] in kinds)


def workload(name):
    return of_kind(name, "Deployment", "StatefulSet")


def container(name):
    spec = workload(name)["spec"]["template"]["spec"]
    return next(each for each in spec.get("initContainers", []) + spec["containers"] if each["name"] == "pgbouncer")


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_follow_the_schemas(name):
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for document in documents_of(name):
        validator.validate(document, VERSION, strict=True)


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_parts_of_a_manifest_fit(name):
    """What a selector, a probe, a volume or a name refers to is there."""
    pod, one = workload(name)["spec"]["template"], container(name)
    labels = pod["metadata"]["labels"].items()
    ports = {port["name"] for port in one["ports"]}
    for document in documents_of(name):
        spec = document.get("spec", {})
        selectors = [spec.get("selector", {}), spec.get("podSelector", {})] if spec else []
        for selector in filter(None, selectors):
            assert selector.get("matchLabels", selector).items() <= labels
        if document["kind"] == "Service":
            assert {port["targetPort"] for port in spec["ports"]} <= ports
    assert one["readinessProbe"]["httpGet"]["path"] == "/readyz" and "metrics" in ports
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in one["volumeMounts"]} <= set(volumes)
    assert volumes["config"]["configMap"]["name"] == of_kind(name, "ConfigMap")["metadata"]["name"]
    if name != "sidecar":
        wait = sum(int(each["value"]) for each in one["env"] if each["name"].startswith("DRAIN_"))
        assert pod["spec"]["terminationGracePeriodSeconds"] > wait


class Box:
    """A folder in place of the container's files, and a program in place of the pooler that prints how it is
    called."""

    def __init__(self, pooler):
        self.pooler, self.dir = pooler, pooler.dir
        os.makedirs(self.path("bin"), exist_ok=True)
        self.program("pgbouncer", 'printf "%s\\n" "$@"')
        self.env = {"PATH": self.path("bin") + ":" + os.environ["PATH"], "PGBOUNCER_INI": self.path("mounted.ini"),
                    "PGBOUNCER_MADE": self.path("made")}

    def path(self, name):
        return os.path.join(self.dir, name)

    def program(self, name, line):
        with open(self.path("bin/" + name), "w") as script:
            script.write("#!/bin/sh\n%s\n" % line)
        os.chmod(self.path("bin/" + name), 0o755)

    def mount(self, text):
        with open(self.path("mounted.ini"), "w") as ini:
            ini.write(text)

    def run(self, *args, code=0, **env):
        """Runs the entrypoint; returns what the pooler was called with, and what it said."""
        done = subprocess.run([os.path.join(SCRIPTS, "pgbouncer-entrypoint"), *(args or [self.path("mounted.ini")])],
                              env=dict(self.env, **env), capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout.split("\n")[:-1], done.stderr

    def made(self, name="pgbouncer.ini"):
        with open(self.path("made/" + name)) as text:
            return text.read()

    def check(self, text):
        """--check-config finds nothing."""
        with open(self.path("checked.ini"), "w") as ini:
            ini.write(text)
        done = subprocess.run([self.pooler.binary, "--check-config", self.path("checked.ini")], capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "WARNING" not in done.stdout + done.stderr


@pytest.fixture
def box(make_pooler):
    return Box(make_pooler({}, start=False))


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_configuration_in_a_manifest_is_good(box, name):
    ini = of_kind(name, "ConfigMap")["data"]["pgbouncer.ini"]
    if name == "peers":
        env = {each["name"]: each["value"] for each in container(name)["env"]}
        box.program("hostname", "echo pgbouncer-1")
        box.run(PEER_COUNT=env["PEER_COUNT"], PEER_SERVICE=env["PEER_SERVICE"])
        assert box.made("peers.ini") == (
            "[pgbouncer]\npeer_id = 2\n[peers]\n1 = host=pgbouncer-0.pgbouncer-peers port=6432\n"
            "2 = host=pgbouncer-1.pgbouncer-peers port=6432\n")
        assert workload(name)["spec"]["serviceName"] == env["PEER_SERVICE"]
        assert str(workload(name)["spec"]["replicas"]) == env["PEER_COUNT"]
        ini = ini.replace("/tmp/pgbouncer/peers.ini", box.path("made/peers.ini"))
    with open(box.path("userlist.txt"), "w") as users:
        users.write('"app" "secret"\n')
    os.chmod(box.path("userlist.txt"), 0o600)
    box.check(ini.replace("/etc/pgbouncer-secret/userlist.txt", box.path("userlist.txt")))


def test_the_image_has_a_good_configuration(box):
    with open(os.path.join(SCRIPTS, "pgbouncer.ini")) as ini:
        text = ini.read()
    open(box.path("userlist.txt"), "w").close()
    box.check(text.replace("/etc/pgbouncer/userlist.txt", box.path("userlist.txt")))
    # it is the one that gives way to the environment
    box.mount(text)
    assert box.run(DB_HOST="db")[0] == [box.path("made/pgbouncer.ini")]


@pytest.mark.parametrize("env, entry, users", [
    ({"DB_HOST": "db"}, "* = host='db' port=5432", None),
    ({"DB_HOST": "db", "DB_PORT": "5433", "DB_USER": "ap\"p", "DB_PASSWORD": "it's \"so\"", "DB_NAME": "mine"},
     "'mine' = host='db' port=5433", '"ap""p" "it\'s ""so"""\n'),
    ({"DATABASE_URL": "postgres://app:p%40ss%25w%3a@db.example.com:5434/my%20db?sslmode=require"},
     "'my db' = host='db.example.com' port=5434", '"app" "p@ss%w:"\n'),
    ({"DATABASE_URL": "postgresql://app@[fd00::1]/mine"}, "'mine' = host='fd00::1' port=5432", '"app" ""\n'),
    ({"DATABASE_URL": "postgres://db"}, "* = host='db' port=5432", None),
], ids=["host", "parts", "url", "ipv6", "least"])
def test_a_configuration_from_the_environment(box, env, entry, users):
    called, said = box.run(**env)
    assert called == [box.path("made/pgbouncer.ini")] and not said
    lines = box.made().splitlines()
    assert lines[:3] == ["[databases]", entry, "[pgbouncer]"]
    for wanted in ("listen_addr = *", "listen_port = 6432", "auth_type = scram-sha-256",
                   "metrics_listen = 0.0.0.0:9127"):
        assert wanted in lines
    if users is not None:
        assert box.made("userlist.txt") == users
        assert os.stat(box.path("made/userlist.txt")).st_mode & 0o077 == 0
    box.check(box.made())


def test_settings_from_the_environment(box):
    """Those that images of PgBouncer take, and any other one with a prefix."""
    given = {"POOL_MODE": "session", "MAX_CLIENT_CONN": "77", "LISTEN_PORT": "6543", "AUTH_TYPE": "md5",
             "PGBOUNCER_QUERY_WAIT_NOTIFY": "3", "PGBOUNCER_HOST_HUNG_TIMEOUT": "2"}
    box.run(DB_HOST="db", **given)
    text = box.made()
    for name, value in given.items():
        assert "%s = %s\n" % (name.replace("PGBOUNCER_", "").lower(), value) in text
    assert text.count("listen_port") == text.count("auth_type") == 1
    box.check(text)
    # each name in its list is a setting
    with open(os.path.join(SCRIPTS, "pgbouncer-entrypoint")) as script:
        names = re.search(r"^settings='([^']*)'", script.read(), re.M).group(1).lower().split()
    with open(os.path.join(ETC, "pgbouncer.ini")) as sample:
        known = re.findall(r"^;?\s*(\w+) =", sample.read(), re.M)
    assert set(names) <= set(known)


def test_what_is_mounted_is_used(box):
    box.mount("[databases]\n")
    called, said = box.run(DB_HOST="db")
    assert called == [box.path("mounted.ini")] and "DB_HOST are not" in said
    assert not os.path.exists(box.path("made/pgbouncer.ini"))
    assert box.run("-V")[0] == ["-V"]
    assert box.run("-q", "other.ini", DB_HOST="db")[0] == ["-q", "other.ini"]


@pytest.mark.parametrize("env, said", [
    ({"DATABASE_URL": "mysql://db"}, "does not begin with"),
    ({"DATABASE_URL": "postgres:///db"}, "names a host"),
    ({"DB_HOST": "db", "DB_PASSWORD": "a\nb"}, "line feed"),
    ({"PEER_COUNT": "2", "PEER_SERVICE": "peers"}, "StatefulSet"),
], ids=["scheme", "no-host", "line-feed", "no-number"])
def test_an_environment_that_is_wrong(box, env, said):
    box.program("hostname", "echo pooler-x7f")
    assert said in box.run(code=1, **env)[1]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
@pytest.mark.parametrize("name", ["pgbouncer-entrypoint", "pgbouncer-drain"])
def test_scripts_are_plain_sh(name):
    done = subprocess.run(["shellcheck", "-s", "sh", os.path.join(SCRIPTS, name)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


class Service:
    """Gives each connection to one of the pods that it knows as ready, as a Service of Kubernetes does."""

    def __init__(self, pods):
        self.pods, self.ready, self.lock = pods, list(pods), threading.Lock()

    def connect(self, database):
        with self.lock:
            pod = random.choice(self.ready)
        return pod.connect(database)

    def drop(self, pod):
        with self.lock:
            self.ready.remove(pod)

    def add(self, pod):
        with self.lock:
            self.ready.append(pod)


@pytest.fixture
def pods(make_pooler, pg):
    made = []
    for _ in range(2):
        port = waiting.PORTS.take()
        made.append(make_pooler({"db": pg.conn()}, settings={
            "pool_mode": "transaction", "metrics_listen": "127.0.0.1:%d" % port, "default_pool_size": 5}))
        made[-1].metrics = Listener(port)
    return made


def test_a_rolling_restart_without_an_error(pods):
    """The commands of the manifest's preStop, a Service that is late, and clients that connect all the time."""
    command = container("central")["lifecycle"]["preStop"]["exec"]["command"]
    assert command == ["pgbouncer-drain"]
    service = Service(pods)
    load = Load(lambda: service.connect("db"))
    try:
        load.more()
        for pod in pods:
            stays = pod.connect("db")
            drain = subprocess.Popen([os.path.join(SCRIPTS, command[0])], env=dict(
                os.environ, PGBOUNCER_PID=str(pod.pid), DRAIN_DELAY="2", DRAIN_TIMEOUT="60"))
            load.more()
            service.drop(pod)  # the news takes a while; meanwhile connections come to the pod
            waiting.wait_for(lambda: "got SIGTERM" in pod.log(), "it is told to end")
            assert pod.metrics.get("/readyz")[0] == 503
            # a client that is there keeps full service, and the pod waits for it
            assert stays.value("select 1") == "1" and drain.poll() is None
            stays.close()
            assert pod.wait_exit() == 0 and drain.wait(waiting.DEADLINE) == 0
            for console in pod.consoles:
                console.close()
            del pod.consoles[:]
            pod.write("stderr", "")
            pod.start()
            waiting.wait_for(lambda: pod.metrics.get("/readyz")[0] == 200, "it is ready")
            service.add(pod)
            load.more()
    finally:
        load.end()


def test_a_new_config_map_is_taken_by_reload(pods):
    """As `kubectl exec POD -- pgbouncer --reload CONNINFO`: as the account of the pooler, without a password."""
    pod = pods[0]
    with open(pod.ini) as ini:
        text = ini.read()
    pod.write("pgbouncer.ini", text.replace("default_pool_size = 5", "default_pool_size = 6"))
    code, *said = pod.run("--reload", "host=%s port=%d user=pgbouncer" % (pod.dir, pod.port))
    assert code == 0, said
    assert pod.config()["default_pool_size"] == "6"

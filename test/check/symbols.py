"""What the object files define and use, as nm prints it."""
import functools
import os
import subprocess


def objects(options):
    """The object files of the sources that exist; older ones may lie beside them."""
    found = []
    for where, _, names in os.walk(options.objects):
        for name in names:
            path = os.path.join(where, name)
            source = os.path.relpath(path, options.objects)[:-2] + ".c"
            if name.endswith(".o") and os.path.exists(os.path.join(options.root, "src", source)):
                found.append(path)
    return sorted(found)


@functools.lru_cache(maxsize=None)
def symbols(nm, path):
    """Rows of (name, class letter, section) of one object file, which several checks look into."""
    done = subprocess.run([nm, "--format=sysv", path], stdout=subprocess.PIPE, check=True)
    rows = []
    for line in done.stdout.decode().splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) == 7 and cells[0] != "Name":
            rows.append((cells[0], cells[2], cells[6]))
    return rows

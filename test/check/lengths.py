"""Lists long files and functions, for a reader to look at; a long one is no failure."""
import tree

FILE_LINES = 700
FUNCTION_LINES = 80


def functions(lines):
    """(first line, length) of each function body of a file in the project's format."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            yield start, number - start
            start = None


def warnings(options):
    found = []
    for path in tree.files(options.root):
        if not (path.startswith(("src/", "include/")) and path.endswith((".c", ".h"))):
            continue
        lines = tree.text(options.root, path).splitlines()
        if len(lines) > FILE_LINES:
            found.append("%s: %d lines" % (path, len(lines)))
        if path.endswith(".c"):
            found += ["%s:%d: a function of %d lines" % (path, start, length)
                      for start, length in functions(lines) if length > FUNCTION_LINES]
    return found

"""Draws a picture as SVG from a text in doc/in/pictures.

A text has one thing a line; x, y, width and height count in units of %d pixels:
  picture WIDTH HEIGHT TITLE       the first line
  box NAME X Y WIDTH HEIGHT [KIND] [LABEL]    KIND: client, pool, server, group or gone
  arrow NAME NAME [dashed] [LABEL]            from the edge of one box to that of another
  text X Y LABEL                              | in a label begins a new line
"""
import html
import shlex

UNIT = 10
LINE = 15
__doc__ %= UNIT
KINDS = ("client", "pool", "server", "group", "gone")
STYLE = """
text { font: 12px sans-serif; fill: #222; text-anchor: middle; dominant-baseline: central; }
text.left, text.group { text-anchor: start; } text.group { font-weight: bold; }
rect { stroke: #555; fill: #fff; } line { stroke: #555; stroke-width: 1.5; } path { fill: #555; }
rect.client { fill: #dceafa; } rect.pool { fill: #fff1c9; } rect.server { fill: #dcf0dc; }
rect.group { fill: none; stroke-dasharray: 2 3; } rect.gone { fill: #f8dcdc; stroke-dasharray: 5 3; }
line.dashed { stroke-dasharray: 5 4; } rect.ground { fill: #fff; stroke: none; }
@media (prefers-color-scheme: dark) {
  rect.ground { fill: #181818; } text { fill: #ddd; } rect { stroke: #aaa; } line { stroke: #aaa; } path { fill: #aaa; }
  rect.client { fill: #1d3a5c; } rect.pool { fill: #544312; } rect.server { fill: #1e4a1e; } rect.gone { fill: #5a2323; }
}
"""


class Box:
    def __init__(self, x, y, width, height):
        self.x, self.y, self.width, self.height = x, y, width, height
        self.center = (x + width / 2, y + height / 2)

    def edge_towards(self, goal):
        """Where the line from the middle to the goal leaves the box."""
        dx, dy = goal[0] - self.center[0], goal[1] - self.center[1]
        part = min(self.width / 2 / abs(dx) if dx else 9e9, self.height / 2 / abs(dy) if dy else 9e9)
        return self.center[0] + dx * part, self.center[1] + dy * part


def label(x, y, text, kind=""):
    lines = text.split("|")
    top = y - (len(lines) - 1) * LINE / 2
    return "".join('<text%s x="%g" y="%g">%s</text>\n' % (
        ' class="%s"' % kind if kind else "", x, top + i * LINE, html.escape(line)) for i, line in enumerate(lines))


def box(boxes, name, *words):
    x, y, width, height = (float(word) * UNIT for word in words[:4])
    rest = list(words[4:])
    kind = rest.pop(0) if rest and rest[0] in KINDS else "pool"
    boxes[name] = Box(x, y, width, height)
    drawn = '<rect class="%s" x="%g" y="%g" width="%g" height="%g" rx="4"/>\n' % (kind, x, y, width, height)
    if not rest:
        return drawn
    if kind == "group":
        return drawn + label(x + 8, y + LINE * 0.8, rest[0], "group")
    return drawn + label(*boxes[name].center, rest[0])


def arrow(boxes, begin, end, *rest):
    start, goal = boxes[begin].edge_towards(boxes[end].center), boxes[end].edge_towards(boxes[begin].center)
    dashed = rest[:1] == ("dashed",)
    dx, dy = goal[0] - start[0], goal[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5
    ux, uy = dx / length, dy / length
    back = goal[0] - ux * 9, goal[1] - uy * 9
    drawn = '<line%s x1="%.4g" y1="%.4g" x2="%.4g" y2="%.4g"/>\n' % (' class="dashed"' if dashed else "", *start, *back)
    drawn += '<path d="M%.4g %.4g L%.4g %.4g L%.4g %.4g z"/>\n' % (
        *goal, back[0] - uy * 4, back[1] + ux * 4, back[0] + uy * 4, back[1] - ux * 4)
    for text in rest[dashed:]:
        drawn += label((start[0] + goal[0]) / 2, (start[1] + goal[1]) / 2 - 9, text)
    return drawn


def text_at(_, x, y, text):
    return label(float(x) * UNIT, float(y) * UNIT, text, "left")


THINGS = {"box": box, "arrow": arrow, "text": text_at}


def svg(text):
    """The picture that a text describes."""
    lines = [shlex.split(line) for line in text.splitlines() if line and not line.startswith("#")]
    _, width, height, title = lines[0]
    size = tuple(float(word) * UNIT for word in (width, height))
    boxes = {}
    drawn = "".join(THINGS[words[0]](boxes, *words[1:]) for words in lines[1:])
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">\n'
            '<title>%s</title>\n<style>%s</style>\n<rect class="ground" width="100%%" height="100%%"/>\n%s</svg>\n') % (
                *size, *size, html.escape(title), STYLE, drawn)

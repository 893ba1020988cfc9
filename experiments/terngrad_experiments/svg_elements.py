"""Elements of SVG drawings: text, paths in named colours, and the document with its style for light and dark ground.

Colours are CSS custom properties (--plot-ground, --plot-ink, --plot-0 and so on) which a page can set on svg.terngrad-plot;
renderers without them take the attributes. Text widths are estimated from above, for there are no font metrics here: what fits
by the estimate fits in the common fonts.
"""

import re
import zlib

# Okabe and Ito's palette for the colour-blind, without yellow, which is not seen on white, and with ink for black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1A1A1A")
LIGHT = {"ground": "#FFFFFF", "ink": "#1A1A1A", "grid": "#DDDDDD", "axis": "#777777"}
DARK = {"ground": "#14171A", "ink": "#ECECEC", "grid": "#34393F", "axis": "#8B9299", "0": "#3D9BD6", "6": "#ECECEC"}
SIZE = 12


def escape(text):
    """Text for XML content and attributes; characters that XML does not allow become U+FFFD, white space one blank."""
    text = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", " ".join(str(text).split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def number(value):
    """A coordinate in at most 2 decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def text_width(text, size=SIZE):
    """Pixels that text takes at most in a common sans-serif font; characters outside Latin script count a full em."""
    return size * sum(1.0 if c > "\u024f" else 0.36 if c in " iljtfI.,:;'|!()[]" else 0.95 if c in "mwMW%@" else
                      0.72 if c.isupper() else 0.63 for c in " ".join(str(text).split()))


def wrap(text, width, size=SIZE):
    """Lines of text no wider than width; words that are wider are cut."""
    lines = [""]
    for word in str(text).split():
        if lines[-1] and text_width(f"{lines[-1]} {word}", size) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
        while text_width(lines[-1], size) > width and len(lines[-1]) > 1:
            cut = next((n for n in range(len(lines[-1]), 1, -1) if text_width(lines[-1][:n], size) <= width), 1)
            lines[-1:] = [lines[-1][:cut], lines[-1][cut:]]
    return [line for line in lines if line]


def text_at(x, y, text, anchor="start", more=""):
    """One line of text whose base line starts, is centred or ends at x, by anchor; more: further attributes."""
    look = f'class="plot-fill-ink" fill="{LIGHT["ink"]}" text-anchor="{anchor}"'
    return f'<text {look} x="{number(x)}" y="{number(y)}"{more}>{escape(text)}</text>'


def path(d, *, stroke=None, fill=None, more=""):
    """A path whose stroke and fill are colours of series (by index), colours by name, or none."""
    look, classes = "", []
    for kind, color in (("stroke", stroke), ("fill", fill)):
        classes += [] if color is None else [f"plot-{kind}-{color}"]
        value = "none" if color is None else LIGHT[color] if color in LIGHT else COLORS[color]
        look += f' {kind}="{value}"' if kind == "fill" or color is not None else ""
    return f'<path class="{" ".join(classes)}"{look}{more} d="{d}"/>'


def clipped(parts, box):
    """Parts within the box only; the clip is named after what it clips, for pages have several drawings."""
    left, top, right, bottom = map(number, box)
    name = f"plot-clip-{zlib.crc32(''.join([left, top, right, bottom, *parts]).encode()):08x}"
    rect = f'<clipPath id="{name}"><path d="M{left} {top}H{right}V{bottom}H{left}Z"/></clipPath>'
    return [rect, f'<g clip-path="url(#{name})">', *parts, "</g>"]


def _stylesheet():
    def properties(colors):
        return "".join(f"--plot-{name}:{color};" for name, color in colors.items())

    light = LIGHT | {str(n): color for n, color in enumerate(COLORS)}
    rules = "".join(f".terngrad-plot .plot-{kind}-{name}{{{kind}:var(--plot-{name},{color})}}\n"
                    for name, color in light.items() for kind in ("stroke", "fill"))
    return (f"svg.terngrad-plot{{{properties(light)}max-width:100%;height:auto}}\n"
            f"@media screen and (prefers-color-scheme:dark){{svg.terngrad-plot{{{properties(DARK)}}}}}\n{rules}")


def document(width, height, title, description, parts):
    """The svg element around parts, on painted ground, for a reader's scheme need not be that of the page around."""
    width, height = number(width), number(height)
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" class="terngrad-plot" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="{SIZE}" role="img">',
            f"<title>{escape(title)}</title>", f"<desc>{escape(description)}</desc>", f"<style>\n{_stylesheet()}</style>",
            path(f"M0 0H{width}V{height}H0Z", fill="ground")]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"

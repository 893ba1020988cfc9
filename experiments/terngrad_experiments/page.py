"""Elements of HTML pages: the style for light, dark, narrow screens and print, tables and figures."""

import html
import re

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --row: #57606a0d;
        --link: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171a; --text: #e6e9ec; --soft: #9aa4ae; --line: #3a424a; --row: #9aa4ae12; --link: #79b8ff; }
}
body { background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 78rem;
       padding: 1.5rem; }
a { color: var(--link); } nav a { display: inline-block; margin-right: 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { border-bottom: 1px solid var(--line); margin-top: 3rem; padding-bottom: .3rem; }
.scroll, figure { overflow-x: auto; }
.scroll { background: linear-gradient(to left, var(--ground) 1rem, transparent) right / 2rem 100% no-repeat local,
                      linear-gradient(to left, var(--line), transparent) right / .7rem 100% no-repeat scroll; } /* there is more */
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: left; } th { vertical-align: bottom; }
td, td.broken span { white-space: nowrap; } td.broken { white-space: normal; }
tbody tr:nth-child(even) { background: var(--row); } .soft, tr.scaled td { color: var(--soft); }
figure { margin: .5rem 0; } .plots { display: flex; flex-wrap: wrap; gap: 0 1rem; }
.plots figure { flex: 1 1 32rem; min-width: 0; } /* two beside each other where there is room */
figure img { background: white; height: auto; max-width: 100%; min-width: 31rem; } figure.wide img { min-width: 56rem; }
details { margin: .5rem 0; } pre { background: var(--row); font-size: .8rem; overflow-x: auto; padding: .6rem; }
@media (max-width: 45rem) {
  body { padding: .75rem; } h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; } h3 { font-size: 1.05rem; }
  ul { padding-left: 1.2rem; }
  th:first-child, td:first-child { background: var(--ground); left: 0; min-width: 5.5rem; position: sticky; }
  td:first-child, td:first-child.broken span { white-space: normal; } /* broken at hyphens */
  tbody tr:nth-child(even) td:first-child { background: linear-gradient(var(--row), var(--row)), var(--ground); }
}
@media print {
  body { max-width: none; padding: 0; } .scroll, figure { overflow: visible; } figure img, figure.wide img { min-width: 0; }
  table { font-size: .65rem; } th, td { padding: .2rem .3rem; } td, td.broken span, pre { white-space: pre-wrap; }
  th:first-child, td:first-child { min-width: 0; position: static; } tr, figure { break-inside: avoid; }
}
"""
# Allowed line breaks in a cell: "-0.04 (-0.22..+0.14) p 0.438, Holm p 1.000" has two.
BREAKS = re.compile(r"(?<=[,;:)]) ")
SHORT = 24  # texts up to this number of characters are not broken


def escape(text):
    return html.escape(str(text))


def html_cell(text):
    pieces = BREAKS.split(str(text)) if len(str(text)) > SHORT else []
    if len(pieces) < 2:
        return f"<td>{escape(text)}</td>"
    return '<td class="broken">' + " ".join(f"<span>{escape(piece)}</span>" for piece in pieces) + "</td>"


def html_table(header, rows, classes=None):
    """Omits columns with "-" in every row. @param classes  CSS class of each row, "" for none"""
    rows = [list(row) for row in rows]
    shown = [column for column in range(len(header)) if not rows or any(row[column] != "-" for row in rows)]
    head = "".join(f"<th>{escape(header[column])}</th>" for column in shown)
    lines = []
    for index, row in enumerate(rows):
        mark = f' class="{classes[index]}"' if classes and classes[index] else ""
        lines.append(f"<tr{mark}>" + "".join(html_cell(row[column]) for column in shown) + "</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def html_list(lines):
    """Notes below a table; empty without notes."""
    return f'<ul class="soft">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>' if lines else ""


def html_figures(drawings, caption):
    """Drawings (plots.Drawing) side by side, with a caption that explains their marks."""
    note = f'<p class="soft">{escape(caption)}</p>' if caption else ""
    return f'<div class="plots">{"".join(drawing.html() for drawing in drawings)}</div>{note}'

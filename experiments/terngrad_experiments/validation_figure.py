"""Predicted over measured times of exchanges, and the section of the report that has them."""

from terngrad_experiments import page, svg, validation

# A codec has one colour and shape, whatever the exchange.
STYLES = {"fp32": 0, "bf16": 1, "t2": 2, "t5": 3}
MARKERS = {"all_gather": "hollow", "scatter_reduce": "filled"}


def _around_diagonal(low, high, error, name, is_line):
    """Predictions within +-error of what is measured from low to high."""
    band = [(x, (1 - error) * x, (1 + error) * x) for x in (low, high)]
    return svg.Series(name=name, points=[(low, low), (high, high)] if is_line else [], band=band, style=6)


def plot_of(rows):
    """Rows as points of two logarithmic axes, around the diagonal; @throws ValueError without rows"""
    times = [row[name] for row in rows for name in ("measured_seconds", "predicted_seconds")]
    low, high = 1e3 * min(times) / 1.2, 1e3 * max(times) * 1.2
    wide, narrow = (f"within {validation.whole(error)}" for error in (validation.MAX_ERROR, validation.TYPICAL_ERROR))
    series = [_around_diagonal(low, high, validation.MAX_ERROR, wide, False),
              _around_diagonal(low, high, validation.TYPICAL_ERROR, f"predicted as measured; {narrow}", True)]
    for exchange, marker in MARKERS.items():
        for codec, style in STYLES.items():
            points = [(1e3 * row["measured_seconds"], 1e3 * row["predicted_seconds"]) for row in rows
                      if (row["exchange"], row["codec"]) == (exchange, codec)]
            if points:
                series.append(svg.Series(name=f"{codec}, {exchange}", points=points, marker=marker, line=False, style=style))
    return svg.Plot(title="Exchanges: what the model predicts over what was measured", x_label="measured, ms",
                    y_label="predicted, ms", series=series, x_log=True, y_log=True, width=640, height=560)


def where_text(rows):
    """Machines and commits of rows."""
    machines = dict.fromkeys(f"{row['machine']['cores']} cores of {row['machine']['cpu']}" for row in rows)
    commits = dict.fromkeys(row["commit"] + ("-dirty" if row.get("dirty") else "") for row in rows)
    return f"{'; '.join(machines)}; commits {', '.join(commits)}."


def sections(results):
    """{name: HTML} of the record in the folder of recorded results, nothing without one.

    @throws StoreError for a record that cannot be read"""
    rows = validation.read(results / validation.RECORD)
    if not rows:
        return {}
    lines = "".join(f"<li>{page.escape(line)}</li>" for line in validation.summary_lines(rows))
    return {validation.KIND: f"""<h2 id="{validation.KIND}">{validation.KIND}: the exchange model beside what exchanges took</h2>
<p class="soft">scripts/bench/validate_model.py; hosts are network namespaces of one machine, whose processors they share.
{page.escape(where_text(rows))} Errors are predicted / measured - 1; parts are measured / predicted.</p>
<ul>{lines}</ul>{page.html_figures([svg.to_svg(plot_of(rows))], "")}
<details><summary>Each exchange</summary>{page.html_table(validation.HEADER, map(validation.cells_of, rows))}</details>
<details><summary>The links</summary>{page.html_table(validation.LINK_HEADER, validation.link_cells(rows))}</details>"""}

"""Pictures of a frontier: a PNG, and an HTML page in which every point says how it was made."""

from collections.abc import Sequence
from pathlib import Path

from tokenloom.evaluation.frontier import Record, curves, data_entropy
from tokenloom.evaluation.plots import INK, canvas, line_style
from tokenloom.support.extras import optional
from tokenloom.support.files import replacing

AXES = ("unigram entropy of a sample, nats", "generative perplexity")


def draw_png(records: Sequence[Record], path: Path) -> None:
    """Draw perplexity (logarithmic) against entropy; the data is the star, its entropy the vertical line."""
    with canvas(path, 1, 1, 7.6, 5.6) as (_, grid):
        axes = grid[0][0]
        for number, (family, members) in enumerate(curves(records).items()):
            x, y, x_error = ([record[key] for record in members] for key in ("entropy", "perplexity", "entropy_error"))
            y_error = [record["perplexity"] * record["nats_error"] for record in members]
            style = {"marker": "o", "markersize": 4, "linewidth": 1.5, "elinewidth": 0.8} | line_style(number)
            axes.errorbar(x, y, xerr=x_error, yerr=y_error, label=family, **style)
        axes.axvline(data_entropy(records), color=INK, linewidth=0.9, linestyle="--")
        marks = {"data": ("*", 11, "held-out data"), "shuffled data": ("x", 7, "data, shuffled")}
        for record in (record for record in records if record["source"] in marks):
            mark, size, label = marks[record["source"]]
            axes.plot(record["entropy"], record["perplexity"], mark, color=INK, markersize=size, label=label)
        axes.set(xlabel=AXES[0], ylabel=AXES[1], yscale="log", title=f"Judged by {records[0]['judge']}")
        plain = optional("matplotlib.ticker", "evaluate").StrMethodFormatter("{x:g}")
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_minor_formatter(plain)
        axes.tick_params(axis="y", which="minor", labelsize=7.5)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=8)


def draw_html(records: Sequence[Record], path: Path) -> None:
    """Draw the same with plotly; a point under the pointer shows its settings."""
    graph = optional("plotly.graph_objects", "evaluate")
    figure = graph.Figure()
    groups = {**curves(records), **{record["source"]: [record] for record in records if record["source"] != "model"}}
    hover = "%{text}<br>entropy %{x:.3f}<br>perplexity %{y:.2f}<extra></extra>"
    for family, members in groups.items():
        x, y = ([record[key] for record in members] for key in ("entropy", "perplexity"))
        about = [_about(record) for record in members]
        line = graph.Scatter(x=x, y=y, mode="lines+markers", name=family, text=about, hovertemplate=hover)
        figure.add_trace(line)
    figure.add_vline(x=data_entropy(records), line_dash="dash", line_width=1)
    figure.update_layout(template="plotly_white", xaxis_title=AXES[0], yaxis_title=AXES[1], yaxis_type="log")
    with replacing(path) as partial:
        figure.write_html(partial, include_plotlyjs=True)


def _about(record: Record) -> str:
    return (
        f"{record['family']}<br>temperature {record['temperature']:g}, top-p {record['top_p']:g} on {record['on']}, "
        f"seed {record['seed']}<br>{record['samples']} samples, {record['evaluations']:.0f} evaluations, "
        f"{record['seconds_per_sample']:.2f} s per sample"
    )

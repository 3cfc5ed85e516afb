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
            ordered = sorted(members, key=lambda record: record["entropy"])
            axes.errorbar(
                [record["entropy"] for record in ordered],
                [record["perplexity"] for record in ordered],
                xerr=[record["entropy_error"] for record in ordered],
                yerr=[record["perplexity"] * record["nats_error"] for record in ordered],
                label=family,
                **{"marker": "o", "markersize": 4, "linewidth": 1.5, "elinewidth": 0.8} | line_style(number),
            )
        for record in records:
            if record["source"] == "data":
                axes.axvline(record["entropy"], color=INK, linewidth=0.9, linestyle="--")
                axes.plot(record["entropy"], record["perplexity"], "*", color=INK, markersize=11, label="held-out data")
            elif record["source"] == "shuffled data":
                axes.plot(record["entropy"], record["perplexity"], "x", color=INK, markersize=7, label="data, shuffled")
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
    for family, members in groups.items():
        ordered = sorted(members, key=lambda record: record["entropy"])
        figure.add_trace(
            graph.Scatter(
                x=[record["entropy"] for record in ordered],
                y=[record["perplexity"] for record in ordered],
                mode="lines+markers",
                name=family,
                text=[_about(record) for record in ordered],
                hovertemplate="%{text}<br>entropy %{x:.3f}<br>perplexity %{y:.2f}<extra></extra>",
            )
        )
    entropy = data_entropy(records)
    if entropy is not None:
        figure.add_vline(x=entropy, line_dash="dash", line_width=1)
    figure.update_layout(template="plotly_white", xaxis_title=AXES[0], yaxis_title=AXES[1], yaxis_type="log")
    with replacing(path) as partial:
        figure.write_html(partial, include_plotlyjs=True)


def _about(record: Record) -> str:
    return (
        f"{record['family']}<br>temperature {record['temperature']:g}, top-p {record['top_p']:g} on {record['on']}, "
        f"seed {record['seed']}<br>{record['samples']} samples, {record['evaluations']:.0f} evaluations, "
        f"{record['seconds_per_sample']:.2f} s per sample"
    )

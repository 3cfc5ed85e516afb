// Three small charts over the steps: noise left, tokens changed, evaluations used.

import { h, replace, svg } from "./dom.js";

const WIDE = 200, HIGH = 50;
const CHARTS = [
  ["noise", (frame) => 1 - frame.alpha, (value) => `${Math.round(100 * value)}%`],
  ["changed", (frame) => frame.changed.length, (value) => String(value)],
  ["evaluations", (frame) => frame.evaluations, (value) => String(value)],
];

export function drawCharts(parent, lanes, index) {
  const last = Math.max(1, ...lanes.map((lane) => Math.max(lane.frames.length - 1, lane.frames.at(-1)?.count ?? 0)));
  replace(parent, ...CHARTS.map(([title, value, words]) => {
    const series = lanes.map((lane) => lane.frames.map(value));
    const top = Math.max(title === "noise" ? 1 : 1, ...series.flat());
    const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("line", { class: "base", x1: 0, x2: WIDE, y1: HIGH, y2: HIGH }));
    series.forEach((values, lane) => {
      const points = values.map((one, step) => `${((step / last) * WIDE).toFixed(1)} ${(HIGH - (one / top) * (HIGH - 2)).toFixed(1)}`);
      if (points.length) picture.append(svg("path", { class: `stroke-${lane}`, d: `M${points.join("L")}` }));
    });
    const x = (Math.min(index, last) / last) * WIDE;
    if (lanes.some((lane) => lane.frames.length)) picture.append(svg("line", { class: "cursor", x1: x, x2: x, y1: 0, y2: HIGH }));
    const now = lanes.map((lane) => lane.at(index)).filter(Boolean).map((frame) => words(value(frame))).join(" · ");
    return h("figure", {}, h("figcaption", {}, h("span", {}, title), h("b", {}, now || "–")), picture);
  }));
}

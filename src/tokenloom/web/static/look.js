// What the model thinks of one token at one step: denoiser and leave-one-out side by side, and the Gibbs conditional.

import { h, percent, replace, visible } from "./dom.js";

export const TITLES = {
  denoiser: ["Denoiser", "sees every token"],
  leave_one_out: ["Leave-one-out", "does not see this token"],
  conditional: ["Gibbs conditional", "of the noisy token itself"],
};

export function bars(rows, digits) {
  return h("ol", { className: "bars" }, rows.map((row) => {
    const bar = h("span", { className: "bar" });
    bar.style.width = `${(100 * row.p).toFixed(2)}%`;
    const text = digits ? row.p.toFixed(digits) : percent(row.p);
    const item = h("li", { className: row.kept === false ? "cut" : "" },
      h("span", { className: "piece", dir: "auto", title: visible(row.piece) }, visible(row.piece)),
      h("span", { className: "track" }, bar), h("output", {}, text));
    item.dataset.token = row.token;
    item.dataset.p = row.p;
    if (row.kept === false) item.title = "truncation would cut this token";
    return item;
  }));
}

export function law(name, found, digits) {
  const [title, about] = TITLES[name];
  const told = found.kept !== null && found.kept !== undefined && found.bars.some((row) => !row.kept) ? `keeps ${found.kept}` : about;
  const box = h("section", { className: `law ${name}` }, h("h3", {}, title), h("p", { className: "small" }, found.reason ? "" : told));
  box.append(found.reason ? h("p", { className: "small" }, found.reason) : bars(found.bars, digits));
  if (found.rest > 0.0005) box.append(h("p", { className: "small" }, `${percent(found.rest)} on other tokens`));
  return box;
}

export function drawLook(parent, state) {
  const title = h("h2", {}, "What the model thinks");
  if (!state) {
    replace(parent, title, h("p", { className: "small" }, "Press play, then point at a token or move to it with the arrow keys: its posteriors at the step shown appear here, the ten most probable tokens of each."));
    return;
  }
  if (state.view.kind === "pixels") for (const one of Object.values(state.laws)) one.bars?.forEach((row) => { row.piece = state.view.name(row.token); });
  replace(parent, title, h("p", { className: "small" }, state.where),
    h("div", { className: "pair" }, ...["denoiser", "leave_one_out", "conditional"].map((name) => law(name, state.laws[name]))));
}

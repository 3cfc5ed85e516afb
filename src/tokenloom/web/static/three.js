// Three posteriors of a table that fits on a page: the server computes them with the exact oracle.

import { newest } from "./api.js";
import { choice, field } from "./forms.js";
import { h, later, replace } from "./dom.js";
import { bars, law } from "./look.js";

const NAMES = ["a", "b", "c", "▁"];
const rows = (values) => values.map((p, token) => ({ token, piece: NAMES[token], p }));

export class ThreePosteriors {
  constructor(parent) {
    this.parent = parent;
    this.table = { weights: [6, 1, 1, 1, 6, 1, 1, 1, 6], alpha: 0.4, x_t: [0, 1], process: "uniform" };
    this.answer = h("div", { id: "answer" });
    this.exact = newest("table");
    this.ask = later(30, () => this.compute());
  }

  open() {
    if (this.parent.childElementCount) return;
    replace(this.parent,
      h("section", { className: "wide lead" }, h("h2", {}, "Three posteriors, exactly"),
        h("p", {}, "Two positions, three tokens a, b, c. You choose the data distribution p₀ and how much signal α is left in the noisy pair xₜ. Everything below is about the first position, and exact: the oracle sums over all nine sequences.")),
      this.controls(), this.answer);
    this.compute();
  }

  controls() {
    const weights = h("div", { className: "cells" }, h("span", { className: "small" }, "1st \\ 2nd"), ...NAMES.slice(0, 3).map((name) => h("b", { className: "small" }, name)));
    this.outputs = [];
    this.table.weights.forEach((weight, index) => {
      if (index % 3 === 0) weights.append(h("b", { className: "small" }, NAMES[index / 3]));
      const shown = h("output");
      const input = h("input", { type: "range", min: 0, max: 10, step: 0.5, value: weight, ariaLabel: `weight of ${NAMES[Math.floor(index / 3)]}${NAMES[index % 3]}` });
      input.addEventListener("input", () => { this.table.weights[index] = Number(input.value); this.ask(); });
      this.outputs.push(shown);
      weights.append(h("span", {}, input, shown));
    });
    const alpha = h("input", { type: "range", id: "alpha", min: 0.01, max: 0.99, step: 0.01, value: this.table.alpha });
    const level = h("output", {}, this.table.alpha.toFixed(2));
    alpha.addEventListener("input", () => { this.table.alpha = Number(alpha.value); level.textContent = this.table.alpha.toFixed(2); this.ask(); });
    this.tokens = h("div");
    this.drawTokens();
    const process = choice([["uniform", "uniform"], ["masked", "masked"], ["hybrid", "hybrid"]], this.table.process, () => {
      this.table.process = process.value;
      if (process.value === "uniform") this.table.x_t = this.table.x_t.map((token) => Math.min(token, 2));
      this.drawTokens();
      this.ask();
    });
    process.id = "three-process";
    return h("section", { className: "card" }, h("h2", {}, "The data p₀"), h("p", { className: "small" }, "weights of the nine pairs, and their probability"), weights,
      h("fieldset", {}, h("legend", { className: "serif" }, "The noisy pair"), field("process", process), field("signal α", h("span", { className: "with-value" }, alpha, level)), this.tokens));
  }

  drawTokens() {
    const states = this.table.process === "uniform" ? 3 : 4;
    replace(this.tokens, ...[0, 1].map((place) => {
      const select = choice(NAMES.slice(0, states).map((name, token) => [String(token), name === "▁" ? "▁ (mask)" : name]), String(this.table.x_t[place]), () => {
        this.table.x_t[place] = Number(select.value);
        this.ask();
      });
      select.id = `x_t-${place}`;
      return field(`xₜ at ${place + 1}`, select);
    }));
  }

  async compute() {
    let found;
    try {
      found = await this.exact(this.table);
    } catch (error) {
      replace(this.answer, h("p", { className: "sentence", role: "alert" }, error.message));
      return;
    }
    if (!found) return;
    found.p_0.flat().forEach((p, index) => { this.outputs[index].textContent = p.toFixed(3); });
    const step = (name, title, about) => h("section", { className: `law ${name === "mistaken" ? "conditional" : name === "average" ? "denoiser" : "leave_one_out"}` },
      h("h3", {}, h("span", {}, title)), h("p", { className: "small" }, about), bars(rows(found.step[name]), 4));
    const same = found.difference < 1e-12;
    replace(this.answer,
      h("section", { className: "card" }, h("h2", {}, "What can be said of the first position"),
        h("div", { className: "laws" }, ...["denoiser", "leave_one_out", "conditional"].map((name) => {
          const box = law(name, { bars: rows(found[name]), rest: 0 }, 4);
          box.append(h("p", { className: "formula" }, { denoiser: "μ = p(x₀ | xₜ)", leave_one_out: "ν = p(x₀ | xₜ elsewhere)", conditional: "α ν + (1 − α) π" }[name]));
          return box;
        })),
        h("p", { className: "small" }, "The denoiser also weighs the token that stands there: it is the leave-one-out posterior times the evidence of that token. The Gibbs conditional is what a corrector redraws the noisy token from.")),
      h("section", { className: "card", id: "steps-of" }, h("h2", {}, "What a step half-way to the data is made of"),
        h("div", { className: "steps-of" }, step("average", "Average over μ", "the bridge to each clean token, weighted by the denoiser"),
          step("plugged", "Plug in ν", "the bridge with the leave-one-out posterior in the place of x₀"), step("mistaken", "Plug in μ", "the same, with the denoiser mistaken for it")),
        h("p", { className: "equal" }, same ? `The plug-in of the leave-one-out posterior is the average over the denoiser: they differ by ${found.difference.toExponential(1)}. ` : "",
          found.mistake > 1e-9 ? `Plugging in the denoiser instead is off by ${found.mistake.toFixed(3)} in total variation: the token that stands there is counted twice.` : "Here the token that stands there is no evidence, so even the mistake changes nothing.")));
  }
}

// The settings of one sampler: fields come from the registries of the server, so a new kernel appears by itself.

import { h, replace } from "./dom.js";

const USUAL = { sampler: "ancestral", corrector: "none", steps: 32, temperature: 1, top_p: 1, top_k: null, on: "loo", grid: "auto" };
let count = 0;

export function field(title, control, help) {
  control.id ||= `field-${(count += 1)}`;
  const inner = control.querySelector ? control.querySelector("input, select") : null;
  const target = control.matches("input, select, textarea") ? control : inner;
  target.id ||= `field-${(count += 1)}`;
  return h("div", { className: "field", title: help || "" }, h("label", { htmlFor: target.id }, title), control);
}

export function choice(options, value, onchange) {
  const made = h("select", { onchange });
  for (const [key, title] of options) made.append(h("option", { value: key }, title));
  made.value = value;
  return made;
}

function slider(min, max, step, value, oninput) {
  const shown = h("output", {}, String(value));
  const range = h("input", { type: "range", min, max, step, value });
  range.addEventListener("input", () => { shown.textContent = range.value; oninput(); });
  return h("span", { className: "with-value" }, range, shown);
}

export class SamplerForm {
  constructor(title, onchange) {
    this.title = title;
    this.onchange = onchange;
    this.values = { ...USUAL };
    this.element = h("fieldset");
  }

  // Keeps what still exists under another process, and forgets the rest.
  describe(model) {
    this.model = model;
    const known = (list, text) => list.some((kernel) => kernel.name === text.split(":")[0]);
    if (!known(model.samplers, this.values.sampler)) this.values.sampler = model.samplers[0]?.name ?? "ancestral";
    if (!known(model.correctors, this.values.corrector)) this.values.corrector = "none";
    this.values.steps = Math.min(this.values.steps, model.limits.steps);
    this.draw();
  }

  change(values) {
    Object.assign(this.values, values);
    this.onchange();
  }

  draw() {
    const { model, values } = this;
    const truncation = [
      field("temperature", slider(0.1, 2, 0.05, values.temperature, () => this.read()), "Below 1 sharper, above 1 flatter."),
      field("top-p", slider(0.05, 1, 0.05, values.top_p, () => this.read()), "Keep the most probable tokens up to this mass."),
      field("top-k", h("input", { type: "number", min: 1, placeholder: "all", value: values.top_k ?? "", oninput: () => this.read() })),
      field("acts on", choice([["loo", "leave-one-out"], ["denoiser", "denoiser"]], values.on, () => this.read()), "The posterior that temperature, top-p and top-k act on."),
    ];
    const steps = field("steps", h("input", { type: "number", min: 1, max: model.limits.steps, value: values.steps, oninput: () => this.read() }), "Network evaluations per sequence, the corrector's included.");
    const grid = field("grid", choice(["auto", "uniform", "cosine", "power:1.5", "power:2", "information"].map(name => [name, name]), values.grid, () => this.read()), "How the times are spaced.");
    this.fields = { temperature: truncation[0], top_p: truncation[1], top_k: truncation[2], on: truncation[3], steps, grid };
    replace(this.element, h("legend", { className: "serif" }, this.title),
      this.kernel("sampler", model.samplers, []), steps,
      this.kernel("corrector", model.correctors, [["none", "none"]]), truncation, grid);
  }

  kernel(role, kernels, first) {
    const [name, options] = split(this.values[role]);
    const box = h("div");
    const select = choice([...first, ...kernels.map((kernel) => [kernel.name, kernel.name])], name, () => {
      this.change({ [role]: select.value });
      box.replaceWith(this.kernel(role, kernels, first));
    });
    select.dataset.role = role;
    box.append(field(role, select));
    const kernel = kernels.find((one) => one.name === name);
    if (!kernel) return box;
    box.append(h("p", { className: "small about" }, kernel.about, " ", h("span", { className: "badge" }, kernel.exact ? "exact in the limit" : "heuristic")));
    if (kernel.options.length) {
      const nested = h("div", { className: "nested" });
      const write = () => {
        const parts = kernel.options.map((option) => written(option, nested.querySelector(`[data-option="${option.name}"]`))).filter(Boolean);
        this.change({ [role]: parts.length ? `${name}:${parts.join(",")}` : name });
      };
      for (const option of kernel.options) nested.append(field(option.name.replace(/_/g, " "), control(option, options[option.name], write), option.help));
      box.append(nested);
    }
    return box;
  }

  read() {
    const input = (name) => this.fields[name].querySelector("input, select");
    const number = (name) => (input(name).value === "" ? null : Number(input(name).value));
    this.change({
      temperature: number("temperature"), top_p: number("top_p"), top_k: number("top_k"), on: input("on").value,
      steps: number("steps") ?? 1, grid: input("grid").value,
    });
  }
}

export const usual = () => ({ ...USUAL });

function split(text) {
  const [name, options = ""] = text.split(/:(.*)/s);
  return [name, Object.fromEntries(options.split(",").filter(Boolean).map((part) => part.split(/=(.*)/s).slice(0, 2)))];
}

function control(option, given, onchange) {
  const value = given ?? (option.default === null ? "" : String(option.default));
  const data = { "data-option": option.name };
  if (option.kind === "choice") {
    const made = choice(option.choices.map((one) => [one, one]), value, onchange);
    made.dataset.option = option.name;
    return made;
  }
  if (option.kind === "flag") return h("input", { type: "checkbox", checked: value === "true", onchange, ...data });
  const type = option.kind === "text" ? "text" : "number";
  return h("input", { type, step: option.kind === "whole" ? 1 : "any", value, oninput: onchange, ...data });
}

function written(option, input) {
  const value = option.kind === "flag" ? String(input.checked) : input.value;
  return value === "" || value === String(option.default) ? null : `${option.name}=${value}`;
}

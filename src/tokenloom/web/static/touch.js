// What one can do to the tokens: hold, type over, redraw a range, continue from a step, load a puzzle.

import { ask } from "./api.js";
import { h, replace, visible } from "./dom.js";
import { choice } from "./forms.js";

const LEVELS = { 9: ["easy", "medium", "hard"] };

export function drawTouch(parent, app) {
  const button = (id, title, onclick, help) => h("button", { type: "button", id, title: help, onclick }, title);
  app.buttons = {
    hold: button("hold", "Hold", () => app.hold(), "Keep this token from now on (Enter, or a second click)"),
    free: button("free", "Free", () => app.free(), "Let the model draw it (Backspace)"),
    redraw: button("redraw", "Redraw selection", () => app.redraw(), "Hold everything else and draw the selected tokens again"),
    onward: button("continue", "Continue from this step", () => app.start({ onward: true }), "Draw the rest again from the step shown, with the settings as they are now"),
    all: button("free-all", "Free all", () => app.setHeld([]), "Hold nothing"),
  };
  app.selectionText = h("span", { className: "small grow", id: "selection" });
  const kinds = { sudoku: sudokuRow, text: textRow, pixels: numberRow, numbers: numberRow };
  replace(parent,
    h("div", { className: "row" }, h("h2", {}, "Touch"), ...Object.values(app.buttons)),
    kinds[app.model.view.kind](app),
    h("div", { className: "row" }, app.selectionText, colours(app)));
}

function colours(app) {
  const select = choice([["age", "last change"], ["doubt", "doubt"]], app.colour, () => app.setColour(select.value));
  select.id = "colour";
  const ends = app.colour === "age" ? ["early", "just now"] : ["certain", "in doubt"];
  const ramp = h("span", { className: "ramp" }, ...[0, 1, 2, 3, 4, 5].map((age) => h("i", { className: `age-${age}` })));
  return h("label", { className: "legend" }, "colour", select, h("span", {}, ends[0]), ramp, h("span", {}, ends[1]));
}

function sudokuRow(app) {
  const { side } = app.model.view;
  const keypad = h("div", { className: "keypad", role: "group", ariaLabel: "Digits" });
  for (let digit = 1; digit <= side; digit += 1) keypad.append(h("button", { type: "button", onclick: () => app.typeTokens([digit - 1]) }, String(digit)));
  const paste = h("input", { id: "puzzle", className: "grow", placeholder: `paste ${side * side} characters, . for a blank`, ariaLabel: "A puzzle to paste", maxLength: 400 });
  paste.addEventListener("input", () => { if (paste.value.replace(/\s/g, "").length >= side * side) app.encode(paste.value, 0, true); });
  const level = choice((LEVELS[side] ?? ["easy"]).map((one) => [one, one]), "easy", () => {});
  level.id = "level";
  level.ariaLabel = "Difficulty of the example";
  const load = h("button", { type: "button", id: "load", onclick: () => app.example(level.value) }, "Load example");
  return h("div", {}, h("div", { className: "row" }, keypad), h("div", { className: "row" }, paste, level, load));
}

function textRow(app) {
  const prompt = h("input", { id: "prompt", className: "grow", placeholder: "a text to begin with, _ for a blank", ariaLabel: "Prompt" });
  const use = () => app.encode(prompt.value, 0, true);
  prompt.addEventListener("keydown", (event) => { if (event.key === "Enter") use(); });
  const over = h("input", { id: "over", className: "grow", placeholder: "type over the selection, Enter", ariaLabel: "Type over the selected tokens" });
  over.addEventListener("keydown", (event) => { if (event.key === "Enter") { app.encode(over.value, app.first(), false); over.value = ""; } });
  return h("div", { className: "row" }, prompt, h("button", { type: "button", id: "use-prompt", onclick: use }, "Hold this text"), over);
}

function numberRow(app) {
  const number = h("input", { id: "over", type: "number", min: 0, max: app.model.vocab - 1, ariaLabel: "Token for the selection", placeholder: `0..${app.model.vocab - 1}` });
  return h("div", { className: "row" }, number, h("button", { type: "button", onclick: () => { if (number.value !== "") app.typeTokens([Number(number.value)]); } }, "Set selection"));
}

export function describeSelection(app) {
  const frame = app.lanes[0].at(app.index), { from, to } = app.selection ?? {};
  const chosen = app.selection !== null, count = chosen ? Math.abs(to - from) + 1 : 0;
  const { hold, free, redraw, onward, all } = app.buttons;
  const tokens = app.shownTokens(app.lanes[0]);
  const position = chosen ? Math.min(from, to) : 0;
  hold.disabled = !chosen || tokens[position] === null;
  free.disabled = !chosen || ![...app.range()].some((one) => app.held.has(one));
  redraw.disabled = !chosen || !frame || app.model.causal;
  onward.disabled = !frame || frame.t === 0 || app.running || app.model.causal;
  all.disabled = app.held.size === 0;
  const piece = tokens[position] === null ? "blank" : visible(app.views[0].name(tokens[position]));
  app.selectionText.textContent = !chosen ? "Click a token to select it, click again to hold it; drag or Shift selects a range."
    : count > 1 ? `${count} tokens selected` : `${app.views[0].place(position)}: ${piece}${app.held.has(position) ? ", held" : ""}`;
}

export async function loadExample(side, level) {
  return ask("puzzle", { side, level, seed: Math.floor(Math.random() * 1e6) });
}

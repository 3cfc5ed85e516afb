// The playground: settings, lanes, the step that is shown, and what is held.

import { ask, models, newest } from "./api.js";
import { drawAway } from "./away.js";
import { drawCharts } from "./charts.js";
import { byId, h, later, replace } from "./dom.js";
import { choice, field, SamplerForm } from "./forms.js";
import { Holding } from "./holding.js";
import { Lane } from "./lanes.js";
import { readLink, writeLink } from "./link.js";
import { drawLook } from "./look.js";
import { ThreePosteriors } from "./three.js";
import { describeSelection, drawTouch } from "./touch.js";
import { ageClasses, doubtClasses, TokenView, violations } from "./views.js";

const TRIES = 8;

class App extends Holding {
  constructor() {
    super();
    Object.assign(this, { held: new Map(), selection: null, pointed: null, colour: "age", index: 0, playing: false, compare: false, seed: 1, length: null, found: null, looking: false });
    this.lanes = [new Lane("A"), new Lane("B")];
    const changed = () => { this.writeLink(); this.look(); };
    this.forms = [new SamplerForm("Sampler", changed), new SamplerForm("Second sampler", changed)];
    this.writeLink = later(200, () => writeLink(this));
    this.look = later(70, () => this.askLook());
    this.describe = newest("describe");
  }

  async open() {
    const { version, models: names } = await models();
    this.version = version;
    this.names = names;
    byId("version").textContent = `tokenloom ${version}`;
    const link = readLink(names);
    this.compare = link.compare;
    this.seed = link.seed ?? this.seed;
    this.forms.forEach((form, index) => Object.assign(form.values, link.settings[index]));
    await this.choose(link.model ?? names[0], link.process, link.length);
    this.listen();
    requestAnimationFrame((now) => this.tick(now));
    document.body.dataset.ready = "true";
  }

  async choose(name, process = null, length = null) {
    let model;
    try {
      model = await this.describe({ model: name, process });
    } catch (error) {
      this.say(error.message);
      if (this.model) this.drawWhich(); // what is chosen is still the model before
      if (!this.model && (process || name !== this.names[0])) await this.choose(process ? name : this.names[0]); // of a link
      return;
    }
    if (!model) return; // another was chosen meanwhile
    const same = this.model?.name === name;
    this.model = model;
    const wanted = length ?? (same ? this.length : 256);
    this.length = model.fixed ? model.length : Math.max(1, Math.min(model.length, wanted));
    this.lanes.forEach((lane) => lane.clear());
    this.index = 0;
    this.playing = false;
    if (!same) Object.assign(this, { held: new Map(), selection: null });
    this.forms.forEach((form) => form.describe(model));
    this.drawWhich();
    this.layout();
    if (!same && model.view.kind === "sudoku") await this.example("easy");
    this.writeLink();
  }

  drawWhich() {
    const { model } = this;
    const name = choice(this.names.map((one) => [one, one]), model.name, () => this.choose(name.value));
    name.id = "model";
    const process = choice(model.processes.map((one) => [one, one]), model.process, () => this.choose(model.name, process.value));
    process.id = "process";
    const seed = h("input", { type: "number", id: "seed", min: 0, value: this.seed, oninput: () => { this.seed = Math.max(0, Math.floor(Number(seed.value) || 0)); this.writeLink(); } });
    const dice = h("button", { type: "button", ariaLabel: "Another seed", title: "Another seed", onclick: () => { this.seed = Math.floor(Math.random() * 1e6); seed.value = this.seed; this.writeLink(); } }, "↻");
    const length = h("input", { type: "number", id: "length", min: 1, max: model.length, value: this.length, onchange: () => { this.choose(model.name, model.process, Math.max(1, Math.min(model.length, Number(length.value) || model.length))); } });
    const compare = h("input", { type: "checkbox", id: "compare", checked: this.compare, onchange: () => { this.compare = compare.checked; this.layout(); this.writeLink(); } });
    const about = [model.data, `${model.parameters.toLocaleString("en")} parameters`, `predicts ${model.predicts === "LeaveOneOut" ? "the leave-one-out posterior" : model.predicts.toLowerCase()}`];
    const named = h("div", { className: "field stacked" }, name);
    name.ariaLabel = "Model";
    replace(byId("which"), h("h2", {}, "Model"), named, h("p", { className: "small about" }, about.filter(Boolean).join(" · ")),
      model.processes.length > 1 ? field("noise", process, "The process that the network is used under") : null,
      model.fixed ? null : field("length", length),
      field("seed", h("span", { className: "with-button" }, seed, dice)),
      h("label", {}, compare, "two samplers side by side"));
  }

  layout() {
    const lanes = this.compare ? this.lanes : this.lanes.slice(0, 1);
    if (!this.compare) this.lanes[1].clear();
    const on = {
      select: (from, to) => this.select(from, to), point: (position) => { this.pointed = position; this.look(); }, hold: () => this.hold(), free: () => this.free(),
      click: (position, shift, dragged, key) => this.click(position, shift, dragged, key), type: (text) => this.type(text),
    };
    this.views = lanes.map(() => new TokenView(this.model, this.length, on));
    this.cards = lanes.map((lane, index) => {
      const title = h("h2", { className: this.compare ? `lane-${index}` : "" }), cost = h("span", { className: "small" }), result = h("p", { className: "result small" });
      const element = h("article", { className: "lane card" }, h("header", {}, title, cost), this.views[index].element, result);
      element.dataset.lane = lane.name;
      return { element, title, cost, result };
    });
    const place = byId("lanes");
    place.classList.toggle("two", this.compare);
    replace(place, ...this.cards.map((card) => card.element));
    replace(byId("forms"), ...this.forms.slice(0, lanes.length).map((form) => form.element));
    byId("solve").hidden = this.model.view.kind !== "sudoku";
    drawTouch(byId("touch"), this);
    this.found = null;
    drawLook(byId("look"), null);
    this.show();
  }

  // ------------------------------------------------------------------ what is drawn

  get active() { return this.compare ? this.lanes : this.lanes.slice(0, 1); }
  get running() { return this.active.some((lane) => lane.running); }
  get last() { return Math.max(0, ...this.active.map((lane) => lane.frames.length - 1)); }

  request(index, extra) {
    return { model: this.model.name, process: this.model.process, sampling: { ...this.forms[index].values }, seed: this.seed, length: this.length, held: [...this.held], ...extra };
  }

  async start({ onward = false, tries = 0 } = {}) {
    const pressed = performance.now(), from = this.index;
    this.say("");
    this.playing = true;
    if (!onward) this.index = 0;
    const done = await Promise.all(this.active.map((lane, index) => {
      const frame = onward ? lane.at(from) : null;
      const begin = frame ? { tokens: frame.tokens, t: frame.t, aux: frame.aux } : null;
      const card = this.cards[index].element;
      card.dataset.state = "running";
      const keep = frame ? Math.min(from, lane.frames.length - 1) + 1 : 0;
      return lane.draw(this.request(index, { begin, tries }), keep, (line) => this.hear(line, lane, card, pressed)).then((refused) => {
        card.dataset.state = refused ? "refused" : lane.ended ? "done" : "stopped";
        return refused;
      });
    }));
    const refused = done.find(Boolean);
    if (refused) this.say(refused);
    this.show();
  }

  hear(line, lane, card, pressed) {
    if (line.kind === "waiting") this.say(`waiting for ${line.before} before you`, true);
    if (line.kind === "start") this.say(line.note ?? "", true);
    if (line.pieces) Object.assign(this.model.pieces, line.pieces);
    if (line.kind === "frame" && lane.frames.length === 1) {
      this.show();
      card.dataset.first = Math.round(performance.now() - pressed);
    }
    if (line.kind === "end") drawAway(byId("away"), this);
  }

  stop() {
    this.lanes.forEach((lane) => lane.stop());
    this.playing = false;
    this.index = this.last;
    this.show();
  }

  tick(now) {
    const speed = Number(byId("speed").value);
    if (this.playing && now - (this.ticked ?? 0) >= 1000 / speed - 4) {
      this.ticked = now;
      if (this.index < this.last) this.go(speed >= 1000 ? this.last : this.index + 1, true);
      else if (!this.running) { this.playing = false; this.show(); }
    }
    requestAnimationFrame((next) => this.tick(next));
  }

  go(index, playing = false) {
    this.index = Math.max(0, Math.min(index, this.last));
    this.playing = playing;
    this.painted = (this.painted ?? 0) + 1;
    this.show();
  }

  // ------------------------------------------------------------------ what is shown

  shownTokens(lane) {
    const frame = lane.at(this.index);
    const tokens = frame ? frame.tokens.slice() : new Array(this.length).fill(null);
    for (const [position, token] of this.held) tokens[position] = token;
    return tokens;
  }

  show() {
    const [low, high] = this.bounds();
    this.active.forEach((lane, index) => {
      const frame = lane.at(this.index), tokens = this.shownTokens(lane), settled = !frame || frame.t === 0;
      const step = Math.min(this.index, Math.max(0, lane.frames.length - 1));
      const colours = !frame ? tokens.map(() => null) : this.colour === "age" ? ageClasses(frame, step, this.held, this.model.masks) : doubtClasses(frame, this.held);
      const wrong = violations(settled ? tokens : tokens.map((token, position) => (this.held.has(position) ? token : null)), this.model.view);
      this.views[index].show({ tokens, colours, held: this.held, settled, wrong, selected: (position) => position >= low && position <= high });
      this.tell(lane, this.cards[index], frame, tokens, wrong, settled);
    });
    const slider = byId("slider");
    slider.max = this.last;
    slider.value = this.index;
    byId("where").textContent = this.active[0].frames.length ? `step ${this.index} of ${this.last}` : "not drawn yet";
    byId("go").textContent = this.running || this.playing ? "Stop" : "Play";
    document.body.dataset.step = this.index;
    drawCharts(byId("charts"), this.active, this.index);
    describeSelection(this);
    if (!this.playing) { this.look(); drawAway(byId("away"), this); }
  }

  tell(lane, card, frame, tokens, wrong, settled) {
    const { values } = this.forms[this.lanes.indexOf(lane)];
    const used = lane.request?.sampling ?? values;
    card.title.textContent = used.sampler + (used.corrector === "none" ? "" : ` + ${used.corrector}`);
    card.cost.textContent = lane.ended && settled ? `${lane.ended.evaluations} evaluations, ${lane.ended.seconds.toFixed(2)} s` : frame ? `t = ${frame.t.toFixed(3)}` : `${this.model.process} noise`;
    const sudoku = this.model.view.kind === "sudoku", blanks = tokens.filter((token) => token === null || this.model.masks.includes(token)).length;
    card.result.textContent = sudoku && wrong.size ? `${wrong.size} cells break a rule` : sudoku && frame && settled && !blanks ? `✓ every row, column and box holds every digit${lane.ended?.tries > 1 ? `, at try ${lane.ended.tries}` : ""}`
      : sudoku && !frame ? `${this.held.size} givens` : frame?.try > 1 ? `try ${frame.try}` : "";
    card.element.dataset.tokens = JSON.stringify(tokens);
  }

  async askLook() {
    const lane = this.lanes[0], frame = lane.at(this.index), position = this.pointed ?? this.selection?.to ?? null;
    if (!frame || this.model.causal || (position === null && this.colour === "age")) return;
    if (this.looking) { this.again = true; return; }
    this.looking = true;
    const { temperature, top_p, top_k, on } = this.forms[0].values;
    const state = { tokens: frame.tokens, t: frame.t, aux: frame.aux, marked: lane.marked };
    try {
      const found = await ask("look", { model: this.model.name, process: this.model.process, state, position, sampling: { ...lane.request.sampling, temperature, top_p, top_k, on } });
      frame.doubt = found.doubt;
      if (found.laws) drawLook(byId("look"), { laws: found.laws, view: this.views[0], where: `${this.views[0].place(position)}, step ${this.index}, t = ${frame.t.toFixed(3)}, α = ${frame.alpha.toFixed(3)}` });
      byId("look").dataset.shown = `${position}@${lane.frames.indexOf(frame)}`;
      if (this.colour === "doubt" && frame === lane.at(this.index) && !this.playing) this.paint(frame);
    } catch (error) {
      this.say(error.message);
    }
    this.looking = false;
    if (this.again) { this.again = false; this.look(); }
  }

  paint(frame) {
    doubtClasses(frame, this.held).forEach((colour, position) => {
      const element = this.views[0].tokens[position];
      element.className = element.className.replace(/ age-\d/, "") + (colour === null ? "" : ` age-${colour}`);
    });
  }

  say(sentence, note = false) {
    const place = byId("sentence");
    place.hidden = !sentence;
    place.textContent = sentence;
    place.classList.toggle("note", note);
  }

  listen() {
    byId("go").addEventListener("click", () => (this.running || this.playing ? this.stop() : this.start()));
    byId("solve").addEventListener("click", () => this.start({ tries: TRIES }));
    byId("back").addEventListener("click", () => this.go(this.index - 1));
    byId("forth").addEventListener("click", () => this.go(this.index + 1));
    byId("slider").addEventListener("input", (event) => this.go(Number(event.target.value)));
    addEventListener("pagehide", () => this.lanes.forEach((lane) => lane.stop()));
  }

  setColour(colour) {
    this.colour = colour;
    drawTouch(byId("touch"), this);
    this.show();
  }
}

function pages() {
  const three = new ThreePosteriors(byId("three"));
  const open = (name) => {
    byId("play").hidden = name !== "play";
    byId("three").hidden = name !== "three";
    for (const page of ["play", "three"]) page === name ? byId(`to-${page}`).setAttribute("aria-current", "page") : byId(`to-${page}`).removeAttribute("aria-current");
    if (name === "three") three.open();
  };
  byId("to-play").addEventListener("click", () => open("play"));
  byId("to-three").addEventListener("click", () => open("three"));
  const theme = byId("theme"), dark = () => document.documentElement.dataset.theme === "dark";
  theme.ariaPressed = dark();
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    theme.ariaPressed = dark();
    try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* a private window */ }
  });
}

pages();
new App().open().catch((error) => {
  byId("sentence").hidden = false;
  byId("sentence").textContent = `the playground could not start: ${error.message}`;
});

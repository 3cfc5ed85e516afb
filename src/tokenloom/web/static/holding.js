// What is selected and what is held, whatever draws it.

import { ask } from "./api.js";
import { loadExample } from "./touch.js";

export class Holding {
  bounds() { return this.selection ? [Math.min(this.selection.from, this.selection.to), Math.max(this.selection.from, this.selection.to)] : [-1, -1]; }
  first() { return Math.max(0, this.bounds()[0]); }
  range() { const [low, high] = this.bounds(); return low < 0 ? [] : Array.from({ length: high - low + 1 }, (_, index) => low + index); }

  select(from, to) {
    this.selection = { from, to };
    this.pointed = to;
    this.show();
  }

  click(position, shift, dragged, key) {
    const alone = this.selection && this.selection.from === position && this.selection.to === position;
    if (dragged) return;
    if (shift && this.selection) this.select(this.selection.from, position);
    else if (alone && !key) this.held.has(position) ? this.free() : this.hold();
    else this.select(position, position);
  }

  setHeld(entries) {
    this.held = new Map(entries);
    if (!this.running) this.lanes.forEach((lane) => { if (!entries.length) lane.clear(); });
    this.show();
  }

  hold() {
    const tokens = this.shownTokens(this.lanes[0]);
    for (const position of this.range()) if (tokens[position] !== null && !this.model.masks.includes(tokens[position])) this.held.set(position, tokens[position]);
    this.show();
  }

  free() {
    for (const position of this.range()) this.held.delete(position);
    this.show();
  }

  typeTokens(tokens) {
    const places = tokens.length === 1 ? this.range() : tokens.map((_, index) => this.first() + index);
    places.forEach((position, index) => { if (position < this.length) this.held.set(position, tokens[Math.min(index, tokens.length - 1)]); });
    this.show();
  }

  type(text) {
    if (this.model.view.kind === "sudoku") {
      const digit = Number(text);
      if (digit >= 1 && digit <= this.model.view.side) this.typeTokens([digit - 1]);
    } else if (this.model.view.kind === "text") this.encode(text, this.first(), false);
  }

  async encode(text, first, fresh) {
    try {
      const { tokens, pieces } = await ask("encode", { model: this.model.name, process: this.model.process, text });
      Object.assign(this.model.pieces, pieces);
      const entries = tokens.map((token, index) => [first + index, token]).filter(([position, token]) => token !== null && position < this.length);
      this.say("");
      if (fresh) { this.lanes.forEach((lane) => lane.clear()); this.index = 0; this.held = new Map(entries); }
      else for (const [position, token] of entries) this.held.set(position, token);
      this.show();
    } catch (error) {
      this.say(error.message);
    }
  }

  async example(level) {
    try {
      const { cells } = await loadExample(this.model.view.side, level);
      this.lanes.forEach((lane) => lane.clear());
      this.index = 0;
      this.held = new Map(cells.map((cell, position) => [position, cell]).filter(([, cell]) => cell !== null));
      this.show();
    } catch (error) {
      this.say(error.message);
    }
  }

  redraw() {
    const tokens = this.shownTokens(this.lanes[0]), chosen = new Set(this.range());
    this.held = new Map(tokens.map((token, position) => [position, token]).filter(([position, token]) => !chosen.has(position) && token !== null && !this.model.masks.includes(token)));
    this.start();
  }
}

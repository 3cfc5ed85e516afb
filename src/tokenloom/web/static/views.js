// Tokens on the page: a Sudoku, a text, a picture or numbers.  Elements are made once and changed where they differ.

import { h, visible } from "./dom.js";

export const AGES = 6;
const AGE_LIMITS = [0.08, 0.22, 0.42, 0.66]; // shares of the steps so far

export class TokenView {
  constructor(model, length, on) {
    this.model = model;
    this.kind = model.view.kind;
    this.length = length;
    this.on = on;
    this.element = h("div", { className: this.kind, role: "group", dir: "auto" });
    this.element.setAttribute("aria-label", `${length} tokens; arrow keys move, Enter holds a token, Shift selects a range`);
    this.tokens = Array.from({ length }, (_, position) => this.token(position));
    this.element.append(...this.tokens);
    if (model.view.side) {
      this.element.style.setProperty("--side", model.view.side);
      this.element.style.gridTemplateColumns = `repeat(${model.view.side}, minmax(0, 1fr))`;
      this.element.style.gridTemplateRows = `repeat(${model.view.side}, minmax(0, 1fr))`;
    }
    this.listen();
  }

  token(position) {
    // Text is spans, because a line breaks inside a span and not inside a button.
    const made = this.kind === "text" ? h("span", { role: "button" }) : h("button", { type: "button" });
    made.className = "token";
    made.tabIndex = position ? -1 : 0;
    made.dataset.position = position;
    return made;
  }

  // The edges of boxes; the last row and column have the frame of the board.
  edges(position) {
    const { side, height, width } = this.model.view;
    if (this.kind !== "sudoku") return "";
    const row = Math.floor(position / side), column = position % side;
    return (column === side - 1 ? " last-column" : (column + 1) % width ? "" : " box-right")
      + (row === side - 1 ? " last-row" : (row + 1) % height ? "" : " box-bottom");
  }

  listen() {
    const place = (event) => {
      const token = event.target.closest(".token");
      return token ? Number(token.dataset.position) : null;
    };
    let from = null;
    this.element.addEventListener("pointerdown", (event) => {
      from = event.shiftKey ? null : place(event);
      if (from !== null && event.pointerType === "touch") event.target.releasePointerCapture?.(event.pointerId);
    });
    this.element.addEventListener("pointerover", (event) => {
      const position = place(event);
      if (position === null) return;
      if (from !== null && event.buttons === 1 && position !== from) this.on.select(from, position);
      else if (!event.buttons) this.on.point(position);
    });
    this.element.addEventListener("click", (event) => {
      const position = place(event);
      if (position !== null) this.on.click(position, event.shiftKey, from !== null && from !== position);
      from = null;
    });
    this.element.addEventListener("keydown", (event) => this.key(event, place(event)));
  }

  key(event, position) {
    if (position === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const side = this.model.view.side ?? 16;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -side, ArrowDown: side };
    if (event.key in moves) {
      const next = Math.max(0, Math.min(this.length - 1, position + moves[event.key]));
      this.on.click(next, event.shiftKey, false, true);
      this.focus(next);
    } else if (event.key === "Enter") this.on.hold();
    else if (event.key === "Backspace" || event.key === "Delete") this.on.free();
    else if (event.key.length === 1 && event.key !== " ") this.on.type(event.key);
    else return;
    event.preventDefault();
  }

  focus(position) {
    for (const token of this.tokens) if (token.tabIndex === 0) token.tabIndex = -1;
    this.tokens[position].tabIndex = 0;
    this.tokens[position].focus({ preventScroll: false });
  }

  piece(token, settled) {
    if (token === null || this.model.masks.includes(token)) return this.kind === "sudoku" ? "" : "▁";
    const piece = this.model.pieces[token] ?? String(token);
    if (this.kind === "text") return settled ? piece : piece.replace(/\n/g, "↵");
    return piece;
  }

  // What is shown: tokens (null is blank), the class of each colour, and flags.
  show({ tokens, colours, held, selected, wrong, settled }) {
    for (let position = 0; position < this.length; position += 1) {
      const element = this.tokens[position], token = tokens[position];
      const text = this.kind === "pixels" ? "" : this.piece(token, settled);
      if (element.textContent !== text) element.textContent = text;
      const blank = token === null || this.model.masks.includes(token);
      const classes = `token${this.edges(position)}${colours[position] === null ? "" : ` age-${colours[position]}`}`
        + (held.has(position) ? " held" : "") + (selected(position) ? " selected" : "") + (blank ? " mask" : "")
        + (wrong.has(position) ? " wrong" : "");
      if (element.className !== classes) element.className = classes;
      if (this.kind === "pixels") this.shade(element, blank ? null : token);
      const label = `${this.place(position)}: ${blank ? "blank" : visible(this.name(token))}`
        + (held.has(position) ? ", held" : "") + (wrong.has(position) ? ", breaks a rule" : "");
      if (element.ariaLabel !== label) element.ariaLabel = label;
    }
  }

  // What a token is called beside the board; a grey level is a number.
  name(token) {
    return this.kind === "pixels" ? String(token) : this.model.pieces[token] ?? String(token);
  }

  place(position) {
    const { side } = this.model.view;
    return side ? `row ${Math.floor(position / side) + 1}, column ${(position % side) + 1}` : `position ${position + 1}`;
  }

  shade(element, token) {
    const level = token === null ? 0 : Math.round(255 - (235 * token) / Math.max(1, this.model.vocab - 1));
    element.style.setProperty("--shade", token === null ? "transparent" : `rgb(${level} ${level} ${level})`);
  }
}

export function ageClasses(frame, index, held, masks) {
  // When a token last changed, from the first step (blue) to the one that is shown (yellow); null for what was not drawn.
  return frame.tokens.map((token, position) => {
    const since = frame.since[position];
    if (held.has(position) || masks.includes(token) || !index) return null;
    if (since === index) return AGES - 1;
    return AGES - 2 - AGE_LIMITS.filter((limit) => (index - since) / index > limit).length;
  });
}

export function doubtClasses(frame, held) {
  return frame.tokens.map((_, position) => {
    const doubt = frame.doubt?.[position] ?? 0;
    return held.has(position) || doubt < 0.01 ? null : Math.min(AGES - 1, Math.floor(doubt * AGES));
  });
}

export function violations(tokens, view) {
  // The cells whose digit stands twice in a row, a column or a box.
  const wrong = new Set();
  if (view.kind !== "sudoku") return wrong;
  const { side, height, width } = view, seen = new Map();
  tokens.forEach((token, position) => {
    if (token === null || token >= side) return;
    const row = Math.floor(position / side), column = position % side;
    for (const unit of [`r${row}`, `c${column}`, `b${Math.floor(row / height)},${Math.floor(column / width)}`]) {
      const key = `${unit}:${token}`;
      if (seen.has(key)) wrong.add(position).add(seen.get(key));
      seen.set(key, position);
    }
  });
  return wrong;
}

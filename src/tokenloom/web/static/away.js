// What one takes away: a link with the settings, JSON with everything, an animated picture, and the lines of Python.

import { h, replace, svg } from "./dom.js";

const SECONDS = 0.12; // of a step in the picture

export function drawAway(parent, app) {
  const lane = app.lanes[0];
  const told = h("span", { className: "small", role: "status" });
  const say = (text) => { told.textContent = text; };
  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`${what} copied`);
    } catch {
      say("the browser does not allow copying here; select the text instead");
    }
  };
  const ready = lane.frames.length > 0;
  const python = app.lanes.slice(0, app.compare ? 2 : 1).map((one) => one.started?.python).filter(Boolean).join("\n");
  replace(parent,
    h("div", { className: "row" }, h("h2", {}, "Take away"),
      h("button", { type: "button", id: "copy-link", onclick: () => copy(location.href, "a link with the settings") }, "Copy link"),
      h("button", { type: "button", id: "save-json", disabled: !ready, onclick: () => save("tokenloom.json", "application/json", JSON.stringify(record(app), null, 1)) }, "JSON"),
      h("button", { type: "button", id: "save-svg", disabled: !ready, onclick: () => save("tokenloom.svg", "image/svg+xml", picture(lane, app.model)) }, "Animated SVG"),
      h("button", { type: "button", id: "copy-python", disabled: !python, onclick: () => copy(python, "Python") }, "Copy Python"), told),
    python ? h("pre", { id: "python", tabIndex: 0 }, python) : h("p", { className: "small" }, "After a drawing, the lines of Python that draw the same appear here."));
}

function record(app) {
  return {
    tokenloom: app.version, link: location.href,
    drawings: app.lanes.filter((lane) => lane.frames.length).map((lane) => ({
      request: lane.request, python: lane.started?.python, result: lane.ended,
      steps: lane.frames.map((one) => ({ t: one.t, alpha: one.alpha, evaluations: one.evaluations, tokens: one.tokens })),
    })),
  };
}

function save(name, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Every token of every position, shown from the step that wrote it to the one that overwrote it.
export function picture(lane, model) {
  const frames = lane.frames, count = frames.length, held = new Set((lane.request?.held ?? []).map(([position]) => position));
  const side = model.view.side ?? 32, size = 30, rows = Math.ceil(frames[0].tokens.length / side), edge = 12;
  const wide = side * size + 2 * edge, high = rows * size + 2 * edge;
  const duration = `${((count + 10) * SECONDS).toFixed(2)}s`; // the last step stays for a while
  const made = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, "font-family": "Georgia, 'DejaVu Serif', serif", "font-size": 18, "text-anchor": "middle" },
    svg("rect", { width: wide, height: high, fill: "#faf8f3" }));
  frames[0].tokens.forEach((_, position) => {
    const x = edge + (position % side) * size, y = edge + Math.floor(position / side) * size;
    for (const [from, to, token] of spans(frames, position)) {
      const one = drawn(model, token, x, y, size, held.has(position), from);
      if (from > 0 || to < count) {
        const times = [0, from / (count + 10), ...(to < count ? [to / (count + 10)] : [])];
        const values = [from > 0 ? 0 : 1, 1, ...(to < count ? [0] : [])];
        one.setAttribute("opacity", to < count ? 0 : 1);
        one.append(svg("animate", { attributeName: "opacity", calcMode: "discrete", dur: duration, repeatCount: "indefinite", keyTimes: times.map((time) => time.toFixed(4)).join(";"), values: values.join(";") }));
      }
      made.append(one);
    }
  });
  if (model.view.kind === "sudoku") made.append(...lines(model.view, size, edge));
  return new XMLSerializer().serializeToString(made);
}

function spans(frames, position) {
  const found = [];
  frames.forEach((frame, index) => {
    const last = found.at(-1);
    if (last && last[2] === frame.tokens[position]) last[1] = index + 1;
    else found.push([index, index + 1, frame.tokens[position]]);
  });
  return found;
}

function drawn(model, token, x, y, size, held, from) {
  const blank = model.masks.includes(token);
  if (model.view.kind === "pixels") {
    const level = Math.round(255 - (235 * token) / Math.max(1, model.vocab - 1));
    return svg("rect", { x, y, width: size, height: size, fill: blank ? "#ded9cd" : `rgb(${level},${level},${level})` });
  }
  const group = svg("g", {});
  if (from > 0 && !held) group.append(svg("rect", { x, y, width: size, height: size, fill: "#f5dd82", "fill-opacity": 0.6 }));
  const text = svg("text", { x: x + size / 2, y: y + size * 0.7, fill: "#1d1c22", "font-weight": held ? 700 : 400 });
  text.textContent = blank ? "" : (model.pieces[token] ?? String(token)).replace(/\s/g, " ").replace(/[\u0000-\u001f]/g, "");
  group.append(text);
  return group;
}

function lines({ side, height, width }, size, edge) {
  const end = edge + side * size, made = [];
  for (let index = 0; index <= side; index += 1) {
    const place = edge + index * size, shared = { stroke: "#1d1c22" };
    made.push(svg("line", { ...shared, x1: place, x2: place, y1: edge, y2: end, "stroke-width": index % width ? 0.5 : 2 }));
    made.push(svg("line", { ...shared, y1: place, y2: place, x1: edge, x2: end, "stroke-width": index % height ? 0.5 : 2 }));
  }
  return made;
}

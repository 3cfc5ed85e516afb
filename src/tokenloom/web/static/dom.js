// Elements from data: every text goes through textContent, so nothing that a model or a visitor writes is markup.

export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  set(made, attributes);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && name !== "form") element[name] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

export const byId = (id) => document.getElementById(id);

export function visible(piece) {
  // A token that would not be seen is named by a sign.
  if (piece === " ") return "␣";
  return piece.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/[\u0000-\u001f\u007f]/g, "·") || "∅";
}

export function later(wait, work) {
  let timer = null;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...values), wait);
  };
}

export function percent(p) {
  if (p >= 0.9995) return "100%";
  if (p >= 0.0995) return `${(100 * p).toFixed(1)}%`;
  return p > 0 ? `${(100 * p).toFixed(2)}%` : "0%";
}

// All settings in the address, behind the #, which a browser does not send anywhere; no data: no text, no puzzle, no tokens.

import { usual } from "./forms.js";

const NUMBERS = new Set(["steps", "temperature", "top_p", "top_k"]);

export function writeLink(app) {
  const words = new URLSearchParams({ model: app.model.name, process: app.model.process, seed: app.seed });
  if (!app.model.fixed) words.set("length", app.length);
  if (app.compare) words.set("compare", "1");
  app.forms.slice(0, app.compare ? 2 : 1).forEach((form, index) => {
    for (const [name, value] of Object.entries(form.values)) {
      if (value !== null && value !== usual()[name]) words.set(`${"ab"[index]}.${name}`, value);
    }
  });
  history.replaceState(null, "", `#${words}`);
}

export function readLink(names) {
  const words = new URLSearchParams(location.hash.slice(1));
  const settings = ["a", "b"].map((lane) => {
    const found = {};
    for (const name of Object.keys(usual())) {
      const value = words.get(`${lane}.${name}`);
      if (value !== null && !(NUMBERS.has(name) && !Number.isFinite(Number(value)))) found[name] = NUMBERS.has(name) ? Number(value) : value;
    }
    return found;
  });
  const number = (name) => (words.has(name) && Number.isSafeInteger(Number(words.get(name))) ? Number(words.get(name)) : null);
  const model = names.includes(words.get("model")) ? words.get("model") : null;
  return { model, process: model && words.get("process"), seed: number("seed"), length: number("length"), compare: words.has("compare"), settings };
}

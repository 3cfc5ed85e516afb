// One drawing: its frames, as the stream brings them, and the request they come from.

import { stream } from "./api.js";

export class Lane {
  constructor(name) {
    this.name = name;
    this.clear();
  }

  clear() {
    this.stop();
    this.frames = [];
    this.marked = [];
    this.started = null;
    this.ended = null;
    this.request = null;
  }

  get running() { return this.abort !== null && this.abort !== undefined; }

  stop() {
    this.abort?.abort();
    this.abort = null;
  }

  // Draw; `keep` frames stay in front of what comes, where a drawing is continued.
  async draw(request, keep, hear) {
    this.stop();
    this.frames = this.frames.slice(0, keep);
    this.request = request;
    this.ended = null;
    this.kept = keep;
    const abort = (this.abort = new AbortController());
    let refused = null;
    try {
      await stream("draw", request, (line) => {
        if (abort.signal.aborted) return;
        if (line.kind === "error") refused = line.sentence;
        else this.take(line);
        hear(line, this);
      }, abort.signal);
    } catch (error) {
      if (!abort.signal.aborted) refused = error.message;
    }
    if (this.abort === abort) this.abort = null;
    return refused;
  }

  take(line) {
    if (line.kind === "start") this.started = line;
    if (line.kind === "end") this.end(line);
    if (line.kind !== "frame") return;
    const last = this.frames.at(-1);
    if (line.tokens) {
      this.marked = line.marked;
      if (this.kept && this.frames.length === this.kept) return; // where it continues from
      if (last && line.try !== last.try) this.frames = [];
      this.frames.push(frame(line, line.tokens.slice(), new Int32Array(line.tokens.length), [], line.aux));
      return;
    }
    const tokens = last.tokens.slice(), since = last.since.slice();
    for (const [position, token] of line.changes) {
      tokens[position] = token;
      since[position] = this.frames.length;
    }
    this.frames.push(frame(line, tokens, since, line.changes.map(([position]) => position), line.aux ?? last.aux));
  }

  end(line) {
    this.ended = line;
    const last = this.frames.at(-1);
    if (!last) return;
    const changed = line.tokens.map((token, position) => (token === last.tokens[position] ? -1 : position)).filter((one) => one >= 0);
    if (!changed.length) return;
    const since = last.since.slice(); // another try of the same batch was the good one
    for (const position of changed) since[position] = this.frames.length;
    this.frames.push({ ...last, tokens: line.tokens.slice(), since, changed, evaluations: line.evaluations, doubt: null });
  }

  at(index) {
    return this.frames.length ? this.frames[Math.max(0, Math.min(index, this.frames.length - 1))] : null;
  }
}

function frame(line, tokens, since, changed, aux) {
  return { t: line.t, alpha: line.alpha, evaluations: line.evaluations, try: line.try, count: line.count, tokens, since, changed, aux: aux ?? null, doubt: null };
}

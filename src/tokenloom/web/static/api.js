// Questions to the server, and the stream of a drawing.

async function post(path, body, signal) {
  const answer = await fetch(`/api/${path}`, {
    method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Error(told.sentence || `the server answered ${answer.status}`);
}

export async function ask(path, body, signal) {
  return (await post(path, body, signal)).json();
}

export function newest(path) {
  // Answers may overtake each other: one to a question that was not the last is null.
  let asked = 0;
  return async (body) => {
    const mine = ++asked;
    try {
      const answer = await ask(path, body);
      return mine === asked ? answer : null;
    } catch (error) {
      if (mine === asked) throw error;
      return null;
    }
  };
}

export async function models() {
  return (await fetch("/api/models")).json();
}

export async function stream(path, body, onLine, signal) {
  const reader = (await post(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) onLine(JSON.parse(line));
  }
}

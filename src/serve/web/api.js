/* Talks to the server: JSON in, JSON out, and every way to fail as one kind of error. */
const stored = name => { try { return localStorage.getItem(name) || ''; } catch { return ''; } };
export const remember = (name, value) => {
  try { value ? localStorage.setItem(name, value) : localStorage.removeItem(name); } catch { /* forgotten with the page */ }
};
export const recall = stored;
export const key = () => stored('heed.key');

/* kind: aborted (by us), offline, busy (come back in `wait` seconds), key (one is needed, or a better one), refused */
export class Problem extends Error {
  constructor(kind, message, status = 0, wait = 0) { super(message); this.kind = kind; this.status = status; this.wait = wait; }
}

function refusal(response, message) {
  const status = response.status, wait = parseInt(response.headers.get('Retry-After'), 10);
  if (status === 429 || status === 503) return new Problem('busy', message || 'The server is busy.', status, Math.min(Math.max(wait || 5, 1), 3600));
  if (/API key/i.test(message)) return new Problem('key', message, status);
  return new Problem('refused', message || `The server answered with status ${status}.`, status);
}

const lost = error => error.name === 'AbortError' ? new Problem('aborted', 'cancelled') : new Problem('offline', 'The server does not answer.');

/* Addresses are relative, so that the page also works below a path of a proxy. */
async function send(path, options) {
  let response, text;
  try {
    response = await fetch(path, { credentials: 'same-origin', ...options });
    if (response.ok && /^text\/event-stream/.test(response.headers.get('Content-Type'))) return response;
    text = await response.text();
  } catch (error) {
    throw lost(error);
  }
  let answer = null;
  try { answer = JSON.parse(text); } catch { /* judged below */ }
  if (!response.ok) throw refusal(response, typeof answer?.error === 'string' ? answer.error : '');
  if (answer === null || typeof answer !== 'object') throw new Problem('refused', 'The server sent something that is not JSON.', response.status);
  return answer;
}

export const get = (path, signal) => send(path, { signal });
export const post = (path, fields, signal) => send(path, {
  method: 'POST', signal, headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(key() ? { ...fields, api_key: key() } : fields) });

/* A stream of events: partial ones are handed on as they come, the last one is the answer. */
export async function follow(path, fields, signal, partial) {
  const response = await post(path, fields, signal);
  if (!(response instanceof Response)) return response;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '', done = false, value;
  for (;;) {
    try { ({ done, value } = await reader.read()); } catch (error) { throw lost(error); }
    if (done) throw new Problem('offline', 'The server broke off.');
    text += value;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(text.slice(0, end)) || [];
      if (!name) continue;
      const event = JSON.parse(data);
      if (name === 'partial') partial(event);
      if (name === 'error') throw new Problem(event.status === 503 ? 'busy' : 'refused', String(event.error), event.status, 5);
      if (name === 'done') return event;
    }
  }
}
export function upload(path, file, fields, signal) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  if (key()) form.append('api_key', key());
  form.append('file', file, file.name);
  return send(path, { method: 'POST', signal, body: form });
}

export const $ = id => document.getElementById(id);
/* An element with text. Nothing from the server ever becomes markup: this and createTextNode are all there is. */
export function make(tag, text = '', className = '') {
  const e = document.createElement(tag);
  e.textContent = text;
  if (className) e.className = className;
  return e;
}
/* Text of unknown direction inside a sentence of ours. */
export const isolate = text => '\u2068' + text + '\u2069';

/* The API as the server describes it in /spec (OpenAPI 3, or Swagger 2), with a form to try each operation. */
import { $, get, key, make, remember } from './api.js';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
let spec = {};
let serial = 0;

/* Follows $ref inside the document, no further than it makes sense. */
function resolve(node) {
  for (let i = 0; i < 20 && node && typeof node.$ref === 'string' && node.$ref.startsWith('#/'); i++)
    node = node.$ref.slice(2).split('/').reduce((n, part) => n && Object.hasOwn(n, part.replaceAll('~1', '/').replaceAll('~0', '~')) ?
      n[part.replaceAll('~1', '/').replaceAll('~0', '~')] : null, spec);
  return node || {};
}
const text = value => typeof value === 'string' ? value : '';
const sample = value => value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);

/* All that an operation can be given: { name, where, required, schema, about, example }. */
function fieldsOf(operation, shared) {
  const fields = [];
  for (const each of [...(shared || []), ...(operation.parameters || [])].map(resolve)) {
    if (each.in === 'header' || each.in === 'cookie') continue;
    const schema = resolve(each.schema || each);
    fields.push({ name: text(each.name), where: each.in === 'formData' ? 'body' : each.in, required: !!each.required, schema,
                  about: text(each.description), example: each.example ?? schema.example ?? schema.default });
  }
  const content = resolve(operation.requestBody).content || {}, media = mediaOf(content);
  if (media) {
    const schema = resolve(content[media].schema);
    for (const [name, property] of Object.entries(schema.properties || {})) {
      const inner = resolve(property);
      fields.push({ name, where: 'body', required: !!schema.required?.includes(name), schema: inner,
                    about: text(property.description || inner.description), example: property.example ?? inner.example ?? inner.default });
    }
  }
  return { fields: fields.sort((a, b) => b.required - a.required), media };
}
const mediaOf = content => ['application/json', 'multipart/form-data', 'application/x-www-form-urlencoded'].find(m => content[m]) || Object.keys(content)[0] || '';
const isFile = f => f.schema.format === 'binary' || f.schema.type === 'file';
function typeOf(schema) {
  if (Array.isArray(schema.oneOf || schema.anyOf)) return (schema.oneOf || schema.anyOf).map(s => typeOf(resolve(s))).join(' or ');
  if (schema.type === 'array') return 'array' + (schema.items ? ' of ' + typeOf(resolve(schema.items)) : '');
  return schema.format === 'binary' ? 'file' : text(schema.type);
}

/* ---- trying it ---- */
function control(field, id) {
  const choices = field.schema.type === 'boolean' ? ['false', 'true'] : field.schema.enum;
  let e;
  if (Array.isArray(choices)) {
    e = make('select');
    for (const v of field.required ? choices : ['', ...choices]) {
      const o = make('option', sample(v) || '–');
      o.value = sample(v);
      e.append(o);
    }
  } else if (field.name === 'q' || field.schema.type === 'object' || field.schema.type === 'array') e = make('textarea');
  else {
    e = make('input');
    e.type = isFile(field) ? 'file' : /^(integer|number)$/.test(field.schema.type) ? 'number' : /key|secret/.test(field.name) ? 'password' : 'text';
    e.autocomplete = 'off';
    e.step = 'any';
  }
  e.id = id;
  e.spellcheck = false;
  if (!isFile(field) && field.name !== 'api_key') e.value = sample(field.example);
  return e;
}
/* As JSON wants it: numbers as numbers, and lists where somebody wrote one. */
function valueOf(field, written) {
  const type = typeOf(field.schema);
  if (/^(integer|number)$/.test(type)) return Number(written);
  if (type === 'boolean') return written === 'true';
  if (/array|object/.test(type) && /^\s*[[{]/.test(written)) try { return JSON.parse(written); } catch { /* then it is text */ }
  return written;
}
function requestOf(path, method, media, inputs) {
  let address = path;
  const query = new URLSearchParams(), body = {}, options = { method: method.toUpperCase(), headers: {}, credentials: 'same-origin' };
  for (const [field, e] of inputs) {
    const file = isFile(field) ? e.files[0] : null;
    const written = field.name === 'api_key' && !e.value ? key() : e.value;
    if (field.where === 'path') address = address.replace(`{${field.name}}`, encodeURIComponent(written));
    else if (written === '' && !file && !field.required) continue;
    else if (field.where === 'query') query.set(field.name, written);
    else body[field.name] = file || (isFile(field) ? '' : written);
  }
  if ([...query].length) address += '?' + query;
  if (method === 'get' || !inputs.some(([f]) => f.where === 'body')) return { address, options, shown: '' };
  if (media === 'multipart/form-data' || inputs.some(([f]) => isFile(f))) {
    const form = new FormData();
    for (const [name, value] of Object.entries(body)) form.append(name, value);
    return { address, options: { ...options, body: form }, form: body };
  }
  const typed = Object.fromEntries(Object.entries(body).map(([name, v]) => [name, valueOf(inputs.find(([f]) => f.name === name)[0], v)]));
  options.headers['Content-Type'] = 'application/json';
  options.body = JSON.stringify(typed);
  return { address, options };
}
const quote = s => `'${String(s).replaceAll("'", `'\\''`)}'`;
function curl({ address, options, form }) {
  const parts = ['curl', options.method === 'GET' ? '' : `-X ${options.method}`, quote(new URL(address.replace(/^\//, ''), new URL('./', location.href)).href)];
  const hide = (name, value) => name === 'api_key' ? 'KEY' : value;
  if (form) for (const [name, value] of Object.entries(form)) parts.push('-F ' + quote(`${name}=${value instanceof File ? '@' + value.name : hide(name, value)}`));
  else if (options.body) parts.push(`-H 'Content-Type: application/json'`, '-d ' + quote(JSON.stringify(JSON.parse(options.body), (n, v) => hide(n, v))));
  return parts.filter(Boolean).join(' ');
}
function pretty(written, type) {
  if (/json/.test(type)) try { return JSON.stringify(JSON.parse(written), null, 2); } catch { /* as it is */ }
  return written;
}

function operation(path, method, op, shared) {
  const box = make('details', '', 'op'), summary = make('summary'), inside = make('div', '', 'inside');
  summary.append(make('span', method.toUpperCase(), 'method ' + (method === 'get' ? 'get' : '')), make('span', path, 'path'), make('span', text(op.summary), 'about'));
  box.id = `${method}${path}`.replace(/[^a-z0-9]+/gi, '-');
  if (text(op.description) && op.description !== op.summary) inside.append(make('p', op.description));
  const { fields, media } = fieldsOf(op, shared), form = make('form', '', 'try'), inputs = [];
  if (fields.length) {
    const list = make('div', '', 'fields');
    for (const field of fields) {
      const row = make('div', '', 'field'), id = 'f' + serial++, label = make('label', field.name), e = control(field, id);
      label.htmlFor = id;
      label.append(make('small', [typeOf(field.schema), field.required ? 'required' : ''].filter(Boolean).join(', ')));
      row.append(label, e);
      if (field.about) { const about = make('p', field.about, 'about'); about.id = id + 'a'; e.setAttribute('aria-describedby', about.id); row.append(about); }
      inputs.push([field, e]);
      list.append(row);
    }
    form.append(list);
  }
  const row = make('p', '', 'row'), button = make('button', 'Send', 'button'), stop = make('button', 'Cancel', 'small'), state = make('span', '', 'about');
  button.type = 'submit';
  button.setAttribute('aria-label', `Send ${method.toUpperCase()} ${path}`);
  stop.type = 'button';
  stop.hidden = true;
  row.append(button, stop, state);
  form.append(row);
  const answer = make('div', '', 'answer'), command = make('pre'), body = make('pre');
  command.tabIndex = body.tabIndex = 0;
  command.setAttribute('aria-label', 'The same request with curl');
  body.setAttribute('aria-label', 'Answer');
  answer.append(make('h3', 'Request'), command, make('h3', 'Answer'), body);
  answer.hidden = true;
  let own = null;
  stop.addEventListener('click', () => own?.abort());
  form.addEventListener('submit', async e => {
    e.preventDefault();
    own?.abort();
    const mine = own = new AbortController(), request = requestOf(path, method, media, inputs), began = performance.now();
    command.textContent = curl(request);
    body.textContent = '';
    answer.hidden = stop.hidden = false;
    state.textContent = 'Waiting…';
    try {
      const response = await fetch(request.address.replace(/^\//, ''), { ...request.options, signal: mine.signal });
      const type = response.headers.get('Content-Type') || '', written = await response.text();
      body.textContent = pretty(written, type) || '(empty)';
      state.textContent = `${response.status} ${response.statusText} · ${Math.round(performance.now() - began)} ms`;
    } catch (error) {
      if (mine !== own) return;
      state.textContent = error.name === 'AbortError' ? 'Cancelled.' : 'The server does not answer.';
    }
    if (mine === own) { stop.hidden = true; $('status').textContent = state.textContent; }
  });
  inside.append(form, answer);
  const codes = Object.entries(op.responses || {});
  if (codes.length) {
    const list = make('dl', '', 'codes'), part = make('div');
    for (const [code, response] of codes) list.append(make('dt', code), make('dd', text(resolve(response).description)));
    part.append(make('h3', 'Answers'), list);
    inside.append(part);
  }
  box.append(summary, inside);
  return box;
}

function show() {
  $('title').textContent = text(spec.info?.title) || 'API';
  $('edition').textContent = text(spec.info?.version);
  $('lead').textContent = text(spec.info?.description);
  document.title = `${$('title').textContent} – API`;
  const groups = new Map();
  for (const [path, item] of Object.entries(spec.paths || {}))
    for (const method of METHODS)
      if (item[method]) {
        const group = text(item[method].tags?.[0]) || 'Operations';
        if (!groups.has(group)) groups.set(group, []);
        groups.get(group).push(operation(path, method, item[method], item.parameters));
      }
  $('operations').replaceChildren(...[...groups].flatMap(([name, list]) => [make('h2', name[0].toUpperCase() + name.slice(1)), ...list]));
  const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (wanted?.classList.contains('op')) { wanted.open = true; wanted.scrollIntoView(); }
}

$('api-key').value = key();
$('api-key').addEventListener('change', () => remember('heed.key', $('api-key').value.trim()));
$('auth').addEventListener('submit', e => { e.preventDefault(); remember('heed.key', $('api-key').value.trim()); });
get('spec').then(answer => { spec = answer; show(); }, error => {
  $('notice').hidden = false;
  $('notice').textContent = `The description of the API cannot be read: ${error.message}`;
});

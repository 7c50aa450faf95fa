/* The attention of one sentence: lines between tokens as in the paper's figures, and a small map of every layer and head. */
import { $, make, post, isolate } from './api.js';

const NAMES = {
  encoder: { title: 'Encoder', query: 'text', key: 'text', verb: 'looks at' },
  decoder: { title: 'Decoder', query: 'being written', key: 'written so far', verb: 'looks back at' },
  cross: { title: 'Cross', query: 'translation', key: 'text', verb: 'looks at' } };
const ROW = 26, SHADES = 10, LEAST = 0.03, COLOURS = 8;

let sentences = [], pair = null, chosen = 0;  /* what could be shown */
let data = null;                              /* what is */
let kind = 0, layer = 0, heads = new Set(), at = null;
let request = null, isOpen = false, shown = '';
const say = text => { $('look-say').textContent = text; };
const percent = p => (100 * p).toFixed(p < 0.0995 ? 1 : 0) + ' %';

/* ---- the answer, checked before it is believed ---- */
function checked(answer) {
  const kinds = [];
  for (const k of Array.isArray(answer.kinds) ? answer.kinds : []) {
    const strings = list => Array.isArray(list) && list.length > 0 && list.every(t => typeof t === 'string');
    if (!NAMES[k?.kind] || !strings(k.query) || !strings(k.key) || !Array.isArray(k.probs)) continue;
    if (k.probs.length === k.layers * answer.heads * k.query.length * k.key.length)
      kinds.push({ kind: k.kind, layers: k.layers, query: k.query, key: k.key, probs: Float32Array.from(k.probs) });
  }
  return kinds.length ? { heads: answer.heads, kinds } : null;
}
const map = (k, l, h) => { const n = k.query.length * k.key.length; return k.probs.subarray((l * data.heads + h) * n, (l * data.heads + h + 1) * n); };

/* ---- choices ---- */
function choice(form, legend, type, items, isChosen, choose, look) {
  const set = make('fieldset');
  set.append(make('legend', legend));
  items.forEach((text, i) => {
    const label = make('label'), box = make('input');
    box.type = type;
    box.name = 'look-' + legend;
    box.checked = isChosen(i);
    box.setAttribute('aria-label', `${legend} ${text}`);
    box.addEventListener('change', () => { choose(i, box.checked); draw(); });
    if (look) look(label, i);
    label.append(box, make('span', text));
    set.append(label);
  });
  form.append(set);
}
function controls() {
  const form = $('look-form'), k = data?.kinds[kind];
  form.replaceChildren();
  if (sentences.length > 1) {
    const label = make('label', '', 'sentence'), select = make('select');
    select.setAttribute('aria-label', 'Sentence');
    sentences.forEach((s, i) => { const o = make('option', s.length > 60 ? s.slice(0, 59) + '…' : s); o.value = i; select.append(o); });
    select.value = chosen;
    select.addEventListener('change', () => { chosen = +select.value; load(); });
    label.append(select);
    form.append(label);
  }
  if (!k) return;
  choice(form, 'Attention', 'radio', data.kinds.map(x => NAMES[x.kind].title), i => i === kind, i => { kind = i; layer = Math.min(layer, data.kinds[i].layers - 1); at = null; controls(); focusOn('Attention', i); });
  choice(form, 'Layer', 'radio', Array.from({ length: k.layers }, (_, i) => String(i + 1)), i => i === layer, i => { layer = i; });
  choice(form, 'Head', 'checkbox', Array.from({ length: data.heads }, (_, i) => String(i + 1)), i => heads.has(i),
         (i, on) => { on ? heads.add(i) : heads.delete(i); },
         (label, i) => { label.className = 'head'; label.style.setProperty('--c', `var(--h${i % COLOURS})`); });
}
const focusOn = (legend, i) => document.getElementsByName('look-' + legend)[i]?.focus();

/* ---- the figure ---- */
const one = new Intl.NumberFormat('en');
function tokens(side, list) {
  $('look-' + side).replaceChildren(...list.map((text, i) => {
    const li = make('li', '', '');
    li.append(make('bdi', text));
    li.dataset.i = i;
    li.tabIndex = i ? -1 : 0;
    return li;
  }));
}
/* How much the chosen heads give on average. */
function mean(k, l = layer) {
  const sum = new Float32Array(k.query.length * k.key.length);
  for (const h of heads) map(k, l, h).forEach((p, i) => { sum[i] += p / heads.size; });
  return sum;
}
/* The layer whose heads agree most on one place for each token. */
function clearest(k) {
  let best = 0, most = 0;
  for (let l = 0; l < k.layers; l++) {
    const p = mean(k, l);
    let sum = 0;
    for (let q = 0; q < k.query.length; q++) sum += Math.max(...p.subarray(q * k.key.length, (q + 1) * k.key.length));
    if (sum > most) [best, most] = [l, sum];
  }
  return best;
}
function drawLines(k) {
  const nq = k.query.length, nk = k.key.length, height = ROW * Math.max(nq, nk), svg = $('look-lines');
  const y = i => (i + 0.5) * ROW, paths = [];
  svg.setAttribute('viewBox', `0 0 100 ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.style.height = height + 'px';
  for (const h of heads) {
    const p = map(k, layer, h), d = Array(SHADES + 1).fill('');
    for (let q = 0; q < nq; q++)
      for (let j = 0; j < nk; j++) {
        const v = p[q * nk + j];
        if (v < LEAST || (at && at.i !== (at.side === 'q' ? q : j))) continue;
        d[Math.round(v * SHADES)] += `M0 ${y(q)}C45 ${y(q)} 55 ${y(j)} 100 ${y(j)}`;
      }
    d.forEach((path, s) => {
      if (!path) return;
      const e = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      e.setAttribute('d', path);
      e.setAttribute('class', 'line');
      e.style.stroke = `var(--h${h % COLOURS})`;
      e.style.strokeOpacity = 0.12 + 0.8 * s / SHADES;
      e.style.strokeWidth = 0.8 + 3 * s / SHADES;
      paths.push(e);
    });
  }
  svg.replaceChildren(...paths);
}
function drawTokens(k) {
  const nk = k.key.length, p = mean(k), from = at?.side;
  for (const side of ['q', 'k'])
    [...$('look-' + side).children].forEach((li, i) => {
      li.classList.toggle('now', from === side && at.i === i);
      li.querySelector('i')?.remove();
      if (!from || from === side) return;
      const v = from === 'q' ? p[at.i * nk + i] : p[i * nk + at.i];
      if (v < 0.01) return;
      const bar = make('i');
      bar.style.width = `calc((100% - 16px) * ${Math.min(1, v)})`;
      li.append(bar);
    });
}
function describe(k) {
  const names = NAMES[k.kind], nk = k.key.length;
  if (!heads.size) return say('No head is chosen.');
  if (!at) return say('Point at a token, or go to it with Tab and the arrow keys. ▁ is a space before the token, </s> the end.');
  const p = mean(k), own = at.side === 'q', list = own ? k.key : k.query;
  const weight = list.map((_, i) => own ? p[at.i * nk + i] : p[i * nk + at.i]);
  const best = [...weight.keys()].sort((a, b) => weight[b] - weight[a]).slice(0, 5).filter(i => weight[i] >= 0.01);
  const told = best.map(i => `${isolate(list[i])} ${percent(weight[i])}`).join(', ') || 'nothing in particular';
  say(`${isolate((own ? k.query : k.key)[at.i])} ${own ? names.verb : 'is looked at by'} ${told}` + (heads.size > 1 ? ` (mean of ${one.format(heads.size)} heads)` : ''));
}
function look(where) {
  at = where;
  const k = data.kinds[kind];
  drawLines(k);
  drawTokens(k);
  describe(k);
}

/* ---- all maps ---- */
function paint(canvas, p, nq, nk, rgb) {
  canvas.width = nk;
  canvas.height = nq;
  const g = canvas.getContext('2d'), image = g.createImageData(nk, nq);
  for (let i = 0; i < p.length; i++) {
    image.data.set(rgb, 4 * i);
    image.data[4 * i + 3] = 255 * Math.sqrt(Math.max(0, Math.min(1, p[i])));
  }
  g.putImageData(image, 0, 0);
}
function rgbOf(h) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(`--h${h % COLOURS}`).trim();
  return [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
}
function drawMaps(k) {
  const box = $('look-maps'), cells = [make('span')];
  box.style.gridTemplateColumns = `auto repeat(${data.heads}, minmax(0, 1fr))`;
  for (let h = 0; h < data.heads; h++) cells.push(make('span', String(h + 1)));
  for (let l = 0; l < k.layers; l++) {
    cells.push(make('span', String(l + 1)));
    for (let h = 0; h < data.heads; h++) {
      const button = make('button'), canvas = make('canvas');
      button.type = 'button';
      button.setAttribute('aria-label', `Layer ${l + 1}, head ${h + 1}`);
      button.setAttribute('aria-pressed', l === layer && heads.has(h));
      paint(canvas, map(k, l, h), k.query.length, k.key.length, rgbOf(h));
      button.append(canvas);
      button.addEventListener('click', () => { layer = l; heads = new Set([h]); at = null; controls(); draw(); $('look-maps').querySelectorAll('button')[l * data.heads + h].focus({ preventScroll: true }); });
      cells.push(button);
    }
  }
  box.replaceChildren(...cells);
}

let listed = null;
function draw() {
  const k = data.kinds[kind];
  $('look-q-name').textContent = NAMES[k.kind].query;
  $('look-k-name').textContent = NAMES[k.kind].key;
  if (listed !== k) { tokens('q', k.query); tokens('k', k.key); listed = k; }
  drawMaps(k);
  look(at);
}

/* ---- pointing ---- */
for (const side of ['q', 'k']) {
  const list = $('look-' + side), item = e => e.target.closest('li');
  list.addEventListener('pointerover', e => { const li = item(e); if (li) look({ side, i: +li.dataset.i }); });
  list.addEventListener('pointerleave', () => { if (!list.contains(document.activeElement)) look(null); });
  list.addEventListener('focusin', e => { const li = item(e); if (li) look({ side, i: +li.dataset.i }); });
  list.addEventListener('focusout', () => look(null));
  list.addEventListener('keydown', e => {
    const li = item(e), other = $(side === 'q' ? 'look-k' : 'look-q');
    const to = { ArrowDown: li?.nextElementSibling, ArrowUp: li?.previousElementSibling, Home: list.firstElementChild, End: list.lastElementChild,
                 [side === 'q' ? 'ArrowRight' : 'ArrowLeft']: other.children[Math.min(other.children.length - 1, +li?.dataset.i)] }[e.key];
    if (e.key === 'Escape') li?.blur();
    if (!to) return;
    e.preventDefault();
    for (const each of to.parentElement.children) each.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
}

/* ---- loading ---- */
async function load() {
  const mark = JSON.stringify([sentences[chosen], pair]);
  if (shown === mark) return;
  request?.abort();
  const own = request = new AbortController();
  $('look-body').setAttribute('aria-busy', 'true');
  if (!data) say('Reading…');
  try {
    const answer = await post('heed/attention', { q: sentences[chosen], source: pair.source, target: pair.target }, own.signal);
    data = checked(answer);
    if (!data) throw new Error('The server sent attention that makes no sense.');
    shown = mark;
    kind = Math.min(kind, data.kinds.length - 1);
    if (!heads.size) {  /* the first time: what links words of both languages, all heads, the layer that shows it best */
      kind = Math.max(0, data.kinds.findIndex(k => k.kind === 'cross'));
      for (let h = 0; h < data.heads; h++) heads.add(h);
      layer = clearest(data.kinds[kind]);
    }
    layer = Math.min(layer, data.kinds[kind].layers - 1);
    heads = new Set([...heads].filter(h => h < data.heads));
    at = null;
    listed = null;
    $('look-figure').hidden = false;
    controls();
    draw();
  } catch (error) {
    if (error.kind === 'aborted') return;
    data = null;
    shown = '';
    $('look-figure').hidden = true;
    controls();
    say(error.message);
  } finally {
    if (request === own) $('look-body').removeAttribute('aria-busy');
  }
}

function split(text, language) {
  if (!Intl.Segmenter) return [text.trim()];
  let segmenter;
  try { segmenter = new Intl.Segmenter(language, { granularity: 'sentence' }); } catch { segmenter = new Intl.Segmenter('en', { granularity: 'sentence' }); }
  return [...segmenter.segment(text)].map(s => s.segment.trim()).filter(Boolean);
}

/* A new translation, or none: languages null. */
export function attend(text, languages) {
  const list = languages ? split(text, languages.source) : [];
  $('look').hidden = !list.length;
  if (!list.length) { request?.abort(); return; }
  if (chosen >= list.length || list[chosen] !== sentences[chosen]) chosen = 0;
  sentences = list;
  pair = languages;
  if (isOpen) { controls(); load(); }
}
$('look-open').addEventListener('click', () => {
  isOpen = !isOpen;
  $('look-open').setAttribute('aria-expanded', isOpen);
  $('look-body').hidden = !isOpen;
  if (isOpen) load();
});
const repaint = () => { if (isOpen && data) drawMaps(data.kinds[kind]); };
new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ['data-theme'] });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);

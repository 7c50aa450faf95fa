/* Words of the text and of its translation, and what became of what: pointing at one shows the others. */
import { $, make, isolate } from './api.js';

const input = $('input'), mirror = $('mirror'), output = $('output');
let word = { source: [], target: [] };   /* spans on screen */
let links = { source: [], target: [] };  /* of each word: the words of the other side */
let sure = [];                           /* of each word of the translation: 0 to 1, or null */
let areas = null;                        /* where the source's words are, in the mirror's coordinates */
let at = -1;                             /* the word of the translation that the arrow keys are at */
let say = () => {};

/* Places in code points to places in the string, for places in ascending order. */
function places(text, points) {
  const found = [];
  let unit = 0, point = 0;
  for (const want of points) {
    while (point < want && unit < text.length) { unit += text.codePointAt(unit) > 0xffff ? 2 : 1; point++; }
    if (point !== want) return null;
    found.push(unit);
  }
  return found;
}
/* Ranges of words as the server says them, checked: in order, inside the text; else null. */
function ranges(text, words) {
  if (!Array.isArray(words)) return null;
  const points = words.flatMap(w => [w[0], w[1]]);
  for (let i = 0; i < points.length; i++)
    if (!Number.isInteger(points[i]) || points[i] < (i ? points[i - 1] : 0)) return null;
  const units = places(text, points);
  return units && words.map((_, i) => [units[2 * i], units[2 * i + 1]]);
}

function fill(box, text, spans, style) {
  const parts = [], made = [];
  let end = 0;
  spans.forEach(([from, to], i) => {
    if (from > end) parts.push(document.createTextNode(text.slice(end, from)));
    const span = make('span', text.slice(from, to), style(i));
    span.dataset.i = i;
    made.push(span);
    parts.push(span);
    end = to;
  });
  parts.push(document.createTextNode(text.slice(end)));
  box.replaceChildren(...parts);
  return made;
}

const doubt = p => p === null || p >= 0.5 ? '' : p >= 0.35 ? ' doubt d1' : p >= 0.2 ? ' doubt d2' : ' doubt d3';

/* The text alone, while its translation is not there. */
export function showSource(text) {
  word.source = [];
  areas = null;
  mirror.replaceChildren(document.createTextNode(text + '\u200b'));
}
/* What there is of a translation that is still growing: the first `settled` characters will stay. Where the text was only
 * changed, what was there before stands in for the rest. */
export function showPartial(text, settled, before) {
  const [unit] = places(text, [settled]) || [0], more = before.slice(text.length), space = more.search(/\s/);
  word.target = [];
  output.replaceChildren(document.createTextNode(text.slice(0, unit)),
                         make('span', text.slice(unit) + (space >= 0 ? more.slice(space) : ''), 'growing'));
}
/* The translation, with words if the answer has sound ones; returns whether any word is doubtful. */
export function showTarget(text, source, answer) {
  const from = answer && ranges(source, answer.sourceWords), to = answer && ranges(text, answer.targetWords);
  at = -1;
  areas = null;
  links = { source: [], target: [] };
  $('link').replaceChildren();
  if (!from || !to || !Array.isArray(answer.links)) {
    word = { source: [], target: [] };
    sure = [];
    showSource(source);
    output.replaceChildren(...(text ? [document.createTextNode(text)] : []));
    return false;
  }
  sure = answer.targetWords.map(w => typeof w[2] === 'number' ? w[2] : null);
  word.source = fill(mirror, source + '\u200b', from, () => '');
  word.target = fill(output, text, to, i => 'word' + doubt(sure[i]));
  links.source = from.map(() => []);
  links.target = to.map(() => []);
  /* Models look at marks when they are at a loss. */
  const isWord = span => /[\p{L}\p{N}]/u.test(span.textContent);
  for (const [s, t] of answer.links)
    if (links.source[s] && links.target[t] && isWord(word.source[s]) === isWord(word.target[t])) {
      links.source[s].push(t);
      links.target[t].push(s);
    }
  return sure.some(p => doubt(p));
}

const textOf = span => span.textContent;
const percent = p => Math.round(100 * p) + ' %';

/* Marks a word and its counterparts; i < 0: none. aloud: tell a screen reader, too. */
function point(side, i, aloud) {
  for (const span of document.querySelectorAll('.mirror .on, .output .on')) span.classList.remove('on');
  const box = $('link');
  if (i < 0 || !word[side][i]) { box.replaceChildren(); return; }
  const other = side === 'source' ? 'target' : 'source', there = links[side][i] || [];
  word[side][i].classList.add('on');
  for (const j of there) word[other][j].classList.add('on');
  const own = textOf(word[side][i]), theirs = there.map(j => textOf(word[other][j])).join(' ');
  const parts = [make('b'), document.createTextNode(theirs ? (side === 'target' ? ' from ' : ' became ') : ' has no counterpart')];
  parts[0].append(make('bdi', own));
  if (theirs) { const b = make('b'); b.append(make('bdi', theirs)); parts.push(b); }
  const certain = side === 'target' && sure[i] !== null ? ` · ${percent(sure[i])} certain` : '';
  if (certain) parts.push(document.createTextNode(certain));
  box.replaceChildren(...parts);
  if (aloud) say(`${isolate(own)}${theirs ? (side === 'target' ? ' from ' : ' became ') + isolate(theirs) : ', no counterpart'}${certain.replace(' ·', ',')}`);
}

/* ---- pointing ---- */
const over = e => e.target instanceof Element && e.target.classList.contains('word') ? +e.target.dataset.i : -1;
output.addEventListener('pointerover', e => { if (word.target.length) point('target', over(e)); });
output.addEventListener('pointerleave', () => point('target', at));
output.addEventListener('click', e => { const i = over(e); if (i >= 0) go(i, true); });

/* A textarea does not tell which word the pointer is on, but the mirror behind it has the same lines. */
function sourceWordAt(x, y) {
  const box = mirror.getBoundingClientRect();
  areas ||= word.source.map(span => [...span.getClientRects()].map(r => [r.left - box.left, r.right - box.left, r.top - box.top, r.bottom - box.top]));
  x -= box.left;
  y -= box.top;
  return areas.findIndex(list => list.some(([l, r, t, b]) => x >= l && x <= r && y >= t && y <= b));
}
let waiting = false;
input.addEventListener('pointermove', e => {
  if (waiting || !word.source.length) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; if (word.source.length) point('source', sourceWordAt(e.clientX, e.clientY)); });
});
input.addEventListener('pointerleave', () => { if (word.source.length) point('source', -1); });
new ResizeObserver(() => { areas = null; }).observe(mirror);

/* ---- the keyboard: the caret in the text, arrow keys in the translation ---- */
document.addEventListener('selectionchange', () => {
  if (document.activeElement !== input || !word.source.length || input.selectionStart !== input.selectionEnd) return;
  let place = 0;
  const caret = input.selectionStart;
  for (const node of mirror.childNodes) {
    const length = node.textContent.length;
    if (node.nodeType === 1 && caret >= place && caret <= place + length) return point('source', +node.dataset.i);
    if (place > caret) break;
    place += length;
  }
  point('source', -1);
});

function go(i, aloud) {
  word.target[at]?.classList.remove('at');
  at = i;
  word.target[at]?.classList.add('at');
  if (at >= 0) word.target[at].scrollIntoView?.({ block: 'nearest' });
  point('target', at, aloud);
}
output.addEventListener('keydown', e => {
  const n = word.target.length;
  if ((e.ctrlKey || e.metaKey) && e.code === 'KeyA') { getSelection().selectAllChildren(output); e.preventDefault(); return; }
  if (!n || e.ctrlKey || e.metaKey || e.altKey || e.shiftKey) return;
  const forward = getComputedStyle(word.target[Math.max(at, 0)]).direction === 'rtl' ? 'ArrowLeft' : 'ArrowRight';
  const back = forward === 'ArrowLeft' ? 'ArrowRight' : 'ArrowLeft';
  const to = { [forward]: Math.min(at + 1, n - 1), [back]: Math.max(at - 1, 0), Home: 0, End: n - 1, Escape: -1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  go(to, true);
});
output.addEventListener('blur', () => go(-1));

export const announce = f => { say = f; };

/* The page: what is typed is translated, and each new request ends the one before. */
import { $, Problem, follow, get, key, make, post, recall, remember } from './api.js';
import { announce, showPartial, showSource, showTarget } from './words.js';
import { attend } from './attention.js';
import { drops, files } from './file.js';

const input = $('input'), output = $('output'), source = $('source'), target = $('target');
let settings = {}, languages = [];
let request = null;                  /* the translation under way */
let timer = 0, countdown = 0;        /* until the next one; until the next try */
let shown = null;                    /* what is on screen: { text, source, target, answer, best } */
let detected = null;                 /* the language of the text, where the server found it */
let pinned = false;                  /* the visitor chose the target for this text */
const STREAM_FROM = 200;             /* characters that take long enough to watch */
const WORDS_TO = 20000;              /* the server aligns texts of up to 64 KiB */
let alternatives = 3;                /* to ask for */
const wordless = new Set();          /* pairs for which the server gives translations only */

const number = new Intl.NumberFormat('en');
const count = text => { let n = 0; for (const c of text) n += c.length > 0; return n; };
const limit = () => settings.charLimit > 0 ? settings.charLimit : 0;
const nameOf = code => languages.find(l => l.code === code)?.name || code;

/* ---- what a screen reader is told, and what everybody is ---- */
let telling = 0;
function tell(text) {
  clearTimeout(telling);
  telling = setTimeout(() => { $('status').textContent = text; }, 50);
}
announce(tell);

function quiet() {
  clearInterval(countdown);
  $('notice').hidden = true;
}
/* Says what went wrong; where time may help, counts down and calls again. */
function complain(problem, again) {
  clearInterval(countdown);
  const say = text => { $('notice-text').textContent = text; };
  $('notice').hidden = false;
  $('notice-key').hidden = problem.kind !== 'key';
  $('notice-retry').hidden = !again || problem.kind === 'key';
  $('notice-retry').textContent = 'Try again';
  $('notice-retry').onclick = () => { quiet(); again(); };
  if (problem.kind === 'key') $('key-open').hidden = false;
  if (problem.kind !== 'busy' && problem.kind !== 'offline') return say(problem.message);
  /* Said once; the seconds run beside it where no screen reader repeats them. */
  let left = problem.kind === 'busy' ? problem.wait : 5;
  say(problem.message);
  const show = () => { $('notice-retry').textContent = `Try again (${left} s)`; };
  show();
  countdown = setInterval(() => {
    if (document.hidden) return;
    left--;
    if (left > 0) return show();
    quiet();
    again();
  }, 1000);
}

/* ---- languages ---- */
function fillLanguages() {
  const auto = make('option', 'Detect language');
  auto.value = 'auto';
  source.replaceChildren(auto, ...languages.map(l => { const o = make('option', l.name); o.value = l.code; return o; }));
}
/* The targets that the source has; the wanted one if it is among them. */
function fillTargets(wanted) {
  const from = source.value === 'auto' ? null : languages.find(l => l.code === source.value);
  const codes = from ? (from.targets || []).filter(c => c !== from.code) : languages.map(l => l.code).filter(c => languages.some(l => l.code !== c && l.targets?.includes(c)));
  target.replaceChildren(...codes.map(c => { const o = make('option', nameOf(c)); o.value = c; return o; }));
  if (codes.includes(wanted)) target.value = wanted;
}
const narrow = matchMedia('(max-width: 480px)');
function nameDetected(found) {
  source.options[0].textContent = found ? `${nameOf(found)} (${narrow.matches ? 'auto' : 'detected'})` : 'Detect language';
}
function showDetected(found) {
  detected = found;
  nameDetected($('panel-text').hidden ? null : found);
  input.lang = source.value !== 'auto' ? source.value : found || '';
}
function keepLanguages() {
  remember('heed.source', source.value);
  remember('heed.target', target.value);
  input.lang = source.value !== 'auto' ? source.value : '';
}
source.addEventListener('change', () => { showDetected(null); fillTargets(target.value); keepLanguages(); translate(); });
target.addEventListener('change', () => { pinned = true; keepLanguages(); translate(); });

function swap() {
  const from = source.value === 'auto' ? detected || shown?.source : source.value, to = target.value;
  const back = languages.find(l => l.code === to);
  if (!back?.targets?.some(c => c !== to)) return tell(`${nameOf(to)} cannot be translated here.`);
  const text = shown && shown.text === input.value ? shown.best : '';
  showDetected(null);
  source.value = to;
  fillTargets(from);
  keepLanguages();
  if (text) input.value = text;
  tell(`${nameOf(source.value)} to ${nameOf(target.value)}`);
  typed();
  translate();
}
$('swap').addEventListener('click', swap);

/* ---- the translation ---- */
function busy(on) {
  $('pane-output').setAttribute('aria-busy', String(on));
  $('pane-output').classList.remove('grows');
}

function wipe() {
  shown = null;
  showTarget('', input.value, null);
  output.lang = '';
  $('hint').hidden = false;
  for (const id of ['copy', 'sure', 'others']) $(id).hidden = true;
  attend('', null);
}

function display(text, from, to, answer, best) {
  shown = { text, source: from, target: to, answer, best };
  output.lang = to;
  const main = best === answer.translatedText;
  $('sure').hidden = !showTarget(best, text, main ? answer : null);
  $('copy').hidden = !best;
  $('hint').hidden = true;
  const all = [answer.translatedText, ...(Array.isArray(answer.alternatives) ? answer.alternatives : [])];
  const others = [...new Set(all)].filter(t => typeof t === 'string' && t && t !== best);
  $('others').hidden = !others.length;
  $('others-list').replaceChildren(...others.map(t => {
    const li = make('li'), button = make('button', t);
    button.type = 'button';
    button.lang = to;
    button.dir = 'auto';
    button.addEventListener('click', () => { display(text, from, to, answer, t); tell(t); output.focus(); });
    li.append(button);
    return li;
  }));
}

/* A refusal that may be about what is asked for besides the translation. */
const optional = error => error.kind === 'refused' && [400, 404, 405, 501].includes(error.status);

/* Words and links come with the translation where the server has them for these languages. */
async function ask(fields, signal) {
  const pair = fields.source + ' ' + fields.target;
  const size = fields.q.length, streamed = size > STREAM_FROM && size <= WORDS_TO;
  if (streamed) {
    const before = shown && shown.text.slice(0, 30) === fields.q.slice(0, 30) ? shown.best : '';
    try {
      return await follow('heed/stream', { ...fields, words: !wordless.has(pair) }, signal, event => {
        if (signal.aborted || typeof event.text !== 'string' || !event.text.trim()) return;
        $('pane-output').classList.add('grows');
        showPartial(event.text, event.settled, before);
      });
    } catch (error) {
      if (!optional(error)) throw error;
    }
  }
  if (!wordless.has(pair) && !streamed && size <= WORDS_TO)
    try {
      return await post('heed/align', fields, signal);
    } catch (error) {
      if (!optional(error)) throw error;
    }
  try {
    const answer = await post('translate', { ...fields, format: 'text' }, signal);
    if (fields.source !== 'auto' && size <= WORDS_TO) wordless.add(pair);
    return answer;
  } catch (error) {
    const most = /alternatives.*<= *(\d+)/.exec(error.message); /* this server has a limit that it only tells now */
    if (!most || +most[1] >= fields.alternatives) throw error;
    alternatives = +most[1];
    return ask({ ...fields, alternatives }, signal);
  }
}

async function translate() {
  clearTimeout(timer);
  request?.abort();
  request = null;
  const text = input.value, from = source.value, to = target.value;
  if (!text.trim() || !to) { quiet(); busy(false); wipe(); return; }
  if (limit() && count(text) > limit()) { busy(false); return; }
  const own = request = new AbortController();
  busy(true);
  try {
    const answer = await ask({ q: text, source: from, target: to, alternatives: text.length <= 400 ? alternatives : 0 }, own.signal);
    if (own !== request) return;
    if (typeof answer.translatedText !== 'string') throw new Problem('refused', 'The server sent no translation.');
    quiet();
    const found = from === 'auto' ? answer.detectedLanguage?.language || null : null;
    if (from === 'auto') showDetected(found);
    if (found && found === to && !pinned && turnAway(found)) { pinned = true; return translate(); }
    display(text, found || from, to, answer, answer.translatedText);
    attend(text, { source: found || from, target: to });
    tell(text.length <= 1000 ? answer.translatedText : 'Translated.');
  } catch (error) {
    if (error.kind === 'aborted' || own !== request) return;
    if (!error.kind) console.error(error);
    complain(error, translate);
  } finally {
    if (own === request) { request = null; busy(false); }
  }
}
/* The text is in the language it should become: another target is what is meant. */
function turnAway(code) {
  const others = (languages.find(l => l.code === code)?.targets || []).filter(c => c !== code);
  const other = [recall('heed.second'), 'en', ...others].find(c => others.includes(c));
  if (!other) return false;
  remember('heed.second', code);
  target.value = other;
  return target.value === other;
}

function typed() {
  const text = input.value, n = count(text), most = limit();
  showSource(text);
  $('clear').hidden = !text;
  $('count').textContent = (most ? `${number.format(n)} / ${number.format(most)}` : number.format(n)) +
    (most && n > most ? ` · ${number.format(n - most)} too many` : '');
  $('count').classList.toggle('over', most > 0 && n > most);
  $('panel-text').classList.toggle('long', text.length > 600);
  if (most && n > most) tell(`The text is ${number.format(n - most)} characters too long.`);
  if (!text.trim()) { pinned = false; showDetected(null); }
}
input.addEventListener('input', () => {
  typed();
  clearTimeout(timer);
  request?.abort();
  if (!input.value.trim()) return translate();
  timer = setTimeout(translate, Math.min(Math.max(settings.frontendTimeout || 250, 100), 1000));
});

/* ---- buttons and keys ---- */
$('clear').addEventListener('click', () => {
  input.focus();
  input.select();
  document.execCommand('delete'); /* so that undo brings it back */
  if (input.value) { input.value = ''; typed(); translate(); }
});
$('copy').addEventListener('click', async () => {
  let done = true;
  try {
    await navigator.clipboard.writeText(shown.best);
  } catch { /* not over plain http: the old way */
    getSelection().selectAllChildren(output);
    done = document.execCommand('copy');
    getSelection().removeAllRanges();
  }
  $('copy-text').textContent = done ? 'Copied' : 'Not allowed';
  tell(done ? 'Copied' : 'The browser does not allow copying.');
  setTimeout(() => { $('copy-text').textContent = 'Copy'; }, 1600);
});
addEventListener('online', () => { if (!$('notice-retry').hidden && !$('notice').hidden) $('notice-retry').click(); });
addEventListener('keydown', e => {
  if (e.altKey && !e.ctrlKey && !e.metaKey && e.code === 'KeyS') { e.preventDefault(); swap(); }
  if ((e.ctrlKey || e.metaKey) && e.key === 'Enter' && document.activeElement === input) { e.preventDefault(); translate(); }
});

/* ---- text or document ---- */
function mode(name) {
  for (const each of ['text', 'file']) {
    const on = each === name;
    $('tab-' + each).setAttribute('aria-selected', on);
    $('tab-' + each).tabIndex = on ? 0 : -1;
    $('panel-' + each).hidden = !on;
  }
  nameDetected(name === 'text' ? detected : null);
}
for (const name of ['text', 'file']) {
  $('tab-' + name).addEventListener('click', () => mode(name));
  $('tab-' + name).addEventListener('keydown', e => {
    if (e.key !== 'ArrowLeft' && e.key !== 'ArrowRight') return;
    const other = name === 'text' ? 'file' : 'text';
    mode(other);
    $('tab-' + other).focus();
  });
}

/* ---- the key ---- */
function askKey() {
  $('key-value').value = key();
  $('key-forget').hidden = !key();
  $('key').showModal();
}
function saveKey(value) {
  remember('heed.key', value);
  $('key').close();
  quiet();
  if (languages.length) translate(); else start();
}
$('key-open').addEventListener('click', askKey);
$('notice-key').addEventListener('click', askKey);
$('key-cancel').addEventListener('click', () => $('key').close());
$('key-forget').addEventListener('click', () => saveKey(''));
$('key-form').addEventListener('submit', e => { e.preventDefault(); saveKey($('key-value').value.trim()); });

/* ---- beginning ---- */
async function start() {
  try {
    const [list, set] = await Promise.all([get('languages'), get('frontend/settings')]);
    languages = Array.isArray(list) ? list.filter(l => typeof l?.code === 'string') : [];
    settings = set;
  } catch (error) {
    return complain(error, start);
  }
  const wish = new URLSearchParams(location.search);
  const first = (...codes) => codes.find(c => c === 'auto' || languages.some(l => l.code === c));
  fillLanguages();
  source.value = first(wish.get('source'), recall('heed.source'), settings.language?.source?.code, 'auto');
  fillTargets(first(wish.get('target'), recall('heed.target'), settings.language?.target?.code));
  input.lang = source.value !== 'auto' ? source.value : '';
  $('key-open').hidden = !settings.apiKeys && !settings.keyRequired && !key();
  $('version').textContent = typeof settings.version === 'string' ? ' ' + settings.version : '';
  document.querySelector('.modes').hidden = settings.filesTranslation === false;
  if (wish.get('q') && !input.value) input.value = wish.get('q');
  const send = files(settings, () => ({ source: source.value, target: target.value }), askKey);
  drops(file => { if (settings.filesTranslation !== false) { mode('file'); send(file); } });
  typed();
  if (!matchMedia('(pointer: coarse)').matches && document.activeElement === document.body) input.focus({ preventScroll: true });
  if (settings.keyRequired && !key()) complain(new Problem('key', 'This server asks for an API key.'));
  else if (input.value) translate();
}
start();

/* Documents: one at a time, sent whole, and the translation fetched when it is wanted. */
import { $, Problem, upload } from './api.js';

let request = null;
const size = n => n < 1000 ? `${n} bytes` : n < 1e6 ? `${(n / 1e3).toFixed(0)} kB` : `${(n / 1e6).toFixed(1)} MB`;

export function files(settings, languages, needKey) {
  const formats = (settings.supportedFilesFormat || []).filter(f => /^\.[a-z0-9.]+$/i.test(f));
  $('file').accept = formats.join();
  $('formats').textContent = formats.length ? formats.join(', ') : '';

  async function translate(file) {
    request?.abort();
    const own = request = new AbortController();
    $('job').hidden = false;
    $('job-name').textContent = file.name;
    $('job-size').textContent = size(file.size);
    $('job-link').hidden = true;
    $('job-cancel').hidden = false;
    $('job-state').textContent = 'Translating…';
    try {
      const answer = await upload('translate_file', file, languages(), own.signal);
      const name = String(answer.translatedFileUrl || '').split(/[?#]/)[0].split('/').pop();
      if (!name) throw new Problem('refused', 'The server did not say where the translation is.');
      $('job-link').href = 'download_file/' + encodeURIComponent(decodeURIComponent(name));
      $('job-link').setAttribute('download', '');
      $('job-link').hidden = false;
      $('job-state').textContent = 'Done.';
    } catch (error) {
      if (own !== request) return;
      $('job-state').textContent = error.kind === 'aborted' ? 'Cancelled.' :
        error.message + (error.kind === 'busy' ? ` Try again in ${error.wait} s.` : '');
      if (error.kind === 'key') needKey();
    } finally {
      if (own === request) $('job-cancel').hidden = true;
    }
  }
  $('file').addEventListener('change', () => { if ($('file').files[0]) translate($('file').files[0]); $('file').value = ''; });
  $('job-cancel').addEventListener('click', () => request?.abort());

  return translate;
}

/* A file dropped anywhere is a document to translate. */
export function drops(take) {
  const holds = e => e.dataTransfer && [...e.dataTransfer.types].includes('Files');
  addEventListener('dragover', e => { if (holds(e)) { e.preventDefault(); $('drop').classList.add('over'); } });
  addEventListener('dragleave', e => { if (!e.relatedTarget) $('drop').classList.remove('over'); });
  addEventListener('drop', e => {
    $('drop').classList.remove('over');
    if (!holds(e)) return;
    e.preventDefault();
    if (e.dataTransfer.files[0]) take(e.dataTransfer.files[0]);
  });
}

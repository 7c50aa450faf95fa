'use strict';
/* Light, dark, or as the system has it. Runs before the page is drawn, so that it never flashes. */
(() => {
  const root = document.documentElement, names = ['auto', 'light', 'dark'];
  let theme = 'auto';
  try { theme = localStorage.getItem('heed.theme') || 'auto'; } catch { /* no storage: as the system */ }
  if (!names.includes(theme)) theme = 'auto';
  root.dataset.theme = theme;
  root.classList.add('js');
  addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    const show = () => {
      const text = { auto: 'as the system', light: 'light', dark: 'dark' }[theme];
      button.setAttribute('aria-label', `Colours: ${text}. Change`);
      button.title = `Colours: ${text}`;
    };
    button.addEventListener('click', () => {
      theme = names[(names.indexOf(theme) + 1) % names.length];
      root.dataset.theme = theme;
      try { localStorage.setItem('heed.theme', theme); } catch { /* it lasts as long as the page */ }
      show();
    });
    show();
  });
})();

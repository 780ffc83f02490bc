// Before anything is drawn: the theme that the visitor chose, so that no page flashes in the other one.
(() => {
  try {
    const chosen = localStorage.getItem("tickwise-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* storage is switched off: the system's theme */ }
})();

// The keyboard: `/` finds, `g` and a letter goes to a page, `j` and `k` walk rows, `?` tells all of it.
(() => {
  "use strict";
  let after = "";
  let timer = 0;
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;

  const walk = (step) => {
    const links = [...document.querySelectorAll("[data-rows] [data-row]")];
    const at = links.indexOf(document.activeElement);
    links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
  };
  const help = () => document.getElementById("help")?.showModal();
  // On a phone the pages are one row: the present one must be in sight.
  const row = document.querySelector("nav.side");
  const here = row?.querySelector("[aria-current]");
  if (here && row.scrollWidth > row.clientWidth) {
    row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      for (const menu of document.querySelectorAll("details[data-menu][open]")) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
      if (typing(event.target)) event.target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    const keys = `${after}${after ? " " : ""}${event.key}`;
    clearTimeout(timer);
    after = "";
    const door = document.querySelector(`[data-keys="${CSS.escape(keys)}"]`);
    if (door) return door.click();
    if (event.key === "g") {
      after = "g";
      timer = setTimeout(() => { after = ""; }, 1200);
    } else if (event.key === "/") {
      event.preventDefault();
      (document.querySelector("main input[type=search]") || document.querySelector("[data-find]"))?.focus();
    } else if (event.key === "?") help();
    else if (event.key === "j") walk(1);
    else if (event.key === "k") walk(-1);
  });
  document.addEventListener("click", (event) => { if (event.target.closest("[data-help]")) help(); });
})();

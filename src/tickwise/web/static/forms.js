// Forms that help while one types: the next times of a schedule, and rows that are chosen together.
//
// Without this script the button "Preview" asks for the same, and rows are chosen one by one.
(() => {
  "use strict";

  // ------------------------------------------------------------------ preview
  const preview = (form) => {
    let timer = 0;
    let asked = 0;
    const ask = async () => {
      const mine = ++asked;
      const said = new URLSearchParams([...new FormData(form)].filter(([name]) => name !== "base"));
      said.set("action", "preview");
      const answer = await fetch(form.getAttribute("action"), {
        method: "POST", body: said, credentials: "same-origin", redirect: "manual",
        headers: { "Tickwise-Part": "preview", "HX-Request": "true" },
      }).catch(() => null);
      const target = document.getElementById("preview");
      if (mine !== asked || !target) return;
      if (answer?.status === 401) {
        const notice = document.getElementById("connection");
        notice.textContent = "Your session has ended. What you typed stays: send it, and sign in then.";
        notice.hidden = false;
      } else if (answer?.ok) {
        await window.htmx.swap({ text: await answer.text(), target, swap: "outerMorph", sourceElement: target });
      }
    };
    const later = (event) => {
      if (event.target.name?.startsWith("task")) return; // it has no part in when
      clearTimeout(timer);
      timer = setTimeout(ask, 300);
    };
    form.addEventListener("input", later);
    form.addEventListener("change", later);
  };

  // ------------------------------------------------------------------ rows
  const count = () => {
    const rows = [...document.querySelectorAll("input[data-pick]")];
    const chosen = rows.filter((row) => row.checked).length;
    for (const all of document.querySelectorAll("input[data-pick-all]")) {
      all.hidden = false;
      all.checked = chosen > 0 && chosen === rows.length;
      all.indeterminate = chosen > 0 && chosen < rows.length;
    }
    const told = chosen ? `(${chosen})` : "";
    for (const place of document.querySelectorAll("[data-picked]")) {
      if (place.textContent !== told) place.textContent = told; // else the observer below would never rest
    }
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("input[data-pick-all]")) {
      for (const row of document.querySelectorAll("input[data-pick]")) row.checked = event.target.checked;
    }
    if (event.target.matches?.("input[data-pick], input[data-pick-all]")) count();
    if (event.target.matches?.("#bulk select")) event.target.toggleAttribute("data-hold-live", event.target.value !== "rows");
  });
  new MutationObserver(count).observe(document.getElementById("main") || document.body, { childList: true, subtree: true });
  count();

  if (window.htmx) for (const form of document.querySelectorAll("form[data-editor]")) preview(form);
})();

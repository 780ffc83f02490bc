// The palette (Ctrl-K): pages, jobs and ids, which the server finds, and the actions of this page.
(() => {
  "use strict";
  const palette = document.getElementById("palette");
  if (!palette) return;
  const field = palette.querySelector("input");
  const actions = palette.querySelector("[data-actions]");
  const goals = palette.querySelector("[data-goals]");
  let asked = 0;
  let timer = 0;
  let answered = true; // to what the field says now

  // An action is what a person could click on this page, and how the pages are shown.
  const send = (fields) => {
    const form = document.querySelector("form[data-display]");
    for (const [name, value] of Object.entries(fields)) form.elements[name].value = value;
    form.requestSubmit();
  };
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const always = [
    ["Dark", () => send({ theme: "dark" })],
    ["Light", () => send({ theme: "light" })],
    [`Times in the zone of this machine (${own})`, () => send({ zone: own })],
    ["Times in UTC", () => send({ zone: "UTC" })],
    ["Times in the zone of the job", () => send({ zone: "job" })],
    ["Absolute times", () => send({ times: "absolute" })],
    ["Relative times", () => send({ times: "relative" })],
    ["Keyboard", () => document.getElementById("help").showModal()],
    ["Sign out", () => document.querySelector("form[action='/logout']").requestSubmit()],
  ];
  const here = () => [...document.querySelectorAll("main .deeds summary, main .deeds > form > button, main .deeds > a.button, main a[download], main .copies > summary")]
    .filter((element) => element.checkVisibility())
    .map((element) => [element.textContent.trim(), () => {
      const details = element.closest("details");
      if (element.tagName !== "SUMMARY") return element.click();
      details.open = true;
      details.scrollIntoView({ block: "center" });
      (details.querySelector("textarea, input:not([type=hidden]), select, button") || element).focus();
    }]);

  const listActions = (wanted) => {
    const found = [...here(), ...(wanted ? always : [])].filter(([title]) => title.toLowerCase().includes(wanted));
    actions.replaceChildren(...found.map(([title, act]) => {
      const button = document.createElement("button");
      const kind = document.createElement("span");
      button.type = "button";
      kind.textContent = "action";
      kind.className = "muted small";
      button.append(title, " ", kind);
      button.addEventListener("click", () => { palette.close(); act(); });
      const item = document.createElement("li");
      item.append(button);
      return item;
    }));
    actions.hidden = found.length === 0;
  };

  const ask = async () => {
    const mine = ++asked;
    const address = new URL(palette.dataset.address, location.href);
    address.searchParams.set("q", field.value);
    const answer = await fetch(address, { headers: { "Tickwise-Part": "results" }, credentials: "same-origin", redirect: "manual" }).catch(() => null);
    if (mine !== asked) return;
    answered = true;
    goals.textContent = answer?.ok ? "" : "The server does not answer for now.";
    if (answer?.status === 401) goals.textContent = "Your session has ended.";
    if (answer?.ok) goals.innerHTML = await answer.text();
  };

  const open = () => {
    field.value = "";
    listActions("");
    palette.showModal();
    field.focus();
    ask();
  };
  const first = async () => {
    clearTimeout(timer);
    if (!answered) await ask();
    choices()[0]?.click();
  };
  const choices = () => [...palette.querySelectorAll("li > a, li > button")];
  field.addEventListener("input", () => {
    answered = false;
    listActions(field.value.trim().toLowerCase());
    clearTimeout(timer);
    timer = setTimeout(ask, 120);
  });
  palette.addEventListener("keydown", (event) => {
    const all = choices();
    const at = all.indexOf(document.activeElement);
    if (event.key === "ArrowDown") all[Math.min(at + 1, all.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (all[at - 1] || field).focus();
    else if (event.key === "Enter" && document.activeElement === field) first();
    else if (event.key === "Escape") palette.close(); // a search field would clear itself first
    else return;
    event.preventDefault();
  });
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (palette.open) palette.close();
      else if (!document.querySelector("dialog[open]")) open();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-palette-open]")) return;
    event.preventDefault();
    open();
  });

  // The zone of this machine is offered where a zone is chosen.
  const zones = document.getElementById("zones");
  if (zones && own && own !== "UTC") zones.append(new Option("this machine", own));
})();

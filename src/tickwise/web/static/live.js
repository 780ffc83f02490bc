// What makes a page live: parts that are renewed, a search that answers while one types, times that go on.
//
//   source(refresh) ──► refresh(region) ──fetch the block──► htmx morphs it into the page: scroll, focus and what is
//                                                            open stay
//
// `source` is the one place that decides when a part is renewed. It looks at the clock; a stream of events can take its
// place. A hidden page asks for nothing.
(() => {
  "use strict";
  const notice = document.getElementById("connection");
  const LONGEST = 60;

  const say = (text) => {
    if (!notice) return;
    if (notice.textContent !== text) notice.textContent = text;
    notice.hidden = !text;
  };

  // An output that goes on is followed while its end is in sight.
  const followed = () => document.querySelector("pre[data-follow]");
  const atEnd = () => { const log = followed(); return log !== null && log.scrollHeight - log.scrollTop - log.clientHeight < 40; };
  const toEnd = () => { const log = followed(); if (log) log.scrollTop = log.scrollHeight; };

  const part = async (address, name) => fetch(address, {
    headers: { "Tickwise-Part": name, "HX-Request": "true" }, credentials: "same-origin", redirect: "manual",
  });

  const put = async (target, text) => {
    const follows = atEnd();
    await window.htmx.swap({ text, target, swap: "outerMorph", sourceElement: target });
    if (follows) toEnd();
    times();
  };

  // ------------------------------------------------------------------ when
  const source = (refresh) => {
    let failures = 0;
    let timer = 0;
    const seconds = () => Number(document.querySelector("[data-live]")?.dataset.live || 0);
    const plan = () => {
      clearTimeout(timer);
      const wait = seconds();
      if (wait && !document.hidden) timer = setTimeout(tick, 1000 * Math.min(wait * 2 ** failures, LONGEST));
    };
    const tick = async () => {
      const region = document.querySelector("[data-live]");
      if (region && !document.hidden) failures = (await refresh(region)) ? 0 : Math.min(failures + 1, 5);
      plan();
    };
    document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : tick()));
    plan();
  };

  const refresh = async (region) => {
    try {
      const answer = await part(location.href, "live");
      if (answer.status === 401) {
        say("Your session has ended, so this page is no longer live. What you typed stays: send it, and sign in then.");
        region.removeAttribute("data-live");
        return true;
      }
      if (answer.status === 404) {
        say("What this page shows is no longer kept, so the page is not renewed any more. You see it as it was last.");
        region.removeAttribute("data-live");
        return true;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      if ("reload" in region.dataset) {
        location.reload(); // what was missing is there again: the whole page, not a part of it
        return true;
      }
      if (!region.isConnected || window.getSelection()?.type === "Range" || region.querySelector("[data-pick]:checked, [data-hold-live]")) return true;
      const failed = answer.headers.get("content-type")?.startsWith("text/html") !== true;
      if (!failed) await put(region, await answer.text());
      say("");
      return true;
    } catch (error) {
      const away = /^5/.test(error.message) ? "The server cannot answer for now" : "The server cannot be reached";
      say(`${away}. What you see may be old; it is tried again.`);
      return false;
    }
  };

  // ------------------------------------------------------------------ search
  const search = (form) => {
    let timer = 0;
    let asked = 0;
    const ask = async () => {
      const mine = ++asked;
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
      const address = `${form.action.split("?")[0]}${query.size ? `?${query}` : ""}`;
      const answer = await part(address, "results").catch(() => null);
      if (mine !== asked || !answer) return;
      if (answer.status === 422) return; // half of a word: the next letter asks again
      if (!answer.ok) return form.submit();
      history.replaceState(null, "", address);
      await put(document.getElementById(form.dataset.search), await answer.text());
    };
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 200); });
    form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); ask(); });
  };

  // ------------------------------------------------------------------ times
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];
  const relative = (seconds) => {
    const away = Math.abs(seconds);
    if (away < 1) return "now";
    const [size, unit] = UNITS.find(([least]) => away >= least) || [1, "s"];
    const text = `${Math.floor(away / size)} ${unit}`;
    return seconds > 0 ? `in ${text}` : `${text} ago`;
  };
  const times = () => {
    const now = Date.now();
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const text = relative((new Date(time.dateTime) - now) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      navigator.clipboard?.writeText(copy.dataset.copy).then(() => {
        const before = copy.textContent;
        copy.textContent = "Copied";
        setTimeout(() => { copy.textContent = before; }, 1500);
      });
    }
    for (const menu of document.querySelectorAll("details[data-menu][open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  times();
  toEnd();
  setInterval(() => { if (!document.hidden) times(); }, 1000);
  if (window.htmx) {
    source(refresh);
    for (const form of document.querySelectorAll("form[data-search]")) search(form);
  }
})();

// What makes a page live: parts that are renewed, a search that answers while one types, times that go on.
//
//   /live ──changed──► source ──► refresh(region) ──fetch the block──► htmx morphs it into the page: scroll, focus and
//   the clock ───────────┘                                             what is open stay
//   /runs/{id}/follow ──lines──► below the last line of the output
//
// `source` is the one place that decides when a part is renewed. A hidden page asks for nothing, and has no stream: a
// browser has six connections to a server, for all of its tabs.
(() => {
  "use strict";
  const notice = document.getElementById("connection");
  const LONGEST = 10; // s between two looks for a server that is away

  const say = (text) => {
    if (!notice) return;
    if (notice.textContent !== text) notice.textContent = text;
    notice.hidden = !text;
  };

  // An output that goes on is followed while its end is in sight.
  const BOTTOM = 40; // px from the end that count as the end
  const followed = () => document.querySelector("pre[data-to-end]");
  const atEnd = () => { const log = followed(); return log !== null && log.scrollHeight - log.scrollTop - log.clientHeight < BOTTOM; };
  const toEnd = () => { const log = followed(); if (log) log.scrollTop = log.scrollHeight; };

  const part = async (address, name) => fetch(address, {
    headers: { "Tickwise-Part": name, "HX-Request": "true" }, credentials: "same-origin", redirect: "manual",
  });

  // What a person opened, closed or has the focus on stays: the server sends each panel as it is at first. A panel is
  // known by its id, else by the words of its summary, without the numbers that change.
  const panels = (root) => {
    const found = new Map();
    for (const panel of root.querySelectorAll("details")) {
      const words = panel.id || (panel.querySelector("summary")?.textContent ?? "").replace(/[\d\s:.,–-]+/g, " ").trim();
      let name = words;
      for (let other = 1; found.has(name); other++) name = `${words} ${other}`;
      found.set(name, panel);
    }
    return found;
  };
  const focused = (target) => {
    const active = document.activeElement;
    if (!target.contains(active)) return () => {};
    const panel = active.matches("summary") ? [...panels(target)].find(([, each]) => each === active.parentElement)?.[0] : null;
    const address = active.getAttribute("href");
    return () => {
      if (active.isConnected) return;
      const region = document.getElementById(target.id) || document;
      const again = panel ? panels(region).get(panel)?.querySelector("summary")
        : [...region.querySelectorAll("a[href]")].find((each) => address && each.getAttribute("href") === address);
      again?.focus({ preventScroll: true });
    };
  };

  const put = async (target, text) => {
    const follows = atEnd();
    const fresh = document.createElement("template");
    fresh.innerHTML = text;
    const before = panels(target);
    for (const [name, panel] of panels(fresh.content)) if (before.has(name)) panel.open = before.get(name).open;
    const back = focused(target);
    await window.htmx.swap({ text: fresh.innerHTML, target, swap: "outerMorph", sourceElement: target });
    back();
    if (follows) toEnd();
    times();
  };

  // ------------------------------------------------------------------ when
  // A stream of the server tells that something changed. Beside it the clock looks for what no run tells, and in its
  // place while there is none. Changes that do not stop renew the page twice as often as the clock does.
  const SHORTEST = 250; // ms between two renewals
  const BURST = 12; // renewals at that pace, after a time of quiet
  const BESIDE = 3; // times as long, the clock waits beside a stream
  const REFUSED = 30_000; // ms until a stream that was refused is asked for again
  const RETURNS = new Set(["stopping", "slow_reader"]); // the ends after which the browser comes back by itself

  const stream = (address, heard) => {
    const opened = new EventSource(address);
    for (const name of ["open", "error", "changed", "gap", "end", "output", "progress"]) {
      opened.addEventListener(name, (event) => heard(name, event.data ? JSON.parse(event.data) : {}));
    }
    return opened;
  };

  const source = (refresh, renewedBlock) => {
    let failures = 0;
    let timer = 0;
    let soon = 0;
    let busy = false;
    let forced = false;
    let left = BURST;
    let counted = 0;
    let renewed = 0;
    let opened = null;
    let address = "";
    let refused = 0;
    const shown = () => document.querySelector("[data-live]");
    const isOpen = () => opened?.readyState === EventSource.OPEN;

    const plan = () => {
      clearTimeout(timer);
      const each = Number(shown()?.dataset.live || 0);
      const wait = failures ? Math.min(each * 2 ** failures, LONGEST) : each * (isOpen() ? BESIDE : 1);
      if (wait && !document.hidden) timer = setTimeout(tick, 1000 * wait);
    };
    const tick = async () => {
      if (busy) return;
      busy = true;
      clearTimeout(timer);
      clearTimeout(soon);
      soon = 0;
      renewed = performance.now();
      const region = shown() || (forced && document.getElementById("live"));
      forced = false;
      if (region && !document.hidden) failures = (await refresh(region)) ? 0 : Math.min(failures + 1, 5);
      busy = false;
      follow();
      if (!failures) renewedBlock();
      plan();
    };
    const change = () => {
      if (soon || document.hidden || !(shown() || forced)) return;
      const now = performance.now();
      const each = 500 * Number(shown()?.dataset.live || 1);
      left = Math.min(BURST, left + (now - counted) / each);
      counted = now;
      const wait = Math.max(renewed + SHORTEST - now, (1 - left) * each, 0);
      left -= 1;
      soon = setTimeout(() => { soon = 0; busy ? change() : tick(); }, wait);
    };
    const follow = () => {
      const wanted = document.hidden ? "" : shown()?.dataset.events || "";
      const closed = opened?.readyState === EventSource.CLOSED && performance.now() > refused + REFUSED;
      if (wanted === address && !closed) return;
      opened?.close();
      address = wanted;
      let again = false;
      opened = wanted ? stream(wanted, (name, told) => {
        if (name === "error") {
          refused = performance.now();
          if (again) setTimeout(tick, SHORTEST); // it was open: look whether the server is there
          again = false;
        } else if (name === "open") {
          again = true;
          plan();
        } else {
          if (name === "end" && !RETURNS.has(told.reason)) opened?.close();
          change();
        }
        if (name === "open" && renewed) change(); // what changed while there was none
      }) : null;
    };
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) return tick();
      clearTimeout(timer);
      follow();
      return renewedBlock();
    });
    follow();
    plan();
    return () => { forced = true; change(); };
  };

  // ------------------------------------------------------------------ output
  // Lines come by a stream of their own, and stay while the rest of the page is renewed, until it has ended.
  const MOST_LINES = 5000;

  const output = (renew) => {
    let opened = null;
    let address = "";
    const section = () => document.querySelector("[data-follow]");
    const leave = () => {
      opened?.close();
      opened = null;
      section()?.removeAttribute("hx-morph-skip");
    };
    const put = ({ attempt, lines }) => {
      const here = section();
      const log = here?.querySelector("pre.log");
      if (!log || Number(here.dataset.attempt) !== attempt) {
        // The first lines of an attempt: the page makes the place for them.
        leave();
        address = "";
        return renew();
      }
      const follows = atEnd();
      log.insertAdjacentHTML("beforeend", lines);
      while (log.childElementCount > MOST_LINES) log.firstElementChild.remove();
      if (follows) toEnd();
      return undefined;
    };
    const progressed = ({ share, text }) => {
      const shown = document.getElementById("progress");
      if (!shown) return renew();
      shown.querySelector("progress").value = share;
      shown.querySelector("span").textContent = `${Math.round(100 * share)} % ${text}`;
      return undefined;
    };
    return () => {
      const here = section();
      const wanted = document.hidden ? "" : here?.dataset.follow || "";
      if (wanted === address) return;
      leave();
      address = wanted;
      if (!wanted) return;
      opened = stream(wanted, (name, told) => {
        if (name === "open") section()?.setAttribute("hx-morph-skip", "");
        if (name === "error" && opened?.readyState === EventSource.CLOSED) leave();
        if (name === "output") put(told);
        if (name === "progress") progressed(told);
        if (name === "end" && !RETURNS.has(told.reason)) {
          leave();
          renew();
        }
      });
    };
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
    let lines = () => {};
    lines = output(source(refresh, () => lines()));
    lines();
    for (const form of document.querySelectorAll("form[data-search]")) search(form);
  }
})();

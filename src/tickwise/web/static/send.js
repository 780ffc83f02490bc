// Forms that change something are sent once the server says that it is there and knows the visitor: a browser's own page
// for a server that is away would take what was typed with it.
//
//   submit ──► /alive (before the sign-in: /livez) ──2xx──► sent, as without a script
//                │ 401 ──► the form stays; sign in elsewhere, and send it from here
//                └ away ─► the form stays; tried again, at most 10 s apart, until it is sent or taken back
(() => {
  "use strict";
  const PATIENCE = 5_000; // ms for an answer
  const SHORTEST = 1_000;
  const LONGEST = 10_000;
  const sure = new WeakSet();
  const waiting = new WeakSet();

  const signedIn = () => "signedIn" in document.body.dataset;
  const status = async () => {
    try {
      return (await fetch(signedIn() ? "/alive" : "/livez", {
        cache: "no-store", credentials: "same-origin", redirect: "manual", signal: AbortSignal.timeout(PATIENCE),
      })).status;
    } catch {
      return 0;
    }
  };

  const pause = (time) => new Promise((done) => {
    const timer = setTimeout(done, time);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { clearTimeout(timer); done(); } }, { once: true });
  });

  const told = (form) => {
    const place = document.createElement("div");
    place.className = "alert unsent";
    place.setAttribute("role", "alert");
    form.append(place);
    return place;
  };
  const say = (place, text, ...parts) => {
    if (place.dataset.said === text) return; // a reader of the screen hears it once
    place.dataset.said = text;
    place.replaceChildren(text, ...parts.flatMap((part) => [" ", part]));
  };
  const button = (text, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "small";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  };

  const send = async (form, submitter) => {
    waiting.add(form);
    let place = null;
    let wanted = true;
    let wait = SHORTEST;
    const leave = () => {
      wanted = false;
      place?.remove();
      waiting.delete(form);
    };
    const really = () => {
      leave();
      sure.add(form);
      form.requestSubmit(submitter?.isConnected ? submitter : undefined);
      sure.delete(form);
    };
    while (wanted && form.isConnected) {
      const answer = await status();
      if (!wanted) return;
      const ended = answer === 401 && signedIn();
      if (answer && answer < 500 && answer !== 429 && !ended) {
        if (!place?.dataset.ended) return really();
        say(place, "You are signed in again. Nothing was sent yet.", button("Send it now", really), button("Do not send it", leave));
      } else if (ended) {
        place ??= told(form);
        place.dataset.ended = "yes";
        const other = document.createElement("a");
        other.href = "/login";
        other.target = "_blank";
        other.textContent = "Sign in in another tab";
        say(place, "Your session has ended, so nothing was sent; what you typed stays here.", other,
          "or run tickwise open, and come back to this tab.", button("Sign in here, with what I typed", really), button("Do not send it", leave));
      } else {
        place ??= told(form);
        say(place, "The server is away, so nothing was sent yet; what you typed stays here. It is sent as soon as the server answers.", button("Do not send it", leave));
      }
      await pause(wait);
      wait = Math.min(wait * 2, place?.dataset.ended ? 2 * SHORTEST : LONGEST);
    }
    leave();
  };

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || sure.has(form) || form.getAttribute("method")?.toLowerCase() !== "post") return;
    event.preventDefault();
    if (!waiting.has(form)) send(form, event.submitter);
  });
})();

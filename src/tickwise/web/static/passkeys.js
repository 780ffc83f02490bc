// Passkeys: a form with `data-passkey` is sent with what the browser made or signed.
//
//   button ──► options (of the page, or of `data-from`) ──► authenticator ──► field `response` ──► the form is sent
//
// Where a browser has no passkeys, the button stays hidden, and `data-passkey-none` is shown.
(() => {
  "use strict";
  const known = window.PublicKeyCredential;
  const usable = Boolean(known?.parseCreationOptionsFromJSON && known.parseRequestOptionsFromJSON && navigator.credentials);

  const asked = async (form) => {
    if (form.dataset.options) return JSON.parse(form.dataset.options);
    const answer = await fetch(form.dataset.from, { method: "POST", credentials: "same-origin", body: new URLSearchParams() });
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 300));
    const found = await answer.json();
    form.elements.step.value = found.step;
    return found.options;
  };

  const shown = async (form) => {
    const options = await asked(form);
    return form.dataset.passkey === "create"
      ? navigator.credentials.create({ publicKey: known.parseCreationOptionsFromJSON(options) })
      : navigator.credentials.get({ publicKey: known.parseRequestOptionsFromJSON(options) });
  };

  const REASONS = {
    InvalidStateError: "This device has a passkey for you already.",
    NotAllowedError: "Nothing was shown, or it took too long. Try again.",
    SecurityError: "Passkeys do not work at this address.",
  };

  const begin = async (form, button, place) => {
    button.disabled = true;
    place.textContent = "";
    try {
      form.elements.response.value = JSON.stringify((await shown(form)).toJSON());
      form.requestSubmit();
    } catch (failure) {
      place.textContent = REASONS[failure.name] ?? failure.message;
    } finally {
      button.disabled = false;
    }
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const button = form.querySelector("[data-passkey-begin]");
    const place = form.querySelector("[data-passkey-said]");
    const none = form.querySelector("[data-passkey-none]");
    for (const part of form.querySelectorAll("[data-passkey-begin], [data-passkey-only]")) part.hidden = !usable;
    if (none) none.hidden = usable;
    button?.addEventListener("click", () => begin(form, button, place));
  }
})();

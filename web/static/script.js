/*
 * Minutehand's pages work without this. With it, parts of a page follow what happens,
 * distances in time go on, questions open in place, and there are keys.
 *
 * 1 words · 2 parts · 3 live · 4 time · 5 questions · 6 checks · 7 keys · 8 the rest
 *
 * What the markup says:
 *   data-live="KINDS"    a part with an id, read anew when such an event comes
 *   data-hold            a list that is being read: what is new waits behind a button
 *   data-say             text of a live part that is announced when it changes
 *   data-distance        a <time> that tells how far it is from now
 *   data-dialog          a link to a question, which opens in place
 *   data-check="PATH"    a form sent there while one types; data-into: parts, without fields
 *   data-key="g n"       pressed with these keys; data-row: j and k go there
 *   data-goto="ID 5 21"  a link to a line and column of a text; F8 goes to the next one
 *   data-unsaved="yes"   leaving asks, for text would be lost; "no": once somebody typed
 *   data-link="ID"       a form for the secret behind the #, shown instead of that element
 *   data-copy="ID"       copies the text of an element; data-all="NAME" checks all boxes
 */
"use strict";

(() => {
  const find = (selector, from = document) => from.querySelector(selector);
  const findAll = (selector, from = document) => [...from.querySelectorAll(selector)];

  // ----------------------------------------------------------------- 1 words
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  /** A length of time in its two largest units, as the server writes it. */
  function tellAge(seconds) {
    let left = Math.max(0, Math.round(seconds));
    const parts = [];
    for (const [unit, size] of UNITS) {
      if (left < size && (unit !== "s" || parts.length)) continue;
      parts.push(`${Math.floor(left / size)} ${unit}`);
      left %= size;
    }
    return parts.slice(0, 2).join(" ");
  }

  let announcedAt = -Infinity;
  /** Let a screen reader say something, at most every ten seconds. */
  function announce(text) {
    if (performance.now() - announcedAt < 10_000) return;
    announcedAt = performance.now();
    find("#announce").textContent = text;
  }

  /** Tell at the top of the page that it does not follow; empty: it does again. */
  function warn(text, link = null) {
    const banner = find("#not-live");
    Object.assign(banner, { hidden: !text, textContent: text });
    if (link) banner.append(" ", link);
  }

  // ----------------------------------------------------------------- 2 parts
  const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

  /** Put what a part has become into its place, unless somebody types there; the focus stays. */
  function replacePart(old, fresh) {
    if (old.isEqualNode(fresh) || isBusy(old)) return;
    const active = document.activeElement;
    const index = old.contains(active) ? findAll(FOCUSABLE, old).indexOf(active) : -1;
    const opened = new Set(findAll("details[open][id]", old).map((each) => each.id));
    const checked = new Set(findAll("input:checked", old).map((each) => each.value));
    const scrolls = findAll("[id]", old).filter((each) => each.scrollTop || each.scrollLeft)
      .map((each) => [each.id, each.scrollLeft, each.scrollTop, isAtEnd(each)]);
    const said = find("[data-say]", old)?.textContent;
    const next = document.importNode(fresh, true);
    old.replaceWith(next);
    for (const each of findAll("details[id]", next)) if (opened.has(each.id)) each.open = true;
    for (const each of findAll("input[type=checkbox]", next)) if (checked.has(each.value)) each.checked = true;
    for (const [id, left, top, atEnd] of scrolls) {
      const box = document.getElementById(id);
      if (box) box.scrollTo(left, atEnd ? box.scrollHeight : top);
    }
    if (index >= 0 || next === active) {
      const same = active.id && document.getElementById(active.id);
      (same || findAll(FOCUSABLE, next)[index] || next).focus({ preventScroll: true });
    }
    const says = find("[data-say]", next)?.textContent;
    if (says && says !== said) announce(says);
    prepare(next);
  }

  const isAtEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 4;

  /** Whether somebody is typing or choosing in a part: it is left alone meanwhile. */
  function isBusy(part) {
    const active = document.activeElement;
    return part.contains(active) && active.matches("input:not([type=checkbox]), textarea, select");
  }

  /** In a list that is being read, change the rows there are; offer those that are new. */
  function renewHeld(old, fresh) {
    const rows = findAll("[data-row]", old);
    const known = new Set(rows.map((row) => row.id));
    const news = findAll("[data-row]", fresh).filter((row) => !known.has(row.id));
    if (rows.length === 0 || news.length === 0) return replacePart(old, fresh);
    for (const row of rows) {
      const next = document.importNode(fresh, true).querySelector(`#${CSS.escape(row.id)}`);
      if (next && !row.contains(document.activeElement)) replacePart(row, next);
    }
    const button = find(`[data-newer="${old.id}"]`);
    if (!button) return;
    button.hidden = false;
    button.textContent = `${news.length} newer: show`;
    button.onclick = () => { button.hidden = true; replacePart(document.getElementById(old.id), fresh); };
  }

  /** Return the parts of a page; nothing if the session has ended, which is told. */
  async function read(address, options = {}) {
    const answer = await fetch(address, { ...options, headers: { "X-Part": "1" } });
    if (answer.status === 401) return endSession();
    if (!answer.ok) throw new Error(String(answer.status));
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  /** Read the page anew and put in the parts that *wants* chooses. */
  async function renew(wants) {
    const page = await read(location.href);
    if (!page) return;
    document.body.dataset.now = page.body.dataset.now;
    synchronize();
    replacePart(find("#signs"), find("#signs", page));
    for (const part of findAll("[data-live]").filter(wants)) {
      const fresh = part.id && page.getElementById(part.id);
      if (fresh && part.dataset.hold !== undefined) renewHeld(part, fresh);
      else if (fresh && part.isConnected) replacePart(part, fresh);
    }
  }

  function endSession() {
    stream?.close();
    const way = isUnsaved ? { href: "/sign-in", target: "_blank" } : { href: `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}` };
    const link = Object.assign(document.createElement("a"), { ...way, textContent: "Sign in again" });
    warn(`Your session has ended; ${isUnsaved ? "what you typed stays here." : "this page does not follow any more."}`, link);
  }

  // ------------------------------------------------------------------ 3 live
  let [stream, waiting, timer, isRenewing, heardAt, lostAt] = [null, new Set(), null, false, Date.now(), null];

  const KINDS = ["operation.state", "operation.progress", "operations.changed", "tick", "leader", "reset"];

  /** An event came: read its parts anew soon, but not more often than every two seconds. */
  function note(kind) {
    heardAt = Date.now();
    waiting.add(kind);
    timer ??= setTimeout(follow, 1000);
  }

  function lose() {
    lostAt ??= new Date();
    if (Date.now() - lostAt > 3000) warn(`This page has not followed since ${lostAt.toTimeString().slice(0, 8)} by your clock; it tries again.`);
  }

  async function follow() {
    timer = null;
    if (document.hidden || isRenewing) return;  // made up for when it is looked at
    const kinds = waiting;
    [waiting, isRenewing] = [new Set(), true];
    const isWanted = (part) => kinds.has("reset") || part.dataset.live.split(" ").some((kind) => kinds.has(kind)
      || (kind === "operation.state" && kinds.has("operations.changed")));
    try {
      await renew(isWanted);
      if (lostAt && stream.readyState === EventSource.OPEN) { lostAt = null; warn(""); }
    } catch {
      lose();
      kinds.forEach((kind) => waiting.add(kind));
    } finally {
      isRenewing = false;
      if (waiting.size) timer ??= setTimeout(follow, 2000);
    }
  }

  function listen() {
    const address = document.body.dataset.stream;
    if (!address || !find("[data-live]")) return;
    stream = new EventSource(address);
    for (const kind of KINDS) stream.addEventListener(kind, () => note(kind));
    stream.onopen = () => { if (lostAt) note("reset"); };
    stream.onerror = () => { lose(); if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 10_000); };
    addEventListener("pagehide", () => stream.close());
    document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting.size) follow(); });
  }

  // ------------------------------------------------------------------ 4 time
  let ahead = 0;

  /** The server's clock is the one that counts. */
  const synchronize = () => { ahead = Date.parse(document.body.dataset.now) - Date.now(); };

  function renewDistances() {
    if (document.hidden) return;
    if (stream?.readyState === EventSource.OPEN && Date.now() - heardAt > 90_000) { lostAt ??= new Date(heardAt); note("reset"); }
    for (const each of findAll("time[data-distance]")) {
      const away = (Date.parse(each.dateTime) - Date.now() - ahead) / 1000;
      const text = away > 0 ? `in ${tellAge(away)}` : `${tellAge(-away)} ago`;
      if (each.textContent !== text) each.textContent = text;
    }
  }

  function tellZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (!zone || document.cookie.split("; ").includes(`minutehand-zone=${zone}`)) return;
    document.cookie = `minutehand-zone=${zone}; path=/; max-age=34560000; samesite=lax`;
  }

  // ------------------------------------------------------------- 5 questions
  /** Open what a link leads to as a dialog; if that fails, go there. */
  async function ask(link) {
    if (ask.isUnderWay) return;  // clicked twice
    ask.isUnderWay = true;
    const page = await read(link.href).catch(() => null).finally(() => { ask.isUnderWay = false; });
    const inner = page && find("#dialog", page);
    if (!inner) { location.href = link.href; return; }
    replacePart(find("#signs"), joinSigns(find("#signs", page)));
    const dialog = Object.assign(document.createElement("dialog"), { className: "asking" });
    dialog.setAttribute("aria-labelledby", inner.getAttribute("aria-labelledby"));
    dialog.append(document.importNode(inner, true));
    history.pushState({ asking: true }, "");  // whoever goes back leaves the question, not its page
    dialog.addEventListener("close", () => { dialog.remove(); link.focus(); if (history.state?.asking) history.back(); });
    dialog.addEventListener("click", (event) => {
      const isBeside = event.target === dialog && event.detail < 2;  // not the second click on the link
      if (isBeside || event.target.closest("[data-close]")) { event.preventDefault(); dialog.close(); }
    });
    document.body.append(dialog);
    prepare(dialog);
    dialog.showModal();
    Object.assign(find("h1, h2", dialog), { tabIndex: -1 }).focus();  // no field: Enter pressed twice would answer
  }

  /** The signs of this page and of another one. */
  function joinSigns(more) {
    const all = find("#signs").cloneNode(true);
    for (const each of findAll("symbol", more)) if (!find(`#${each.id}`, all)) all.append(each);
    return all;
  }

  // ---------------------------------------------------------------- 6 checks
  /** Send a form while one types, and show the parts of the answer; no field is in any. */
  function check(form) {
    let [pending, typed] = [null, 0];
    const send = async () => {
      const number = typed;
      try {
        const page = await read(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)) });
        if (!page || number !== typed) return;  // somebody typed on
        replacePart(find("#signs"), joinSigns(find("#signs", page)));
        for (const id of form.dataset.into.split(" ")) replacePart(document.getElementById(id), page.getElementById(id));
        delete form.dataset.stale;
        warn("");  // the server answers, and knows who asks
      } catch {
        warn("What you type could not be checked; the server does not answer. Nothing is lost.");
      }
    };
    form.addEventListener("input", () => {
      typed += 1;  // an answer that is on its way knows nothing of it
      form.dataset.stale = "";
      clearTimeout(pending);
      pending = setTimeout(send, 300);
    });
    form.addEventListener("submit", (event) => {
      if (event.submitter?.value === "check") { event.preventDefault(); send(); }
    });
  }

  /** Go to the place in a text that a link names: id, line, column. */
  function goToPlace(link) {
    const [id, line, column] = link.dataset.goto.split(" ");
    const area = document.getElementById(id);
    const before = area.value.split("\n").slice(0, line - 1).join("\n");
    const at = before.length + (line > 1 ? 1 : 0) + Number(column) - 1;
    area.focus();
    area.setSelectionRange(at, at);
    area.scrollTop = (line - 3) * parseFloat(getComputedStyle(area).lineHeight);
  }

  let placed = -1;
  function goToNextPlace() {
    const links = findAll("[data-goto]");
    if (links.length) goToPlace(links[placed = (placed + 1) % links.length]);
  }

  let isUnsaved = find("form[data-unsaved=yes]") !== null;

  // ------------------------------------------------------------------ 7 keys
  let prefix = "";

  function press(event) {
    const save = (event.ctrlKey || event.metaKey) && event.key === "s" && find("[data-save]");
    if (save || event.key === "F8") {
      event.preventDefault();
      return save ? save.click() : goToNextPlace();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const at = event.target;
    if (at.matches("input:not([type=checkbox]), textarea, select, [contenteditable]")) {
      if (event.key === "Escape") at.blur();
      return;
    }
    if (find("dialog[open]")) return;
    const keys = prefix ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    if (event.key === "g" && keys === "g") {
      prefix = "g";
      setTimeout(() => { prefix = ""; }, 1500);
      return;
    }
    const target = findAll(`[data-key="${CSS.escape(keys)}"]`).find((each) => !each.closest("[hidden]"));
    const row = at.closest?.("[data-row]");
    const inRow = row && find(`[data-row-key="${CSS.escape(keys)}"]`, row);
    if (inRow) inRow.click();
    else if (keys === "/") find("#search")?.focus();
    else if (keys === "j" || keys === "k") goToRow(row, keys === "j" ? 1 : -1);
    else if (keys === "x" && row) find("input[type=checkbox]", row)?.click();
    else if (target) target.click();
    else return;
    event.preventDefault();
  }

  function goToRow(from, step) {
    const rows = findAll("[data-row]");
    const next = from ? rows[rows.indexOf(from) + step] : rows[step > 0 ? 0 : rows.length - 1];
    if (next) find("a[href]", next)?.focus();
  }

  // -------------------------------------------------------------- 8 the rest
  /** Give what has just come into the page what it needs of us. */
  function prepare(part) {
    const own = (selector) => (part.matches?.(selector) ? [part] : []).concat(findAll(selector, part));
    for (const form of own("form[data-check]")) check(form);
    for (const button of own("[data-copy]")) button.hidden = false;
    for (const each of own("[data-script]")) each.hidden = each.dataset.script === "without";
  }

  /** Take the secret of a link out of the address, which the history would keep. */
  function takeLink() {
    const form = find("form[data-link]");
    const secret = location.hash.slice(1);
    if (!form || !secret.startsWith("mhl_")) return;
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.secret.value = secret;
    form.hidden = false;
    document.getElementById(form.dataset.link).hidden = true;
    find("button", form).focus();
  }

  async function copy(button) {
    const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl+C";
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  }

  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest("a[data-dialog]");
    if (link) { event.preventDefault(); ask(link); }
    const place = event.target.closest("[data-goto]");
    if (place) { event.preventDefault(); goToPlace(place); }
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  document.addEventListener("change", (event) => {
    const name = event.target.dataset.all;
    if (name) for (const box of findAll(`input[name="${CSS.escape(name)}"]`)) box.checked = event.target.checked;
  });
  document.addEventListener("keydown", press);
  document.addEventListener("input", (event) => { isUnsaved ||= Boolean(event.target.closest("form[data-unsaved]")); });
  let sent = null;
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (sent === event.target) return event.preventDefault();  // clicked twice: the first is under way
    [sent, isUnsaved] = [event.target, false];
    setTimeout(() => { sent = null; }, 10_000);
  });
  addEventListener("beforeunload", (event) => { if (isUnsaved) event.preventDefault(); });

  synchronize();
  tellZone();
  setInterval(renewDistances, 1000);
  prepare(document.body);
  takeLink();
  addEventListener("hashchange", takeLink);
  find("#refused")?.focus();
  addEventListener("popstate", () => find("dialog[open]")?.close());
  for (const mark of findAll(".scroll :is(.t-now, .h-now)")) {  // what is wider than its box opens at now
    const box = mark.closest(".scroll");
    box.scrollLeft += mark.getBoundingClientRect().left - box.getBoundingClientRect().left - box.clientWidth / 2;
  }
  find(".nav > ul [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  listen();
})();

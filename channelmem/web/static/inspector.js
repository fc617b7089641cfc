"use strict";
// Keeps pages current and readable by keyboard. What people wrote is only ever set as text, never as markup.
(() => {
  const STORED = "channelmem-theme";
  const POLL_MS = 1500;
  const HEALTH_MS = 3000;
  const LANE = { first: 8, step: 13, node: 17 };
  const root = document.documentElement;

  // --- theme: before the page is drawn, so that it does not flash ---

  const kept = () => { try { return localStorage.getItem(STORED); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem(STORED, theme); } catch { /* private mode: for this page only */ } };
  if (kept() === "dark" || kept() === "light") root.dataset.theme = kept();
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  function themeToggle() {
    const button = document.getElementById("theme");
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
    button.hidden = false;
    name();
    button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; keep(root.dataset.theme); name(); });
  }

  // --- asking the server again and again, while somebody looks ---

  function repeat(milliseconds, ask) {
    let busy = false;
    const tick = async () => {
      if (busy || document.hidden) return;
      busy = true;
      try { await ask(); } finally { busy = false; }
    };
    setInterval(tick, milliseconds);
    document.addEventListener("visibilitychange", tick);
  }

  async function json(address) {
    const reply = await fetch(address, { headers: { Accept: "application/json" }, credentials: "same-origin", redirect: "error" });
    if (!reply.ok) throw new Error(reply.status);
    return reply.json();
  }

  const numbers = (body) => document.querySelectorAll("[data-n]").forEach((node) => {
    if (node.dataset.n in body) node.textContent = body[node.dataset.n];
  });

  // --- timeline ---

  const SVG = "http://www.w3.org/2000/svg";
  function shape(name, attributes) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  function drawRail(svg, rail) {
    const x = (lane) => LANE.first + LANE.step * lane;
    const line = (lane, colour, from, to) => shape("line", { class: `c${colour}`, x1: x(lane), x2: x(lane), y1: from, y2: to });
    svg.replaceChildren(...rail.passing.map(([lane, colour]) => line(lane, colour, 0, "100%")));
    if (rail.newer) svg.append(line(rail.lane, rail.colour, 0, LANE.node));
    if (rail.older) svg.append(line(rail.lane, rail.colour, LANE.node, "100%"));
    svg.append(shape("circle", { class: `c${rail.colour}`, cx: x(rail.lane), cy: LANE.node, r: 4.5 }));
  }

  function fill(node, row) {
    const part = (name) => node.querySelector(`[data-f="${name}"]`);
    const text = (name, value) => { if (part(name).textContent !== value) part(name).textContent = value; };
    node.className = `row ${row.flag} ${row.state}${node.classList.contains("fresh") ? " fresh" : ""}`;
    for (const name of ["author", "clock", "state", "left", "text", "reply"]) text(name, row[name]);
    text("flag", { own: "bot", addressed: "to the bot" }[row.flag] || "");
    part("flag").hidden = !row.flag;
    part("edited").hidden = !row.edited;
    part("replyline").hidden = !row.reply;
    part("reply").setAttribute("href", `#m${row.reply_id}`);
    part("share").setAttribute("width", String(36 * row.share / 100));
    part("files").hidden = !row.files.length;
    part("files").replaceChildren(...row.files.map(fileOf));
    drawRail(node.querySelector(".rail"), row.rail);
  }

  function fileOf(file) {
    const item = document.createElement("li");
    const piece = (kind, text) => { const span = document.createElement("span"); span.className = kind; span.textContent = text; item.append(span, " "); };
    piece("file", file.name);
    piece("hint", file.facts);
    piece(file.text ? "seen" : "hint", file.text || "not described yet");
    return item;
  }

  function ruleOf(kind, text) {
    const rule = document.createElement("li");
    const span = document.createElement("span");
    rule.className = `rule ${kind}`;
    span.textContent = text;
    rule.append(span);
    return rule;
  }

  function showRows(list, rows) {
    const known = new Map([...list.querySelectorAll(".row")].map((node) => [node.id, node]));
    const shown = [];
    let before = null;
    for (const row of rows) {
      let node = known.get(`m${row.id}`);
      if (!node) {
        node = document.getElementById("row").content.firstElementChild.cloneNode(true);
        node.id = `m${row.id}`;
        node.classList.add("fresh");
      }
      fill(node, row);
      if (!before || before.day !== row.day) shown.push(ruleOf("day", row.day));
      if (before && before.buffered && !row.buffered) shown.push(ruleOf("edge", "the buffer ends here, below is the archive"));
      shown.push(node);
      before = row;
    }
    const focused = document.activeElement;
    list.replaceChildren(...shown);
    if (focused && list.contains(focused)) focused.focus({ preventScroll: true });
    document.getElementById("nothing").hidden = rows.length > 0;
  }

  function liveTimeline(list) {
    const live = document.getElementById("live");
    live.hidden = false;
    repeat(POLL_MS, async () => {
      try {
        const body = await json(`${list.dataset.live}?version=${encodeURIComponent(list.dataset.version)}`);
        if (body.rows) { list.className = `timeline w${body.lanes}`; showRows(list, body.rows); numbers(body); }
        list.dataset.version = body.version;
        live.textContent = "live";
        live.classList.remove("lost");
      } catch {
        live.textContent = "not current, trying again";
        live.classList.add("lost");
      }
    });
  }

  // --- drawings whose parts tell more when somebody points at them ---

  function telling(drawing) {
    const note = document.getElementById(drawing.dataset.shows);
    const parts = [...drawing.querySelectorAll("[data-text]")];
    const tell = (part) => {
      const paragraph = (kind, text) => { const p = document.createElement("p"); p.className = kind; p.textContent = text; return p; };
      const told = [paragraph("title", part.dataset.title), paragraph("hint", part.dataset.facts), paragraph("", part.dataset.text)];
      if (part.dataset.link) {
        const link = document.createElement("a");
        link.href = part.dataset.link;
        link.textContent = "Show in the timeline";
        told.push(link);
      }
      note.replaceChildren(...told);
      parts.forEach((one) => one.classList.toggle("chosen", one === part));
    };
    const go = (at) => {
      const part = parts[Math.max(0, Math.min(parts.length - 1, at))];
      parts.forEach((one) => one.setAttribute("tabindex", one === part ? "0" : "-1"));
      part.focus();
    };
    parts.forEach((part, at) => {
      part.addEventListener("pointerenter", () => tell(part));
      part.addEventListener("focus", () => tell(part));
      part.addEventListener("click", () => go(at));
      part.addEventListener("keydown", (event) => {
        const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: parts.length - 1 }[event.key];
        if (to !== undefined) { event.preventDefault(); go(to); }
        if (event.key === "Enter" && part.dataset.link) location.assign(part.dataset.link);
      });
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    themeToggle();
    document.querySelectorAll("[data-live]").forEach(liveTimeline);
    document.querySelectorAll("[data-shows]").forEach(telling);
    document.querySelectorAll("[data-health]").forEach((cards) => repeat(HEALTH_MS, async () => {
      try { numbers(await json(cards.dataset.health)); } catch { numbers({ redis: "no answer" }); }
    }));
  });
})();

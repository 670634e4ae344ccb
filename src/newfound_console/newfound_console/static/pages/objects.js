// SPDX-License-Identifier: Apache-2.0
// Where things were seen: a map from above, and a list that can be searched.

import { ago, ask, h, keyed, percent, pretty, say, svg } from "../ui.js";

/** Whether a place is told from where the camera is; its frame looks along z. */
const ofCamera = (each) => /optical|camera/.test(each.frame);

export function show(root, app) {
  let objects = [];
  let full = false; // whether more may be remembered than came
  let memory = "";
  let chosen = null;
  const search = h("input", { type: "search", placeholder: "Where is …", "aria-label": "Search for a thing", oninput: () => { render(); if (full) load(); } });
  const frame = h("select", { "aria-label": "Map", onchange: render, hidden: true });
  const gone = h("input", { type: "checkbox", onchange: render });
  const map = svg("svg", { class: "map", role: "img", "aria-label": "Map of things seen from above" });
  const list = h("ul", { class: "objects" });
  const note = h("p", { class: "quiet" });
  const hint = h("p", { class: "nothing" });
  const part = h("div", { class: "live" },
    h("section", { class: "stage panel" }, map, note),
    h("section", { class: "panel" }, list));
  root.append(h("div", { class: "head" }, h("h1", {}, "Where things are"), h("div", { class: "row" }, h("label", { class: "row quiet" }, gone, "Show what is probably gone"), frame, search)), hint, part);
  app.watch();

  const ours = () => (app.camera ? app.camera.memory : app.status.memories[0]) || "";

  async function load() {
    memory = ours();
    if (memory) {
      const answer = await app.act("objects", { memory, label: search.value.trim() });
      if (answer) ({ objects, full } = answer);
    }
    render();
  }
  load();
  const timer = setInterval(() => document.hidden || load(), 4000);

  function render() {
    part.hidden = !objects.length;
    hint.hidden = objects.length > 0;
    say(hint, memory ? "Nothing was seen with a place yet. It needs a camera that measures distance." : "This robot does not remember places: have “object_memory” started with it.");
    const frames = [...new Set(objects.map((each) => each.frame))];
    if ([...frame.options].map((o) => o.value).join() !== frames.join()) frame.replaceChildren(...frames.map((f) => h("option", { value: f }, f || "map")));
    frame.hidden = frames.length < 2;
    const wanted = pretty(search.value.trim().toLowerCase());
    const here = objects.filter((each) => each.frame === (frame.value || frames[0]) && (gone.checked || each.presence >= 0.5));
    const found = here.filter((each) => !wanted || pretty(each.label || "unknown thing").toLowerCase().includes(wanted));
    keyed(list, found, (each) => each.id, (each) => h("li", {},
      h("button", { class: "thing", onclick: () => { chosen = chosen === each.id ? null : each.id; render(); } }, each.picture ? h("img", { src: each.picture, alt: "" }) : h("span", { class: "dot" }), h("span", { class: "what" }, h("strong", {}), h("span", { class: "quiet" }))),
      h("button", { class: "flat", onclick: () => forget(each) }, "Forget")),
    (item, each) => {
      item.classList.toggle("open", each.id === chosen);
      say(item.querySelector("strong"), pretty(each.label || "Unknown thing"));
      item.title = `${each.position.map((v) => v.toFixed(2)).join(", ")} m, ± ${each.error?.toFixed(2)} m`;
      say(item.querySelector(".quiet"), `Seen ${ago(each.seen)} · ${percent(each.presence)} still there`);
    });
    const moving = here.length && ofCamera(here[0]);
    say(note, `Seen from above; one square is half a metre.${full ? " What was seen last is shown; search for the name of other things." : ""}${moving ? " Places are told from where the camera is: they are right while it stands still." : ""}`);
    draw(found);
  }

  async function forget(each) {
    if (await ask({ title: `Forget where “${each.label || "this thing"}” is?`, text: "If it is seen again, it comes back.", yes: "Forget" })) {
      await app.act("forget_object", { memory, id: each.id }, "Forgotten.");
      load();
    }
  }

  function draw(found) {
    // A map's z is up.
    const flat = (each) => (ofCamera(each) ? [each.position[0], -each.position[2]] : [each.position[1] * -1, -each.position[0]]);
    const points = found.map(flat);
    // The start of a map may be rooms away: it is drawn if it is near.
    const shown = found.length && !ofCamera(found[0]) ? points : [...points, [0, 0]];
    const xs = shown.map(([x]) => x), ys = shown.map(([, y]) => y);
    const ends = [xs, ys].map((values) => [Math.min(...values), Math.max(...values)]);
    const span = Math.max(...ends.map(([first, last]) => last - first), 0.4) + 0.6;
    const low = ends.map(([first, last]) => (first + last - span) / 2);
    const near = low.every((start) => start < 0 && start + span > 0);
    map.setAttribute("viewBox", `${low[0]} ${low[1]} ${span} ${span}`);
    const lines = [];
    for (let at = Math.ceil(low[0] * 2) / 2; at <= low[0] + span; at += 0.5) lines.push(svg("path", { d: `M${at} ${low[1]}v${span}` }));
    for (let at = Math.ceil(low[1] * 2) / 2; at <= low[1] + span; at += 0.5) lines.push(svg("path", { d: `M${low[0]} ${at}h${span}` }));
    const mark = 0.015 * span;
    map.replaceChildren(svg("g", { class: "grid" }, lines),
      ...(near ? [svg("g", { class: "origin" }, svg("path", { d: `M${-mark} 0h${2 * mark}M0 ${-mark}v${2 * mark}` }),
        svg("text", { x: mark, y: -mark, "font-size": 0.024 * span }, found.length && ofCamera(found[0]) ? "camera" : "start of the map"))] : []),
      ...found.map((each, n) => svg("g", { class: `${each.label ? "known" : "unknown"} ${each.id === chosen ? "chosen" : ""}`, opacity: String(0.2 + 0.8 * (each.presence ?? 1)) },
        svg("circle", { class: "size", cx: points[n][0], cy: points[n][1], r: Math.max(0.02, Math.min(each.size[0], each.size[1]) / 2) }),
        svg("circle", { cx: points[n][0], cy: points[n][1], r: 0.008 * span }))),
      ...found.map((each, n) => svg("text", { class: "name", x: points[n][0], y: points[n][1] + 0.035 * span, "font-size": 0.026 * span, "text-anchor": "middle" }, pretty(each.label || "?"))));
  }

  return { leave: () => clearInterval(timer), status: () => { if (ours() !== memory) load(); } };
}

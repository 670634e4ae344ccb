// SPDX-License-Identifier: Apache-2.0
// Pages, the camera that is chosen, and what all pages share.

import { Link, post } from "./link.js";
import { h, icon, say, toast } from "./ui.js";
import { login } from "./login.js";
import * as draw from "./pages/draw.js";
import * as inbox from "./pages/inbox.js";
import * as knowledge from "./pages/knowledge.js";
import * as light from "./pages/light.js";
import * as live from "./pages/live.js";
import * as objects from "./pages/objects.js";
import * as teach from "./pages/teach.js";

const PAGES = [
  ["live", "Live", live],
  ["inbox", "Inbox", inbox],
  ["teach", "Teach", teach],
  ["draw", "Draw", draw],
  ["knowledge", "Knowledge", knowledge],
  ["objects", "Objects", objects],
  ["light", "Light", light],
];

const link = new Link();
const root = document.getElementById("page");
const chooser = document.getElementById("camera");
let status = { cameras: [], nodes: [], memories: [] };
let page = null;
let shown = "";

export const app = {
  link,
  get status() { return status; },
  get camera() { return status.cameras.find((camera) => camera.id === chooser.value) || null; },
  get detector() { return app.camera?.detector || ""; },
  get segmenter() { return app.camera?.segmenters[0] || ""; },
  /** Do something and say how it went; false if it did not work. */
  async act(action, body, done = "") {
    try {
      const answer = await post(action, { detector: app.detector, ...body });
      if (done) toast(done);
      return answer;
    } catch (error) {
      toast(error.message, { kind: "error" });
      return false;
    }
  },
  watch(...channels) {
    link.watch(["status", ...channels]);
  },
};

function buildNav() {
  const nav = document.getElementById("nav");
  for (const [name, title] of PAGES) {
    nav.append(h("a", { href: `#/${name}`, id: `nav-${name}` }, icon(name), h("span", {}, title), h("span", { class: "badge", hidden: true })));
  }
}

function route() {
  const wanted = location.hash.replace(/^#\//, "").split("?")[0];
  const [name, title, module] = PAGES.find(([known]) => known === wanted) || PAGES[0];
  const key = `${name} ${app.camera?.id || ""} ${name === "draw" ? app.segmenter : ""}`;
  if (key === shown) return;
  page?.leave?.();
  shown = key;
  root.replaceChildren();
  document.title = `${title} · newfound`;
  for (const item of document.querySelectorAll("nav a")) {
    item.toggleAttribute("aria-current", item.id === `nav-${name}`);
    if (item.id === `nav-${name}`) item.setAttribute("aria-current", "page");
  }
  page = module.show(root, app);
  scrollTo(0, 0);
}

function showStatus(data) {
  status = data;
  const chosen = chooser.value || localStorage.getItem("camera") || "";
  const ids = status.cameras.map((camera) => camera.id);
  const options = [...chooser.options].map((option) => `${option.value} ${option.text}`);
  const wanted = status.cameras.map((camera) => `${camera.id} ${camera.name}`);
  if (options.join() !== wanted.join()) {
    chooser.replaceChildren(...status.cameras.map((camera) => h("option", { value: camera.id }, camera.name)));
    const best = status.cameras.find((camera) => camera.detector) || status.cameras[0];
    chooser.value = ids.includes(chosen) ? chosen : best?.id || "";
  }
  chooser.closest("label").hidden = status.cameras.length === 0;
  document.getElementById("nav-draw").hidden = !app.segmenter;
  const waiting = app.camera?.waiting || 0;
  const badge = document.querySelector("#nav-inbox .badge");
  badge.hidden = !waiting;
  say(badge, String(waiting));
  route();
  page?.status?.(status);
}

function showLink() {
  const place = document.getElementById("link");
  const down = status.nodes.filter((node) => node.level === "down" || node.level === "error").length;
  place.className = `link ${link.connected ? (down ? "warn" : "ok") : "off"}`;
  say(place, !link.connected ? "No connection. Trying again …" : down ? `${down} part${down > 1 ? "s" : ""} not working` : "Connected");
}

link.addEventListener("state", showLink);
link.addEventListener("data", ({ detail }) => {
  if (detail.channel === "status") {
    showStatus(detail.data);
    showLink();
  } else page?.data?.(detail.channel, detail.data, detail.image);
});
chooser.addEventListener("change", () => {
  localStorage.setItem("camera", chooser.value);
  route();
});
window.addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => link.visibility());
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  page?.key?.(event);
});

buildNav();
await login(root);
route();
link.connect();

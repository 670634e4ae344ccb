// SPDX-License-Identifier: Apache-2.0
// Elements without HTML strings: whatever a label contains, it is shown as text.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "value" || name === "checked" || name === "hidden" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Make the children of an element those of `items`, keeping what is there already. */
export function keyed(container, items, keyOf, create, update) {
  const old = new Map([...container.children].map((child) => [child.dataset.key, child]));
  let place = container.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = old.get(key);
    if (child) old.delete(key);
    else {
      child = create(item);
      child.dataset.key = key;
    }
    if (child === place) place = place.nextElementSibling;
    else container.insertBefore(child, place);
    update?.(child, item);
  }
  for (const child of old.values()) child.remove();
}

/** Replace an element's text only if it differs, so that nothing is read out or drawn again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show how far a job is; what it came to, once, when it has ended. */
export function jobEnded(job, jobs, progress) {
  const entry = job && jobs.find((each) => each.job === job.id);
  progress.hidden = !entry || entry.final;
  if (entry) progress.value = entry.progress || 0;
  if (!entry?.final || job.told) return null;
  job.told = true;
  return entry;
}

/** A label for people: names of data sets have underscores. */
export const pretty = (label) => label.replaceAll("_", " ");

/** With its article, as far as the spelling tells. */
export const one = (label) => `${/^[aeiou]/i.test(label) ? "an" : "a"} ${pretty(label)}`;

const PARTS = { open_world_detector: "Finding things", curator: "Asking you", web_query: "Looking up names", place_categorizer: "Naming the place",
  adaptive_classifier: "Naming pictures", object_memory: "Remembering places", segmenter: "Telling areas apart", sim_camera: "Simulated camera", console: "This page" };

/** A node's name for people; the camera's own place is left out. */
export function partName(node, camera) {
  const parts = node.split("/").filter(Boolean);
  const last = parts.pop();
  const place = parts.join("/");
  const own = (camera?.topic || camera?.id || "").split("/").filter(Boolean).slice(0, -1).join("/");
  const where = place && place !== own ? `${place.replaceAll("/", " · ")} · ` : "";
  return where + (PARTS[last] || pretty(last));
}

/** What to do about a part that a camera does not have. */
export const absent = (does, node) => `This camera has no part that ${does}. Choose another camera, or have “${node}” started with the robot.`;

export const percent = (share) => (share === null || share === undefined ? "" : `${Math.round(share * 100)} %`);

export function ago(seconds) {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  if (passed < 90) return "just now";
  if (passed < 5400) return `${Math.round(passed / 60)} minutes ago`;
  if (passed < 129600) return `${Math.round(passed / 3600)} hours ago`;
  return `${Math.round(passed / 86400)} days ago`;
}

export function toast(text, { action, run, kind = "" } = {}) {
  const box = h("div", { class: `toast ${kind}` }, h("span", {}, text));
  if (action) box.append(h("button", { class: "flat", onclick: () => { box.remove(); run(); } }, action));
  box.append(h("button", { class: "flat", "aria-label": "Close", onclick: () => box.remove() }, "×"));
  const place = document.getElementById("toasts");
  place.append(box);
  while (place.children.length > 3) place.firstChild.remove();
  setTimeout(() => box.remove(), kind === "error" ? 12000 : 7000);
}

/** Ask before something that cannot easily be taken back; resolves to what was typed, or null. */
export function ask({ title, text = "", yes = "Yes", no = "Cancel", input = null, danger = false }) {
  return new Promise((resolve) => {
    const field = input === null ? null : h("input", { type: "text", value: input, "aria-label": title, maxlength: "100" });
    const dialog = h("dialog", { "aria-label": title },
      h("form", { method: "dialog", onsubmit: () => { dialog.returnValue = "yes"; } },
        h("h2", {}, title), h("p", {}, text), field,
        h("div", { class: "row end" },
          h("button", { type: "button", onclick: () => dialog.close("no") }, no),
          h("button", { class: danger ? "danger" : "primary", value: "yes" }, yes))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? (field ? field.value.trim() : true) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    field?.select();
  });
}

const PATHS = {
  live: "M3 7h11v10H3zM14 10l6-3v10l-6-3",
  inbox: "M4 13h4l2 3h4l2-3h4M4 13l3-8h10l3 8v6H4z",
  teach: "M12 5v14M5 12h14",
  draw: "M4 17l4-11 9 3 3 8-9 3zM8 6h.01M17 9h.01M20 17h.01",
  knowledge: "M5 5h6v14H5zM13 5h6v14h-6zM7 9h2M15 9h2",
  objects: "M12 21s-6-5.5-6-11a6 6 0 0 1 12 0c0 5.500-6 11-6 11zM12 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4",
  light: "M12 3v2M12 19v2M3 12h2M19 12h2M6 6l1 1M17 17l1 1M6 18l1-1M17 7l1-1M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

// SPDX-License-Identifier: Apache-2.0
// A picture of a camera with boxes over it, as elements that can be clicked and read out.

import { h, keyed, percent, pretty, svg } from "./ui.js";

const LATE = 5000; // ms

export class Picture {
  #image = h("img", { alt: "What the camera sees", class: "frame" });
  #boxes = svg("svg", { class: "boxes", preserveAspectRatio: "none" });
  #address = "";
  #drawn = 0; // when, in ms
  #timer = 0;
  chosen = null; // track of the box that is emphasised

  /** `choose` is called with a box that is pressed, `late` when no picture has come for a while. */
  constructor(choose = null, late = () => {}) {
    this.choose = choose;
    this.late = late;
    this.element = h("div", { class: "picture" }, this.#image, this.#boxes,
      h("p", { class: "wait quiet" }, "Waiting for the camera …"));
  }

  draw({ width, height, boxes }, image) {
    this.element.classList.add("on");
    const now = performance.now(), usual = this.#drawn ? now - this.#drawn : 0;
    this.#drawn = now;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#wait(), Math.max(LATE, 3 * usual));
    const old = this.#address;
    this.#address = URL.createObjectURL(image);
    this.#image.onload = () => URL.revokeObjectURL(old);
    this.#image.src = this.#address;
    this.#image.width = width;
    this.#image.height = height;
    this.#boxes.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const unit = width / 640;
    keyed(this.#boxes, boxes.map((box, number) => ({ ...box, key: box.track || `n${number}` })), (box) => box.key,
      (box) => this.#make(box), (group, box) => this.#place(group, box, unit, width));
  }

  #make(box) {
    const group = svg("g", {}, svg("rect", { class: "area" }), svg("rect", { class: "plate" }), svg("text", {}));
    if (this.choose) {
      group.setAttribute("role", "button");
      group.setAttribute("tabindex", "0");
      const run = () => this.choose(group.box);
      group.addEventListener("click", run);
      group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); run(); } });
    }
    return group;
  }

  #place(group, box, unit, width) {
    group.box = box;
    const [area, plate, text] = group.children;
    group.setAttribute("class", `${box.known ? "known" : "unknown"}${this.chosen === box.track ? " chosen" : ""}`);
    const name = box.known ? `${pretty(box.label)} ${percent(box.score)}` : "What is this?";
    group.setAttribute("aria-label", name);
    for (const [key, value] of Object.entries({ x: box.x, y: box.y, width: box.w, height: box.h, rx: 4 * unit })) area.setAttribute(key, value);
    const size = 15 * unit;
    text.setAttribute("font-size", size);
    if (text.textContent !== name || group.unit !== unit) {
      text.textContent = name;
      group.unit = unit;
      group.long = text.getComputedTextLength(); // 0 while the page is not laid out
    }
    const length = (group.long || name.length * size * 0.6) + 10 * unit;
    const left = Math.max(0, Math.min(box.x, width - length)), top = box.y > size * 1.6 ? box.y - size * 1.5 : box.y;
    for (const [key, value] of Object.entries({ x: left, y: top, width: length, height: size * 1.5, rx: 3 * unit })) plate.setAttribute(key, value);
    text.setAttribute("x", left + 5 * unit);
    text.setAttribute("y", top + size * 1.1);
  }

  /** An old picture is not shown as if it were live. */
  #wait() {
    this.#drawn = 0;
    this.element.classList.remove("on");
    this.#boxes.replaceChildren();
    this.late();
  }

  close() {
    clearTimeout(this.#timer);
    URL.revokeObjectURL(this.#address);
  }
}

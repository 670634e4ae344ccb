// SPDX-License-Identifier: Apache-2.0
// Drawing around things in a picture: by mouse, finger, or the arrow keys.

import { h, svg } from "./ui.js";

const STEP = 0.02, SMALL = 0.004; // of the picture, by an arrow key; with Shift
const NEAR = 0.025; // of the picture: so near to its first point an outline is closed

export class Outlines {
  #image = h("img", { class: "frame", alt: "The picture to draw in" });
  #canvas = svg("svg", { class: "outlines", tabindex: "0", role: "application", preserveAspectRatio: "none", viewBox: "0 0 1 1",
    "aria-label": "Drawing. Arrow keys move the cross, Space sets a point, Enter closes the outline, Backspace takes a point back." });
  #closed = []; // outlines: lists of points, shares of width and height
  #open = []; // the outline that is being drawn
  #at = [0.5, 0.5]; // the cross

  constructor(changed) {
    this.changed = changed;
    this.element = h("div", { class: "picture on" }, this.#image, this.#canvas);
    this.#canvas.addEventListener("pointerdown", (event) => { event.preventDefault(); this.#canvas.focus(); this.#at = this.#place(event); this.#point(); });
    this.#canvas.addEventListener("pointermove", (event) => { this.#at = this.#place(event); this.#draw(); });
    this.#canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  load({ picture, width, height }) {
    this.#image.src = picture;
    this.#image.width = width;
    this.#image.height = height;
    this.#closed = [];
    this.#open = [];
    this.#draw();
  }

  /** Outlines so far; one that is still open is closed. */
  get all() { return [...this.#closed, ...(this.#open.length > 2 ? [this.#open] : [])]; }

  back() {
    if (!this.#open.length && this.#closed.length) this.#open = this.#closed.pop();
    else this.#open.pop();
    this.#draw();
  }

  focus() { this.#canvas.focus(); }

  #place(event) {
    const box = this.#canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map(inside);
  }

  #point() {
    const first = this.#open[0];
    if (this.#open.length > 2 && Math.hypot(this.#at[0] - first[0], this.#at[1] - first[1]) < NEAR) return this.#close();
    if (this.#open.length < 300) this.#open = [...this.#open, this.#at];
    this.#draw();
  }

  #close() {
    if (this.#open.length > 2) {
      this.#closed.push(this.#open);
      this.#open = [];
    }
    this.#draw();
  }

  #key(event) {
    const step = event.shiftKey ? SMALL : STEP;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const move = moves[event.key];
    if (move) this.#at = [inside(this.#at[0] + move[0]), inside(this.#at[1] + move[1])];
    else if (event.key === " ") this.#point();
    else if (event.key === "Enter") this.#close();
    else if (event.key === "Backspace") this.back();
    else return;
    event.preventDefault();
    this.#draw();
  }

  #draw() {
    const [x, y] = this.#at;
    this.#canvas.replaceChildren(...shapes(this.#closed),
      svg("polyline", { class: "open", points: text([...this.#open, ...(this.#open.length ? [this.#at] : [])]) }),
      ...this.#open.map((point, number) => dot(point, number ? "point" : "point first")),
      svg("path", { class: "cross", d: `M${x - 0.03} ${y}h.06M${x} ${y - 0.04}v.08` }));
    this.changed(this.all.length, this.#open.length);
  }
}

/** Outlines as elements, for a picture that is not being drawn in. */
export const shapes = (outlines) => outlines.map((points) => svg("polygon", { class: "closed", points: text(points) }));

const text = (points) => points.map(([x, y]) => `${x},${y}`).join(" ");
const inside = (value) => Math.min(1, Math.max(0, value));
// A line without length is drawn as a round dot, of a size in pixels of the screen.
const dot = ([x, y], kind) => svg("path", { class: kind, d: `M${x} ${y}h0` });

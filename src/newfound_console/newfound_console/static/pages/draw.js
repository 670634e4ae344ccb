// SPDX-License-Identifier: Apache-2.0
// Draw around a kind of area in a few pictures, until the robot can tell it apart everywhere.

import { Outlines, shapes } from "../outlines.js";
import { Picture } from "../picture.js";
import { ask, h, jobEnded, keyed, pretty, say, svg, toast } from "../ui.js";

export function show(root, app) {
  let labels = [];
  let job = null; // what was taught last, to say when it is learned
  let taken = null; // the picture that is being drawn in
  let session = { pictures: [], shown: 0, fewest: 2, enough: 12 };
  const node = { detector: app.segmenter, segmenter: app.segmenter };
  const live = new Picture();
  const outlines = new Outlines((closed, open) => {
    keep.textContent = closed ? "Keep it" : "Keep it: none in view";
    say(advice, open > 2 ? "Close the outline: tap its first point, or press Enter."
      : open ? "Go on around it, point by point."
      : closed ? "Draw around the next one, or keep the picture." : "Tap along its edge, point by point. If there is none in view, keep the picture as it is: that helps, too.");
  });
  outlines.element.hidden = true;
  const advice = h("p", { class: "advice", role: "status" });
  const areas = h("input", { type: "checkbox", id: "areas", checked: true, onchange: watch });
  const take = h("button", { class: "primary", id: "take", onclick: takePicture }, "Take a picture");
  const keep = h("button", { class: "primary", id: "keep", hidden: true, onclick: keepPicture }, "Keep it");
  const back = h("button", { id: "back", hidden: true, onclick: () => { outlines.back(); outlines.focus(); } }, "One point back");
  const drop = h("button", { id: "drop", hidden: true, onclick: () => drawIn(null) }, "Throw away");
  const toggle = h("label", { class: "row" }, areas, "Show what it sees");
  const count = h("h2", {}, "Pictures");
  const enough = h("p", { class: "quiet" });
  const strip = h("div", { class: "strip drawn" });
  const clear = h("button", { class: "flat", id: "clear", onclick: () => act({ do: "clear" }) }, "Throw all away");
  const field = h("input", { type: "text", id: "draw-name", maxlength: "100", autocomplete: "off", placeholder: "For example: cable" });
  const save = h("button", { class: "primary", id: "learn-area" }, "Learn it");
  const note = h("p", { class: "quiet" });
  const progress = h("progress", { max: "1", hidden: true, "aria-label": "Learning" });
  const result = h("p", { class: "result", role: "status", hidden: true });
  const known = h("ul", { class: "areas" });

  root.append(
    h("div", { class: "head" }, h("h1", {}, "Draw an area"), h("p", { class: "quiet" }, "For what has no clear shape, or lies everywhere: floor, cable, bowl. Take pictures that show it, and draw around it.")),
    h("div", { class: "live" },
      h("section", { class: "stage", "aria-label": "Camera" }, live.element, outlines.element, advice, h("div", { class: "row" }, take, keep, back, drop, toggle)),
      h("div", { class: "side" },
        h("section", { class: "panel" }, count, enough, strip, clear),
        h("form", { class: "panel answer-panel", onsubmit: learn },
          h("label", { for: "draw-name" }, "What is it called?"), field, note, save, progress, result),
        h("section", { class: "panel" }, h("h2", {}, "Areas it knows"), known))));

  function watch() {
    if (!app.segmenter) return app.watch();
    app.watch(`live:${app.camera.id}`, `draw:${app.segmenter}`, `knowledge:${app.segmenter}`, ...(areas.checked ? [`areas:${app.segmenter}`] : []));
  }
  watch();

  const act = (body) => app.act("draw", { ...node, ...body });

  function drawIn(picture) {
    taken = picture;
    for (const each of [outlines.element, keep, back, drop]) each.hidden = !taken;
    for (const each of [live.element, take, toggle]) each.hidden = Boolean(taken);
    if (taken) {
      outlines.load(taken);
      outlines.focus();
    } else render();
  }

  async function takePicture() {
    const answer = await act({ do: "take" });
    if (answer) drawIn(answer);
  }

  async function keepPicture() {
    const answer = await act({ do: "keep", id: taken.id, outlines: outlines.all });
    if (!answer) return;
    session = answer;
    drawIn(null);
    take.focus();
  }

  async function learn(event) {
    event.preventDefault();
    const label = field.value.trim();
    if (!label) return field.focus();
    const answer = await app.act("draw_learn", { ...node, label });
    if (!answer) return;
    job = { id: answer.job, label };
    result.hidden = false;
    say(result, `Learning “${label}” … This takes some minutes; the robot goes on meanwhile.`);
  }

  function follow(jobs) {
    const entry = jobEnded(job, jobs, progress);
    if (!entry) return;
    if (entry.state !== "done") return say(result, `“${job.label}” was not learned. ${entry.message} The pictures are still there: add some.`);
    field.value = "";
    act({ do: "clear" });
    say(result, `“${job.label}” is learned. Look at the picture: it has a colour of its own.`);
    toast(`It knows “${job.label}” now.`, { action: "Undo", run: undo });
  }

  const undo = () => app.act("undo", node, "Undone.");

  async function forget(label) {
    const sure = await ask({ title: `Forget “${pretty(label)}”?`, text: "The robot will take it for something else. You can undo this.", yes: "Forget it", danger: true });
    if (sure && (await app.act("forget", { ...node, label }))) toast(`“${pretty(label)}” is forgotten.`, { action: "Undo", run: undo });
  }

  function render() {
    const all = session.pictures.length;
    say(count, all === 1 ? "1 picture" : `${all} pictures`);
    say(enough, !all ? `At least ${session.fewest} must show it. They are kept here until it is learned.`
      : session.shown < session.enough ? `${session.shown} of ${all} show it. About ${session.enough} are enough, from different places.` : `${session.shown} of ${all} show it. That is enough.`);
    keyed(strip, session.pictures, (each) => each.id, thumbnail);
    clear.hidden = !all;
    take.disabled = !session.camera || session.full;
    save.disabled = session.shown < session.fewest;
    const taken_name = labels.find((label) => label.toLowerCase() === field.value.trim().toLowerCase());
    say(note, taken_name ? `It knows “${pretty(taken_name)}” already.` : "");
    if (!taken) say(advice, !app.segmenter ? "This camera has no part that tells areas apart."
      : session.full ? "That is as much as it can take. Give it a name."
      : session.camera ? "Look for a view that shows it, and take a picture." : "Waiting for the camera …");
  }

  function thumbnail(each) {
    const remove = () => act({ do: "remove", id: each.id });
    return h("button", { type: "button", class: "thumb", title: "Throw this picture away", "aria-label": each.outlines.length ? "A picture that shows it: throw away" : "A picture without it: throw away", onclick: remove },
      h("img", { src: each.picture, alt: "" }), svg("svg", { class: "outlines", viewBox: "0 0 1 1", preserveAspectRatio: "none" }, ...shapes(each.outlines)));
  }
  render();
  field.addEventListener("input", render);

  return {
    leave: () => live.close(),
    data(channel, data, image) {
      if (channel.startsWith("areas:")) live.draw(data, image);
      else if (channel.startsWith("live:")) { if (!areas.checked) live.draw({ ...data, boxes: [] }, image); }
      else if (channel.startsWith("draw:")) session = data;
      else if (channel.startsWith("knowledge:")) {
        labels = data.labels;
        keyed(known, data.classes.filter((each) => each.label !== "background"), (each) => each.label,
          (each) => h("li", {}, h("span", { class: "name" }, pretty(each.label)), h("button", { class: "flat", "aria-label": `Forget ${pretty(each.label)}`, onclick: () => forget(each.label) }, "Forget")));
        follow(data.jobs);
      }
      render();
    },
  };
}

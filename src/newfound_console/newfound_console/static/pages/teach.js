// SPDX-License-Identifier: Apache-2.0
// Hold a thing before the camera and turn it, until the robot says that it has seen enough.

import { Picture } from "../picture.js";
import { absent, h, jobEnded, keyed, percent, pretty, say, toast } from "../ui.js";

export function show(root, app) {
  let labels = [];
  let job = null; // what was taught last, to say when it is learned
  let session = { collecting: false, views: [] };
  let inView = "";
  const learning = () => Boolean(job && !job.told); // its views stay until then
  const picture = new Picture((box) => {
    if (learning()) return;
    picture.chosen = box.track;
    app.act("teach", { do: "collect", track: box.track });
  });
  const advice = h("p", { class: "advice", role: "status" });
  const start = h("button", { class: "primary", id: "collect", onclick: () => {
    if (session.collecting) app.act("teach", { do: "pause" });
    else app.act("teach", { do: "collect", track: picture.chosen || 0 });
  } }, "Start looking");
  const again = h("button", { id: "again", onclick: () => { picture.chosen = null; app.act("teach", { do: "clear" }); } }, "Another thing");
  const bar = h("div", { class: "bar", role: "progressbar", "aria-label": "Expected to be recognised", "aria-valuemin": "0", "aria-valuemax": "100" }, h("div", { class: "filled" }), h("div", { class: "goal" }));
  const number = h("p", { class: "big plain" }, "–");
  const honest = h("p", { class: "quiet" });
  const views = h("div", { class: "strip" });
  const count = h("h3", {});
  const field = h("input", { type: "text", id: "teach-name", maxlength: "100", list: "teach-names", autocomplete: "off", placeholder: "For example: blue mug" });
  const names = h("datalist", { id: "teach-names" });
  const save = h("button", { class: "primary", id: "learn" }, "Learn it");
  const note = h("p", { class: "quiet" });
  const result = h("p", { class: "result", role: "status", hidden: true });
  const progress = h("progress", { max: "1", hidden: true, "aria-label": "Learning" });

  root.append(
    h("div", { class: "head" }, h("h1", {}, "Teach a thing"), h("p", { class: "quiet" }, "Hold it before the camera, or lay it down. Turn it slowly, so that every side is seen.")),
    h("div", { class: "live" },
      h("section", { class: "stage", "aria-label": "Camera" }, picture.element, advice, h("div", { class: "row" }, start, again)),
      h("div", { class: "side" },
        h("section", { class: "panel" }, h("h2", {}, "Seen enough?"), number, bar, honest),
        h("section", { class: "panel" }, count, views),
        h("form", { class: "panel answer-panel", onsubmit: learn },
          h("label", { for: "teach-name" }, "What is it called?"), field, names, note, save, progress, result))));
  app.watch(...(app.detector ? [`live:${app.camera.id}`, `teach:${app.detector}`, `knowledge:${app.detector}`] : []));
  if (!app.detector) say(advice, absent("can learn things", "open_world_detector"));

  const known = () => labels.map(pretty).find((label) => label.toLowerCase() === pretty(field.value.trim().toLowerCase()));

  async function learn(event) {
    event.preventDefault();
    const label = field.value.trim();
    if (!label) return field.focus();
    const answer = await app.act("teach_learn", { label });
    if (!answer) return;
    job = { id: answer.job, label: answer.label };
    field.value = "";
    picture.chosen = null;
    result.hidden = false;
    say(result, `Learning “${pretty(label)}” …`);
  }

  function follow(jobs) {
    const entry = jobEnded(job, jobs, progress);
    if (!entry) return;
    if (entry.state !== "done") {
      say(result, `“${pretty(job.label)}” was not learned: ${entry.message}. Its views are still here: show more sides of it, or give it another name.`);
      return;
    }
    app.act("teach", { do: "clear" });
    say(result, `“${pretty(job.label)}” is learned. Show it again and see: it is tried right here.`);
    toast(`It knows “${pretty(job.label)}” now.`, { action: "Undo", run: () => app.act("undo", {}, "Undone.") });
  }

  function render() {
    const seen = session.views.length;
    start.textContent = session.collecting ? "Pause" : seen ? "Go on" : "Start looking";
    start.disabled = !app.detector || session.full || learning();
    again.hidden = !seen || learning();
    say(count, seen === 1 ? "1 view" : `${seen} different views`);
    keyed(views, session.views, (view) => view, (view) => h("img", { src: view, alt: "A view of the thing" }));
    const share = seen ? session.expected : 0;
    bar.firstChild.style.width = `${Math.round(share * 100)}%`;
    bar.lastChild.style.left = `${Math.round((session.target || 0.85) * 100)}%`;
    bar.classList.toggle("enough", Boolean(session.enough));
    bar.setAttribute("aria-valuenow", String(Math.round(share * 100)));
    say(number, !seen ? "–" : session.enough ? "Enough" : "Not yet");
    say(honest, seen < 2 ? "Each view is hidden once, and the robot must recognise it from the others."
      : `${session.recognised} of ${seen} views would be recognised from the others. Of new views: about ${percent(session.expected)}.`);
    save.disabled = seen < 2 || learning();
    say(note, known() ? `It knows “${known()}” already: these views are added to it.` : session.known && seen ? `It takes this for “${pretty(session.known)}”.` : "");
    say(advice, session.problem || (!app.detector ? absent("can learn things", "open_world_detector")
      : session.full ? "That is as much as it can take. Give it a name."
      : !session.collecting ? (inView || "Press Start, or tap the thing in the picture.")
      : !session.in_view ? "It is out of sight. Hold it before the camera."
      : session.enough ? "This is enough. Give it a name, or show more sides."
      : session.nothing_new > 4 ? "Nothing new: turn it to another side, or move it nearer."
      : "Good. Keep turning it slowly."));
  }
  render();
  field.addEventListener("input", render);

  return {
    leave: () => { picture.close(); if (session.collecting) app.act("teach", { do: "pause" }); },
    data(channel, data, image) {
      if (channel.startsWith("live:")) {
        picture.draw(data, image);
        inView = job?.told && data.boxes.some((box) => box.label.toLowerCase() === job.label.toLowerCase()) ? `It is in view and called “${pretty(job.label)}”.` : "";
      } else if (channel.startsWith("teach:")) session = data;
      else if (channel.startsWith("knowledge:")) {
        labels = data.labels;
        keyed(names, labels.slice(0, 500).map(pretty), (label) => label, (label) => h("option", { value: label }));
        follow(data.jobs);
      }
      render();
    },
  };
}

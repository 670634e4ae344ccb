// SPDX-License-Identifier: Apache-2.0
// The WebSocket, which comes back by itself, and requests that change something.

const TEXT = new TextDecoder();

export class Link extends EventTarget {
  #socket = null;
  #channels = [];
  #wait = 500;
  connected = false;

  connect() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.#wait = 500;
      this.#state(true);
      this.#send();
    };
    socket.onmessage = (event) => this.#receive(event.data);
    socket.onclose = () => {
      this.#state(false);
      setTimeout(() => this.#again(), this.#wait);
      this.#wait = Math.min(this.#wait * 1.6, 8000);
    };
    this.#socket = socket;
  }

  async #again() {
    // With another token than before the page begins anew, and asks for it.
    if ((await isOpen()) === false) location.reload();
    else this.connect();
  }

  watch(channels) {
    this.#channels = channels;
    this.#send();
  }

  #send() {
    // A tab that nobody sees needs no pictures.
    const wanted = document.hidden ? this.#channels.filter((name) => !name.startsWith("live:")) : this.#channels;
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ watch: wanted }));
  }

  visibility() {
    this.#send();
  }

  #receive(message) {
    let image = null;
    if (message instanceof ArrayBuffer) {
      const length = new DataView(message).getUint32(0);
      image = new Blob([new Uint8Array(message, 4 + length)], { type: "image/jpeg" });
      message = TEXT.decode(new Uint8Array(message, 4, length));
    }
    const { channel, data } = JSON.parse(message);
    this.dispatchEvent(new CustomEvent("data", { detail: { channel, data, image } }));
  }

  #state(connected) {
    this.connected = connected;
    this.dispatchEvent(new CustomEvent("state"));
  }
}

/** Whether the server lets this browser in; null if it does not answer. */
export async function isOpen() {
  const response = await fetch("/api/session").catch(() => null);
  return response?.ok ? (await response.json()).open : null;
}

export async function post(action, body = {}) {
  let response;
  try {
    response = await fetch(`/api/${action}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-newfound": "1" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The robot cannot be reached. Try again in a moment.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
  return answer;
}

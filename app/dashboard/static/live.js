// Additions to htmx: resuming a stream, showing the connection's state, and no polling in a hidden tab.
"use strict";
(() => {
  let last = null; // id of the newest message: "12", or "12.8" if candidates and verdict are from event 8

  htmx.createEventSource = (address) => {
    const url = new URL(address, location.href);
    if (last) {
      const [after, since] = last.split(".");
      url.searchParams.set("after", after);
      url.searchParams.set("since", since || after);
    }
    return new EventSource(url);
  };

  const say = (text, state) => {
    const element = document.getElementById("connection");
    if (!element || element.textContent === text) return;
    element.textContent = text;
    element.dataset.state = state;
  };
  const on = (name, act) => document.addEventListener(name, act);

  on("htmx:sseOpen", () => say("Live", "live"));
  on("htmx:sseError", () => say("Connection lost, reconnecting", "lost"));
  on("htmx:sseClose", () => say("", ""));
  on("htmx:sseMessage", (event) => {
    last = event.detail.lastEventId || last;
    follow();
  });

  // Do not replace equal nodes: that would lose a selection or the focus.
  on("htmx:oobBeforeSwap", (event) => {
    const { target, fragment, shouldSwap } = event.detail;
    const fresh = fragment && fragment.firstElementChild;
    if (shouldSwap && fresh && fresh.isEqualNode(target)) event.detail.shouldSwap = false;
    // Keep patches open or closed as the user left them.
    if (fresh && target instanceof HTMLDetailsElement && fresh.id === target.id) fresh.open = target.open;
  });

  on("htmx:beforeRequest", (event) => {
    const polls = event.detail.elt.id === "attempts";
    if (polls && document.hidden) event.preventDefault();
  });

  // Scroll to the newest line of the timeline, unless the user has scrolled up.
  let scrolledUp = false;
  const follow = () => {
    const log = document.getElementById("timeline");
    if (log && !scrolledUp) log.scrollTop = log.scrollHeight;
  };
  on("DOMContentLoaded", () => {
    const log = document.getElementById("timeline");
    if (!log || !document.querySelector("[sse-connect]")) return;
    follow();
    log.addEventListener("scroll", () => { scrolledUp = log.scrollHeight - log.scrollTop - log.clientHeight > 40; }, { passive: true });
  });
})();

// What htmx does not do by itself: a stream that goes on where it was, a word on the connection, and no work in a hidden tab.
"use strict";
(() => {
  let last = null; // id of the newest message: "12", or "12.8" where candidates and verdict are those of event 8

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
    const place = document.getElementById("connection");
    if (!place || place.textContent === text) return;
    place.textContent = text;
    place.dataset.state = state;
  };
  const on = (name, act) => document.addEventListener(name, act);

  on("htmx:sseOpen", () => say("Live", "live"));
  on("htmx:sseError", () => say("Connection lost, trying again", "lost"));
  on("htmx:sseClose", () => say("", ""));
  on("htmx:sseMessage", (event) => {
    last = event.detail.lastEventId || last;
    follow();
  });

  // What is the same stays as it is: a selection in it, and the focus.
  on("htmx:oobBeforeSwap", (event) => {
    const { target, fragment, shouldSwap } = event.detail;
    const fresh = fragment && fragment.firstElementChild;
    if (shouldSwap && fresh && fresh.isEqualNode(target)) event.detail.shouldSwap = false;
    // A change that somebody opened or closed stays so.
    if (fresh && target instanceof HTMLDetailsElement && fresh.id === target.id) fresh.open = target.open;
  });

  on("htmx:beforeRequest", (event) => {
    const polls = event.detail.elt.id === "attempts";
    if (polls && document.hidden) event.preventDefault();
  });

  // The timeline shows its newest line, unless somebody reads further up.
  let reads = false;
  const follow = () => {
    const log = document.getElementById("timeline");
    if (log && !reads) log.scrollTop = log.scrollHeight;
  };
  on("DOMContentLoaded", () => {
    const log = document.getElementById("timeline");
    if (!log || !document.querySelector("[sse-connect]")) return;
    follow();
    log.addEventListener("scroll", () => { reads = log.scrollHeight - log.scrollTop - log.clientHeight > 40; }, { passive: true });
  });
})();

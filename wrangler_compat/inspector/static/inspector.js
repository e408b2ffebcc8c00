// Keeps a page as it is now: when the emulator says that something has changed, the page is asked for again, and what is
// live on it is replaced. What is open stays open, and nothing moves while somebody types, or holds a button of the mouse:
// a click on what is replaced between its press and its release would be lost.

let live = document.getElementById("live");
let source = null;
let asking = false;
let askAgain = false;
let pressed = false;
let missed = false;

function watch() {
  source = new EventSource(live.dataset.changes);
  source.addEventListener("changed", refresh);
}

async function refresh() {
  if (asking) {
    askAgain = true;
    return;
  }
  asking = true;
  const began = performance.now();
  try {
    const answer = await fetch(live.dataset.page);
    if (answer.status === 404) {
      source.close();
    }
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // The emulator is gone. The source connects again when it is back, and is told of a change then.
  }
  // A page that takes long to make, of an instance of thousands of steps, is asked for less often.
  await new Promise((over) => setTimeout(over, 4 * (performance.now() - began)));
  asking = false;
  if (askAgain) {
    askAgain = false;
    refresh();
  }
}

function show(page) {
  if (pressed) {
    missed = true;
    return;
  }
  if (live.contains(document.activeElement) && document.activeElement.matches("input, textarea")) {
    return;
  }
  const open = [...live.querySelectorAll("details[open][id]")].map((each) => each.id);
  const focused = document.activeElement?.closest("details[id]")?.id;
  const fresh = page.getElementById("live");
  if (fresh) {
    live.replaceWith(fresh);
    live = fresh;
  } else {
    live.replaceChildren(...page.body.childNodes);
  }
  document.title = page.title;
  for (const id of open) {
    document.getElementById(id)?.setAttribute("open", "");
  }
  if (focused) {
    document.getElementById(focused)?.querySelector("summary").focus();
  }
}

document.addEventListener("pointerdown", () => {
  pressed = true;
});
for (const end of ["pointerup", "pointercancel"]) {
  document.addEventListener(end, () => {
    pressed = false;
    if (missed) {
      missed = false;
      setTimeout(refresh); // after the click that this ends
    }
  });
}

// A browser has few connections for a server: a page that nobody sees needs none.
document.addEventListener("visibilitychange", () => {
  source?.close();
  if (!document.hidden) {
    watch();
  }
});

if (!document.hidden) {
  watch();
}

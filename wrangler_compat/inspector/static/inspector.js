// Keeps a page as it is now: when the emulator says that something has changed, the page is asked for again, and what is
// live on it is replaced. What is open stays open, and nothing moves while somebody types.

let live = document.getElementById("live");
let source = null;
let asking = false;
let askAgain = false;

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

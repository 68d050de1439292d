// What is composed stays in this tab, through a reload and a sign-in, until it is put up or begun anew. It is kept in
// the browser only, and the server draws the form that it means. What is said of it, and the buttons beside that, are of
// what was checked: while the form says anything else, nothing there can be pressed.
{
  const form = document.getElementById("ask");
  const again = document.getElementById("again");
  const place = `thebes.draft ${location.pathname}${location.search}`;
  const storage = (work) => {
    try {
      return work(sessionStorage);
    } catch {
      return null; // a browser that keeps nothing, or has no room for it: then a reload forgets, as before
    }
  };
  const typed = () => {
    const body = {};
    for (const [name, value] of new FormData(form)) body[name] = name in body ? [].concat(body[name], value) : value;
    return JSON.stringify(body);
  };
  const restore = async (body) => {
    form.inert = true;
    try {
      const answer = await fetch("/ask/fields", {
        method: "POST",
        headers: { "Content-Type": "application/json", "HX-Request-Type": "partial" },
        body,
      });
      if (!answer.ok) return;
      const made = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("fields");
      document.getElementById("fields").replaceWith(made);
      htmx.process(made);
      again.hidden = false;
      form.dispatchEvent(new Event("recheck"));
    } catch {
      // The server is away. What was kept stays kept for the next load.
    } finally {
      form.inert = false;
    }
  };
  const keep = () => storage((kept) => kept.setItem(place, typed()));
  for (const kind of ["input", "change", "recheck"]) form.addEventListener(kind, keep, { capture: true }); // some stop on their way
  again.querySelector("button").addEventListener("click", () => {
    storage((kept) => kept.removeItem(place));
    location.reload();
  });
  document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    if (ctx.request.action === "/ask" && ctx.response.headers.has("HX-Redirect")) storage((kept) => kept.removeItem(place));
  });
  const verdict = document.getElementById("verdict");
  let sent;
  let shown;
  const look = () => (verdict.inert = typed() !== shown);
  const checking = ({ detail: { ctx } }) => ctx?.request?.action === "/ask/check";
  for (const kind of ["input", "change", "recheck"]) form.addEventListener(kind, look, { capture: true });
  document.addEventListener("htmx:before:request", (event) => checking(event) && (sent = typed()));
  document.addEventListener("htmx:after:swap", (event) => {
    if (!checking(event)) return;
    shown = sent;
    look();
  });
  verdict.addEventListener("click", async ({ target }) => {
    if (!target.dataset.copy) return;
    const text = document.getElementById(target.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      target.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text); // without a clipboard it is marked, to be copied by hand
    }
  });
  const before = storage((kept) => kept.getItem(place));
  if (before) document.addEventListener("DOMContentLoaded", () => restore(before));
}

// The little that pages do by themselves: writes travel as JSON, problems are told in words, links in menus work.
// Everything else is htmx and the server.
// What is no JSON travels as the text it is, and the server says what is wrong with it.
const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};
const note = (words) => {
  const made = document.createElement("p");
  made.className = "note bad";
  made.tabIndex = -1;
  made.textContent = words;
  return made;
};
const say = (element, words) => element.querySelector?.(".outcome")?.replaceChildren(note(words));
// What a page shows and keeps fresh by itself may be old once nobody answers; it says so until somebody does.
const gone = (lost) => {
  const told = document.querySelector("#gone");
  if (!lost) return told?.remove();
  if (told) return;
  const made = note("The server of this page does not answer any more, so what stands here may be old. Start it again. Its command prints the address: where that is another one than before, open it; else load this page anew.");
  made.id = "gone";
  made.setAttribute("role", "alert");
  document.querySelector("main h1")?.after(made);
};
const tell = (ctx, words) => {
  ctx.text = note(words).outerHTML;
  if (ctx.sourceElement.querySelector?.(".outcome")) Object.assign(ctx.hx, { retarget: "find .outcome", reswap: "innerHTML" });
};
// How many questions are new stands before the title, where somebody wants to be told.
document.addEventListener("changed", ({ detail }) => {
  const rest = document.title.replace(/^\(\d+\) /, "");
  if (typeof detail?.badge === "number") document.title = detail.badge ? `(${detail.badge}) ${rest}` : rest;
});
htmx.registerExtension("thebes", {
  // Servers of Thebes take JSON only, which no foreign page can send here.
  htmx_config_request: (element, detail) => {
    const request = detail.ctx.request;
    if (request.method === "GET" || request.method === "DELETE" || !request.body) return;
    const body = {};
    const form = element.closest?.("form") ?? element;
    for (const [name, value] of request.body) {
      const typed = form.querySelector?.(`[name="${CSS.escape(name)}"]`)?.dataset.type;
      if (typed === "number" && value === "") continue; // left empty means not said
      const read = typed === "number" ? Number(value) : typed === "json" ? parsed(value) : value;
      body[name] = name in body ? [].concat(body[name], read) : read;
    }
    const text = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
    // htmx turns what is iterable into form fields once more; words are handed over just before they leave.
    detail.ctx.thebes = text;
  },
  // A server's own refusals (no session any more, for one) are problem details: their sentence is what people read.
  htmx_after_request: (element, detail) => {
    const { ctx } = detail;
    if (ctx.request.action === "/sign-out") sessionStorage.clear(); // what this tab keeps was composed by who leaves
    gone(false);
    if (!ctx.response.headers.get("content-type")?.includes("problem+json")) return;
    const ended = "Your session has ended. Load this page anew to see how to come in again.";
    tell(ctx, ctx.response.status === 401 ? ended : JSON.parse(ctx.text).detail);
  },
  htmx_error: (element, detail) => {
    if (!detail.ctx?.request || detail.ctx.response) return;
    if (detail.ctx.request.method === "GET") gone(true);
    else say(element, "The server does not answer. Is it still running?");
  },
  htmx_before_request: (element, detail) => {
    // What was told of an earlier press does not stand beside what this one comes to.
    if (element.matches?.("form")) {
      for (const told of document.querySelectorAll(".note[autofocus]")) told.remove();
      element.querySelector(".outcome")?.replaceChildren();
    }
    if (detail.ctx.thebes !== undefined) detail.ctx.request.body = detail.ctx.thebes;
  },
});

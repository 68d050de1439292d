// The beginning of a chosen file is read here, and its first line goes into the form; the file is part of no request.
document.addEventListener("change", async ({ target }) => {
  const form = target.form;
  const chooser = form?.querySelector("[data-first-line]");
  const file = chooser?.files[0];
  if (!file || (target !== chooser && target.name !== "encoding")) return;
  const encoding = form.elements.encoding.value;
  const header = document.getElementById(chooser.dataset.firstLine);
  form.querySelector(".outcome").replaceChildren();
  const begin = await file.slice(0, 65536).arrayBuffer();
  try {
    // A letter that the end of the piece cuts in two is no fault of the file.
    const text = new TextDecoder(encoding, { fatal: true }).decode(begin, { stream: true });
    header.value = text.split(/\r?\n/, 1)[0];
  } catch {
    header.value = "";
    say(form, `This file is not text in ${encoding}. Choose above the encoding in which it was written: of programs on Windows in Western Europe that is mostly windows-1252.`);
  }
});

// Only the first line of a chosen file is read, here; the file itself is part of no request.
document.addEventListener("change", async ({ target }) => {
  const into = target.dataset?.firstLine;
  if (!into || !target.files?.length) return;
  const begin = await target.files[0].slice(0, 65536).text();
  document.getElementById(into).value = begin.split(/\r?\n/, 1)[0];
});

// What a page must keep to for those who do not see it, do not use a mouse, or see little. Returns sentences.
() => {
  const found = [];
  const name = (e) => `<${e.tagName.toLowerCase()}${e.id ? " id=" + e.id : ""}${e.name ? " name=" + e.name : ""}>`;
  const shown = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: false });
  const all = (selector) => [...document.querySelectorAll(selector)];
  const words = (e) => (e.getAttribute("aria-label") || byId(e) || e.textContent || "").trim();
  const byId = (e) =>
    (e.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean)
      .map((id) => document.getElementById(id)?.textContent || "").join(" ");

  if (!document.documentElement.lang) found.push("the page does not say its language");
  if (all("h1").length !== 1) found.push(`there are ${all("h1").length} headings of the first order`);
  if (all("main").length !== 1) found.push("there is not exactly one main part");
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6").filter(shown)) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) found.push(`the heading “${heading.textContent.trim()}” leaves out an order`);
    if (!heading.textContent.trim()) found.push("a heading is empty");
    level = next;
  }
  const ids = all("[id]").map((e) => e.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) found.push(`two things are called ${id}`);
  for (const e of all("[aria-labelledby]")) if (!byId(e).trim()) found.push(`${name(e)} is labelled by nothing`);
  for (const e of all("input:not([type=hidden]), select, textarea")) {
    if (![...(e.labels || [])].some((l) => l.textContent.trim()) && !e.getAttribute("aria-label")) found.push(`${name(e)} has no label`);
  }
  for (const e of all("button, a[href], summary")) if (!words(e)) found.push(`${name(e)} has no words`);
  for (const e of all("img")) if (!e.hasAttribute("alt")) found.push("a picture has no words");
  for (const e of all("svg")) {
    if (e.getAttribute("role") !== "img" || !e.querySelector("title")?.textContent.trim()) found.push("a drawing has no title");
  }
  for (const e of all("table")) if (!e.querySelector("th[scope]")) found.push("a table has no headers");
  for (const e of all("fieldset")) if (!e.querySelector("legend")?.textContent.trim()) found.push("a group of fields has no legend");
  for (const e of all("[tabindex]")) if (Number(e.getAttribute("tabindex")) > 0) found.push(`${name(e)} jumps the order of the keyboard`);
  for (const e of all("*")) {
    const scrolls = (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1) && shown(e);
    const style = getComputedStyle(e);
    if (scrolls && /auto|scroll/.test(style.overflowX + style.overflowY) && e.tabIndex < 0 && e !== document.body && e.tagName !== "TEXTAREA") {
      found.push(`${name(e)} scrolls, and the keyboard cannot reach it`);
    }
  }

  const channel = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const colour = (text) => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const over = (front, back) => {
    const alpha = front[3] ?? 1;
    return [0, 1, 2].map((i) => front[i] * alpha + back[i] * (1 - alpha));
  };
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(colour(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255]);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const told = new Set();
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !shown(e) || e.closest("script, style, title, noscript, :disabled, .unseen, .skip")) continue;
    const style = getComputedStyle(e);
    const drawn = e.namespaceURI.endsWith("svg");
    const back = behind(drawn ? e.closest("svg").parentElement : e);
    const front = over(colour(drawn ? style.fill : style.color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) {
      const key = `${name(e)} .${e.className.baseVal ?? e.className}`;
      if (!told.has(key)) found.push(`${key} “${texts.currentNode.data.trim().slice(0, 30)}” has a contrast of ${ratio.toFixed(2)}`);
      told.add(key);
    }
  }
  return found;
}

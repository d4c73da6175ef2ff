(() => {
  const faults = [];
  const doc = document.documentElement;
  const say = (e, what) => faults.push(`<${e.tagName.toLowerCase()}> ${(e.textContent || "").trim().slice(0, 40)}: ${what}`);
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  if (!doc.lang || !document.title) say(doc, "no language or title");
  if (document.querySelectorAll("h1").length !== 1 || !document.querySelector("main")) say(doc, "no single h1, or no main");
  if (doc.scrollWidth > innerWidth) say(doc, `scrolls sideways: ${doc.scrollWidth} in ${innerWidth}`);

  // WCAG 2.2: relative luminance and contrast.
  const rgb = (s) => s.match(/[\d.]+/g).map(Number);
  const lum = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !e.checkVisibility()) continue;
    const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) say(e, `contrast ${((a + 0.05) / (b + 0.05)).toFixed(1)}`);
    if (parseFloat(getComputedStyle(e).fontSize) < 14) say(e, "small text");
  }
  document.querySelectorAll("a, summary").forEach((e) => {
    const r = e.getBoundingClientRect();
    if (!e.textContent.trim()) say(e, "no name");
    if (r.height < 24 && !e.closest("p, li, dd, nav, footer")) say(e, `${r.width} by ${r.height} is hard to hit`);
    if (r.right > innerWidth + 1) say(e, "out of the screen");
  });
  document.querySelectorAll("progress, svg").forEach((e) => {
    const by = e.getAttribute("aria-labelledby");
    if (!e.getAttribute("aria-label") && !(by && document.getElementById(by))) say(e, "no name");
  });
  if (document.querySelector("script, iframe, link[rel=stylesheet], [style], [onclick]")) say(doc, "there is what the policy forbids");
  return faults.join("\n");
})()

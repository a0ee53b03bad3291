"use strict";
// A field that hides the parameters of the page that do not have the words typed into it.
(function () {
  const field = document.createElement("input");
  Object.assign(field, { type: "search", placeholder: "Filter by name, alias or word" });
  field.setAttribute("aria-label", "filter the parameters");
  document.querySelector("div.filter").append(field);
  const parts = []; // of each section its elements and text; a heading of a group has the parts below it
  for (const heading of document.querySelectorAll("h2.group, h3.parameter")) {
    const elements = [heading];
    for (let next = heading.nextElementSibling; next && !/^H[123]$/.test(next.tagName); next = next.nextElementSibling) {
      elements.push(next);
    }
    const text = elements.map((each) => each.textContent).join(" ").toLowerCase();
    parts.push({ elements, isGroup: heading.tagName === "H2", text });
  }
  field.addEventListener("input", function () {
    const words = field.value.toLowerCase().split(/\s+/);
    let isShown = false; // one of the group
    for (const part of [...parts].reverse()) {
      const matches = part.isGroup ? isShown : words.every((word) => part.text.includes(word));
      isShown = part.isGroup ? false : isShown || matches;
      for (const each of part.elements) each.hidden = !matches;
    }
  });
})();

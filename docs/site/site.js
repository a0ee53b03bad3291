"use strict";
// Code that is wider than its place can be scrolled from the keyboard.
function reachScrolling() {
  for (const code of document.querySelectorAll("pre > code")) {
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  }
}
addEventListener("load", reachScrolling);
addEventListener("resize", reachScrolling);

"use strict";
// Code and tables that are wider than their place can be scrolled from the keyboard.
function reachScrolling() {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  }
}
addEventListener("load", reachScrolling);
addEventListener("resize", reachScrolling);

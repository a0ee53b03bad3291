"use strict";
// Draws the charts, switches between light and dark, and copies code.
(function () {
  const root = document.documentElement;
  const media = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  media.addEventListener("change", function () {
    if (!chosen) root.dataset.theme = media.matches ? "dark" : "light";
  });
  document.getElementById("theme").addEventListener("click", function () {
    chosen = true;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  });

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", function () {
      const range = document.createRange();
      range.selectNodeContents(button.parentElement.querySelector("code"));
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      // Pages of a file have no other clipboard in some browsers.
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      setTimeout(function () { button.textContent = "Copy"; }, 2000);
    });
  }

  const font = getComputedStyle(document.body).fontFamily;
  const options = {
    renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
    config: {
      background: null,
      font: font,
      view: { stroke: "#dddddd" },
      axis: { labelFontSize: 11, titleFontSize: 12, titleFontWeight: 500, gridOpacity: 0.7 },
      legend: { labelFontSize: 11, titleFontSize: 11, titleFontWeight: 500 },
    },
  };
  const charts = JSON.parse(document.getElementById("charts").textContent);
  Promise.all(charts.map(function (chart, number) {
    const place = document.getElementById("chart-" + number);
    return vegaEmbed(place, chart, options).then(
      function () {
        place.dataset.drawn = "yes";
        // As wide as its column, but not so wide that its letters are larger than those around it.
        const drawing = place.querySelector("svg");
        if (drawing) drawing.style.maxWidth = 1.2 * drawing.viewBox.baseVal.width + "px";
      },
      function (error) {
        place.textContent = "This chart could not be drawn: " + error.message;
        console.error(error);
      });
  })).then(function () { root.dataset.charts = "drawn"; });
})();

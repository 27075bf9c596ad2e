"use strict";
(function () {
  const PRINT_WIDTH = 660; // pixels of a portrait A4 or Letter page between its margins
  const print = window.matchMedia("print");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = [];

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  const styles = {
    start: ["slot-6", 0.55], work: ["slot-0", 0.75], save: ["slot-4", 1],
    checkpoint: ["slot-2", 1], resume: ["ink", 1], stop: ["slot-1", 1], lost: ["slot-1", 1], limit: ["slot-1", 1], text: ["ink", 1],
  };

  function paint(trace) {
    const meta = trace.meta || {};
    const style = styles[meta.style];
    const main = style ? colour(style[0]) : colour("slot-" + ((meta.slot || 0) % 8));
    const painted = Object.assign({}, trace);
    if (trace.type === "bar") {
      painted.marker = { color: main, opacity: style ? style[1] : 1, line: { color: colour("paper"), width: meta.gap ? 1.5 : 0 } };
      painted.outsidetextfont = { color: colour("ink") };
      painted.textfont = { size: 12 };
      if (trace.error_x) { painted.error_x = Object.assign({}, trace.error_x, { color: colour("ink") }); }
    } else {
      painted.line = Object.assign({}, trace.line, { color: main });
      painted.marker = Object.assign({}, trace.marker, {
        color: main, line: Object.assign({ color: colour("paper"), width: 1 }, (trace.marker || {}).line),
      });
    }
    return painted;
  }

  function axis(given) {
    return Object.assign({ gridcolor: colour("grid"), linecolor: colour("rule"), zerolinecolor: colour("rule"), tickcolor: colour("rule"),
      automargin: true, title: undefined }, given,
      given.title ? { title: { text: given.title.text, font: { size: 12.5, color: colour("quiet") } } } : {});
  }

  function layout(given, width) {
    const painted = Object.assign({}, given, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("ink") },
      margin: Object.assign({ l: 56, r: 16, t: 34, b: 44 }, given.margin),
      legend: Object.assign({ orientation: "h", x: 0, y: 1, xanchor: "left", yanchor: "bottom" }, given.legend),
      hoverlabel: { bgcolor: colour("ink"), bordercolor: colour("ink"), font: { color: colour("paper"), size: 12.5 }, align: "left" },
      xaxis: axis(given.xaxis), yaxis: axis(given.yaxis),
    });
    if (width) { painted.width = width; painted.autosize = false; } else { painted.autosize = true; }
    return painted;
  }

  function draw(width) {
    for (const chart of charts) {
      window.Plotly.react(chart.place, chart.figure.data.map(paint), layout(chart.figure.layout, width),
        { displayModeBar: false, responsive: !width, displaylogo: false });
    }
  }

  for (const place of document.querySelectorAll(".chart")) {
    const figure = JSON.parse(place.querySelector("script").textContent);
    place.textContent = "";
    charts.push({ place: place, figure: figure });
  }
  draw(0);
  dark.addEventListener("change", function () { draw(0); });
  print.addEventListener("change", function (event) { draw(event.matches ? PRINT_WIDTH : 0); });

  const tip = document.getElementById("tip");
  function show(target) {
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const box = target.getBoundingClientRect();
    const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 12);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = Math.max(8, left) + window.scrollX + "px";
    tip.style.top = (above > 4 ? above : box.bottom + 8) + window.scrollY + "px";
  }
  function near(event) { return event.target instanceof Element ? event.target.closest("[data-tip]") : null; }
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, function (event) { const target = near(event); if (target) { show(target); } });
  }
  for (const kind of ["pointerout", "focusout"]) { document.addEventListener(kind, function () { tip.hidden = true; }); }
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { tip.hidden = true; } });
})();

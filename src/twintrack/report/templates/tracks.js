"use strict";
(function () {
  const ROW = 24, GAP = 4, AXIS = 30, LEAST_TEXT = 46;
  const tip = document.getElementById("tip");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const print = window.matchMedia("print");

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }

  function time(ps) {
    const size = Math.abs(ps);
    const [factor, unit] = size >= 1e9 ? [1e9, "ms"] : size >= 1e6 ? [1e6, "µs"] : size >= 1e3 ? [1e3, "ns"] : [1, "ps"];
    return Number((ps / factor).toPrecision(5)) + " " + unit;
  }

  function unpack(lane) {
    const count = lane.spans.length / 4;
    const starts = new Float64Array(count), ends = new Float64Array(count), waits = new Float64Array(count);
    const labels = new Uint32Array(count);
    let at = 0;
    for (let i = 0; i < count; i += 1) {
      starts[i] = at + lane.spans[4 * i];
      ends[i] = at = starts[i] + lane.spans[4 * i + 1];
      labels[i] = lane.spans[4 * i + 2];
      waits[i] = lane.spans[4 * i + 3];
    }
    return { name: lane.name, slot: lane.slot, starts: starts, ends: ends, waits: waits, labels: labels, blocks: lane.blocks, count: count };
  }

  function firstEndingAfter(lane, ps) {
    let low = 0, high = lane.count;
    while (low < high) { const middle = (low + high) >> 1; if (lane.ends[middle] > ps) { high = middle; } else { low = middle + 1; } }
    return low;
  }

  function view(place) {
    const data = JSON.parse(place.querySelector("script").textContent);
    const lanes = data.lanes.map(unpack);
    const canvas = place.querySelector("canvas");
    const pen = canvas.getContext("2d");
    let from = 0, to = data.length, width = 0, gutter = 90;
    const height = lanes.length * (ROW + GAP) + AXIS;

    function left(ps) { return gutter + (ps - from) / (to - from) * (width - gutter); }
    function at(x) { return from + (x - gutter) / (width - gutter) * (to - from); }

    function axis() {
      const target = (to - from) / Math.max(2, Math.floor((width - gutter) / 110));
      const power = Math.pow(10, Math.floor(Math.log10(target)));
      const step = [1, 2, 5, 10].map(function (n) { return n * power; }).find(function (n) { return n >= target; });
      pen.textAlign = "center"; pen.fillStyle = colour("quiet"); pen.strokeStyle = colour("grid"); pen.lineWidth = 1;
      for (let ps = Math.ceil(from / step) * step; ps <= to; ps += step) {
        const x = Math.round(left(ps)) + 0.5;
        pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height - AXIS + 4); pen.stroke();
        const text = time(ps), half = pen.measureText(text).width / 2;
        pen.fillText(text, Math.min(Math.max(x, gutter + half), width - half), height - AXIS + 18);
      }
    }

    function row(lane, top, paper) {
      const main = colour("slot-" + lane.slot % 8);
      let drawn = -1;
      for (let i = firstEndingAfter(lane, from); i < lane.count && lane.starts[i] - lane.waits[i] < to; i += 1) {
        const x0 = Math.max(gutter, left(lane.starts[i])), x1 = Math.min(width, left(lane.ends[i]));
        if (lane.waits[i] > 0) {
          const w0 = Math.max(gutter, left(lane.starts[i] - lane.waits[i]));
          if (x0 - w0 >= 1) { pen.fillStyle = colour("slot-6"); pen.globalAlpha = 0.55; pen.fillRect(w0, top + ROW / 2 - 1, x0 - w0, 2); pen.globalAlpha = 1; }
        }
        if (x1 < gutter || x0 > width) { continue; }
        const block = lane.blocks[i];
        const thin = x1 - x0 < 1;
        if (thin && x0 < drawn) { continue; }
        pen.fillStyle = main;
        pen.globalAlpha = block ? 0.35 + 0.65 * block[1] / Math.max(1, lane.ends[i] - lane.starts[i]) : 1;
        pen.fillRect(x0, top, Math.max(1, x1 - x0), ROW);
        pen.globalAlpha = 1;
        drawn = Math.max(x0 + 1, x1);
        if (x1 - x0 > 4) { pen.fillStyle = paper; pen.fillRect(x1 - 1, top, 1, ROW); }
        if (x1 - x0 > LEAST_TEXT) { name(i, lane, x0, x1, top, paper); }
      }
    }

    function name(i, lane, x0, x1, top, paper) {
      const block = lane.blocks[i];
      let text = block ? block[0] + " instructions" : data.labels[lane.labels[i]].split("\n")[0];
      const room = x1 - x0 - 10;
      while (text.length > 3 && pen.measureText(text).width > room) { text = text.slice(0, -2) + "…"; }
      if (pen.measureText(text).width <= room) { pen.textAlign = "left"; pen.fillStyle = paper; pen.fillText(text, x0 + 5, top + ROW / 2 + 4); }
    }

    function draw() {
      const paper = colour("paper"), scale = window.devicePixelRatio || 1;
      width = place.clientWidth;
      canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); canvas.style.height = height + "px";
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      pen.font = "12px " + getComputedStyle(document.body).fontFamily;
      gutter = Math.min(width * 0.34, 14 + Math.max(...lanes.map(function (lane) { return pen.measureText(lane.name).width; })));
      axis();
      lanes.forEach(function (lane, number) {
        const top = number * (ROW + GAP) + GAP;
        pen.fillStyle = colour("raised"); pen.globalAlpha = 0.7; pen.fillRect(gutter, top, width - gutter, ROW); pen.globalAlpha = 1;
        pen.save(); pen.beginPath(); pen.rect(gutter, 0, width - gutter, height); pen.clip(); row(lane, top, paper); pen.restore();
        pen.textAlign = "left"; pen.fillStyle = colour("ink"); pen.fillText(lane.name, 0, top + ROW / 2 + 4, gutter - 8);
      });
      place.querySelector("output").textContent = time(from) + " to " + time(to) + " of " + time(data.length);
    }

    function move(low, high) {
      const least = Math.min(data.length, 2000), span = Math.min(data.length, Math.max(least, high - low));
      const middle = (low + high) / 2;
      from = Math.max(0, Math.min(data.length - span, middle - span / 2)); to = from + span;
      draw();
    }
    function zoom(factor, around) { const c = around === undefined ? (from + to) / 2 : around; move(c - (c - from) * factor, c + (to - c) * factor); }
    function shift(part) { const d = (to - from) * part; move(from + d, to + d); }

    function found(x, y) {
      const lane = lanes[Math.floor((y - GAP / 2) / (ROW + GAP))];
      if (!lane || x < gutter) { return null; }
      const near = 2 * (to - from) / (width - gutter), ps = at(x);
      const first = firstEndingAfter(lane, ps - near);
      for (let i = first; i < lane.count && i < first + 3; i += 1) {
        if (lane.starts[i] <= ps + near && lane.ends[i] >= ps - near) { return [lane, i, false]; }
        if (ps < lane.starts[i] && ps >= lane.starts[i] - lane.waits[i]) { return [lane, i, true]; }
      }
      return null;
    }

    function tell(hit) {
      const [lane, i, waiting] = hit, block = lane.blocks[i], length = lane.ends[i] - lane.starts[i];
      const when = "at " + time(lane.starts[i]) + " for " + time(length);
      if (block) { return lane.name + ": " + block[0] + " instructions\n" + when + ", active " + time(block[1]); }
      const text = data.labels[lane.labels[i]].split("\n");
      const wait = lane.waits[i] > 0 ? " after waiting " + time(lane.waits[i]) : "";
      return [(waiting ? "waiting: " : "") + text[0], when + wait].concat(text.slice(1)).join("\n");
    }

    let drag = null;
    canvas.addEventListener("pointerdown", function (event) { drag = { x: event.clientX, from: from, to: to }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", function () { drag = null; });
    canvas.addEventListener("pointermove", function (event) {
      if (drag) { const d = (drag.x - event.clientX) / (width - gutter) * (drag.to - drag.from); tip.hidden = true; move(drag.from + d, drag.to + d); return; }
      const box = canvas.getBoundingClientRect(), hit = found(event.clientX - box.left, event.clientY - box.top);
      tip.hidden = !hit;
      if (!hit) { return; }
      tip.textContent = tell(hit);
      const room = document.documentElement.clientWidth - tip.offsetWidth - 12;
      tip.style.left = Math.max(8, Math.min(event.clientX + 12, room)) + window.scrollX + "px";
      tip.style.top = event.clientY + 18 + window.scrollY + "px";
    });
    canvas.addEventListener("pointerleave", function () { tip.hidden = true; });
    canvas.addEventListener("dblclick", function (event) { zoom(0.4, at(event.clientX - canvas.getBoundingClientRect().left)); });
    canvas.addEventListener("wheel", function (event) {
      if (!event.ctrlKey && !event.metaKey) { return; }
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.004), at(event.clientX - canvas.getBoundingClientRect().left));
    }, { passive: false });
    const actions = { "in": function () { zoom(0.5); }, out: function () { zoom(2); }, back: function () { shift(-0.5); }, on: function () { shift(0.5); }, all: function () { move(0, data.length); } };
    for (const button of place.querySelectorAll("button")) { button.addEventListener("click", actions[button.dataset.do]); }
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "back", ArrowRight: "on", "0": "all" };
    canvas.addEventListener("keydown", function (event) { const act = keys[event.key]; if (act) { event.preventDefault(); actions[act](); } });
    new ResizeObserver(function () { if (place.clientWidth !== width) { draw(); } }).observe(place);
    dark.addEventListener("change", draw);
    print.addEventListener("change", draw);
    draw();
  }
  document.querySelectorAll(".tracks").forEach(view);
})();

"use strict";

// Puts the page together. The data of a device stands in its section as JSON, made by device_json() in device_page.cpp;
// times are microseconds since the process began to record, all sizes are bytes:
//   process, device, hasBlocks, capacity (0: unknown), duration, steps [[step, end]], curve {time, allocated, reserved,
//   workspace}, holders and moments (holders.js), peakMoment, refusalMoment (null: none), layout {refusal, time, step,
//   segments [[address, bytes, blocks, used, largest hole]], blocks [[offset, bytes, requested, holder, step]] in the
//   order of their segments, notDrawn}

const drydockPage = { devices: [] };

function showDevice(section) {
  const data = JSON.parse(section.querySelector("script.data").textContent);
  const curve = section.querySelector(".curve");
  if (curve === null) return { section, redraw() {} };
  const moments = new Moments(data);
  const flame = drawFlame(section.querySelector(".flame"), data, moments);
  const chart = drawCurve(curve, data, moments, (moment) => flame.show(moment));
  const map = drawSegments(section.querySelector(".map"), data, moments);
  return {
    section, data, moments, chart,
    redraw() {
      chart.redraw();
      if (moments.list.length > 0) flame.redraw();
      map.redraw();
    },
  };
}

function setTheme(theme) {
  document.documentElement.setAttribute("data-theme", theme);
  for (const device of drydockPage.devices) device.redraw();
}

function start() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () =>
    setTheme(document.documentElement.getAttribute("data-theme") === "dark" ? "light" : "dark"));

  const sections = [...document.querySelectorAll("section.device")];
  const selector = document.getElementById("device");
  const shown = new Map();
  // A device is drawn when it is first looked at.
  const show = (id) => {
    for (const section of sections) section.hidden = section.id !== id;
    const section = document.getElementById(id);
    if (shown.has(id)) {
      shown.get(id).redraw();
      return;
    }
    const device = showDevice(section);
    shown.set(id, device);
    drydockPage.devices.push(device);
  };
  if (selector !== null) {
    selector.addEventListener("change", () => show(selector.value));
    show(selector.value);
  } else if (sections.length > 0) {
    show(sections[0].id);
  }
  for (const table of document.querySelectorAll("table.sortable")) enhanceTable(table);

  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => drydockPage.devices.forEach((device) => device.redraw()), 100);
  });
}

start();

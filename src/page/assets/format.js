"use strict";

// Numbers as the ledger prints them.

function formatBytes(bytes) {
  const units = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
  for (const [unit, factor] of units) {
    if (Math.abs(bytes) >= factor * (1 - 0.005 / 1024)) return `${(bytes / factor).toFixed(2)} ${unit}`;
  }
  return `${bytes} B`;
}

function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function exactBytes(bytes) {
  return `${formatCount(bytes)} bytes`;
}

function formatSeconds(microseconds) {
  return `${(microseconds / 1e6).toFixed(3)} s`;
}

/** An element with attributes and children; text is never read as HTML. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function button(text, title, act) {
  const made = element("button", { type: "button", title }, text);
  made.addEventListener("click", act);
  return made;
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

"use strict";

// The flame graph of holders at one moment: kind, module within module, line. Modules that hold but one thing, which is
// a module too, are drawn as one with it.

const kRowHeight = 30;

function joinModules(node) {
  for (const child of node.children.values()) {
    let only = [...child.children.values()];
    while (child.isModule && only.length === 1 && only[0].isModule) {
      child.name = `${child.name}.${only[0].name}`;
      child.children = only[0].children;
      only = [...child.children.values()];
    }
    joinModules(child);
  }
  node.children = new Map([...node.children.values()].map((child) => [child.name, child]));
}

function flameTree(data, moments, moment) {
  const { held, total } = moments.list[moment];
  const root = { name: "all", bytes: 0, blocks: 0, children: new Map(), holder: null };
  for (const [holder, { bytes, blocks }] of held) {
    const [kind, , , , module] = data.holders[holder];
    const path = [kind, ...(module ? module.split(".") : []), moments.line(holder)];
    let node = root;
    node.bytes += bytes;
    node.blocks += blocks;
    path.forEach((name, depth) => {
      if (!node.children.has(name)) {
        const isModule = depth > 0 && depth < path.length - 1;
        node.children.set(name, { name, bytes: 0, blocks: 0, children: new Map(), holder: null, isModule });
      }
      node = node.children.get(name);
      node.bytes += bytes;
      node.blocks += blocks;
      if (depth === path.length - 1) node.holder = holder;
    });
  }
  joinModules(root);
  root.name = root.bytes === total ? "all that is allocated" : "all that is allocated, and workspace beside it";
  return root;
}

function drawFlame(container, data, moments) {
  const heading = element("h3", {}, "Holders at the chosen moment");
  const frames = element("div", { class: "frames" });
  const readout = element("p", { class: "line-readout" });
  container.append(heading, frames, readout);
  let moment = 0;
  let focused = [];

  function place(node, depth, left, width, path) {
    const percent = (100 * node.bytes) / rootBytes;
    const text = `${node.name}: ${formatBytes(node.bytes)} (${percent.toFixed(1)}%)`;
    const frame = element("button", { type: "button", title: `${text}, ${exactBytes(node.bytes)}, ` +
      `${formatCount(node.blocks)} pieces` }, text);
    frame.style.left = `${left}%`;
    frame.style.width = `${width}%`;
    frame.style.top = `${depth * kRowHeight}px`;
    if (node.holder === null) frame.classList.add("plain");
    else frame.style.background = moments.color(node.holder);
    const say = () => { readout.textContent = frame.title; };
    frame.addEventListener("mouseenter", say);
    frame.addEventListener("focus", say);
    frame.addEventListener("click", () => { focused = path; draw(); });
    frames.append(frame);
    deepest = Math.max(deepest, depth);
    const children = [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
    const next = focused[path.length];
    // Below a frame that was clicked, only its own children are left, over the whole width.
    if (next !== undefined && node.children.has(next) && path.every((name, index) => focused[index] === name)) {
      place(node.children.get(next), depth + 1, left, width, [...path, next]);
      return;
    }
    for (const child of children) {
      const share = (width * child.bytes) / node.bytes;
      // Narrower than a pixel on any screen.
      if (share >= 0.03) place(child, depth + 1, left, share, [...path, child.name]);
      left += share;
    }
  }

  let rootBytes = 1;
  let deepest = 0;

  function draw() {
    const root = flameTree(data, moments, moment);
    rootBytes = Math.max(root.bytes, 1);
    frames.replaceChildren();
    deepest = 0;
    place(root, 0, 0, 100, []);
    frames.style.height = `${Math.max(deepest + 1, 4) * kRowHeight}px`;
    readout.textContent = `${moments.describe(moment, data)}. Click a frame to widen it.`;
  }

  return {
    show(chosen) {
      moment = chosen;
      draw();
    },
    redraw: draw,
  };
}

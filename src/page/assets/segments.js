"use strict";

// The segment map: segments one after the other in the order of their addresses, wrapped into rows like text; blocks
// in the colours of their lines, holes empty, edges of segments dark.

const kMapRow = 13;
const kMapGap = 3;
const kMostRows = 1500;

function drawSegments(container, data, moments) {
  const { segments, blocks } = data.layout;
  const starts = [];
  const firsts = [];
  let total = 0;
  let first = 0;
  for (const [, bytes, count] of segments) {
    starts.push(total);
    firsts.push(first);
    total += bytes;
    first += count;
  }
  if (total === 0) {
    container.append(element("p", { class: "note" }, "Nothing was allocated then."));
    return { redraw() {} };
  }

  const choices = [];
  for (let bytes = 2 ** 20; bytes <= 2 ** 40; bytes *= 2) {
    const rows = Math.ceil(total / bytes);
    if (rows <= kMostRows) choices.push(bytes);
    if (rows <= 1) break;
  }
  let rowBytes = choices.find((bytes) => total / bytes <= 22) || choices[choices.length - 1];

  const select = element("select", {});
  for (const bytes of choices) select.append(element("option", { value: bytes }, formatBytes(bytes)));
  select.value = String(rowBytes);
  const holes = segments.reduce((sum, [, bytes, , used]) => sum + Math.max(bytes - used, 0), 0);
  const tools = element("div", { class: "tools" }, element("label", {}, "One row is ", select),
    element("span", { class: "key", style: "--color: var(--hole)" }, "unused"),
    element("span", { class: "note", title: `${exactBytes(total)}, unused ${exactBytes(holes)}` },
      `${formatCount(segments.length)} segments, ${formatCount(blocks.length)} blocks, ${formatBytes(holes)} unused ` +
      `of ${formatBytes(total)}${data.layout.notDrawn ? `; ${formatCount(data.layout.notDrawn)} blocks not drawn` : ""}`));
  const canvas = element("canvas", { tabindex: "0", role: "img",
    "aria-label": "Map of segments and blocks. Arrow keys go from block to block." });
  const strip = element("div", { class: "strip" }, canvas);
  const readout = element("p", { class: "line-readout", "aria-live": "polite" });
  container.append(tools, strip, readout);
  let chosen = -1;

  // Calls draw(x, y, width) for each row's part of a piece of the strip.
  function eachRow(begin, bytes, width, draw) {
    let at = begin;
    const end = begin + bytes;
    while (at < end) {
      const row = Math.floor(at / rowBytes);
      const until = Math.min(end, (row + 1) * rowBytes);
      draw(((at - row * rowBytes) / rowBytes) * width, row * (kMapRow + kMapGap) + kMapGap, ((until - at) / rowBytes) * width);
      at = until;
    }
  }

  function draw() {
    const width = canvas.clientWidth || container.clientWidth;
    const height = Math.ceil(total / rowBytes) * (kMapRow + kMapGap) + kMapGap;
    const ratio = height * window.devicePixelRatio > 30000 ? 1 : window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const paint = canvas.getContext("2d");
    paint.scale(ratio, ratio);
    const hole = color("hole");
    const edge = color("edge");
    const colors = data.holders.map((holder, index) => moments.color(index));
    segments.forEach(([, bytes, count], index) => {
      paint.fillStyle = hole;
      eachRow(starts[index], bytes, width, (x, y, w) => paint.fillRect(x, y, w, kMapRow));
      for (let each = firsts[index]; each < Math.min(firsts[index] + count, blocks.length); ++each) {
        const [offset, size, , holder] = blocks[each];
        paint.fillStyle = each === chosen ? color("selected") : colors[holder];
        eachRow(starts[index] + offset, size, width, (x, y, w) => paint.fillRect(x, y, w, kMapRow));
      }
    });
    paint.fillStyle = edge;
    // Edges closer than a few pixels would hide what lies between them.
    segments.forEach(([, bytes], index) => {
      if ((bytes / rowBytes) * width >= 4) eachRow(starts[index], 1, width, (x, y) => paint.fillRect(x, y, 0.7, kMapRow));
    });
  }

  // Index of the last element that is not above the value.
  function lastNotAbove(list, value, get, begin, end) {
    let low = begin;
    let high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (get(list[middle]) <= value) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  function segmentOf(block) {
    return lastNotAbove(firsts, block, (each) => each, 0, firsts.length);
  }

  function describeBlock(block) {
    const [offset, size, requested, holder, step] = blocks[block];
    let segment = segmentOf(block);
    while (segment > 0 && segments[segment][2] === 0) --segment;
    const asked = requested > 0 ? ` (asked for ${exactBytes(requested)})` : "";
    const born = step > 0 ? `, since step ${step}` : "";
    return `${formatBytes(size)}, ${exactBytes(size)}${asked}: ${moments.text(holder)}${born}; ` +
      `segment ${segment + 1} of ${formatBytes(segments[segment][1])}, ` +
      `at offset ${formatBytes(offset)}`;
  }

  function describe(at) {
    if (at < 0 || at >= total) return "";
    const segment = lastNotAbove(starts, at, (each) => each, 0, starts.length);
    const [, bytes, count, used, largest] = segments[segment];
    const offset = at - starts[segment];
    const begin = firsts[segment];
    const end = Math.min(begin + count, blocks.length);
    const block = lastNotAbove(blocks, offset, (each) => each[0], begin, end);
    if (block >= begin && offset < blocks[block][0] + blocks[block][1]) return describeBlock(block);
    const from = block >= begin ? blocks[block][0] + blocks[block][1] : 0;
    const until = block + 1 < end ? blocks[block + 1][0] : bytes;
    return `a hole of ${formatBytes(until - from)}, ${exactBytes(until - from)}, in segment ${segment + 1} of ` +
      `${formatBytes(bytes)}: ${formatBytes(used)} in ${formatCount(count)} blocks, largest hole ${formatBytes(largest)}`;
  }

  canvas.addEventListener("mousemove", (event) => {
    const row = Math.floor((event.offsetY - kMapGap / 2) / (kMapRow + kMapGap));
    readout.textContent = describe(row * rowBytes + (event.offsetX / canvas.clientWidth) * rowBytes);
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -blocks.length, End: blocks.length };
    if (by[event.key] === undefined || blocks.length === 0) return;
    event.preventDefault();
    chosen = Math.min(Math.max(chosen + by[event.key], 0), blocks.length - 1);
    readout.textContent = describeBlock(chosen);
    draw();
  });
  select.addEventListener("change", () => {
    rowBytes = Number(select.value);
    draw();
  });
  readout.textContent = "Point at a block or a hole to read it.";
  draw();
  return { redraw: draw };
}

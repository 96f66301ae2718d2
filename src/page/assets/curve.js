"use strict";

// The memory curve: dygraphs draws and zooms, the readout below it names what is under the pointer.

const kTopHolders = 4;

function drawCurve(container, data, moments, onSelect) {
  const names = ["allocated", "reserved", "workspace"];
  const { time, allocated, reserved, workspace } = data.curve;
  const rows = time.map((at, index) => [at / 1e6, allocated[index], reserved[index], workspace[index]]);
  const chart = element("div", { class: "chart", tabindex: "0", role: "img",
    "aria-label": "Device memory over time. Arrow keys choose a moment, plus and minus zoom, 0 shows all." });
  const readout = element("div", { class: "readout", "aria-live": "polite" });
  const tools = element("div", { class: "tools" });
  container.append(tools, chart, readout);
  for (const name of data.capacity > 0 ? [...names, "capacity"] : names) {
    tools.append(element("span", { class: "key", style: `--color: var(--${name})` }, name));
  }

  // A program may go on after a refusal: then the highest moment is of more interest.
  let selected = data.layout.refusal && data.refusalMoment !== null ? data.refusalMoment : data.peakMoment;

  const colors = () => names.map(color);

  function drawUnderlay(canvas, area, graph) {
    const [begin, end] = graph.xAxisRange();
    const visible = data.steps.filter(([, at]) => at / 1e6 >= begin && at / 1e6 <= end);
    const stride = Math.max(1, Math.ceil((visible.length * 5) / area.w));
    canvas.save();
    canvas.fillStyle = color("step");
    for (let index = 0; index < visible.length; index += stride) {
      canvas.fillRect(Math.round(graph.toDomXCoord(visible[index][1] / 1e6)), area.y, 1, area.h);
    }
    if (data.capacity > 0) {
      canvas.fillStyle = color("capacity");
      const y = Math.round(graph.toDomYCoord(data.capacity));
      for (let x = area.x; x < area.x + area.w; x += 10) canvas.fillRect(x, y - 1, 6, 2);
    }
    canvas.fillStyle = color("faint");
    canvas.font = "11px system-ui, sans-serif";
    let free = area.x;
    for (const [step, at] of visible) {
      const x = graph.toDomXCoord(at / 1e6);
      const label = `step ${step}`;
      const width = canvas.measureText(label).width;
      if (x - width - 4 < free) continue;
      canvas.fillText(label, x - width - 3, area.y + 11);
      free = x + 40;
    }
    if (moments.list.length > 0) {
      canvas.fillStyle = color("selected");
      const x = graph.toDomXCoord(moments.list[selected].time / 1e6);
      canvas.fillRect(x - 1, area.y, 2, area.h);
    }
    canvas.restore();
  }

  const highest = Math.max(data.capacity, ...reserved, ...allocated, ...workspace);
  const graph = new Dygraph(chart, rows, {
    labels: ["seconds", ...names],
    colors: colors(),
    stepPlot: true,
    strokeWidth: 1.5,
    valueRange: [0, highest * 1.06 + 1],
    legend: "never",
    xlabel: "seconds since the process began to record",
    axes: {
      x: { gridLineColor: "transparent", axisLineColor: color("rule") },
      y: { gridLineColor: color("rule"), axisLineColor: color("rule"), axisLabelWidth: 64, labelsKMG2: true,
        axisLabelFormatter: (bytes) => formatBytes(bytes).replace(".00", "") },
    },
    animatedZooms: false,
    underlayCallback: drawUnderlay,
    highlightCallback: (event, x, points, row) => showPoint(row),
    unhighlightCallback: () => showMoment(),
    clickCallback: (event, x) => select(moments.nearest(x * 1e6)),
  });

  function showHolders(heading, moment) {
    const list = element("ol", {});
    for (const { bytes, blocks, holder } of moments.largest(moment, kTopHolders)) {
      const [kind, , , , module] = data.holders[holder];
      const counted = blocks === 1 ? "1 piece" : `${formatCount(blocks)} pieces`;
      list.append(element("li", { title: exactBytes(bytes) }, element("b", {}, formatBytes(bytes)),
        `${kind}, ${moments.line(holder)}, ${counted}${module ? `, most in ${module}` : ""}`));
    }
    readout.replaceChildren(heading, element("p", {}, moments.describe(moment, data)), list);
  }

  function showPoint(row) {
    const at = time[row];
    const stepsEnded = data.steps.filter(([, end]) => end <= at);
    const step = stepsEnded.length > 0 ? stepsEnded[stepsEnded.length - 1][0] + 1 : 1;
    const values = [["allocated", allocated[row]], ["reserved", reserved[row]], ["workspace", workspace[row]],
      ["cached", reserved[row] - allocated[row]]];
    const text = values.map(([name, bytes]) => `${name} ${formatBytes(bytes)}`).join(", ");
    const exact = values.map(([name, bytes]) => `${name} ${exactBytes(bytes)}`).join(", ");
    const heading = element("p", { title: exact }, `${formatSeconds(at)}, step ${step}: ${text}`);
    if (moments.list.length > 0) showHolders(heading, moments.nearest(at));
    else readout.replaceChildren(heading);
  }

  function showMoment() {
    if (moments.list.length === 0) return;
    const heading = element("p", {}, element("b", {}, "Chosen moment"),
      " (point at the curve to read it, click to choose another)");
    showHolders(heading, selected);
  }

  function select(moment) {
    selected = Math.min(Math.max(moment, 0), moments.list.length - 1);
    showMoment();
    graph.updateOptions({});
    onSelect(selected);
  }

  function zoom(factor) {
    const [begin, end] = graph.xAxisRange();
    const middle = moments.list.length > 0 ? moments.list[selected].time / 1e6 : (begin + end) / 2;
    const center = Math.min(Math.max(middle, begin), end);
    graph.updateOptions({ dateWindow: [center - (center - begin) * factor, center + (end - center) * factor] });
  }

  const reset = () => graph.resetZoom();
  tools.append(
    button("Zoom in", "Zoom in around the chosen moment (+)", () => zoom(0.5)),
    button("Zoom out", "Zoom out (-)", () => zoom(2)),
    button("Show all", "Undo all zooming (0, or double click)", reset),
    button("Earlier", "Choose the moment before (left arrow)", () => select(selected - 1)),
    button("Later", "Choose the moment after (right arrow)", () => select(selected + 1)),
    button("Highest", "Choose the highest moment of all", () => select(data.peakMoment)));
  if (data.refusalMoment !== null) {
    tools.append(button("No room", "Choose the moment when the driver had no room", () => select(data.refusalMoment)));
  }
  tools.append(element("span", { class: "note" }, "Drag over the curve to zoom."));
  chart.addEventListener("keydown", (event) => {
    const acts = { ArrowLeft: () => select(selected - 1), ArrowRight: () => select(selected + 1),
      "+": () => zoom(0.5), "-": () => zoom(2), 0: reset };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  });
  showMoment();
  if (moments.list.length > 0) onSelect(selected);

  return {
    redraw() {
      graph.updateOptions({ colors: colors(), axes: { x: { axisLineColor: color("rule") },
        y: { gridLineColor: color("rule"), axisLineColor: color("rule") } } });
      graph.resize();
    },
    graph,
    select,
  };
}

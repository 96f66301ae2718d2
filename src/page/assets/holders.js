"use strict";

// Holders and moments of one device. In the data, a holder is [kind, file, line, function, module] (line 0: none, the
// file says what) and a moment [microseconds, step, total bytes, changes], where the changes are holder, bytes, blocks,
// again and again: those that differ from the moment before.

class Moments {
  constructor(data) {
    this.holders = data.holders;
    this.list = [];
    let held = new Map();
    for (const [time, step, total, changes] of data.moments) {
      held = new Map(held);
      for (let index = 0; index < changes.length; index += 3) {
        if (changes[index + 1] === 0) held.delete(changes[index]);
        else held.set(changes[index], { bytes: changes[index + 1], blocks: changes[index + 2] });
      }
      this.list.push({ time, step, total, held });
    }
    this.hues = new Map();
    const last = this.list[data.peakMoment];
    const order = last ? [...last.held].sort((a, b) => b[1].bytes - a[1].bytes).map(([holder]) => holder) : [];
    for (const holder of [...order, ...this.holders.keys()]) {
      const place = this.place(holder);
      // Steps of the golden angle keep neighbours apart, however many there are.
      if (!this.hues.has(place)) this.hues.set(place, (210 + this.hues.size * 137.5) % 360);
    }
  }

  place(holder) {
    const [, file, line] = this.holders[holder];
    return line === 0 ? file || "unknown line" : `${file}:${line}`;
  }

  /** "train.py:42 (forward)" */
  line(holder) {
    const func = this.holders[holder][3];
    return `${this.place(holder)}${func ? ` (${func})` : ""}`;
  }

  /** "activations of model.layers.3.mlp, train.py:42 (forward)" */
  text(holder) {
    const [kind, , , , module] = this.holders[holder];
    return `${kind}${module ? ` of ${module}` : ""}, ${this.line(holder)}`;
  }

  color(holder) {
    return `hsl(${this.hues.get(this.place(holder))}, 55%, ${color("block-lightness")})`;
  }

  /** Kinds of bytes by line, largest first: {bytes, blocks, holder}, where the holder is the largest of them. */
  largest(moment, most) {
    const sums = new Map();
    for (const [holder, { bytes, blocks }] of this.list[moment].held) {
      const key = `${this.holders[holder][0]} ${this.place(holder)}`;
      const sum = sums.get(key);
      if (sum === undefined) {
        sums.set(key, { bytes, blocks, holder, largest: bytes });
        continue;
      }
      sum.bytes += bytes;
      sum.blocks += blocks;
      if (bytes > sum.largest) Object.assign(sum, { holder, largest: bytes });
    }
    return [...sums.values()].sort((a, b) => b.bytes - a.bytes).slice(0, most);
  }

  /** Index of the moment that is nearest in time. */
  nearest(time) {
    let best = 0;
    this.list.forEach((moment, index) => {
      if (Math.abs(moment.time - time) < Math.abs(this.list[best].time - time)) best = index;
    });
    return best;
  }

  describe(moment, data) {
    const { time, step, total } = this.list[moment];
    let what = "the highest moment thereabouts";
    if (time === data.duration) what = "the end";
    if (moment === data.refusalMoment) what = "when the driver had no room";
    else if (moment === data.peakMoment) what = "the highest moment of all";
    return `${formatBytes(total)} held in step ${step}, at ${formatSeconds(time)}: ${what}`;
  }
}

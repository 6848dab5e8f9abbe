// The timeline of everything that is recorded, and the last two minutes.

import { scaled } from "./tables.js";

const SECONDS_LIVE = 120;

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The time of a mark, as long as the distance between marks needs it.
function clock(at, step) {
  const text = new Date(at * 1000).toISOString();
  return step >= 86400 ? text.slice(5, 10) : step >= 60 ? text.slice(11, 16) : text.slice(11, 19);
}

function axes() {
  const common = { stroke: color("--soft"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  return [
    { ...common, grid: { show: false }, size: 24, space: 70, values: (_, all, _axis, _space, step) => all.map((at) => clock(at, step)) },
    { ...common, scale: "bits", size: 52, space: 34, grid: { stroke: color("--line"), width: 1 }, values: (_, all) => all.map(scaled) },
    { ...common, scale: "packets", side: 1, size: 52, space: 34, grid: { show: false }, values: (_, all) => all.map(scaled) },
  ];
}

function series() {
  const value = (_, number) => (number === null || number === undefined ? "–" : scaled(number));
  return [
    { label: "time", value: (_, at) => (at === null ? "–" : new Date(at * 1000).toISOString().slice(5, 19).replace("T", " ")) },
    { label: "bit/s", scale: "bits", stroke: color("--accent"), fill: color("--accent-soft"), width: 1.2, points: { show: false }, value },
    { label: "packets/s", scale: "packets", stroke: color("--second"), width: 1, points: { show: false }, value },
    { label: "lost/s", scale: "packets", stroke: color("--bad"), fill: color("--bad"), width: 1, points: { show: false }, value, paths: uPlot.paths.bars({ size: [1] }) },
  ];
}

// Nothing is drawn where nothing was lost.
const losses = (counts) => counts.map((number) => number || null);

const fromZero = { range: (_, _least, most) => [0, most > 0 ? most * 1.1 : 1] };

class Chart {
  constructor(place, options = {}) {
    Object.assign(this, { place, options, data: [[], [], [], []] });
    this.draw();
    new ResizeObserver(() => this.plot.setSize(this.size())).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  size() {
    const legend = this.options.legend === false ? 0 : 24;
    return { width: this.place.clientWidth || 300, height: Math.max(80, this.place.clientHeight - legend) };
  }

  draw() {
    this.plot?.destroy();
    const { cursor, hooks, legend } = this.options;
    this.plot = new uPlot({
      ...this.size(),
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      scales: { x: { time: true }, bits: fromZero, packets: fromZero },
      padding: [10, null, 0, null],
      axes: axes(),
      series: series(),
      legend: { show: legend !== false },
      cursor: { points: { show: false }, ...cursor },
      hooks: hooks ?? {},
    }, this.data, this.place);
    this.drawn?.();
  }

  show(data) {
    this.data = data;
    this.plot.setData(data);
  }
}

// The whole recording. `select(from, to)` is called when a time was dragged.
export class Timeline extends Chart {
  constructor(place, select) {
    super(place, {
      cursor: { drag: { x: true, y: false, setScale: false } },
      hooks: {
        setSelect: [(plot) => {
          if (this.isSetting || plot.select.width < 2) return;
          const at = (pixel) => plot.posToVal(pixel, "x");
          select(at(plot.select.left), at(plot.select.left + plot.select.width));
        }],
      },
    });
  }

  drawn() {
    this.mark(this.selected);
  }

  showParts({ from, seconds, packets, bytes, lost }) {
    const rate = (counts, factor) => counts.map((number) => (number * factor) / seconds);
    this.show([packets.map((_, index) => from + (index + 0.5) * seconds), rate(bytes, 8), rate(packets, 1), losses(rate(lost, 1))]);
    this.mark(this.selected);
  }

  // Shows which time is selected; null: none.
  mark(selected) {
    this.selected = selected;
    const plot = this.plot;
    if (!plot) return;
    let box = { left: 0, width: 0, top: 0, height: 0 };
    const { min, max } = plot.scales.x;
    if (selected && min !== undefined && selected[0] <= max && selected[1] >= min) {
      const [from, to] = selected.map((at) => plot.valToPos(Math.min(max, Math.max(min, at)), "x"));
      box = { left: from, width: Math.max(2, to - from), top: 0, height: plot.over.clientHeight };
    }
    this.isSetting = true;
    plot.setSelect(box, false);
    this.isSetting = false;
  }
}

export class Live extends Chart {
  constructor(place) {
    super(place, { legend: false, cursor: { drag: { x: false, y: false } } });
  }

  add({ now, rate }) {
    const [times, ...others] = this.data.map((column) => column.slice());
    times.push(now);
    [rate.bytes * 8, rate.packets, rate.lost || null].forEach((number, index) => others[index].push(number));
    const first = times.findIndex((at) => at > now - SECONDS_LIVE);
    this.show([times, ...others].map((column) => column.slice(first)));
  }
}

// The data, the state, colors, menus and plots, which all views share.
const report = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const state = { cut: 0, highlight: null, row: null };
  const makers = {};
  const redraws = [];
  const ARRAYS = { f4: Float32Array, u2: Uint16Array, i4: Int32Array };

  function unpack(packed) {
    const text = atob(packed.bytes);
    const bytes = Uint8Array.from(text, (each) => each.charCodeAt(0));
    return new ARRAYS[packed.kind](bytes.buffer);
  }

  // Rows of a matrix, as views of one array.
  function matrix(packed) {
    const flat = unpack(packed);
    const [n, width] = packed.shape;
    return Array.from({ length: n }, (_, i) => flat.subarray(i * width, (i + 1) * width));
  }

  // Rows that are relative to their medians.
  function rowsOf(packed) {
    return matrix(packed.rest).map((row, i) => Float64Array.from(row, (x) => x + packed.medians[i]));
  }

  const variable = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Black is for a light page; on a dark one it is white, and deep colors are lighter.
  const ON_DARK = { "#0072B2": "#3C9FDB", "#D55E00": "#F07C26", "#009E73": "#2BBF93", "#000000": "#F2F2F2" };
  function colorOf(label) {
    if (label < 0) return data.noise;
    const color = data.colors[label % data.colors.length];
    return (document.documentElement.dataset.theme === "dark" && ON_DARK[color]) || color;
  }

  // Colors of a palette may look alike, on a dark page above all.
  const dashOf = (label) => ["solid", "dash", "dashdot"][label % 3];

  const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "star"];
  const symbolOf = (label) =>
    label < 0 ? "circle" : SYMBOLS[Math.floor(label / data.colors.length) % SYMBOLS.length];
  const nameOf = (label) => (label < 0 ? "noise" : `cluster ${label}`);

  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shortened = (name, most) => {
    const letters = Array.from(name);
    return letters.length > most ? [...letters.slice(0, most - 1), "…"] : letters;
  };

  // Plotly reads text as HTML, and long names would push pictures aside.
  const safe = (name, most = 32) => escaped(shortened(name, most).join(""));

  // The width of a text, in the font of the page, which differs between systems.
  const pen = document.createElement("canvas").getContext("2d");
  function widthOf(text, size) {
    const { fontFamily, letterSpacing } = getComputedStyle(document.body);
    pen.font = `${size}px ${fontFamily}`;
    pen.letterSpacing = letterSpacing === "normal" ? "0px" : letterSpacing;
    return pen.measureText(text).width;
  }

  // A name in lines of some pixels, broken at spaces; an ellipsis stands for what does not fit.
  function wrapped(name, size, room, most) {
    const fits = (letters) => widthOf(letters.join(""), size) <= room;
    const lines = [];
    let rest = shortened(name.trim(), 80);
    while (rest.length && lines.length < most) {
      let line = rest;
      const end = lines.length === most - 1 ? ["…"] : [];
      if (!fits(line)) {
        while (line.length > 1 && !fits([...line, ...end])) line = line.slice(0, -1);
        const space = rest.lastIndexOf(" ", line.length);
        if (!end.length && space > 0) line = rest.slice(0, space + 1);
        line = [...line, ...end];
      }
      lines.push(escaped(line.join("").trim()));
      rest = rest.slice(line.length);
    }
    return lines.join("<br>");
  }

  const TITLE_SIZE = 14;
  // Titles of axes, each of which takes a part of a picture beside ticks and margins.
  const titleAcross = (div, name, part = 1) =>
    wrapped(name, TITLE_SIZE, part * (div.clientWidth - 100), 2);
  const titleUp = (div, name, part = 1) =>
    wrapped(name, TITLE_SIZE, part * (div.clientHeight - 90), 2);
  // A name left of a picture, cut in its middle: long names often differ at their ends only.
  function tickName(div, name) {
    const letters = shortened(name, 80);
    let short = letters.join("");
    for (let n = letters.length - 2; n > 1 && widthOf(short, 13) > 0.35 * div.clientWidth; n -= 1)
      short = [...letters.slice(0, Math.ceil(n / 2)), "…", ...letters.slice(-Math.floor(n / 2))].join("");
    return escaped(short);
  }

  function figure(value) {
    if (value === null || value === undefined) return "–";
    return Number(value.toPrecision(4)).toString().replace("-", "−");
  }

  const share = (value) => `${Number((100 * value).toPrecision(2))}%`;
  const count = (n) => n.toLocaleString("en-US");

  // The range of a direction, and its numbers if it is a circle.
  function scaleOf(view, i) {
    return { range: view.ranges[i], ...view.ticks[i] };
  }

  // Plotly writes into the range that it is given, so it gets one of its own.
  function axis(title, { range, ...extra } = {}) {
    const line = variable("--grid");
    return {
      ...(range && { range: [...range] }),
      title: { text: title, standoff: 8, font: { size: TITLE_SIZE } }, automargin: true, gridcolor: line, linecolor: line,
      zeroline: false, ticks: "outside", tickcolor: line, ticklen: 4, ...extra,
    };
  }

  function layout(div, extra) {
    const narrow = div.clientWidth < 560;
    const { legend, ...rest } = extra;
    return {
      font: { family: "inherit", size: 13, color: variable("--ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 22, t: 8, b: 8 },
      hoverlabel: { bgcolor: variable("--card"), bordercolor: variable("--line"),
        font: { color: variable("--ink"), family: "inherit" }, align: "left" },
      // A finger on a phone scrolls the page.
      dragmode: narrow ? false : "zoom",
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left",
        font: { size: 12 }, itemsizing: "constant", ...legend },
      ...rest,
    };
  }

  function draw(div, traces, extra) {
    const options = { displayModeBar: false, responsive: true, doubleClick: "reset+autosize" };
    return Plotly.react(div, traces, layout(div, extra), options);
  }

  // Narrow plots grow by their legend, which has a line for every name.
  function makeRoom(div, n) {
    div.style.height = div.clientWidth < 560 ? `${300 + 20 * n}px` : "";
  }

  function fill(select, names, chosen) {
    select.replaceChildren(...names.map((name, i) => new Option(name, i, false, i === chosen)));
    select.value = String(chosen);
    // The menu may be too narrow for the name that is chosen.
    select.onpointerenter = () => { select.title = names[Number(select.value)]; };
    select.onpointerenter();
  }

  // Two menus that never show the same direction.
  function pairOfMenus(across, up, names, first, redraw) {
    let chosen = first;
    fill(across, names, chosen[0]);
    fill(up, names, chosen[1]);
    const change = () => {
      let next = [Number(across.value), Number(up.value)];
      if (next[0] === next[1]) next = [chosen[1], chosen[0]];
      chosen = next;
      across.value = String(chosen[0]);
      up.value = String(chosen[1]);
      redraw();
    };
    across.addEventListener("change", change);
    up.addEventListener("change", change);
    return () => chosen;
  }

  // Plotly keeps what the reader has zoomed to as long as this stays the same.
  let revision = 0;
  const revisionOf = (...what) => [revision, ...what].join(" ");

  function resetButton(root, redraw) {
    root.querySelector(".reset").addEventListener("click", () => {
      revision += 1;
      redraw();
    });
  }

  const lookups = new Map();
  // The cluster of every place in the ordering, under one of its cuts.
  function byPlace(cut) {
    if (!lookups.has(cut)) {
      const [ends, labels] = matrix(data.ordering.cuts[cut].runs);
      const all = new Int32Array(data.ordering.n);
      let start = 0;
      ends.forEach((end, i) => { all.fill(labels[i], start, end); start = end; });
      lookups.set(cut, all);
    }
    return lookups.get(cut);
  }

  const rows = data.rows ? unpack(data.rows) : new Int32Array(0);
  // What the k-th sample that is drawn is called.
  const rowName = (k) => (data.row_names ? safe(data.row_names[k]) : rows[k]);
  const places = data.ordering ? unpack(data.ordering.positions) : null;
  const given = data.labels ? unpack(data.labels) : new Int32Array(rows.length);
  // The cluster of every sample that is drawn.
  function labels() {
    if (!places) return given;
    const all = byPlace(state.cut);
    return places.map((place) => all[place]);
  }

  // Labels that share a color are drawn together: however many clusters, few traces.
  function classOf(label) {
    return label < 0 ? -1 : label % data.colors.length;
  }

  // Views that show the state are drawn again; the others are as they were.
  function change(key, value) {
    state[key] = value;
    for (const { redraw, linked } of redraws) if (linked) redraw();
  }

  function redrawAll() {
    for (const { redraw } of redraws) redraw();
  }

  function paintChips() {
    for (const chip of document.querySelectorAll(".chip"))
      chip.style.background = colorOf(Number(chip.dataset.label));
  }

  // Plotly is part of the page, compressed.
  async function loadPlotly() {
    const packed = document.getElementById("plotly");
    const bytes = Uint8Array.from(atob(packed.textContent), (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    packed.replaceWith(script);
  }

  async function start() {
    if (!("DecompressionStream" in window)) {
      const note = Object.assign(document.createElement("p"), { className: "absent" });
      note.textContent = "The plots need a browser from 2023 or later.";
      document.querySelector("main").prepend(note);
      return;
    }
    await loadPlotly();
    for (const root of document.querySelectorAll("[data-view]")) {
      const { maker, linked } = makers[root.dataset.view];
      const redraw = maker(root);
      if (redraw) redraws.push({ redraw, linked });
    }
    const paint = () => { paintChips(); redrawAll(); };
    page.onTheme(paint);
    paint();
    // The layout of a plot depends on its width.
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth !== width) redrawAll();
      width = window.innerWidth;
    });
    document.documentElement.dataset.ready = "true";
  }

  return {
    data, state, rows, revisionOf, axis, scaleOf, change, classOf, colorOf, count, dashOf, draw, figure, fill, labels, makeRoom, matrix,
    byPlace, nameOf, pairOfMenus, resetButton, rowName, rowsOf, safe, share, start, symbolOf, tickName,
    titleAcross, titleUp, unpack, variable,
    // A view is made of an element and returns what draws it; a linked one shows the state.
    view: (name, maker, linked = false) => { makers[name] = { maker, linked }; },
  };
})();
document.addEventListener("DOMContentLoaded", report.start);

// Densities along one direction and along two.
(() => {
  const { data } = report;

  report.view("line", (root) => {
    const view = data.features;
    const div = root.querySelector(".plot");
    const menu = root.querySelector(".x");
    const bars = root.querySelector(".bars");
    const parts = root.querySelector(".parts");
    const hasBars = Boolean(view.histograms);
    const hasParts = view.lines.some((line) => line && line.parts.length);
    bars.closest("label").hidden = !hasBars;
    parts.closest("label").hidden = !hasParts;
    report.fill(menu, view.names, view.first[0]);
    const redraw = () => {
      const i = Number(menu.value);
      const traces = [];
      if (hasBars && bars.checked) traces.push(barsOf(view.histograms[i]));
      const line = view.lines[i];
      if (line) {
        const x = report.rowsOf(line.x)[0];
        if (parts.checked) for (const part of line.parts) traces.push(partOf(x, part));
        traces.push({ x, y: report.unpack(line.y), name: "density", mode: "lines",
          line: { color: report.variable("--ink"), width: 2 } });
      }
      report.draw(div, traces, {
        xaxis: report.axis(report.titleAcross(div, view.names[i]), report.scaleOf(view, i)),
        yaxis: report.axis("density", { rangemode: "tozero" }),
        uirevision: report.revisionOf(i), bargap: 0, showlegend: true, hovermode: "x",
      });
    };
    for (const control of [menu, bars, parts]) control.addEventListener("change", redraw);
    report.resetButton(root, redraw);
    return redraw;
  });

  function barsOf({ edges, heights }) {
    return {
      type: "bar", name: "samples", y: heights, hoverinfo: "skip",
      x: heights.map((_, i) => (edges[i] + edges[i + 1]) / 2),
      width: heights.map((_, i) => edges[i + 1] - edges[i]),
      marker: { color: `rgba(${report.variable("--region")}, .28)`, line: { width: 0 } },
    };
  }

  function partOf(x, part) {
    return { x, y: report.unpack(part.y), name: report.nameOf(part.label), mode: "lines",
      line: { color: report.colorOf(part.label), width: 1.4, dash: "dot" } };
  }

  report.view("pair", (root) => {
    const view = data[root.dataset.coordinates];
    const div = root.querySelector(".plot");
    const caption = root.querySelector(".caption");
    const boxes = Object.fromEntries(["regions", "points", "modes"].map((name) =>
      [name, root.querySelector(`.${name}`)]));
    const has = { regions: Boolean(view.pairs), points: Boolean(view.points), modes: Boolean(view.modes) };
    for (const [name, box] of Object.entries(boxes)) box.closest("label").hidden = !has[name];
    const points = has.points ? report.rowsOf(view.points) : null;
    const modes = has.modes ? report.rowsOf(view.modes) : null;
    const redraw = () => {
      const [i, j] = chosen();
      const traces = [];
      if (has.regions && boxes.regions.checked) traces.push(...regionsOf(view.pairs, i, j));
      if (has.points && boxes.points.checked) traces.push(...report.pointsOf(points[i], points[j]));
      if (has.modes && boxes.modes.checked) traces.push(modesOf(modes[i], modes[j]));
      if (has.points) traces.push(...report.markOf(points[i], points[j]));
      caption.textContent = has.regions
        ? `Highest-density regions with probability ${view.pairs.confidences.map(report.share).join(", ")}.`
        : "";
      report.draw(div, traces, {
        xaxis: report.axis(report.titleAcross(div, view.names[i]), report.scaleOf(view, i)),
        yaxis: report.axis(report.titleUp(div, view.names[j]), report.scaleOf(view, j)),
        uirevision: report.revisionOf(i, j), hovermode: "closest",
        showlegend: traces.some((trace) => trace.showlegend !== false),
      });
    };
    const chosen = report.pairOfMenus(
      root.querySelector(".x"), root.querySelector(".y"), view.names, view.first, redraw);
    for (const box of Object.values(boxes)) box.addEventListener("change", redraw);
    report.resetButton(root, redraw);
    return redraw;
  }, true);

  // Log densities as rows along y, whichever way the pair was stored.
  function heightsOf(pairs, i, j) {
    const packed = pairs.heights[i < j ? `${i},${j}` : `${j},${i}`];
    const steps = report.matrix(packed);
    const height = (step) => (step / 65535 - 1) * pairs.depth;
    if (i < j) return steps.map((row) => Float32Array.from(row, height));
    return Array.from({ length: packed.shape[1] }, (_, k) =>
      Float32Array.from(steps, (row) => height(row[k])));
  }

  function regionsOf(pairs, i, j) {
    const z = heightsOf(pairs, i, j);
    const x = report.rowsOf(pairs.grids[i])[0];
    const y = report.rowsOf(pairs.grids[j])[0];
    const levels = pairs.levels[i < j ? `${i},${j}` : `${j},${i}`];
    const color = report.variable("--region");
    // Plotly fills what does not meet the constraint.
    return levels.map((value) => ({
      type: "contour", x, y, z, showlegend: false, showscale: false, hoverinfo: "skip",
      autocontour: false, contours: { type: "constraint", operation: "<", value },
      fillcolor: `rgba(${color}, .2)`, line: { width: 1, color: `rgba(${color}, .8)` },
    }));
  }

  function modesOf(x, y) {
    return { x, y, name: "modes", mode: "markers", hovertemplate: "mode<br>%{x:.4~g}, %{y:.4~g}<extra></extra>",
      marker: { symbol: "triangle-up", size: 11, color: report.variable("--ink"),
        line: { color: report.variable("--card"), width: 1.5 } } };
  }

  // Samples colored by the selected clustering, the highlighted cluster on top.
  report.pointsOf = (x, y, extra = {}) => {
    const labels = report.labels();
    const classes = new Map();
    labels.forEach((label, k) => {
      const key = report.classOf(label);
      if (!classes.has(key)) classes.set(key, []);
      classes.get(key).push(k);
    });
    return [...classes.keys()].sort((a, b) => a - b).map((key) =>
      traceOf(x, y, labels, classes.get(key), extra));
  };

  function traceOf(x, y, labels, members, extra) {
    const { highlight } = report.state;
    const own = [...new Set(members.map((k) => labels[k]))].sort((a, b) => a - b);
    const faded = (k) => highlight !== null && labels[k] !== highlight;
    const known = Boolean(data.labels);
    const names = own.length > 3 ? `clusters ${own.slice(0, 3).join(", ")}, …` : own.map(report.nameOf).join(", ");
    return {
      x: members.map((k) => x[k]), y: members.map((k) => y[k]), mode: "markers",
      name: known ? names : "samples",
      customdata: members.map((k) => [report.rowName(k), known ? report.nameOf(labels[k]) : "sample"]),
      hovertemplate: "%{customdata[1]}, row %{customdata[0]}<br>%{x:.4~g}, %{y:.4~g}<extra></extra>",
      marker: {
        size: labels.length > 1500 ? 3.5 : labels.length > 100 ? 4.5 : 6.5, color: report.colorOf(known ? own[0] : 0),
        symbol: members.map((k) => report.symbolOf(labels[k])),
        opacity: highlight === null ? 0.75 : members.map((k) => (faded(k) ? 0.08 : 0.9)),
      },
      ...extra,
    };
  }

  // The sample that was chosen among the outliers.
  report.markOf = (x, y, extra = {}) => {
    const k = report.rows.indexOf(report.state.row);
    if (k < 0) return [];
    return [{ x: [x[k]], y: [y[k]], name: `row ${report.rowName(k)}`, mode: "markers",
      hovertemplate: `row ${report.rowName(k)}<br>%{x:.4~g}, %{y:.4~g}<extra></extra>`,
      marker: { symbol: "circle-open", size: 16, color: report.variable("--focus"), line: { width: 3 } },
      ...extra }];
  };

  report.view("variance", (root) => () => {
    const shares = data.axes.loadings.map((each) => each.share);
    report.draw(root.querySelector(".plot"), [{
      type: "bar", x: shares.map((_, i) => `axis ${i + 1}`), y: shares,
      marker: { color: `rgba(${report.variable("--region")}, .7)` },
      hovertemplate: "%{x}: %{y:.1%}<extra></extra>",
    }], { xaxis: report.axis(""), yaxis: report.axis("", { tickformat: ".0%", rangemode: "tozero" }) });
  });

  report.view("loadings", (root) => {
    const menu = root.querySelector(".axis");
    report.fill(menu, data.axes.loadings.map((_, i) => `axis ${i + 1}`), 0);
    const div = root.querySelector(".plot");
    const redraw = () => {
      const { names, parts } = data.axes.loadings[Number(menu.value)];
      report.draw(div, [{
        type: "bar", orientation: "h", x: parts, y: names.map((_, i) => i),
        marker: { color: `rgba(${report.variable("--region")}, .7)` },
        customdata: names.map((name) => report.safe(name, 60)),
        hovertemplate: "%{customdata}: %{x:.2f}<extra></extra>",
      }], {
        xaxis: report.axis("", { range: [-1.02, 1.02] }),
        yaxis: report.axis("", { autorange: "reversed", tickmode: "array", ticks: "",
          tickvals: names.map((_, i) => i), ticktext: names.map((name) => report.tickName(div, name)) }),
      });
    };
    menu.addEventListener("change", redraw);
    return redraw;
  });
})();

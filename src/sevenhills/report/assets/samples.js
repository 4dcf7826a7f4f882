// Samples of the density beside the data, in two pictures that move together.
(() => {
  const { data } = report;

  report.view("samples", (root) => {
    const view = data.features;
    const div = root.querySelector(".plot");
    const across = root.querySelector(".x");
    const up = root.querySelector(".y");
    const points = view.points ? report.rowsOf(view.points) : null;
    const draws = report.rowsOf(view.draws);
    if (!up) {
      const redraw = () => drawLine(div, view, points, draws, Number(across.value));
      report.resetButton(root, redraw);
      report.fill(across, view.names, 0);
      across.addEventListener("change", redraw);
      return redraw;
    }
    const redraw = () => drawPair(div, view, points, draws, chosen());
    const chosen = report.pairOfMenus(across, up, view.names, view.first, redraw);
    report.resetButton(root, redraw);
    return redraw;
  }, true);

  const marks = (x, y, name, label, axes) => ({
    x, y, name, mode: "markers", ...axes,
    hovertemplate: "%{x:.4~g}, %{y:.4~g}<extra></extra>",
    marker: { size: x.length > 100 ? 3.5 : 6, color: report.colorOf(label), opacity: 0.55 },
  });

  function drawPair(div, view, points, draws, [i, j]) {
    const below = div.clientWidth < 560 && points;
    const second = { xaxis: "x2", yaxis: "y2" };
    const traces = [marks(draws[i], draws[j], `samples of the density (${report.count(draws[i].length)})`, 3, points ? second : {})];
    if (points) {
      traces.unshift(marks(points[i], points[j], `data (${report.count(points[i].length)} drawn)`, 0, {}));
      traces.push(...report.markOf(points[i], points[j]));
    }
    const beside = points && !below;
    const names = [report.titleAcross(div, view.names[i], beside ? 0.48 : 1),
      report.titleUp(div, view.names[j], below ? 0.42 : 1)];
    const first = beside ? [0, 0.48] : [0, 1];
    const extra = points && {
      xaxis2: report.axis(names[0], { domain: below ? [0, 1] : [0.52, 1], anchor: "y2", matches: "x" }),
      yaxis2: report.axis(below ? names[1] : "", { domain: below ? [0, 0.42] : [0, 1], anchor: "x2", matches: "y",
        showticklabels: Boolean(below) }),
    };
    report.draw(div, traces, {
      xaxis: report.axis(below ? "" : names[0], { domain: first, ...report.scaleOf(view, i), anchor: "y" }),
      yaxis: report.axis(names[1], { ...report.scaleOf(view, j), domain: below ? [0.54, 1] : [0, 1], anchor: "x" }),
      ...extra, uirevision: report.revisionOf(i, j), showlegend: true, hovermode: "closest",
    });
  }

  function drawLine(div, view, points, draws, i) {
    const bars = (x, name, label) => ({
      type: "histogram", x, name, histnorm: "probability density", opacity: 0.55, nbinsx: 50,
      marker: { color: report.colorOf(label) }, hovertemplate: "%{x}: %{y:.3~g}<extra></extra>",
    });
    const traces = [bars(draws[i], "samples of the density", 3)];
    if (points) traces.unshift(bars(points[i], "data", 0));
    report.draw(div, traces, {
      xaxis: report.axis(report.titleAcross(div, view.names[i]), report.scaleOf(view, i)),
      yaxis: report.axis("density"), barmode: "overlay", showlegend: true, uirevision: report.revisionOf(i),
    });
  }
})();

// Calibration curves.
report.view("quality", (root) => () => {
  const { confidences, lower, upper, curves, inside } = report.data.quality;
  const chance = { x: [...confidences, ...[...confidences].reverse()], y: [...upper, ...[...lower].reverse()],
    fill: "toself", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    fillcolor: "rgba(128, 128, 128, .22)" };
  const diagonal = { x: [0, 1], y: [0, 1], mode: "lines", hoverinfo: "skip", showlegend: false,
    line: { color: report.variable("--soft"), width: 1, dash: "dot" } };
  const lines = curves.map(({ name, covered, at = confidences }, k) => ({
    x: at, y: covered, name: report.safe(name), mode: "lines",
    line: { color: report.colorOf(k), width: 2, dash: report.dashOf(k) },
    hovertemplate: `${report.safe(name)}: %{y:.0%} inside the region of %{x:.0%}<extra></extra>`,
  }));
  const div = root.querySelector(".plot");
  report.makeRoom(div, curves.length);
  report.draw(div, [chance, diagonal, ...lines], {
    xaxis: report.axis("confidence of the region", { range: [0, 1], tickformat: ".0%" }),
    yaxis: report.axis(report.titleUp(div, inside), { range: [0, 1.01], tickformat: ".0%" }),
    showlegend: true, hovermode: "closest", uirevision: report.revisionOf(),
  });
});

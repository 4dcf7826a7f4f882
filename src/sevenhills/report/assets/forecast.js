// Scores and scenes of forecasters.
(() => {
  const { data } = report;
  const fonts = { tickfont: { size: 12 } };

  report.view("differences", (root) => () => {
    const { measure, names, limits } = data.scores;
    const div = root.querySelector(".plot");
    div.style.height = `${Math.max(240, 90 + 34 * names.length)}px`;
    const traces = names.map((name, k) => {
      const [low, middle, high] = limits[k];
      const text = k ? `${report.figure(low)} to ${report.figure(high)}` : "the first";
      return {
        x: [middle], y: [k], mode: "markers", type: "scatter", showlegend: false,
        marker: { color: report.colorOf(k), size: 10, symbol: report.symbolOf(k) },
        error_x: { type: "data", symmetric: false, array: [high - middle], arrayminus: [middle - low],
          color: report.colorOf(k), thickness: 2, width: 5 },
        hovertemplate: `${report.safe(name)}: %{x:.4g}<br>${text}<extra></extra>`,
      };
    });
    report.draw(div, traces, {
      xaxis: report.axis(report.titleAcross(div, `${measure} minus that of the first`, 0.7),
        { zeroline: true, zerolinecolor: report.variable("--soft") }),
      yaxis: report.axis("", { tickvals: names.map((_, k) => k), ...fonts,
        ticktext: names.map((name) => report.tickName(div, name)), range: [names.length - 0.5, -0.5] }),
      hovermode: "closest", uirevision: report.revisionOf(),
    });
  });

  report.view("quantiles", (root) => () => {
    const { measure, names, shares, quantiles } = data.scores;
    const div = root.querySelector(".plot");
    report.makeRoom(div, names.length);
    const traces = names.map((name, k) => ({
      x: quantiles[k], y: shares, name: report.safe(name), mode: "lines",
      line: { color: report.colorOf(k), width: 2, dash: report.dashOf(k) },
      hovertemplate: `${report.safe(name)}: %{y:.0%} of scenes up to %{x:.4g}<extra></extra>`,
    }));
    report.draw(div, traces, {
      xaxis: report.axis(measure),
      yaxis: report.axis("share of scenes", { range: [0, 1.01], tickformat: ".0%" }),
      showlegend: names.length > 1, hovermode: "closest", uirevision: report.revisionOf(),
    });
  });

  report.view("scenes", (root) => {
    const menu = root.querySelector(".scene");
    const redraw = () => {
      const scene = data.scenes[Number(menu.value)];
      root.querySelectorAll(".plot").forEach((div, k) => drawScene(div, scene, k));
      root.querySelectorAll(".status").forEach((text, k) => {
        text.textContent = `${data.scores.measure} ${report.figure(scene.scores[k])}`;
      });
    };
    report.fill(menu, data.scenes.map(({ title }) => title), 0);
    menu.addEventListener("change", redraw);
    report.resetButton(root, redraw);
    return redraw;
  });

  function drawScene(div, scene, k) {
    const line = (paths, style) => {
      const [x, y] = report.rowsOf(paths);
      return { x, y, type: "scatter", hoverinfo: "skip", showlegend: false, ...style };
    };
    const [low, high] = scene.box;
    const across = (axis) => {
      const margin = 0.03 * Math.max(high[0] - low[0], high[1] - low[1]) || 1;
      return [low[axis] - margin, high[axis] + margin];
    };
    const ink = report.variable("--ink");
    report.draw(div, [
      line(scene.samples[k], { mode: "lines", opacity: 0.6, line: { color: report.colorOf(k), width: 1 } }),
      line(scene.truth, { mode: "lines+markers", line: { color: ink, width: 2.5 }, marker: { color: ink, size: 5 } }),
    ], {
      xaxis: report.axis("", { range: across(0), ...fonts }),
      yaxis: report.axis("", { range: across(1), scaleanchor: "x", ...fonts }),
      uirevision: report.revisionOf(scene.title),
    });
  }
})();

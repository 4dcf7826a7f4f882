// The reachability plot and the clusterings that it can be cut into.
(() => {
  const { data, state } = report;

  report.view("clusters", (root) => {
    const { ordering } = data;
    const cuts = root.querySelector(".cut");
    const highlight = root.querySelector(".highlight");
    const status = root.querySelector(".status");
    const reachability = root.querySelector(".reachability");
    const scores = root.querySelector(".scores");
    const map = clusterMap(root);
    const heights = report.unpack(ordering.heights);
    report.fill(cuts, ordering.cuts.map((_, i) => titleOf(ordering, i)), 0);
    cuts.addEventListener("change", () => {
      state.highlight = null;
      report.change("cut", Number(cuts.value));
    });
    highlight.addEventListener("change", () =>
      report.change("highlight", highlight.value === "" ? null : Number(highlight.value)));
    let listening = false;
    const redraw = () => {
      cuts.value = String(state.cut);
      fillHighlights(highlight);
      status.textContent = textOf(ordering);
      drawReachability(reachability, heights);
      drawScores(scores);
      map();
      if (listening) return;
      listening = true;
      reachability.on("plotly_click", ({ points }) => {
        const label = points[0].customdata;
        report.change("highlight", label === state.highlight ? null : label);
      });
      scores.on("plotly_click", ({ points }) => {
        state.highlight = null;
        report.change("cut", points[0].customdata[0]);
      });
    };
    report.resetButton(root, redraw);
    return redraw;
  }, true);

  // The samples where they lie; nothing if there are no two directions to draw them in.
  const clusterMap = (root) => {
    const view = data.features;
    const figure = root.querySelector(".map");
    figure.hidden = !view.points || view.names.length < 2;
    if (figure.hidden) return () => {};
    const points = report.rowsOf(view.points);
    const div = figure.querySelector(".plot");
    const redraw = () => {
      const [i, j] = chosen();
      report.draw(div, [
        ...report.pointsOf(points[i], points[j], { showlegend: false }),
        ...report.markOf(points[i], points[j], { showlegend: false }),
      ], {
        xaxis: report.axis(report.titleAcross(div, view.names[i]), report.scaleOf(view, i)),
        yaxis: report.axis(report.titleUp(div, view.names[j]), report.scaleOf(view, j)),
        uirevision: report.revisionOf(i, j), hovermode: "closest",
      });
    };
    const chosen = report.pairOfMenus(
      figure.querySelector(".x"), figure.querySelector(".y"), view.names, view.first, redraw);
    return redraw;
  };

  const plural = (n, word) => `${report.count(n)} ${word}${n === 1 ? "" : "s"}`;

  function titleOf(ordering, i) {
    const cut = ordering.cuts[i];
    const place = cut.place === 0 ? "As fitted" : `${cut.place}`;
    const score = cut.score === null || cut.score < -1 ? "" : `, ${ordering.criterion} ${report.figure(cut.score)}`;
    const chosen = cut.place === 1 ? " (chosen)" : "";
    return `${place}${chosen}: ${plural(cut.n_clusters, "cluster")}, ${report.share(cut.noise)} noise${score}`;
  }

  // Sizes of clusters under the present cut, by label.
  function sizes() {
    const counts = new Map();
    for (const label of report.byPlace(state.cut)) counts.set(label, (counts.get(label) || 0) + 1);
    return new Map([...counts].sort(([a], [b]) => a - b));
  }

  function fillHighlights(menu) {
    const options = [...sizes()].map(([label, n]) => new Option(`${report.nameOf(label)} (${report.count(n)})`, label));
    menu.replaceChildren(new Option("nothing", ""), ...options);
    menu.value = state.highlight === null ? "" : String(state.highlight);
  }

  function textOf(ordering) {
    const cut = ordering.cuts[state.cut];
    const how = cut.rule === "dbscan" ? "at the height" : "by the steepness";
    const counts = [...sizes()].filter(([label]) => label >= 0).map(([, n]) => report.count(n));
    const listed = counts.length > 8 ? `${counts.slice(0, 8).join(", ")}, … samples` : `${counts.join(", ")} samples`;
    const of = counts.length ? ` of ${listed}` : "";
    const kept = ordering.cuts.filter((each) => each.place > 0).length;
    const left = kept < ordering.n_candidates ? ` The best ${kept} of ${ordering.n_candidates} candidates are here.` : "";
    return `Cut ${how} ${report.figure(cut.parameter)}: ${plural(counts.length, "cluster")}${of}, ` +
      `${report.share(cut.noise)} noise.${left}`;
  }

  // The outline of the columns of some clusters, back on the floor wherever another one begins.
  function outlines(heights) {
    const { n, cuts } = data.ordering;
    const [ends, labels] = report.matrix(cuts[state.cut].runs);
    const edge = (c) => Math.floor((c * n) / heights.length);
    const classes = new Map();
    let start = 0;
    let column = 0;
    ends.forEach((end, r) => {
      const key = report.classOf(labels[r]);
      if (!classes.has(key)) classes.set(key, { x: [], y: [], labels: [] });
      const line = classes.get(key);
      while (edge(column + 1) <= start) column += 1;
      push(line, start, 0, labels[r]);
      for (let c = column; c < heights.length && edge(c) < end; c += 1) {
        push(line, Math.max(start, edge(c)), heights[c], labels[r]);
        push(line, Math.min(end, edge(c + 1)), heights[c], labels[r]);
      }
      push(line, end, 0, labels[r]);
      start = end;
    });
    return classes;
  }

  function push(line, x, y, label) {
    line.x.push(x);
    line.y.push(y);
    line.labels.push(label);
  }

  // Where the plot ends: a far outlier must not press all valleys to the floor.
  function topOf(heights, cut) {
    const rising = Float32Array.from(heights).sort();
    const usual = 10 * rising[Math.floor(0.99 * (rising.length - 1))];
    const needed = cut.rule === "dbscan" ? 1.5 * cut.parameter : 0;
    return 1.04 * Math.min(rising[rising.length - 1], Math.max(usual, needed)) || 1;
  }

  function drawReachability(div, heights) {
    const cut = data.ordering.cuts[state.cut];
    const traces = [...outlines(heights)].sort(([a], [b]) => a - b).map(([key, line]) => {
      const own = [...new Set(line.labels)];
      const isFaded = state.highlight !== null && !own.includes(state.highlight);
      const color = isFaded ? `${report.colorOf(key)}30` : report.colorOf(key);
      return {
        x: line.x, y: line.y, customdata: line.labels, mode: "lines", fill: "tozeroy",
        line: { width: 0.7, color }, fillcolor: color,
        name: own.length > 3 ? `clusters ${own.slice(0, 3).join(", ")}, …` : own.map(report.nameOf).join(", "),
        text: line.labels.map(report.nameOf),
        hovertemplate: "%{text}<br>reachability %{y:.4~g}<extra></extra>",
      };
    });
    const height = { type: "line", xref: "paper", x0: 0, x1: 1, y0: cut.parameter, y1: cut.parameter,
      line: { color: report.variable("--ink"), width: 1, dash: "dash" } };
    report.draw(div, traces, {
      xaxis: report.axis("samples in order", { range: [0, data.ordering.n] }),
      yaxis: report.axis("reachability", { range: [0, topOf(heights, cut)] }),
      shapes: cut.rule === "dbscan" ? [height] : [], showlegend: true,
      uirevision: report.revisionOf(state.cut), hovermode: "closest", hoverdistance: 40,
    });
  }

  const RULES = { dbscan: ["cuts at a height", "circle"], xi: ["cuts by steepness", "diamond"] };

  function drawScores(div) {
    const { cuts, criterion } = data.ordering;
    const scored = cuts.map((cut, i) => [cut, i]).filter(([cut]) => cut.score !== null && cut.score > -1);
    div.closest("figure").hidden = scored.length === 0;
    const traces = Object.entries(RULES).map(([rule, [name, symbol]], k) => {
      const own = scored.filter(([cut]) => cut.rule === rule);
      return {
        x: own.map(([cut]) => cut.n_clusters), y: own.map(([cut]) => cut.score), name, mode: "markers",
        customdata: own.map(([cut, i]) => [i, report.share(cut.noise)]),
        hovertemplate: `%{x} clusters, %{customdata[1]} noise<br>${criterion} %{y:.4~g}<extra></extra>`,
        marker: { symbol, size: 9, color: report.colorOf(k), opacity: 0.8 },
      };
    });
    const now = cuts[state.cut];
    if (now.score !== null && now.score > -1)
      traces.push({ x: [now.n_clusters], y: [now.score], name: "shown", mode: "markers", hoverinfo: "skip",
        customdata: [[state.cut, ""]],
        marker: { symbol: "circle-open", size: 17, color: report.variable("--focus"), line: { width: 3 } } });
    const most = Math.max(...scored.map(([cut]) => cut.n_clusters));
    const many = most > 20;
    report.draw(div, traces, {
      xaxis: report.axis("clusters", many ? { type: "log", dtick: 1 } : { dtick: most > 8 ? undefined : 1, nticks: 8 }),
      yaxis: report.axis(criterion), showlegend: true, uirevision: report.revisionOf(), hovermode: "closest",
    });
  }
})();

// Rows of the table that are found in the pictures.
(() => {
  report.view("outliers", (root) => {
    const marks = [...root.querySelectorAll(".mark")];
    for (const mark of marks)
      mark.addEventListener("click", () => {
        const row = Number(mark.dataset.row);
        report.change("row", row === report.state.row ? null : row);
      });
    return () => {
      for (const mark of marks)
        mark.setAttribute("aria-pressed", String(Number(mark.dataset.row) === report.state.row));
    };
  }, true);
})();

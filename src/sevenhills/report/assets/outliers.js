// Rows of the table that are found in the pictures; and the code that can be copied.
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

  report.view("code", (root) => {
    const status = root.querySelector(".status");
    root.querySelector(".copy").addEventListener("click", async () => {
      const code = root.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        status.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(code);
        status.textContent = "Selected; copy it by the keyboard.";
      }
    });
  });
})();

// For tables.css: on a phone, where the headings of a table are not shown, a cell says its column.
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.docutils")) {
    const columns = [...table.querySelectorAll("thead th")].map((th) => th.textContent.trim());
    if (columns.length < 3) continue;
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].slice(1).forEach((cell, n) => {
        if (columns[n + 1]) cell.dataset.column = columns[n + 1];
      });
    }
  }
});

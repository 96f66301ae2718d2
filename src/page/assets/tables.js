"use strict";

// Tables stand in the page as plain HTML; here they become sortable and get a filter.

function valueOf(cell) {
  const value = cell.getAttribute("data-value");
  return value === null ? cell.textContent : Number(value);
}

function sortRows(table, column, ascending) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
  rows.sort(([a], [b]) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
  if (!ascending) rows.reverse();
  body.append(...rows.map(([, row]) => row));
}

function enhanceTable(table) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const text = heading.textContent;
    const sorter = button(text, `Sort by ${text}`, () => {
      const ascending = heading.getAttribute("aria-sort") === "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sortRows(table, column, ascending);
    });
    heading.replaceChildren(sorter);
    if (table.tBodies[0].rows[0]?.cells[column].classList.contains("number")) heading.style.textAlign = "right";
  });
  const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the rows below" });
  const found = element("span", { class: "note", "aria-live": "polite" });
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      if (!row.hidden) ++shown;
    }
    found.textContent = wanted ? `${formatCount(shown)} of ${formatCount(table.tBodies[0].rows.length)} rows` : "";
  });
  table.parentElement.before(element("div", { class: "tools" }, filter, found));
}

// The filter of the zoo: rows whose text has all the words, and the sections that keep a row.
(() => {
  const input = document.getElementById("zoo");
  const rows = [...document.querySelectorAll("table.zoo tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row, k) => { row.hidden = !words.every((word) => texts[k].includes(word)); });
    document.querySelectorAll("section:has(> * table.zoo), section:has(> table.zoo)").forEach((section) => {
      if (section.querySelector("h1") === null) section.hidden = !section.querySelector("tbody tr:not([hidden])");
    });
    const left = rows.filter((row) => !row.hidden).length;
    document.querySelector("p.zoo output").textContent = `${left} of ${rows.length} classifiers`;
  };
  input.addEventListener("input", show);
  show();
})();

// Shows the values under the pointer: the lines are in the picture already.
for (const chart of document.querySelectorAll(".chart")) {
  const svg = chart.querySelector("svg");
  const cursor = chart.querySelector(".cursor");
  const at = chart.querySelector(".at");
  const [x0, x1] = chart.dataset.x.split(",").map(Number);
  const [y0, y1] = chart.dataset.y.split(",").map(Number);
  const [left, right, top, bottom] = [64, 748, 10, 210];
  const lines = [...chart.querySelectorAll("polyline")].map((line) => ({
    name: line.querySelector("title").textContent,
    points: [...line.points],
  }));
  svg.addEventListener("pointermove", (event) => {
    const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    const values = lines.filter((line) => line.points.length).map((line) => {
      const near = line.points.reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
      const value = y0 + ((bottom - near.y) / (bottom - top)) * (y1 - y0);
      return line.name + ": " + value.toPrecision(5);
    });
    const batch = Math.round(x0 + ((x - left) / (right - left)) * (x1 - x0));
    at.textContent = chart.dataset.unit + " " + batch + " · " + values.join(" · ");
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.style.visibility = "visible";
  });
  svg.addEventListener("pointerleave", () => {
    at.textContent = "";
    cursor.style.visibility = "hidden";
  });
}

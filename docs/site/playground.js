"use strict";
// Scores and explains rows by a model file; in a page, draws the playground. Names and values are set as text only.
const playground = (function () {
  const LINKS = {
    "reg:squarederror": (margin) => margin,
    "binary:logistic": (margin) => 1 / (1 + Math.exp(-margin)),
    "count:poisson": (margin) => Math.exp(margin),
  };
  const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);

  function goesLeft(model, tree, node, row) {
    const value = row[tree.feature[node]], categories = tree.categories[node], threshold = tree.threshold[node];
    if (categories !== null) {
      const names = model.features[tree.feature[node]].categories;
      return (!isMissing(value) && categories.includes(names.indexOf(value))) !== tree.missing_left[node];
    }
    if (isMissing(value)) return tree.missing_left[node];
    return threshold === null || Number(value) < Number(threshold);
  }

  // The nodes of a row, from the root to its leaf.
  function path(model, tree, row) {
    const nodes = [0];
    for (let node = 0; tree.feature[node] >= 0; nodes.push(node)) {
      node = goesLeft(model, tree, node, row) ? tree.left[node] : tree.right[node];
    }
    return nodes;
  }

  const leaf = (model, tree, row) => tree.value[path(model, tree, row).at(-1)];

  // Leaf values are on a grid, so the sum is exact in any order.
  const margin = (model, row) => model.trees.reduce((sum, tree) => sum + leaf(model, tree, row), model.base_margin);

  const predict = (model, row) => LINKS[model.objective](margin(model, row));

  // The mean of a tree over what is not known: at a split on an unknown feature a row goes both ways, by cover.
  function mean(model, tree, row, known, node) {
    if (tree.feature[node] < 0) return tree.value[node];
    const [left, right] = [tree.left[node], tree.right[node]];
    if (known.has(tree.feature[node])) {
      return mean(model, tree, row, known, goesLeft(model, tree, node, row) ? left : right);
    }
    const total = tree.cover[left] + tree.cover[right], share = total > 0 ? tree.cover[left] / total : 0.5;
    return share * mean(model, tree, row, known, left) + (1 - share) * mean(model, tree, row, known, right);
  }

  // Shapley values by their definition, over all subsets of the features of each tree; the bias is last.
  function explain(model, row) {
    const values = new Array(model.features.length + 1).fill(0);
    values[model.features.length] = model.base_margin;
    for (const tree of model.trees) {
      const features = [...new Set(tree.feature)].filter((feature) => feature >= 0), n = features.length;
      const weights = [1 / Math.max(n, 1)]; // of a subset of k others: k! (n - k - 1)! / n!
      for (let k = 1; k < n; k++) weights.push(weights[k - 1] * k / (n - k));
      const means = [], sizes = [];
      for (let subset = 0; subset < 1 << n; subset++) {
        const known = new Set(features.filter((_, i) => subset >> i & 1));
        means.push(mean(model, tree, row, known, 0));
        sizes.push(known.size);
      }
      features.forEach((feature, i) => {
        for (let subset = 0; subset < 1 << n; subset++) {
          if (!(subset >> i & 1)) values[feature] += weights[sizes[subset]] * (means[subset | 1 << i] - means[subset]);
        }
      });
      values[model.features.length] += means[0];
    }
    return values;
  }

  // --- the page ------------------------------------------------------------------------------------------------------

  function number(value) {
    if (isMissing(value)) return "missing";
    if (typeof value !== "number") return String(value);
    const digits = Math.abs(value) < 1000 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 };
    return value.toLocaleString("en", { useGrouping: "min2", ...digits });
  }

  function element(tag, attributes, ...children) {
    const svg = ["svg", "g", "path", "rect", "text", "title"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function condition(model, tree, node) {
    const feature = model.features[tree.feature[node]], categories = tree.categories[node];
    if (categories !== null) {
      // The listed ones go to the side that missing does not go to.
      const names = categories.map((i) => feature.categories[i]).join(", ");
      return [feature.name, `${tree.missing_left[node] ? "not in" : "in"} ${names}`];
    }
    return [feature.name, tree.threshold[node] === null ? "is present" : `< ${number(Number(tree.threshold[node]))}`];
  }

  function drawTree(model, tree, row) {
    const taken = new Set(path(model, tree, row)), [width, height, box, high] = [128, 84, 118, 38];
    const places = new Map();
    let leaves = 0, deepest = 0;
    (function place(node, depth) {
      deepest = Math.max(deepest, depth);
      if (tree.feature[node] < 0) places.set(node, [leaves++, depth]);
      else {
        const [a, b] = [tree.left[node], tree.right[node]].map((child) => place(child, depth + 1));
        places.set(node, [(a + b) / 2, depth]);
      }
      return places.get(node)[0];
    })(0, 0);
    const at = (node) => [places.get(node)[0] * width + width / 2, places.get(node)[1] * height + high / 2 + 4];
    const svg = element("svg", { viewBox: `0 0 ${leaves * width} ${deepest * height + high + 8}`, role: "img" });
    svg.append(element("title", {}, "the tree, with the path of the row"));
    for (const [node] of places) {
      for (const child of tree.feature[node] < 0 ? [] : [tree.left[node], tree.right[node]]) {
        const [x, y] = at(node), [cx, cy] = at(child), bend = (y + cy) / 2;
        const kind = taken.has(node) && taken.has(child) ? "edge taken" : "edge";
        svg.append(element("path", { class: kind, d: `M${x},${y + high / 2}C${x},${bend} ${cx},${bend} ${cx},${cy - high / 2}` }));
      }
    }
    for (const [node] of places) {
      const [x, y] = at(node), isLeaf = tree.feature[node] < 0;
      const kind = `${isLeaf ? "leaf" : "split"}${taken.has(node) ? " taken" : ""}`;
      const size = { x: x - box / 2, y: y - high / 2, width: box, height: high, rx: isLeaf ? 16 : 4 };
      const lines = isLeaf ? [signed(tree.value[node])] : condition(model, tree, node);
      const group = element("g", { class: kind }, element("rect", size), element("title", {}, lines.join(" ")));
      lines.forEach((line, i) => {
        const shown = line.length > 19 ? `${line.slice(0, 18)}…` : line;
        group.append(element("text", { x, y: y + 4 + (i - (lines.length - 1) / 2) * 14 }, shown));
      });
      svg.append(group);
    }
    return svg;
  }

  const signed = (value) => `${value < 0 ? "−" : "+"}${number(Math.abs(value))}`;

  function drawContributions(model, values) {
    const table = element("table", {}), largest = Math.max(...values.slice(0, -1).map(Math.abs), 1e-300);
    const order = values.slice(0, -1).map((_, i) => i).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
    const line = (name, value, share) => {
      const bar = element("span", { class: value < 0 ? "bar less" : "bar more", style: `width:${50 * share}%` });
      table.append(element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "bars" }, bar),
        element("td", { class: "number" }, share ? signed(value) : number(value))));
    };
    line("mean", values.at(-1), 0);
    for (const i of order) line(model.features[i].name, values[i], Math.max(Math.abs(values[i]) / largest, 0.005));
    return table;
  }

  function control(feature, seen, change) {
    let input;
    if (feature.type === "boolean" || feature.categories) {
      const values = feature.categories ?? [false, true];
      input = element("select", {}, ...values.map((value, i) => element("option", { value: i }, String(value))),
        element("option", { value: -1 }, "missing"));
      input.addEventListener("input", () => change(Number(input.value) < 0 ? null : values[input.value]));
      return [input, (value) => { input.value = isMissing(value) ? -1 : values.indexOf(value); }];
    }
    const known = seen.filter((value) => !isMissing(value)), [low, high] = [Math.min(...known, 0), Math.max(...known, 1)];
    const least = Math.min(...known), isWhole = known.every(Number.isInteger) && feature.type.includes("int");
    input = element("input", { type: "range", min: known.length ? least : low, max: high, step: isWhole ? 1 : "any" });
    const box = element("input", { type: "checkbox" });
    const tell = () => change(box.checked ? null : Number(input.value));
    input.addEventListener("input", () => { box.checked = false; tell(); });
    box.addEventListener("input", tell);
    const both = element("span", { class: "slider" }, input, element("label", {}, box, " missing"));
    return [both, (value) => { box.checked = isMissing(value); if (!box.checked) input.value = value; }];
  }

  function show(root, data) {
    const { model, rows, labels, label, sql } = data;
    let row = [...rows[0]], chosen = 0, follows = true;
    const outputs = {
      score: element("output", { class: "score" }), contributions: element("div", { class: "contributions" }),
      tree: element("div", { class: "tree" }), which: element("span", {}),
    };
    const values = model.features.map(() => element("output", {}));
    const setters = [];
    const controls = model.features.map((feature, i) => {
      const [input, set] = control(feature, rows.map((each) => each[i]), (value) => { row[i] = value; draw(); });
      (input.tagName === "SPAN" ? input.firstChild : input).setAttribute("aria-label", feature.name);
      setters.push(set);
      return element("div", { class: "control" }, element("span", { class: "name" }, feature.name), values[i], input);
    });
    const trees = element("input", { type: "range", min: 0, max: model.trees.length - 1, step: 1, "aria-label": "tree" });
    trees.addEventListener("input", () => { chosen = Number(trees.value); follows = false; draw(); });
    const decisive = element("button", { type: "button", class: "md-button" }, "decisive tree");
    decisive.addEventListener("click", () => { follows = true; draw(); });

    const lines = rows.map((each, k) => {
      const cells = [...each.map(number), ...(label === null ? [] : [number(labels[k])]), number(predict(model, each))];
      const line = element("tr", { tabindex: 0 }, ...cells.map((cell) => element("td", {}, cell)));
      const take = () => { row = [...each]; setters.forEach((set, i) => set(row[i])); draw(); };
      line.addEventListener("click", take);
      line.addEventListener("keydown", (event) => { if (event.key === "Enter") take(); });
      return line;
    });
    const heads = [...model.features.map((feature) => feature.name), ...(label === null ? [] : [label]), "prediction"];

    function draw() {
      outputs.score.textContent = number(predict(model, row));
      values.forEach((value, i) => { value.textContent = number(row[i]); });
      outputs.contributions.replaceChildren(drawContributions(model, explain(model, row)));
      if (follows) {
        const sizes = model.trees.map((tree) => Math.abs(leaf(model, tree, row)));
        chosen = sizes.indexOf(Math.max(...sizes));
        trees.value = chosen;
      }
      const tree = model.trees[chosen];
      outputs.which.textContent = `tree ${chosen} of ${model.trees.length}: ${signed(leaf(model, tree, row))} `;
      outputs.tree.replaceChildren(drawTree(model, tree, row));
      lines.forEach((line, k) => line.classList.toggle("taken", rows[k].every((value, i) => Object.is(value, row[i]))));
    }

    const section = (title, ...parts) => element("section", {}, element("h2", {}, title), ...parts);
    root.append(
      section("Rows", element("div", { class: "scroll" }, element("table", {},
        element("thead", {}, element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, ...lines)))),
      element("div", { class: "columns" },
        section("Your row", ...controls, element("p", {}, "prediction ", outputs.score)),
        section("Why", outputs.contributions)),
      section("The tree", element("p", {}, outputs.which, trees, " ", decisive), outputs.tree),
      section("The model", element("pre", {}, element("code", {}, sql))));
    setters.forEach((set, i) => set(row[i]));
    draw();
  }

  if (typeof document !== "undefined") {
    const root = document.querySelector("div.playground");
    show(root, JSON.parse(root.querySelector("script").textContent));
  }
  return { predict, margin, explain };
})();
if (typeof module !== "undefined") module.exports = playground;

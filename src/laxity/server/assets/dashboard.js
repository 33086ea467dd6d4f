// Draws what the server's ready-made snapshots say. Runs in the browser; asks only this server.
(function () {
  "use strict";

  // The token comes behind the hash of the address, which no server and no log gets to see.
  const hash = new URLSearchParams(location.hash.slice(1));
  if (hash.get("token")) {
    sessionStorage.setItem("laxity-token", hash.get("token"));
    history.replaceState(null, "", location.pathname + location.search);
  }
  const root = document.documentElement;
  const dark = () => root.dataset.theme === "dark";
  root.dataset.theme = localStorage.getItem("laxity-theme") ||
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  const COLOURS = {
    "held by the gate": "#b197fc", "planning": "#74c0fc", "waiting for a slot": "#f59f00",
    "running": "#2f9e44", "committing": "#15aabf", "between batches": "#adb5bd", "batch": "#868e96",
  };
  const GOOD = "#2f9e44", BAD = "#e03131";

  // Dash components as plain data.
  const h = (type, props, ...children) => ({
    namespace: "dash_html_components", type,
    props: { ...props, children: children.flat().filter((c) => c !== null && c !== undefined) },
  });
  const link = (href, text, className) => ({
    namespace: "dash_core_components", type: "Link", props: { href, children: text, className },
  });

  function duration(s) {
    if (s === null || s === undefined) return "–";
    const a = Math.abs(s);
    const round = (v) => Number(v.toPrecision(3)).toString();
    if (a === 0) return "0 s";
    if (a < 0.9995) return round(s * 1000) + " ms";
    if (a < 120) return round(s) + " s";
    if (a < 7160) return round(s / 60) + " min";
    return round(s / 3600) + " h";
  }
  const percent = (x) => (x === null || x === undefined ? "–" : (100 * x).toFixed(x < 0.9995 ? 1 : 0) + " %");
  function count(x) {
    if (x >= 1e6) return (x / 1e6).toFixed(1) + " M";
    if (x >= 1e4) return (x / 1e3).toFixed(0) + " k";
    return x >= 100 || Number.isInteger(x) ? Math.round(x).toLocaleString("en") : x.toFixed(1);
  }
  const time = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });
  const iso = (at) => new Date(at * 1000);

  const headers = (more) => {
    const token = sessionStorage.getItem("laxity-token");
    return token ? { ...more, Authorization: "Bearer " + token } : { ...more };
  };
  async function ask(path, options) {
    const answer = await fetch(path, { ...options, headers: headers(options && options.headers) });
    const body = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(body.error || answer.statusText), { status: answer.status });
    return body;
  }
  const change = (method, path, body) => ask(path, {
    method, body: body === undefined ? undefined : JSON.stringify(body),
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
  });

  function view(href) {
    const wanted = new URL(href || location.href).searchParams;
    if (wanted.get("query")) return { name: "query", query: wanted.get("query") };
    return { name: wanted.get("view") || "overview" };
  }
  const queryHref = (name) => "/?query=" + encodeURIComponent(name);

  function stateClass(q) {
    if (q.state === "failed" || q.state === "restarting") return "bad";
    if (q.overloaded) return "warn";
    if (q.state === "paused" || q.state === "stopped") return "quiet";
    return "good";
  }
  const stateText = (q) => (q.overloaded && stateClass(q) === "warn" ? "overloaded" : q.state);
  const pill = (q) => h("Span", { className: "pill " + stateClass(q), title: q.error || q.state }, stateText(q));

  function trend(q) {
    const top = Math.max(...q.trend, q.target || 0, 1e-9);
    return h("Div", { className: "trend", title: "its last results; red ones missed" },
      q.trend.slice(-24).map((v) => h("I", {
        className: q.target !== null && v > q.target ? "missed" : "",
        style: { height: Math.max(2, (22 * v) / top) + "px" },
      })));
  }
  function metBar(q) {
    if (q.target === null || q.latency.met === null) return h("Span", { className: "quiet" }, "–");
    const met = q.latency.met;
    return h("Div", { className: "met" },
      h("Div", { className: "bar" }, h("I", {
        className: met >= 0.99 ? "good" : met >= 0.9 ? "warn" : "bad", style: { width: 100 * met + "%" },
      })), h("Span", {}, percent(met)));
  }
  function worst(behind, most) {
    return Object.entries(behind).sort((a, b) => b[1] - a[1]).slice(0, most);
  }
  const behind = (q, most) => worst(q.behind, most).map(([who, v]) => who + " " + duration(v)).join(", ") || "–";
  function table(head, rows, className) {
    return h("Div", { className: "scroll" }, h("Table", { className },
      h("Thead", {}, h("Tr", {}, head.map(([text, cls, title]) => h("Th", { className: cls, title }, text)))),
      h("Tbody", {}, rows)));
  }
  const card = (label, value, note, cls) => h("Div", { className: "card " + (cls || "") },
    h("Span", { className: "label" }, label), h("Strong", {}, value), h("Span", { className: "note" }, note || ""));

  function axes(extra) {
    const ink = dark() ? "#ced4da" : "#343a40", grid = dark() ? "#2b3038" : "#e9ecef";
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, tickcolor: grid, fixedrange: true, automargin: true };
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui, sans-serif", size: 12 },
      margin: { l: 56, r: 12, t: 8, b: 36 }, hovermode: "closest", uirevision: "same",
      legend: { orientation: "h", y: 1.12, x: 0 }, ...extra,
    };
    layout.xaxis = { ...axis, ...(extra && extra.xaxis) };
    layout.yaxis = { ...axis, ...(extra && extra.yaxis) };
    return layout;
  }

  const none = () => window.dash_clientside.no_update;

  function latencyFigure(detail) {
    const p = detail.points;
    const part = (wanted) => {
      const x = [], y = [];
      p.at.forEach((at, i) => {
        const missed = p.target[i] !== null && p.latency[i] > p.target[i];
        if (missed === wanted) { x.push(iso(at)); y.push(p.latency[i]); }
      });
      return { x, y };
    };
    const dots = (points, name, color) => ({
      ...points, name, type: "scatter", mode: "markers", marker: { color, size: 6, opacity: 0.85 },
      hovertemplate: "%{y:.3f} s<br>%{x|%H:%M:%S}<extra></extra>",
    });
    const hasTarget = p.target.some((t) => t !== null);
    const data = [
      dots(part(false), hasTarget ? "met" : "results", GOOD),
      dots(part(true), "missed", BAD),
    ];
    if (hasTarget) data.push({
      x: p.at.map(iso), y: p.target, name: "target", type: "scatter", mode: "lines",
      line: { color: dark() ? "#e9ecef" : "#212529", width: 1.5, dash: "dash", shape: "hv" }, hoverinfo: "skip",
    });
    const values = p.latency.filter((v) => v > 0);
    const spread = values.length ? Math.max(...values) / Math.min(...values) : 1;
    const tall = hasTarget && detail.query.target > 20 * Math.max(...values, 1e-9);
    return {
      data, layout: axes({
        yaxis: {
          title: { text: "seconds" }, rangemode: "tozero",
          type: spread > 200 || tall ? "log" : "linear",
        }, xaxis: { type: "date", tickformat: "%H:%M:%S", nticks: 8 }, height: 300,
      }),
    };
  }

  function phasesFigure(detail) {
    const missed = detail.misses.missed > 0;
    const phases = missed ? detail.misses.phases : detail.phases;
    const label = missed ? "missed" : "all results";
    const total = Object.values(phases).reduce((sum, v) => sum + v, 0);
    const data = Object.entries(phases).filter(([, v]) => v > 0.0005).map(([phase, v]) => ({
      x: [v], y: [label], name: phase, type: "bar", orientation: "h", marker: { color: COLOURS[phase] || "#999" },
      text: [v > 0.1 * total ? duration(v) : ""], textposition: "inside", insidetextanchor: "middle", textangle: 0,
      hovertemplate: phase + ": " + duration(v) + "<extra></extra>",
    }));
    return {
      data, layout: axes({
        barmode: "stack", bargap: 0.1, height: 190, xaxis: { title: { text: "seconds a result" } },
        yaxis: { showticklabels: false },
        legend: { orientation: "h", y: 1.04, yanchor: "bottom", x: 0, traceorder: "normal" },
        margin: { l: 14, r: 14, t: 64, b: 44 },
      }),
    };
  }

  function stageTable(detail) {
    const most = Math.max(...detail.stages.map((s) => s.cost), 1e-9);
    if (!detail.stages.length) return h("P", { className: "hint" }, "No batch with data has been measured yet.");
    return table(
      [["stage"], ["after"], ["cost"], ["", "wide"], ["then to the result", "num"], ["tasks", "num"], ["a task", "num"]],
      detail.stages.map((s) => h("Tr", {},
        h("Td", {}, s.position), h("Td", {}, s.parents.join(", ") || "–"),
        h("Td", { className: "num" }, duration(s.cost) + " ± " + duration(s.spread)),
        h("Td", { className: "wide" }, h("Div", { className: "bar" }, h("I", { style: { width: (100 * s.cost) / most + "%" } }))),
        h("Td", { className: "num" }, duration(s.path_cost)), h("Td", { className: "num" }, String(s.tasks)),
        h("Td", { className: "num" }, duration(s.task_seconds)))), "stages");
  }

  function timelineFigure(t) {
    const rows = [...new Set(t.bars.map((b) => b.query))].sort().reverse();
    const width = { "batch": 0.12, "running": 0.5, "waiting for a slot": 0.5, "held by the gate": 0.3 };
    const offset = { "batch": 0.34 };
    const groups = {};
    for (const b of t.bars) (groups[b.phase] = groups[b.phase] || []).push(b);
    const order = ["held by the gate", "waiting for a slot", "running", "batch"];
    const data = order.filter((p) => groups[p]).map((phase) => {
      const bars = groups[phase];
      return {
        type: "bar", orientation: "h", name: phase === "batch" ? "batch, start to commit" : phase,
        y: bars.map((b) => rows.indexOf(b.query)), base: bars.map((b) => iso(b.start).getTime()),
        x: bars.map((b) => 1000 * Math.max(0.004, b.end - b.start)), width: width[phase], offset: (offset[phase] || 0) - width[phase] / 2,
        marker: { color: COLOURS[phase], opacity: phase === "running" ? 0.75 : 1, line: { width: 0 } },
        customdata: bars.map((b) => [
          b.query, duration(b.end - b.start), b.batch,
          (b.stage ? ", stage " + b.stage : "") + (b.behind.length ? ", behind " + b.behind.join(", ") : ""),
        ]),
        hovertemplate: "%{customdata[0]}: " + phase + " %{customdata[1]}<br>batch %{customdata[2]}%{customdata[3]}<extra></extra>",
      };
    });
    return {
      data, layout: axes({
        barmode: "overlay", height: Math.max(240, 90 + 46 * rows.length),
        xaxis: { type: "date", tickformat: "%H:%M:%S", nticks: 8, range: [iso(t.at - t.seconds).getTime(), iso(t.at).getTime()] },
        yaxis: { tickvals: rows.map((_, i) => i), ticktext: rows, range: [-0.6, rows.length - 0.3] },
        margin: { l: 90, r: 12, t: 30, b: 36 },
      }),
    };
  }

  // Tables are drawn anew with every snapshot, so their buttons are listened to from above.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-cap]");
    if (!button) return;
    const tenant = button.dataset.cap, now = button.dataset.now || "";
    const typed = prompt("Cap of " + tenant + ": tasks at a time (2), a share of all cores (50%), or empty for none", now);
    if (typed === null) return;
    const path = "/api/v1/tenants/" + encodeURIComponent(tenant) + "/cap", text = typed.trim();
    try {
      if (!text) await change("DELETE", path);
      else if (text.endsWith("%")) await change("PUT", path, { share: Number(text.slice(0, -1)) / 100 });
      else await change("PUT", path, { slots: Number(text) });
      dash_clientside.set_props("changed", { data: Date.now() });
    } catch (error) {
      if (error.status === 401) dash_clientside.set_props("token-dialog", { className: "" });
      else alert(error.message);
    }
  });

  let last = null, notice = 0, looks = 0;
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.laxity = {
    poll: async function (tick, href, seconds) {
      const where = view(href);
      if (document.hidden && last && last.view.name === where.name) return none();
      const found = { view: where, href };
      try {
        // Elsewhere only the header comes from it: every third time will do.
        const fresh = last && !last.error && last.overview && where.name !== "overview" && looks++ % 3;
        found.overview = fresh ? last.overview : await ask("/api/v1/overview");
        if (where.name === "query") found.detail = await ask("/api/v1/queries/" + encodeURIComponent(where.query));
        if (where.name === "timeline") found.timeline = await ask("/api/v1/timeline?seconds=" + (seconds || 30));
        if (where.name === "events") found.events = (await ask("/api/v1/events?limit=200")).events;
      } catch (error) {
        found.error = error.status ? error.message : "The server does not answer; trying again.";
        if (error.status === 401) dash_clientside.set_props("token-dialog", { className: "" });
        if (!found.overview && last) found.overview = last.overview;
      }
      last = found;
      return found;
    },

    frame: function (s) {
      const shown = (name) => "view" + (s && s.view.name === name ? "" : " hidden");
      const views = [shown("overview"), shown("query"), shown("timeline"), shown("events")];
      for (const name of ["overview", "timeline", "events"]) {
        const to = document.getElementById("to-" + name);
        if (to) to.classList.toggle("here", !!s && (s.view.name === name || (name === "overview" && s.view.name === "query")));
      }
      if (!s || !s.overview) return ["", "", s && s.error ? s.error : "", ...views];
      const o = s.overview;
      const troubled = o.queries.filter((q) => ["bad", "warn"].includes(stateClass(q)));
      const health = troubled.length
        ? h("Span", { className: "pill " + (troubled.some((q) => stateClass(q) === "bad") ? "bad" : "warn") },
            troubled.length + (troubled.length === 1 ? " query in trouble" : " queries in trouble"))
        : h("Span", { className: "pill good" }, "all well");
      return [o.application + " · " + o.policy + " · " + o.cores + " cores", health, s.error || "", ...views];
    },

    overview: function (s) {
      if (!s || !s.overview || s.view.name !== "overview") return none();
      const o = s.overview;
      const promised = o.queries.filter((q) => q.target !== null && q.latency.count);
      const results = promised.reduce((n, q) => n + q.latency.count, 0);
      const met = promised.reduce((n, q) => n + q.latency.count * q.latency.met, 0);
      const running = o.queries.reduce((n, q) => n + q.running_tasks, 0);
      const waiting = o.queries.reduce((n, q) => n + q.waiting_tasks, 0);
      const rows = o.queries.reduce((n, q) => n + q.rows_per_second, 0);
      const share = results ? met / results : null;
      const cards = h("Div", { className: "cards" },
        card("results in time", percent(share), results + " results in the last minutes",
          share === null ? "" : share >= 0.99 ? "good" : share >= 0.9 ? "warn" : "bad"),
        card("queries", String(o.queries.length), promised.length + " with a target and results"),
        card("tasks running", running + " of " + o.cores, waiting + " waiting, " + o.reserved + " slots reserved"),
        card("rows a second", count(rows), o.overload === null ? "no overload" : "worst p95 is " + o.overload.toFixed(1) + " × its target"));
      const sorted = [...o.queries].sort((a, b) => (a.target ?? 1e18) - (b.target ?? 1e18) || a.name.localeCompare(b.name));
      const queries = table(
        [["query"], ["tenant", "wide"], ["state"], ["target", "num"], ["p50", "num wide"], ["p99", "num"], ["in time"],
          ["laxity", "num wide", "how long its next batch could still wait"], ["rows/s", "num wide"],
          ["batch", "num wide", "rows of its last batch, and its limit"], ["waits behind", "wide"], ["last results", "wide"]],
        sorted.map((q) => h("Tr", { id: "row-" + q.name },
          h("Td", {}, link(queryHref(q.name), q.name, "name")), h("Td", { className: "wide" }, q.tenant), h("Td", {}, pill(q)),
          h("Td", { className: "num" }, q.target === null ? "–" : duration(q.target)),
          h("Td", { className: "num wide" }, duration(q.latency.p50)), h("Td", { className: "num" }, duration(q.latency.p99)),
          h("Td", {}, metBar(q)), h("Td", { className: "num wide" }, duration(q.laxity)),
          h("Td", { className: "num wide" }, count(q.rows_per_second)),
          h("Td", { className: "num wide" }, count(q.rows_per_batch) + (q.limit ? " ≤ " + count(q.limit) : "")),
          h("Td", { className: "wide behind", title: behind(q, 9) }, behind(q, 1)),
          h("Td", { className: "wide" }, trend(q)))), "queries");
      const tenants = table(
        [["tenant"], ["queries", "num"], ["tasks", "num"], ["waiting", "num wide"], ["rows/s", "num"], ["in time", "num"], ["cap", "num"], [""]],
        o.tenants.map((t) => {
          const cap = t.cap_slots !== null ? String(t.cap_slots) : t.cap_share !== null ? Math.round(100 * t.cap_share) + "%" : "";
          return h("Tr", {},
            h("Td", {}, t.name), h("Td", { className: "num" }, String(t.queries)), h("Td", { className: "num" }, String(t.running_tasks)),
            h("Td", { className: "num wide" }, String(t.waiting_tasks)), h("Td", { className: "num" }, count(t.rows_per_second)),
            h("Td", { className: "num" }, percent(t.met)), h("Td", { className: "num" }, cap || "–"),
            h("Td", { className: "num" }, h("Button", { "data-cap": t.name, "data-now": cap }, cap ? "Change cap" : "Set cap")));
        }), "tenants");
      const notices = o.notices.length ? [h("H2", {}, "Notices"), h("Ul", { className: "notices" }, o.notices.map((n) => h("Li", {}, n)))] : [];
      return [cards, h("H2", {}, "Queries"), queries, h("H2", {}, "Tenants"), tenants, ...notices];
    },

    query: function (s) {
      if (!s || s.view.name !== "query" || !s.detail) return Array(8).fill(none());
      const d = s.detail, q = d.query;
      const head = h("Div", { className: "head" }, link("/", "‹ all", "back"), h("H1", {}, q.name), pill(q),
        h("Span", { className: "quiet" }, "tenant " + q.tenant), q.error ? h("P", { className: "error" }, q.error.split("\n")[0]) : null);
      const numbers = [
        card("target", q.target === null ? "best effort" : duration(q.target)),
        card("in time", q.target === null ? "–" : percent(q.latency.met), q.latency.count + " results",
          q.latency.met === null || q.target === null ? "" : q.latency.met >= 0.99 ? "good" : q.latency.met >= 0.9 ? "warn" : "bad"),
        card("p50", duration(q.latency.p50)), card("p99", duration(q.latency.p99)),
        card("laxity now", duration(q.laxity), "what its next batch could still wait"),
        card("rows a second", count(q.rows_per_second), q.limit ? "at most " + count(q.limit) + " a batch" : count(q.rows_per_batch) + " a batch"),
      ];
      const behind = worst(d.misses.behind, 5).filter(([, v]) => v > 0.0005);
      const who = d.misses.missed
        ? [h("P", {}, d.misses.missed + " of " + d.misses.of + " results missed; those took " + duration(d.misses.latency) + " on average."),
          behind.length ? h("P", {}, "They waited behind " + behind.map(([w, v]) => w + " (" + duration(v) + ")").join(", ") + ".") : null].filter(Boolean)
        : [h("P", { className: "hint" }, q.target === null ? "Without a target nothing can be missed. Shown is where the time of all results went."
          : "No result of the period missed. Shown is where the time of all results went.")];
      const plan = [
        h("Dl", {}, d.plan.filter((f) => f.text).flatMap((f) => [h("Dt", {}, f.label), h("Dd", {}, f.text)])),
        ...d.notes.map((n) => h("P", { className: "hint" }, n)),
        q.latency.arrival ? h("P", { className: "hint" }, "Arrivals known from: " + q.latency.arrival + ".") : null,
      ].filter(Boolean);
      return [head, numbers, latencyFigure(d), phasesFigure(d), who, plan, stageTable(d), q.paused ? "Resume" : "Pause"];
    },

    timeline: function (s) {
      return s && s.timeline && s.view.name === "timeline" ? timelineFigure(s.timeline) : none();
    },

    events: function (s) {
      if (!s || !s.events || s.view.name !== "events") return none();
      if (!s.events.length) return h("P", { className: "hint" }, "Nothing has happened yet.");
      const mood = { missed: "warn", overloaded: "warn", failed: "bad", restarted: "warn", recovered: "good", started: "good" };
      return table([["when"], ["what"], ["query"], [""]], [...s.events].reverse().map((e) => h("Tr", {},
        h("Td", { className: "quiet" }, time(e.at)), h("Td", {}, h("Span", { className: "pill " + (mood[e.kind] || "quiet") }, e.kind)),
        h("Td", {}, e.query ? link(queryHref(e.query), e.query, "name") : e.tenant), h("Td", {}, e.message))), "events");
    },

    change: async function (set, lift, pause, typed, s) {
      const asked = (dash_clientside.callback_context.triggered[0] || {}).prop_id || "";
      if (!s || !s.detail) return [none(), none()];
      const q = s.detail.query, path = "/api/v1/queries/" + encodeURIComponent(q.name);
      let body;
      if (asked.startsWith("pause")) body = { paused: !q.paused };
      else if (asked.startsWith("target-none")) body = { target: null };
      else if (typed && typed.trim()) body = { target: typed.trim() };
      else return [none(), "Write a target first: 800ms, 2s, 1h."];
      try {
        await change("PATCH", path, body);
        const told = ++notice;
        setTimeout(() => { if (told === notice) dash_clientside.set_props("change-note", { children: "" }); }, 4000);
        return [Date.now(), "Done."];
      } catch (error) {
        if (error.status === 401) dash_clientside.set_props("token-dialog", { className: "" });
        return [none(), error.message];
      }
    },

    theme: function (clicks) {
      if (clicks) {
        root.dataset.theme = dark() ? "light" : "dark";
        localStorage.setItem("laxity-theme", root.dataset.theme);
        if (last) dash_clientside.set_props("snapshot", { data: { ...last } });
      }
      return dark() ? "☀" : "☾";
    },

    token: function (open, use, cancel, typed) {
      const asked = (dash_clientside.callback_context.triggered[0] || {}).prop_id || "";
      if (asked.startsWith("token-open")) return ["", ""];
      if (asked.startsWith("token-use") && typed) {
        sessionStorage.setItem("laxity-token", typed.trim());
        dash_clientside.set_props("changed", { data: Date.now() });
      }
      return ["hidden", ""];
    },
  };
})();

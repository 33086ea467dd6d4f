"""The dashboard: laid out here with Dash, filled in by the browser.

The page polls the same ready-made snapshots as everybody (assets/dashboard.js draws them), so a
client costs the server a copy of bytes and no Python callback. Every script comes from the
installed Dash package or from `assets/`; none from another host.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from a2wsgi import WSGIMiddleware
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from laxity import __version__
from laxity.server.front import App

POLL = 2.0
"""Seconds between two looks of a page; at least the server's own period."""

_GRAPH: dcc.Graph.Config = {"displayModeBar": False, "displaylogo": False, "responsive": True}


def build_dashboard(period: float) -> tuple[App, str]:
    """The dashboard as an ASGI application, and the content security policy of its page."""
    app = Dash(
        "laxity",
        title="Laxity",
        update_title="",
        assets_folder=str(Path(__file__).parent / "assets"),
        serve_locally=True,
        compress=False,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "color-scheme", "content": "light dark"},
        ],
    )
    app.layout = _layout(max(POLL, period))
    _connect(app)
    policy = _content_policy(app.csp_hashes())
    # Dash is WSGI; what it serves is static, so two threads are plenty.
    return WSGIMiddleware(app.server, workers=2), policy  # type: ignore[return-value]


def _content_policy(hashes: Iterable[str]) -> str:
    scripts = " ".join(["'self'", *hashes])
    return (
        f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data: blob:; connect-src 'self'; font-src 'self' data:; "
        f"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _layout(poll: float) -> html.Div:
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Interval(id="tick", interval=int(poll * 1000)),
            dcc.Store(id="snapshot"),
            dcc.Store(id="changed"),
            _header(),
            html.Div(id="problem", role="alert"),
            html.Main(
                [
                    html.Section(id="overview", className="view"),
                    _query_view(),
                    _timeline_view(),
                    html.Section(id="events", className="view hidden"),
                ]
            ),
            _token_dialog(),
            html.Footer(
                [
                    f"Laxity {__version__} · ",
                    html.A("API", href="/api", target="_blank"),
                    " · ",
                    html.A("metrics", href="/metrics", target="_blank"),
                ]
            ),
        ],
        id="page",
    )


def _header() -> html.Header:
    return html.Header(
        [
            html.Div(
                [html.Span("Laxity", className="brand"), html.Span(id="application")],
                className="title",
            ),
            html.Nav(
                [
                    dcc.Link("Queries", href="/", id="to-overview"),
                    dcc.Link("Timeline", href="/?view=timeline", id="to-timeline"),
                    dcc.Link("Events", href="/?view=events", id="to-events"),
                ]
            ),
            html.Div(
                [
                    html.Span(id="health"),
                    html.Button("Token", id="token-open", title="The token that changes need"),
                    html.Button("◐", id="theme", title="Light or dark", **_aria("Light or dark")),
                ],
                className="tools",
            ),
        ]
    )


def _aria(label: str) -> dict[str, Any]:
    return {"aria-label": label}


def _query_view() -> html.Section:
    """Built once and filled in, so that what somebody types is not overwritten by a poll."""
    return html.Section(
        [
            html.Div(id="query-head"),
            html.Div(
                [
                    html.Label("Target", htmlFor="target"),
                    dcc.Input(id="target", type="text", placeholder="800ms"),
                    html.Button("Set", id="target-set", className="primary"),
                    html.Button("Best effort", id="target-none"),
                    html.Button("Pause", id="pause"),
                    html.Span(id="change-note", role="status"),
                ],
                className="controls",
            ),
            html.Div(id="query-numbers", className="numbers"),
            html.H2("Latency against the target"),
            dcc.Graph(id="latency", config=_GRAPH, className="chart", style={"height": "300px"}),
            html.Div(
                [
                    html.Div(
                        [
                            html.H2("Where the time of missed results went"),
                            dcc.Graph(
                                id="phases",
                                config=_GRAPH,
                                className="chart low",
                                style={"height": "200px"},
                            ),
                            html.Div(id="behind"),
                        ]
                    ),
                    html.Div([html.H2("Plan"), html.Div(id="plan")]),
                ],
                className="columns",
            ),
            html.H2("Stages"),
            html.Div(id="stages"),
        ],
        id="query",
        className="view hidden",
    )


def _timeline_view() -> html.Section:
    return html.Section(
        [
            html.Div(
                [
                    html.H2("What ran, and what waited"),
                    dcc.RadioItems(
                        id="timeline-seconds",
                        options=[
                            {"label": "10 s", "value": 10},
                            {"label": "30 s", "value": 30},
                            {"label": "2 min", "value": 120},
                        ],
                        value=30,
                        inline=True,
                    ),
                ],
                className="controls",
            ),
            dcc.Graph(id="timeline-chart", config=_GRAPH, className="chart tall"),
            html.P(
                "A thin bar is a batch from start to commit; thick ones are its tasks. Waiting for "
                "a slot and being held are drawn apart. Tasks beyond the 64th of a stage are not.",
                className="hint",
            ),
        ],
        id="timeline",
        className="view hidden",
    )


def _token_dialog() -> html.Div:
    return html.Div(
        html.Div(
            [
                html.H2("Token"),
                html.P(
                    "Changes need the token that `laxity run` printed, or the one it was given. "
                    "It stays in this tab."
                ),
                dcc.Input(id="token", type="password", placeholder="token", autoComplete="off"),
                html.Div(
                    [
                        html.Button("Use it", id="token-use", className="primary"),
                        html.Button("Cancel", id="token-cancel"),
                    ],
                    className="controls",
                ),
            ],
            className="dialog",
        ),
        id="token-dialog",
        className="hidden",
    )


def _connect(app: Dash) -> None:
    """Every callback runs in the browser; the functions are in assets/dashboard.js."""

    def here(function: str, *arguments: Any, **options: Any) -> None:
        app.clientside_callback(  # type: ignore[no-untyped-call]
            ClientsideFunction(namespace="laxity", function_name=function), *arguments, **options
        )

    here(
        "poll",
        Output("snapshot", "data"),
        Input("tick", "n_intervals"),
        Input("url", "href"),
        Input("timeline-seconds", "value"),
        Input("changed", "data"),
    )
    here(
        "frame",
        Output("application", "children"),
        Output("health", "children"),
        Output("problem", "children"),
        Output("overview", "className"),
        Output("query", "className"),
        Output("timeline", "className"),
        Output("events", "className"),
        Input("snapshot", "data"),
    )
    here("overview", Output("overview", "children"), Input("snapshot", "data"))
    here(
        "query",
        Output("query-head", "children"),
        Output("query-numbers", "children"),
        Output("latency", "figure"),
        Output("phases", "figure"),
        Output("behind", "children"),
        Output("plan", "children"),
        Output("stages", "children"),
        Output("pause", "children"),
        Input("snapshot", "data"),
    )
    here("timeline", Output("timeline-chart", "figure"), Input("snapshot", "data"))
    here("events", Output("events", "children"), Input("snapshot", "data"))
    here(
        "change",
        Output("changed", "data"),
        Output("change-note", "children"),
        Input("target-set", "n_clicks"),
        Input("target-none", "n_clicks"),
        Input("pause", "n_clicks"),
        State("target", "value"),
        State("snapshot", "data"),
        prevent_initial_call=True,
    )
    here("theme", Output("theme", "children"), Input("theme", "n_clicks"))
    here(
        "token",
        Output("token-dialog", "className"),
        Output("token", "value"),
        Input("token-open", "n_clicks"),
        Input("token-use", "n_clicks"),
        Input("token-cancel", "n_clicks"),
        State("token", "value"),
        prevent_initial_call=True,
    )

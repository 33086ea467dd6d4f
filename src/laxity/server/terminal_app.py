"""The live view of `laxity top`, on Textual."""

from __future__ import annotations

from time import monotonic
from typing import ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from laxity.core.errors import LaxityError
from laxity.server.service import Service
from laxity.server.terminal import COLUMNS, Column, arrange, cell, headline
from laxity.server.views import Overview

NOTE_SECONDS = 6.0
"""A refusal is there long enough to be read."""


class Top(App[None]):
    TITLE = "laxity top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 1; padding: 0 1; text-style: bold; }
    #note { height: auto; padding: 0 1; color: $text-error; }
    #filter { display: none; height: 3; }
    #filter.open { display: block; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "next_sort", "sort by next column"),
        Binding("r", "reverse", "reverse"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("p", "pause", "pause / resume"),
        Binding("escape", "close", "close", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, service: Service, *, sort: Column, wanted: str, period: float) -> None:
        super().__init__()
        self._service = service
        self._by = sort
        self._wanted = wanted
        self._reverse = False
        self._period = period
        self._seen: Overview | None = None
        self._noted = 0.0
        self._rows: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield DataTable[object](id="queries", cursor_type="row", zebra_stripes=True)
        yield Static(id="note")
        yield Input(self._wanted, placeholder="name, tenant or state", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        self._table.add_columns(*self._titles())
        self._table.focus()
        self.look()
        self.set_interval(self._period, self.look)

    @property
    def _table(self) -> DataTable[object]:
        return self.query_one("#queries", DataTable)

    def _titles(self) -> list[str]:
        mark = "▲" if self._reverse else "▼"
        return [f"{c.name} {mark}" if c is self._by else c.name for c in COLUMNS]

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Ask in a thread: a slow server must not freeze the keys."""
        try:
            overview = self._service.overview()
        except LaxityError as error:
            self.call_from_thread(self._tell, str(error))
            return
        self.call_from_thread(self._show, overview)

    def _tell(self, text: str) -> None:
        self._noted = monotonic()
        self.query_one("#note", Static).update(text)

    def _show(self, overview: Overview) -> None:
        self._seen = overview
        if monotonic() - self._noted > NOTE_SECONDS:
            self.query_one("#note", Static).update("")
        self._draw()

    def _draw(self) -> None:
        if self._seen is None:
            return
        queries = arrange(
            self._seen.queries, sort=self._by, wanted=self._wanted, reverse=self._reverse
        )
        chosen = self._chosen()
        self.query_one("#head", Static).update(headline(self._seen))
        table = self._table
        table.clear(columns=True)
        table.add_columns(*self._titles())
        self._rows = [q.name for q in queries]
        for query in queries:
            table.add_row(*(cell(c, query) for c in COLUMNS))
        if chosen in self._rows:
            table.move_cursor(row=self._rows.index(chosen))

    def _chosen(self) -> str:
        row = self._table.cursor_row
        return self._rows[row] if 0 <= row < len(self._rows) else ""

    def action_next_sort(self) -> None:
        self._by = COLUMNS[(COLUMNS.index(self._by) + 1) % len(COLUMNS)]
        self._draw()

    def action_reverse(self) -> None:
        self._reverse = not self._reverse
        self._draw()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("open")
        field.focus()

    def action_close(self) -> None:
        self.query_one("#filter", Input).remove_class("open")
        self._table.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_close()

    def action_pause(self) -> None:
        name = self._chosen()
        if self._seen is None or not name:
            return
        paused = next((q.paused for q in self._seen.queries if q.name == name), False)
        self._set_paused(name, not paused)

    @work(thread=True)
    def _set_paused(self, name: str, paused: bool) -> None:
        try:
            self._service.set_paused(name, paused)
            overview = self._service.overview()
        except LaxityError as error:
            self.call_from_thread(self._tell, str(error))
            return
        self.call_from_thread(self._show, overview)

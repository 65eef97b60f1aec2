"""All metrics of a run as live charts, grouped as in the catalogue; some charts combine several metrics."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from functools import partial

from nicegui import events, ui

from gymlab.core.clock import CLOCKS
from gymlab.metrics.catalogue import NAMESPACES, grouped, headlines, metric
from gymlab.metrics.metric import UNBOUNDED
from gymlab.runs.metrics_reader import Curve, smooth_curve
from gymlab.web.charts.drawing import draw, empty_chart, text_of
from gymlab.web.charts.options import Look, Mark, Plot, line_chart
from gymlab.web.live_updates import LiveRun

_OPEN = ("roll", "eval", "opt")
_ALWAYS = ("opt/kl_stop_fraction",)  # no headline metric, but it shows how often the KL limit acts
_MOST_CHARTS = 60


class MetricsPanel:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._look = Look()
        self._scaled = True
        self._every = False
        self._filter = ""
        self._charts: dict[str, tuple[str, ui.echart]] = {}  # by name: its group, and where it is drawn
        self._drawn: dict[str, str] = {}
        self._open = set(_OPEN)
        self._known: list[str] = []

    def build(self) -> None:
        with ui.row().classes("items-center gap-3 w-full"):
            ui.select(list(CLOCKS), value="vec_steps", label="axis", on_change=partial(self._turn, "axis")).props(
                "dense outlined"
            ).classes("w-32")
            with ui.row().classes("items-center gap-2 no-wrap"):
                ui.label("smooth").classes("gl-faint")
                ui.slider(min=0, max=0.3, step=0.01, value=0, on_change=partial(self._turn, "smooth")).props(
                    'label aria-label="Smoothing"'
                ).classes("w-24")
            ui.switch("log", on_change=partial(self._turn, "log"))
            ui.switch("bounds", value=True, on_change=partial(self._turn, "bounds"))
            ui.switch("scaled losses", value=True, on_change=self._turn_losses)
            ui.switch("all metrics", on_change=self._turn_every)
            ui.input(placeholder="Find a metric", on_change=self._find).props(
                'dense outlined clearable debounce=300 aria-label="Find a metric"'
            )
        self._place = ui.column().classes("w-full gap-1")

    async def refresh(self) -> None:
        """Redraw the changed charts of the open groups."""
        series = self._view.series
        if not self._known:
            await to_thread(series.refresh, [])
        if series.names != self._known:
            self._known = list(series.names)
            self._lay_out()
        shown = [name for name, (group, _) in self._charts.items() if group in self._open]
        parts = [part for name in shown for part in parts_of(name)]
        if await to_thread(series.preview, parts):
            self._draw(shown)
        await to_thread(series.refresh, parts)
        self._draw(shown)

    def _draw(self, shown: Sequence[str]) -> None:
        marks = self._marks()
        texts = {name: self._text(name, marks.get(name, ())) for name in shown}
        draw([(self._charts[name][1], text) for name, text in texts.items() if self._drawn.get(name) is not text])
        self._drawn |= texts

    def _text(self, name: str, marks: Sequence[Mark]) -> str:
        look = self._look
        scaled = self._scaled

        def made() -> str:
            plot = plot_of(self._view, name, look, scaled=scaled)
            return text_of(line_chart(_marked(plot, marks), look))

        return str(self._view.drawn((name, look, scaled, tuple(marks)), made))

    def _marks(self) -> dict[str, list[Mark]]:
        """Where alerts are drawn: on the metric that shows them, and on the return."""
        found: dict[str, list[Mark]] = {}
        at = partial(self._view.series.clock_at, self._look.axis)
        for alert in self._view.alerts():
            mark = Mark(at(float(alert.first.env_steps)), at(float(alert.last.env_steps)), str(alert.severity))
            for name in {str(alert.metric), "roll/return_mean"}:
                found.setdefault(name, []).append(mark)
        return found

    def _lay_out(self) -> None:
        self._place.clear()
        self._charts.clear()
        self._drawn.clear()
        with self._place:
            for group, names in self._groups().items():
                title = f"{NAMESPACES.get(group, group)} ({len(names)})"
                with (
                    ui.expansion(title, value=group in self._open)
                    .classes("w-full")
                    .props("dense header-class=text-weight-medium") as part
                ):
                    part.on_value_change(partial(self._fold, group))
                    with ui.element("div").classes("gl-charts"):
                        for name in names:
                            self._charts[name] = (group, _chart(name))

    def _groups(self) -> dict[str, list[str]]:
        known = self._known
        if self._filter:
            names = [name for name in known if self._filter in name.lower()]
        elif self._every:
            names = known
        else:
            names = headlines(known) + [name for name in _ALWAYS if name in known]
        groups = grouped([name for name in names if not metric(name).histogram][:_MOST_CHARTS])
        if not self._filter:
            for group, (name, parts) in COMPOSITES.items():
                if set(parts) & set(known):
                    hidden = parts if group == "eval" else ()
                    groups[group] = [name, *(other for other in groups.get(group, []) if other not in hidden)]
        return {
            group: groups[group] for group in [*NAMESPACES, *sorted(set(groups) - set(NAMESPACES))] if group in groups
        }

    async def _turn(self, what: str, event: events.ValueChangeEventArguments[str | float]) -> None:
        value = event.value if what != "axis" or event.value in CLOCKS else "vec_steps"
        self._look = Look(**{**vars(self._look), what: value})
        await self.refresh()

    async def _turn_losses(self, event: events.ValueChangeEventArguments[bool | None]) -> None:
        self._scaled = bool(event.value)
        await self.refresh()

    async def _turn_every(self, event: events.ValueChangeEventArguments[bool | None]) -> None:
        self._every = bool(event.value)
        self._known = []
        await self.refresh()

    async def _find(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        self._filter = str(event.value or "")[:100].lower()
        self._known = []
        await self.refresh()

    async def _fold(self, group: str, event: events.ValueChangeEventArguments[bool | None]) -> None:
        (self._open.add if event.value else self._open.discard)(group)
        await self.refresh()


def _marked(plot: Plot, marks: Sequence[Mark]) -> Plot:
    return Plot(**{**vars(plot), "marks": marks}) if marks else plot


def _chart(name: str) -> ui.echart:
    about = metric(name)
    with ui.element("div").classes("gl-card"):
        chart = empty_chart(200)
        chart.props(f'role=img aria-label="{_attribute(name)}"')
        if name in dict(COMPOSITES.values()):
            return chart
        with (
            ui.tooltip()
            .classes("text-body2")
            .props("anchor='top middle' self='bottom middle' delay=600 max-width=340px")
        ):
            ui.label(f"{about.help} {about.healthy}")
    return chart


def _attribute(name: str) -> str:
    return "".join(letter for letter in name if letter.isalnum() or letter in "/_-. ")


_EVALUATION = tuple(f"eval/{mode}_{part}" for mode in ("greedy", "sampled") for part in ("mean", "low", "high"))
_SCALED = ("opt/loss/policy_scaled", "opt/loss/value_scaled", "opt/loss/entropy_scaled")
_RAW = ("opt/policy_loss", "opt/value_loss", "opt/entropy")
_COUNTS = ("rollout", "gradient_steps")
EVALUATION = "evaluation, mean and 95 % interval"
LOSSES = "losses"
COMPOSITES = {"eval": (EVALUATION, _EVALUATION), "opt": (LOSSES, (*_SCALED, *_RAW))}  # by group


def parts_of(name: str) -> tuple[str, ...]:
    """The metrics a chart is made of."""
    return next((parts for title, parts in COMPOSITES.values() if title == name), (name,))


def plot_of(view: LiveRun, name: str, look: Look, *, scaled: bool) -> Plot:
    """The content of a chart."""
    if name == EVALUATION:
        return _evaluation(view, look)
    if name == LOSSES:
        return _losses(view, look, scaled=scaled)
    trace = smooth_curve(view.series.trace(name, look.axis), look.smooth)
    counts = metric(name).bounds in _COUNTS  # their bounds are far above usual values
    limits = UNBOUNDED if counts else view.limits().get(name, UNBOUNDED)
    goal = view.goal if name == "roll/return_mean" else None
    return Plot(name, {name: trace} if len(trace.x) else {}, limits, goal)


def _evaluation(view: LiveRun, look: Look) -> Plot:
    lines: dict[str, Curve] = {}
    for mode in ("greedy", "sampled"):
        mean, low, high = (view.series.trace(f"eval/{mode}_{part}", look.axis) for part in ("mean", "low", "high"))
        if len(mean.x):
            whole = len(low.y) == len(high.y) == len(mean.y)
            lines[mode] = Curve(mean.x, mean.y, low.y, high.y) if whole else mean
    return Plot(EVALUATION, lines, view.limits().get("eval/greedy_mean", UNBOUNDED), view.goal)


def _losses(view: LiveRun, look: Look, *, scaled: bool) -> Plot:
    """The terms of the loss: stacked with their coefficients, or each without."""
    lines = {}
    for name in _SCALED if scaled else _RAW:
        trace = smooth_curve(view.series.trace(name, look.axis), look.smooth)
        if len(trace.x):
            lines[name.rpartition("/")[2]] = trace
    stacked = scaled and not look.log
    return Plot("losses, scaled as they add up" if stacked else "losses", lines, stacked=stacked)

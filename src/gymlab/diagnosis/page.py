"""A diagnosis as text for a terminal: what is wrong, since when, what to change, and the next command."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from gymlab.core.format import format_count
from gymlab.diagnosis.examine import Diagnosis, verdict
from gymlab.diagnosis.findings import RunFinding
from gymlab.reports.fault_bundle import TensorStatistics
from gymlab.reports.run_facts import Facts
from gymlab.reports.sections import printable

if TYPE_CHECKING:
    from gymlab.session.failures import ReplayRecord

_ROW = ("updates", "env_steps", "roll/return_mean", "opt/loss", "opt/grad_norm", "opt/approx_kl", "hp/learning_rate")
_WIDTH = 110
_MOST = 8  # findings that are shown


def diagnosis_lines(diagnosis: Diagnosis, replay: ReplayRecord | None = None) -> list[str]:
    """The whole page."""
    return [
        *_head(diagnosis),
        *_fault(diagnosis, replay),
        *_findings(diagnosis.findings),
        "",
        f"next: {next_command(diagnosis, replayed=replay is not None)}",
    ]


def next_command(diagnosis: Diagnosis, *, replayed: bool = False) -> str:
    """The command to run next."""
    run = diagnosis.facts.run_id
    status = diagnosis.facts.status.get("status")
    first = diagnosis.findings[0] if diagnosis.findings else None
    if first is not None and first.kind == "failure":
        return f"gymlab resume {run}" if diagnosis.facts.checkpoints["last"] is not None else f"gymlab logs {run}"
    if first is not None and first.kind == "fault":
        again = "" if replayed else f"gymlab diagnose {run} --replay, "
        return f"{again}gymlab resume {run} {_settings(first) or 'key=value'}"
    if diagnosis.remedy is not None:
        return f"gymlab diagnose {run} --apply"
    if status == "running":
        return f"gymlab runs plot {run}" if diagnosis.facts.measured.last else f"gymlab logs {run} --follow"
    if status in ("stopped", "crashed"):
        return f"gymlab resume {run}"
    if diagnosis.solved:
        return f"gymlab eval {run}"
    return f"gymlab diagnose {run} --bundle"


def finding_lines(finding: RunFinding, number: int, width: int = _WIDTH) -> list[str]:
    """One finding: title, evidence, advice, and what it explains."""
    indent = " " * (len(str(number)) + 2)
    paragraphs = [f"{evidence_text(finding)}.", finding.advice]
    if finding.explains:
        paragraphs.append(f"It explains {', '.join(finding.explains)}.")
    wrapped = [
        line
        for text in paragraphs
        for line in textwrap.wrap(printable(text), width, initial_indent=indent, subsequent_indent=indent)
    ]
    return [f"{number}. {finding.id} ({finding.severity}): {printable(finding.title)}", *wrapped]


def evidence_text(finding: RunFinding) -> str:
    """The evidence, since when, and for what share of the run."""
    parts = [finding.evidence.rstrip(".")]
    if finding.since is not None:
        parts.append(f"since {format_count(finding.since)} env_steps")
    if finding.updates:
        parts.append(f"in {finding.share:.0%} of the updates judged ({format_count(finding.updates)})")
    if not finding.active:
        parts.append("over by the end")
    return ", ".join(parts)


def _settings(finding: RunFinding) -> str:
    return " ".join(f"{key}={printable(value)}" for key, value in finding.overrides.items())


def _head(diagnosis: Diagnosis) -> list[str]:
    facts = diagnosis.facts
    fault = diagnosis.fault
    row = facts.measured.last
    last = "  ".join(f"{name} {row[name]:.6g}" for name in _ROW if name in row)
    reason = str(facts.status.get("stop_reason") or "no reason given")
    failed = any(finding.kind == "failure" for finding in diagnosis.findings)
    repeated = failed or (fault is not None and fault.report["message"] in reason)  # printed below
    index = facts.checkpoints
    lines = [
        f"{facts.run_id}: {facts.status.get('status')}" + ("" if repeated else f", {printable(reason)}"),
        f"verdict: {verdict(diagnosis).replace(' RUN', f' {facts.run_id}')}{_last_return(facts)}",
        f"last row: {last or 'none'}",
        f"last checkpoint: {printable(index['last'])}, best: {printable(index['best'])}",
    ]
    if diagnosis.unknown:
        lines += textwrap.wrap(f"not known yet: {'; '.join(diagnosis.unknown)}", _WIDTH, subsequent_indent="  ")
    skipped = int(row.get("sys/skipped_updates", 0))
    return [*lines, f"skipped updates: {skipped}"] if skipped else lines


def _last_return(facts: Facts) -> str:
    """The last evaluation beside the solved threshold."""
    judged = facts.measured.evaluations.returns
    if not len(judged):
        return ""
    goal = "" if facts.solved_at is None else f", {facts.solved_at:g} is solved"
    return f" ({'sampled' if facts.solved_by == 'sampled' else 'greedy'} return {judged[-1]:.4g}{goal})"


def _findings(findings: list[RunFinding]) -> list[str]:
    if not findings:
        return ["", "no findings"]
    lines = ["", f"{len(findings)} finding{'s'[: len(findings) != 1]}, the one to act on first:"]
    for number, finding in enumerate(findings[:_MOST], 1):
        lines += finding_lines(finding, number)
    more = len(findings) - _MOST
    return [*lines, f"(and {more} more: --json)"] if more > 0 else lines


def _fault(diagnosis: Diagnosis, replay: ReplayRecord | None) -> list[str]:
    if diagnosis.fault is None:
        return []
    fault = diagnosis.fault.report
    row = diagnosis.facts.measured.last
    lines = ["", f"fault in update {fault['update']} ({fault['env_steps']} env_steps): {fault['message']}"]
    if row.get("updates", 0) >= fault["update"]:
        lines.append("the run has since gone past it")
    lines += _tensors([tensor for tensor in fault["tensors"] if isinstance(tensor, dict)])
    lines += ["what to try:", *(f"  {text}" for text in fault["advice"])]
    if replay is not None:
        lines.append(f"replay: {replay['message']}")
    return [*lines, f"bundle: {diagnosis.fault.path}"]


def _tensors(tensors: list[TensorStatistics]) -> list[str]:
    """The float tensors and their statistics, bad ones first and marked."""
    floats = [tensor for tensor in tensors if str(tensor.get("dtype", "")).startswith("float")]
    floats.sort(key=lambda tensor: not _bad(tensor))
    width = max((len(str(tensor.get("name"))) for tensor in floats), default=0)
    head = f"  {'tensor':{width}}  {'shape':>14} {'min':>12} {'max':>12} {'NaN':>7} {'inf':>7}"
    rows = [
        f"{'!' if _bad(tensor) else ' '} {tensor.get('name')!s:{width}}  {_size(tensor):>14} "
        f"{_number(tensor.get('min')):>12} {_number(tensor.get('max')):>12} "
        f"{tensor.get('nan')!s:>7} {tensor.get('inf')!s:>7}"
        for tensor in floats
    ]
    return [head, *rows]


def _bad(tensor: TensorStatistics) -> bool:
    return bool(tensor.get("nan") or tensor.get("inf"))


def _size(tensor: TensorStatistics) -> str:
    shape = tensor.get("shape")
    return "x".join(map(str, shape)) if isinstance(shape, list) and shape else "1"


def _number(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, int | float) else "-"

"""The process executor, with commands that take milliseconds."""

import os
import sys
import time

import pytest

from gymlab.campaigns.executors.processes import Command, ProcessExecutor
from gymlab.campaigns.executors.protocol import (
    RunCommandBegan,
    RunEnd,
    RunFailed,
    RunFinished,
    RunNotBegun,
    RunOutput,
    RunProgressed,
)
from gymlab.campaigns.run_spec import RunSpec
from gymlab.process.child import Child


class Programs:
    """Runs the arguments of a spec as Python programs, one after the other."""

    def __init__(self, **options):
        self._options = options
        self._done = {}

    def next(self, spec):
        done = self._done.get(spec.number, 0)
        if done == len(spec.arguments):
            return None
        stdout = "pipe" if self._options.get("streams") else "file"
        program = [sys.executable, "-S", "-c", spec.arguments[done]]
        return Command(f"step {done}", lambda: Child(program, stdout=stdout, stderr="file"), **self._options)

    def error(self, spec, command, child, *, timed_out):
        self._done[spec.number] = self._done.get(spec.number, 0) + 1
        if timed_out:
            return "too slow"
        return child.stderr_tail() if child.exit_code else None


def spec(tmp_path, number, *programs):
    return RunSpec(number, str(tmp_path), f"r{number}", 0, arguments=programs)


def test_a_run_needs_one_command_after_the_other_and_each_is_reported(tmp_path):
    with ProcessExecutor(1, Programs()) as executor:
        executor.submit(spec(tmp_path, 0, "pass", "pass"))
        reports = list(executor.reports())
    began = [report.phase for report in reports if isinstance(report, RunCommandBegan)]
    assert began == ["step 0", "step 1"]
    assert [type(report) for report in reports if isinstance(report, RunEnd)] == [RunFinished]


def test_no_more_than_its_size_run_at_once_and_a_failure_stops_no_other(tmp_path):
    log = tmp_path / "log"
    slow = f"import time\nopen({str(log)!r}, 'a').write('+')\ntime.sleep(0.3)\nopen({str(log)!r}, 'a').write('-')"
    with ProcessExecutor(2, Programs()) as executor:
        for number in range(3):
            executor.submit(spec(tmp_path, number, slow))
        executor.submit(spec(tmp_path, 3, "raise SystemExit('broken')"))
        ends = {report.member: report for report in executor.reports() if isinstance(report, RunEnd)}
    assert [type(ends[number]) for number in range(3)] == [RunFinished] * 3
    assert isinstance(ends[3], RunFailed)
    assert ends[3].message == "broken"
    assert "+++" not in log.read_text()


def test_lines_of_a_command_that_streams_come_before_its_end(tmp_path):
    with ProcessExecutor(1, Programs(streams=True)) as executor:
        executor.submit(spec(tmp_path, 0, "print('a', flush=True)\nprint('b', flush=True)"))
        reports = [report for report in executor.reports() if isinstance(report, RunOutput | RunEnd)]
    assert [report.line.strip() for report in reports[:-1]] == ["a", "b"]
    assert isinstance(reports[-1], RunFinished)


def test_a_command_that_takes_too_long_is_killed(tmp_path):
    with ProcessExecutor(1, Programs(seconds=0.3)) as executor:
        executor.submit(spec(tmp_path, 0, "import time\ntime.sleep(60)"))
        *_, end = executor.reports()
    assert isinstance(end, RunFailed)
    assert end.message == "too slow"


@pytest.mark.parametrize("disposable", [False, True])
def test_a_stop_ends_what_runs_and_begins_nothing_else(tmp_path, disposable):
    executor = ProcessExecutor(1, Programs(disposable=disposable))
    executor.submit(spec(tmp_path, 0, "import time\ntime.sleep(60)"))
    executor.submit(spec(tmp_path, 1, "pass"))
    start = time.monotonic()
    ends = {}
    with executor:
        for report in executor.reports():
            if isinstance(report, RunCommandBegan):
                executor.stop("enough")
            if isinstance(report, RunEnd):
                ends[report.member] = report
    assert time.monotonic() - start < 30
    assert isinstance(ends[1], RunNotBegun)
    assert isinstance(ends[0], RunFinished)
    assert ends[0].result["status"] == "stopped"


def test_leaving_early_kills_what_saves_nothing(tmp_path):
    pid_file = tmp_path / "pid"
    program = f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    with ProcessExecutor(1, Programs(disposable=True)) as executor:
        executor.submit(spec(tmp_path, 0, program))
        for report in executor.reports():
            if isinstance(report, RunProgressed) and pid_file.exists() and pid_file.read_text():
                break
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)

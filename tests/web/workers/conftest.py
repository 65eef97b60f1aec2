from tests.web.workers.made import large_runs, made_runs  # noqa: F401

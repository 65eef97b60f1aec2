from tests.inspector.made import large_runs, made_runs  # noqa: F401

"""The only place where everything is put together: a recipe becomes a run."""

"""Studies: what parallel envs and distinct seeds are worth, measured on a recipe."""

"""The nouns everything else is written in: types, errors, schedules, clocks, random streams."""

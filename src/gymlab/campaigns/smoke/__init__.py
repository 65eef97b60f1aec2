"""Smoke tests: every recipe trains, evaluates, saves, resumes and plays, each in a process of its own."""

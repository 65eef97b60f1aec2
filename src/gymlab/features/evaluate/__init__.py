"""Scoring the policy while it is trained: in between updates (`here`), or beside them (`aside`)."""

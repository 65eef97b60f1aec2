"""Worker processes of pages: their protocol, the inspector's worker with its session, and the limit on their number."""

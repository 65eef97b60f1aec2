"""Episodes recorded and shown: traces, films, highlight reels, web pages, windows."""

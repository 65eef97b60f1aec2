"""The web page: one local server that reads run folders. Nothing here trains; what must, is a process of its own."""

"""The web page: a local server that reads run folders. Whatever needs JAX runs in a child process."""

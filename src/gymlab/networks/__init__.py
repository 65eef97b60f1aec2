"""Networks that map observations to action distributions and values."""

"""What `run` is made of."""

"""What `run` and `apache` are made of."""

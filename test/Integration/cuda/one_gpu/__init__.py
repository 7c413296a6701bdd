"""What one GPU can prove: see ../run."""

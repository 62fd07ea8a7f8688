"""The results of the paper, measured anew."""

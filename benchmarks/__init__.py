"""What signals, observing and history cost, beside the same work written by hand (`make bench`)."""

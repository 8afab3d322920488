"""Memories: in which files they stand, who sees which, and how they are searched."""

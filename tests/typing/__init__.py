"""Files for the type checkers: what users write is accepted, what is wrong is refused."""

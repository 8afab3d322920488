"""The demonstration: one workflow, a subscriber and the `sqlite3` program on one database."""

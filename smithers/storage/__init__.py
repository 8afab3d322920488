"""One class for each family of tables; siblings know nothing of each other."""

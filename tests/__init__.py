"""The tests, one package for each package under test."""

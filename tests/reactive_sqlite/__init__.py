"""Tests of `reactive_sqlite`, one module for each room."""

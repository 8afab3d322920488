"""Tests of `smithers`, one module for each room."""

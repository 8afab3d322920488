"""Tests of the signals, a file for each subject."""

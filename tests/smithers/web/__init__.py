"""Tests of `smithers.web`, over a real server."""

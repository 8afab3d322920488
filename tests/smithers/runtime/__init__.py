"""Tests of workflow scripts."""

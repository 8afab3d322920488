"""Workflow scripts: what they have done is recorded, so that they go on where they stopped."""

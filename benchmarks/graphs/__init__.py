"""Graphs of signals, memos and effects that every library has to keep right, and be timed at.

They follow the public js-reactivity-benchmark (kairo, sbench, cellx and the "reactively" grids),
with counts that suit Python. Each run answers with a checksum that plain arithmetic foretells.
"""

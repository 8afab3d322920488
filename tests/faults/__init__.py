"""Faults from outside: kills, failing disks, damaged files, forks; nothing acknowledged is lost."""

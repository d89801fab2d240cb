"""Compiled loops: arrays in, arrays out. No validation, no raising, no random state (they hash)."""

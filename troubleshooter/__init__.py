"""Finds out why a GPU / PyTorch / CUDA installation does not work, and what to do about it."""

__version__ = "0.1.0"

"""The version of sdlgm."""

__version__ = "0.3.0"

"""The version of sdlgm."""

__version__ = "0.2.0"

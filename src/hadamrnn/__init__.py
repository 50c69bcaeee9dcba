"""Recurrent networks that fit in kilobytes."""
